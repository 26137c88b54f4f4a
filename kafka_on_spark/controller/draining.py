"""How a broker is emptied and leaves: leaderships move first, it leaves the ISRs after.

Controlled shutdown (KIP-841's draining state), in steps that are each one commit. The image alone
says which step is next, so another controller continues where the last one stopped.
"""

from collections.abc import Iterator

from kafka_on_spark.base.errors import BrokerIdNotRegisteredError, InvalidRequestError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.broker_changes import state_record
from kafka_on_spark.controller.election import eligible_replicas
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.metadata.broker import BrokerRegistration, BrokerState
from kafka_on_spark.metadata.high_watermark import min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record, UnregisterBrokerRecord
from kafka_on_spark.metadata.result import ControllerResult


def drain_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a broker takes no leadership any more and hands over those it has.

    Answer: the partitions that another broker leads now. A partition that no other replica in sync
    can lead stays with it, until `continue_draining` moves it; there it also leaves the ISRs, in a
    later commit. Source: ControlledShutdownPartitionLeaderElectionStrategy.

    Raises:
        BrokerIdNotRegisteredError: There is no such broker.
        InvalidRequestError: It is fenced, and leads nothing.
    """
    broker = registered_broker(image, broker_id)
    if broker.state is BrokerState.FENCED:
        raise InvalidRequestError(
            f"broker {broker_id} is fenced, so it leads nothing: drain one that is active, or bring"
            " it back first"
        )
    records: list[Record] = []
    if broker.state is not BrokerState.DRAINING:
        records.append(state_record(broker, BrokerState.DRAINING, cause))
    draining = _draining(image) | {broker_id}
    moved = _hand_over_leaderships(image, records, draining, cause)
    return ControllerResult(records, moved)


def continue_draining(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide the next step of all draining brokers. Answer: partitions whose leader moves.

    Leaderships move first; in a commit without any, draining followers leave the ISRs. The last
    member of an ISR stays in it, and a leader without a successor leads on: no partition goes
    offline.
    """
    draining = _draining(image)
    if not draining:
        return ControllerResult([], [])
    names = ", ".join(str(each) for each in sorted(draining))
    records: list[Record] = []
    moved = _hand_over_leaderships(image, records, draining, f"broker {names}: draining")
    if moved:
        return ControllerResult(records, moved)
    for key, partition in _in_sync_on(image, draining):
        change = _leave_isr(image, key, partition, draining)
        if change is not None:
            cause = f"broker {names}: draining, leads nothing here and leaves the ISR"
            records.append(change_record(image, key, partition, change, cause))
    return ControllerResult(records, [])


def resume_broker(image: MetadataImage, broker_id: BrokerId, cause: str) -> ControllerResult[None]:
    """Decide that a draining broker may lead and be in sync again; nothing if it is active.

    Raises:
        BrokerIdNotRegisteredError: There is no such broker.
        InvalidRequestError: It is fenced: it comes back by answering.
    """
    broker = registered_broker(image, broker_id)
    if broker.state is BrokerState.FENCED:
        raise InvalidRequestError(
            f"broker {broker_id} is fenced, not draining: it comes back once its root answers"
        )
    if broker.state is BrokerState.ACTIVE:
        return ControllerResult([], None)
    return ControllerResult([state_record(broker, BrokerState.ACTIVE, cause)], None)


def unregister_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    """Decide that a broker is unregistered, which needs that it has no replicas.

    Raises:
        BrokerIdNotRegisteredError: There is no such broker.
        InvalidRequestError: It has replicas; the sentence says how many and what to do.
    """
    broker = check_empty(image, broker_id)
    record = UnregisterBrokerRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, cause=cause
    )
    return ControllerResult([record], None)


def check_empty(image: MetadataImage, broker_id: BrokerId) -> BrokerRegistration:
    """Return the registration of a broker that has no replicas.

    Raises:
        As `unregister_broker`.
    """
    broker = registered_broker(image, broker_id)
    held = [key for key, _ in image.partitions_on(broker_id)]
    if held:
        raise InvalidRequestError(
            f"broker {broker_id} has replicas of {len(held)} partitions, {image.name_of(held[0])}"
            " among them: only an empty broker can be unregistered, reassign them to others first"
        )
    return broker


def registered_broker(image: MetadataImage, broker_id: BrokerId) -> BrokerRegistration:
    """Return the registration of `broker_id`.

    Raises:
        BrokerIdNotRegisteredError: There is none.
    """
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(
            f"there is no broker {broker_id}: name a registered one ({sorted(image.brokers)})"
        )
    return broker


def _draining(image: MetadataImage) -> frozenset[BrokerId]:
    return frozenset(
        each for each, broker in image.brokers.items() if broker.state is BrokerState.DRAINING
    )


def _in_sync_on(
    image: MetadataImage, broker_ids: frozenset[BrokerId]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield the partitions in whose ISR some of `broker_ids` are; a leader always is.

    Once they have left, no partition is visited: every pass does this.
    """
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.in_sync_on(broker_ids):
            yield PartitionKey(topic_id, number), partition


def _hand_over_leaderships(
    image: MetadataImage, records: list[Record], draining: frozenset[BrokerId], cause: str
) -> list[PartitionKey]:
    """Append records that move leaderships off `draining` brokers; return the partitions."""
    eligible = image.eligible_brokers() - draining
    moved = []
    for key, partition in _in_sync_on(image, draining):
        if partition.leader not in draining:
            continue
        # Not elect_leader: if the ISR has no other member, the leader leads on.
        successor = next(
            (
                each
                for each in partition.replicas
                if each in partition.isr & eligible
                and partition.uuid_of(each) not in image.suspects
            ),
            None,
        )
        if successor is None:
            continue
        change = PartitionChange(leader=successor)
        records.append(change_record(image, key, partition, change, cause))
        moved.append(key)
    return moved


def _leave_isr(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    draining: frozenset[BrokerId],
) -> PartitionChange | None:
    """Return the change by which draining followers leave the ISR; None if none is in it."""
    leaving = (partition.isr & draining) - {partition.leader}
    rest = partition.isr - leaving
    if not leaving or not rest or partition.leader is None:
        return None
    return PartitionChange(
        isr=rest, elr=eligible_replicas(partition, rest, min_isr(image, key.topic_id, partition))
    )
