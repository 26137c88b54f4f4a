"""How a broker is emptied and leaves: leaderships move first, it leaves the ISRs after.

Controlled shutdown (KIP-841's draining state), in steps that are each one commit. What is left to
do is read off the image alone, so whoever decides next goes on where the last one stopped.
"""

from collections.abc import Iterator

from kafka_on_spark.controller.brokers import change_record
from kafka_on_spark.controller.election import eligible_replicas
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import BrokerIdNotRegisteredError, InvalidRequestError
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.broker import BrokerRegistration, BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import BrokerChangeRecord, Record, UnregisterBrokerRecord


def drain_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a broker takes no leadership any more and gives away those it has.

    Answer: what it led and another leads now. What nobody else in sync can lead stays with it, for
    `continue_draining` to move; it leaves the ISRs there as well, in a later commit. Source: the
    ControlledShutdownPartitionLeaderElectionStrategy.

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
        records.append(_state_record(broker, BrokerState.DRAINING, cause))
    draining = _draining(image) | {broker_id}
    moved = _hand_over_leaderships(image, records, draining, cause)
    return ControllerResult(records, moved)


def continue_draining(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide what is next for all draining brokers. Answer: partitions whose leader moves.

    Leaderships first; in a commit without any, draining brokers leave the ISRs of others. The
    last member of an ISR stays in it, and a leader that nobody can follow leads on: nothing goes
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
    """Decide that a draining broker may lead and be in sync again; nothing if it may already.

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
    return ControllerResult([_state_record(broker, BrokerState.ACTIVE, cause)], None)


def unregister_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    """Decide that a broker is no longer one, which it may be only without replicas.

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


def _state_record(broker: BrokerRegistration, state: BrokerState, cause: str) -> BrokerChangeRecord:
    return BrokerChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        broker_state=state,
        cause=cause,
    )


def _draining(image: MetadataImage) -> frozenset[BrokerId]:
    return frozenset(
        each for each, broker in image.brokers.items() if broker.state is BrokerState.DRAINING
    )


def _in_sync_on(
    image: MetadataImage, broker_ids: frozenset[BrokerId]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield the partitions that some of `broker_ids` are in sync in; a leader always is.

    Once they have left, what is left to visit is no partition: a pass does this each time.
    """
    for topic_id, topic in image.topics.items():
        for number, partition in topic.partitions.in_sync_on(broker_ids):
            yield PartitionKey(topic_id, number), partition


def _hand_over_leaderships(
    image: MetadataImage, records: list[Record], draining: frozenset[BrokerId], cause: str
) -> list[PartitionKey]:
    """Append what moves leaderships off `draining` brokers; return the partitions."""
    eligible = image.eligible_brokers() - draining
    moved = []
    for key, partition in _in_sync_on(image, draining):
        if partition.leader not in draining:
            continue
        # Not elect_leader: where the ISR has nobody else, the leader leads on.
        successor = next(
            (each for each in partition.replicas if each in partition.isr and each in eligible),
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
    """Return how draining followers leave the ISR; None where none is in it."""
    leaving = (partition.isr & draining) - {partition.leader}
    rest = partition.isr - leaving
    if not leaving or not rest or partition.leader is None:
        return None
    minimum = image.settings(key.topic_id).integer("min.insync.replicas")
    return PartitionChange(isr=rest, elr=eligible_replicas(partition, rest, minimum))
