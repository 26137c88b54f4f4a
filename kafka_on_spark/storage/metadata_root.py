"""Which cluster lies at a metadata root: ``meta.properties``, which names the metadata table.

The table's folder is named after the root's directory id, which is minted with the root and never
copied. A cluster that is deleted and made again at the same path has another table, so a process
that still has the old one open finds that gone, and never goes on in the new one.

The file is written after the table: where it stands, the table was there.
"""

import os
import re
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from kafka_on_spark.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    InvalidRootError,
    KafkaStorageError,
)
from kafka_on_spark.ids import DirectoryId
from kafka_on_spark.storage.deadlines import look_seconds, within
from kafka_on_spark.storage.root_identity import META_PROPERTIES, properties_of, read_properties
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, flush, is_local

TABLE_PREFIX: Final = "__cluster_metadata-0-"
"""Kafka's name of the metadata partition; the directory id follows."""

NODE_ID: Final = 1
"""Of the only voter, while there is one."""

_DIRECTORY_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class MetadataIdentity:
    """What ``meta.properties`` on a metadata root says, and the metadata table of itself."""

    cluster_id: str
    node_id: int
    directory_id: DirectoryId

    @property
    def configuration(self) -> dict[str, str]:
        """What the table says of itself since version 0."""
        return {
            "kos.cluster.id": self.cluster_id,
            "kos.node.id": str(self.node_id),
            "kos.directory.id": self.directory_id,
        }

    def table_at(self, metadata_root: str) -> str:
        """Return the URL of the metadata table, for people and for Spark."""
        return f"{metadata_root}/{TABLE_PREFIX}{self.directory_id}"

    def encode(self) -> bytes:
        """Return the file's bytes."""
        lines = (
            "version=1",
            f"cluster.id={self.cluster_id}",
            f"node.id={self.node_id}",
            f"directory.id={self.directory_id}",
        )
        return "\n".join((*lines, "")).encode()


def new_identity(cluster_id: str) -> MetadataIdentity:
    """Return the identity of a metadata root that is being made."""
    return MetadataIdentity(cluster_id, NODE_ID, DirectoryId(uuid4().hex))


def read_identity(metadata_root: str, options: StorageOptions) -> MetadataIdentity | None:
    """Return which metadata root this is, or None if it has no ``meta.properties``.

    Raises:
        KafkaStorageError: The root does not answer.
        InvalidRootError: The file is not one of a metadata root.
    """
    content = read_properties(metadata_root, options)
    if content is None:
        return None
    try:
        fields = properties_of(content)
        found = MetadataIdentity(
            fields["cluster.id"], int(fields["node.id"]), DirectoryId(fields["directory.id"])
        )
    except (KeyError, ValueError):
        found = None
    if found is None or _DIRECTORY_ID.fullmatch(found.directory_id) is None:
        path = f"{metadata_root}/{META_PROPERTIES}"
        raise InvalidRootError(
            f"{path} is not a metadata root's: give the metadata root of a cluster, or an empty"
            " folder to make one in"
        )
    return found


def identity_of(metadata_root: str, options: StorageOptions) -> MetadataIdentity:
    """Return which metadata root this is.

    Raises:
        ClusterNotFoundError: There is no cluster.
        CorruptLogError: A cluster's table is there, and the file that names it is gone or damaged.
        KafkaStorageError: The root does not answer.
    """
    try:
        found = read_identity(metadata_root, options)
    except InvalidRootError:
        found = None
    if found is not None:
        return found
    check_unnamed(metadata_root, options)
    raise ClusterNotFoundError(
        f"there is no cluster at {metadata_root}: make one with Cluster.create, or check the path"
    )


def is_there(metadata_root: str) -> bool:
    """Return whether there is a metadata root, of whatever cluster; a store is always there.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    if not is_local(metadata_root):
        return True
    look = partial(os.path.lexists, metadata_root)
    return within(metadata_root, look, look_seconds(metadata_root))


def check_unnamed(metadata_root: str, options: StorageOptions) -> None:
    """Check that a root that names no table has none that was ever written to.

    An empty one is what a creation has left that was cut off.

    Raises:
        CorruptLogError: It has one.
        KafkaStorageError: The root does not answer.
    """
    files = RootFiles(metadata_root, options)
    for name in files.names(metadata_root):
        if not name.startswith(TABLE_PREFIX):
            continue
        names = files.names(f"{metadata_root}/{name}/_delta_log")
        if any(each.endswith(".json") and each[:20].strip("0") for each in names):
            raise CorruptLogError(
                f"the metadata root {metadata_root} has the table {name} and no {META_PROPERTIES}"
                " that names it: restore that file from a copy"
            )


def put_identity(
    metadata_root: str, mine: MetadataIdentity, options: StorageOptions
) -> MetadataIdentity:
    """Write ``meta.properties`` unless it is there; return what stands there.

    Raises:
        InvalidRootError: The root does not keep what is written to it.
        KafkaStorageError: The root does not answer.
    """
    path = f"{metadata_root}/{META_PROPERTIES}"
    RootFiles(metadata_root, options).write_if_absent(path, mine.encode())
    if is_local(metadata_root):
        flush([metadata_root])
    found = read_identity(metadata_root, options)
    if found is None:
        raise InvalidRootError(f"the root {metadata_root} does not keep what is written to it")
    return found


def check_replaced(metadata_root: str, opened: MetadataIdentity, options: StorageOptions) -> None:
    """Check that no other cluster was made at the root of one that this process has open.

    Raises:
        ClusterNotFoundError: One was.
        KafkaStorageError: The root does not answer, or is away.
    """
    found = read_identity(metadata_root, options)
    if found is None:
        raise KafkaStorageError(
            f"the metadata root {metadata_root} is away: bring its disk back and try again"
        )
    if found.directory_id != opened.directory_id:
        raise ClusterNotFoundError(
            f"the cluster {opened.cluster_id} that this process has open is gone from"
            f" {metadata_root}, where {_other(found, opened)} was made: open it anew"
        )


def _other(found: MetadataIdentity, opened: MetadataIdentity) -> str:
    if found.cluster_id == opened.cluster_id:
        return "another metadata table"
    return f"the cluster {found.cluster_id}"
