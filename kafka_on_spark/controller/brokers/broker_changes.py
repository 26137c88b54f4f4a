"""What a broker's registration, failure and return lead to, for it and all its partitions.

One event, one commit: the failover of 10,000 partitions is one batch of records.
"""

from collections.abc import Iterable

from kafka_on_spark.controller.partitions.min_isr import min_isr_setting
from kafka_on_spark.controller.partitions.partition_change import (
    change_of_isr,
    change_record,
    change_records,
    lost_change,
)
from kafka_on_spark.controller.partitions.recovery import elect_where_none
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import DuplicateBrokerRegistrationError
from kafka_on_spark.ids import BrokerEpoch, BrokerId, DirectoryId, PartitionKey
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import BrokerChangeRecord, BrokerRecord, Record


def register_broker(
    image: MetadataImage,
    broker_id: BrokerId,
    root: str,
    *,
    rack: str | None,
    directory_id: DirectoryId,
    cause: str,
) -> ControllerResult[BrokerEpoch]:
    """Decide a registration: a new broker, or another disk under a known id.

    Another disk means another broker epoch and this broker's replicas lost, in one commit.

    Raises:
        DuplicateBrokerRegistrationError: The id, root or directory is taken.
    """
    known = image.brokers.get(broker_id)
    for other in image.brokers.values():
        is_itself = other.broker_id == broker_id
        if (other.directory_id == directory_id or other.root == root) and not is_itself:
            raise DuplicateBrokerRegistrationError(
                f"the root {root} is registered already, as broker {other.broker_id}:"
                " give each broker a root of its own"
            )
    if known is not None and known.directory_id == directory_id:
        raise DuplicateBrokerRegistrationError(
            f"broker {broker_id} is registered already, with this very root {known.root}:"
            " give a new broker another id"
        )
    if known is not None and known.state is not BrokerState.FENCED:
        raise DuplicateBrokerRegistrationError(
            f"broker {broker_id} is registered already, with the root {known.root}, and answers:"
            " another disk can take its place only after it was fenced"
        )
    last_epoch = image.past_brokers.get(broker_id, -1) if known is None else known.broker_epoch
    broker_epoch = BrokerEpoch(last_epoch + 1)
    records: list[Record] = [
        BrokerRecord(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            root=root,
            rack=rack,
            directory_id=directory_id,
            broker_state=BrokerState.ACTIVE,
            cause=cause,
        )
    ]
    if known is not None:
        records.extend(_mark_lost(image, broker_id, cause))
    return ControllerResult(records, broker_epoch)


def _mark_lost(image: MetadataImage, broker_id: BrokerId, cause: str) -> Iterable[Record]:
    for key, partition in image.partitions_on(broker_id):
        if partition.is_created(broker_id):
            change = lost_change(image, partition, broker_id)
            yield change_record(image, key, partition, change, cause)


def fence_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide a broker's failure: it leads nothing and is in no ISR. Answer: the partitions it led.

    The last member of an ISR stays in it, without a leader: no other replica has its records.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.state is BrokerState.FENCED:
        return ControllerResult([], [])
    records: list[Record] = [
        BrokerChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
            broker_state=BrokerState.FENCED,
            cause=cause,
        )
    ]
    eligible = image.eligible_brokers() - {broker_id}
    led: list[PartitionKey] = []
    # Thousands of partitions have few shapes. Each shape is decided and checked by a merge once,
    # since the change depends on nothing else.
    decided: dict[tuple[object, ...], PartitionChange | None] = {}
    for topic in image.topics.values():
        min_isr = min_isr_setting(image, topic.topic_id)
        changed = []
        for number, partition in topic.partitions.items():
            if broker_id not in partition.isr:
                continue
            # All that `_leave_isr` reads.
            shape = (
                min_isr,
                partition.replicas,
                partition.directories,
                partition.isr,
                partition.elr,
                partition.leader,
            )
            if shape not in decided:
                decided[shape] = _leave_isr(partition, broker_id, min_isr, eligible)
            change = decided[shape]
            if change is not None:
                changed.append((number, partition, change))
        records.extend(change_records(topic, changed, cause))
        led.extend(
            PartitionKey(topic.topic_id, number)
            for number, partition, _ in changed
            if partition.leader == broker_id
        )
    return ControllerResult(records, led)


def _leave_isr(
    partition: PartitionRegistration,
    broker_id: BrokerId,
    min_isr: int,
    eligible: frozenset[BrokerId],
) -> PartitionChange | None:
    change = change_of_isr(
        partition,
        partition.isr - {broker_id},
        leader=None if partition.leader == broker_id else partition.leader,
        min_isr=min_isr,
        eligible=eligible,
    )
    if change is not None:
        partition.merge(change)
    return change


def unfence_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide a broker's return. Answer: partitions that get a leader by it.

    It rejoins ISRs only after its replicas have caught up. Partitions without a leader may get one
    now.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.state is not BrokerState.FENCED:
        return ControllerResult([], [])
    records: list[Record] = [
        BrokerChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.broker_epoch,
            broker_state=BrokerState.ACTIVE,
            cause=cause,
        )
    ]
    elected = elect_where_none(image, image.eligible_brokers() | {broker_id}, cause)
    return ControllerResult([*records, *elected.records], elected.response)
