"""The first commit of a cluster: its id, its brokers and its settings, all at once."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.base.config import check_settings
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, DirectoryId, check_mapping, check_whole_number
from kafka_on_spark.controller.broker_changes import register_broker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ClusterRecord, ConfigRecord, Record
from kafka_on_spark.metadata.result import ControllerResult

BrokerIdentity = tuple[BrokerId, str, str | None, DirectoryId]
"""Id, root, rack and directory of a broker."""


def create_cluster(
    image: MetadataImage,
    cluster_id: str,
    brokers: Sequence[BrokerIdentity],
    configs: Mapping[str, object],
    metadata_root: str = "its metadata root",
) -> ControllerResult[None]:
    """Decide a new cluster; of two that are created at the same time, the first one stays.

    Raises:
        InvalidRequestError: There is a cluster by now.
        InvalidConfigError, DuplicateBrokerRegistrationError.
    """
    if image.cluster_id is not None:
        raise there_is_a_cluster(metadata_root)
    cause = "the cluster is made"
    records: list[Record] = [ClusterRecord(cluster_id=cluster_id, cause=cause)]
    records.extend(
        ConfigRecord(topic_id=None, config_name=name, config_value=value, cause=cause)
        for name, value in check_settings(configs, topic_only=False).items()
    )
    for broker_id, root, rack, directory_id in brokers:
        result = register_broker(
            image, broker_id, root, rack=rack, directory_id=directory_id, cause=cause
        )
        records.extend(result.records)
    return ControllerResult(records, None)


def there_is_a_cluster(metadata_root: str) -> InvalidRequestError:
    """Return the error of a creation where there is a cluster."""
    return InvalidRequestError(
        f"there is a cluster at {metadata_root} already: open it, or give an empty root"
    )


def check_brokers(roots: Mapping[BrokerId, str], racks: Mapping[int, object]) -> None:
    """Check which brokers and racks were given, before any root is read.

    Raises:
        InvalidRequestError: There is no broker, a bad id or rack, a root given twice, or a rack of
            an unknown broker.
    """
    if not roots:
        raise InvalidRequestError("a cluster needs brokers: give at least one id and root")
    for broker_id in roots:
        check_whole_number(broker_id, "a broker id")
        if broker_id < 0:
            raise InvalidRequestError(f"broker id {broker_id} is not allowed: ids are 0 or more")
    if len(set(roots.values())) < len(roots):
        raise InvalidRequestError("two brokers have the same root: give each one of its own")
    check_mapping(racks, "racks", "broker ids and racks")
    unknown = sorted(set(racks) - set(roots), key=str)
    if unknown:
        raise InvalidRequestError(f"racks names broker {unknown[0]}, which is not in brokers")
    for owner, rack in racks.items():
        if not isinstance(rack, str):
            raise InvalidRequestError(
                f"the rack of broker {owner} can't be {rack!r}: give a text, or none"
            )
