"""Which cluster's metadata log lies at a root, by its first commit, which never changes.

Apart from the log itself, since who keeps that open asks it whether it is still the same one.
"""

import json

from kafka_on_spark.storage.metadata_log import metadata_table_uri
from kafka_on_spark.storage.old_commits import read_commit
from kafka_on_spark.storage.roots import RootFiles, StorageOptions


def cluster_id_at(metadata_root: str, options: StorageOptions) -> str | None:
    """Return the id of the cluster at `metadata_root`, None if there is none that can be read.

    One small read: a folder that was emptied, and a cluster made in it anew, has another id.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    uri = metadata_table_uri(metadata_root)
    content = read_commit(RootFiles(metadata_root, options), uri, 0)
    try:
        for line in (content or b"").splitlines():
            action = json.loads(line)
            if "metaData" in action:
                return str(action["metaData"]["configuration"]["kos.cluster.id"])
    except (ValueError, TypeError, KeyError):
        return None
    return None
