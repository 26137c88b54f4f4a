"""Making a cluster's folders, before its first commit says that there is one."""

from collections.abc import Mapping

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.service.creation import BrokerIdentity
from kafka_on_spark.spark.services import new_uuid
from kafka_on_spark.storage.metadata_log import DeltaMetadataLog
from kafka_on_spark.storage.root_identity import check_free, check_reachable, prepare_root
from kafka_on_spark.storage.roots import StorageOptions


def prepare_roots(
    metadata_root: str,
    roots: Mapping[BrokerId, str],
    racks: Mapping[int, str],
    options: StorageOptions,
) -> tuple[str, list[BrokerIdentity]]:
    """Return the cluster's id and its brokers, whose roots are theirs from now on.

    Each root is tested before the first is written to.

    Raises:
        InvalidRequestError: There is a cluster at the metadata root.
        InvalidRootError, InconsistentClusterIdError, DuplicateBrokerRegistrationError:
            A root can't be a broker's.
    """
    check_reachable(metadata_root, options)
    for broker_id, root in roots.items():
        check_free(root, broker_id, options)
    cluster_id = DeltaMetadataLog.begin(metadata_root, options, new_uuid())
    brokers = [
        (
            broker_id,
            root,
            racks.get(broker_id),
            prepare_root(root, cluster_id, broker_id, options).directory_id,
        )
        for broker_id, root in roots.items()
    ]
    return cluster_id, brokers
