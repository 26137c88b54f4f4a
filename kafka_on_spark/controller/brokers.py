"""What a broker's registration, failure and return lead to, for it and all its partitions.

One event, one commit: the failover of 10,000 partitions is one batch of records.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

from kafka_on_spark.controller.election import Election, elect_leader, eligible_replicas
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import DuplicateBrokerRegistrationError
from kafka_on_spark.ids import (
    KEEP,
    LOST,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    Keep,
    PartitionKey,
    TopicId,
)
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.columns import fill
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    BrokerChangeRecord,
    BrokerRecord,
    PartitionChangeRecord,
    Record,
)


def change_record(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    change: PartitionChange,
    cause: str,
) -> PartitionChangeRecord:
    """Return the record of `change`, with the epochs that it leads to; what it leads to holds."""
    change = partition.completed(change)
    partition.merge(change)
    return _record(image.topics[key.topic_id].name, key, partition, change, cause)


def _record(
    topic: str,
    key: PartitionKey,
    partition: PartitionRegistration,
    change: PartitionChange,
    cause: str,
) -> PartitionChangeRecord:
    leader_epoch, partition_epoch = partition.epochs_after(change)
    return PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=change,
        topic=topic,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        cause=cause,
    )


def _records(
    topic: TopicImage,
    decided: Sequence[tuple[int, PartitionRegistration, PartitionChange]],
    cause: str,
) -> list[PartitionChangeRecord]:
    """Return the records of changes to a topic's partitions, as `_record` makes them one by one."""
    count = len(decided)
    epochs = [partition.epochs_after(change) for _, partition, change in decided]
    return fill(
        PartitionChangeRecord,
        {
            "topic_id": repeat(topic.topic_id, count),
            "partition": [number for number, _, _ in decided],
            "change": [change for _, _, change in decided],
            "topic": repeat(topic.name, count),
            "leader_epoch": [leader_epoch for leader_epoch, _ in epochs],
            "partition_epoch": [partition_epoch for _, partition_epoch in epochs],
            "cause": repeat(cause, count),
        },
        count,
    )


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
        records.extend(_lose_replicas(image, broker_id, cause))
    return ControllerResult(records, broker_epoch)


def _lose_replicas(image: MetadataImage, broker_id: BrokerId, cause: str) -> Iterable[Record]:
    for key, partition in image.partitions_on(broker_id):
        if partition.is_made(broker_id):
            change = lost_change(image, partition, broker_id)
            yield change_record(image, key, partition, change, cause)


def lost_change(
    image: MetadataImage, partition: PartitionRegistration, broker_id: BrokerId
) -> PartitionChange:
    """Return the change that a bad replica leads to (DESIGN §8).

    Its directory becomes lost and it leaves ISR and ELR; if it led, another takes over. The
    last member of the ISR stays in it: the partition is offline rather than lose records.
    """
    place = partition.replicas.index(broker_id)
    directories = (*partition.directories[:place], LOST, *partition.directories[place + 1 :])
    isr = partition.isr - {broker_id}
    if not isr:
        leader = None if partition.leader is not None else KEEP
        return PartitionChange(directories=directories, leader=leader)
    without = replace(
        partition,
        isr=isr,
        elr=partition.elr - {broker_id},
        leader=None if partition.leader == broker_id else partition.leader,
    )
    change = _handed_over(partition, without, image.eligible_brokers() - {broker_id})
    return replace(change, directories=directories)


def _handed_over(
    partition: PartitionRegistration,
    without: PartitionRegistration,
    eligible: frozenset[BrokerId],
) -> PartitionChange:
    """Return the change from `partition` to `without`, with a leader if one is missing and can be.

    A leader from the ELR is all that is in sync then. Who was in sync before it has every
    committed record as well, since the high watermark stood still: it is eligible (KIP-966).
    """
    leader: BrokerId | Keep | None = KEEP
    isr, elr = without.isr, without.elr
    if without.leader is None:
        elected = elect_leader(without, eligible=eligible, election=Election.ONLINE).leader
        leader = KEEP if elected == partition.leader else elected
    if isinstance(leader, int) and leader not in isr:
        isr, elr = frozenset({leader}), _not_lost(without, (isr | elr) - {leader})
    return PartitionChange(
        isr=isr if isr != partition.isr else KEEP,
        elr=elr if elr != partition.elr else KEEP,
        leader=leader,
    )


def _not_lost(
    partition: PartitionRegistration, replicas: frozenset[BrokerId]
) -> frozenset[BrokerId]:
    return frozenset(each for each in replicas if partition.directory_of(each) != LOST)


def fence_broker(
    image: MetadataImage, broker_id: BrokerId, cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide a broker's failure: it leads nothing and is in no ISR. Answer: what it led.

    The last member of an ISR stays in it, without a leader: nobody else has its records.
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
    # Thousands of partitions have few shapes: each is decided once, and merged once to see that
    # what it leads to holds, since the change touches nothing that is not part of the shape.
    decided: dict[tuple[object, ...], PartitionChange | None] = {}
    for topic in image.topics.values():
        min_isr = image.settings(topic.topic_id).integer("min.insync.replicas")
        changed = []
        for number, partition in topic.partitions.items():
            if broker_id not in partition.isr:
                continue
            # All that `_leave_isr` looks at.
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
        records.extend(_records(topic, changed, cause))
        led.extend(
            PartitionKey(topic.topic_id, number)
            for number, partition, _ in changed
            if partition.leader == broker_id
        )
    return ControllerResult(records, led)


def change_of_isr(
    partition: PartitionRegistration,
    isr: frozenset[BrokerId],
    *,
    leader: BrokerId | None,
    min_isr: int,
    eligible: frozenset[BrokerId],
) -> PartitionChange | None:
    """Return what a partition changes to once `isr` is in sync; None if that is what it is.

    `leader` leads on; without one, one of `eligible` is elected that does not leave. Where nobody
    would be in sync, those that were stay, since nobody else has their records, and the ELR may
    lead meanwhile. Source: PartitionChangeBuilder.
    """
    kept = isr or partition.isr
    elr = eligible_replicas(partition, kept, min_isr)
    without = replace(partition, isr=kept, elr=elr, leader=leader)
    change = _handed_over(partition, without, eligible - (partition.isr - isr))
    return None if change == PartitionChange() else change


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

    It rejoins ISRs only after its replicas have caught up; only partitions without a leader
    may find one now.
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


def elect_where_none(
    image: MetadataImage, eligible: frozenset[BrokerId], cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide leaders for partitions that have none and can have one without loss."""
    records: list[Record] = []
    elected = []
    for key, partition in image.unsettled_partitions():
        if partition.leader is not None:
            continue
        change = _handed_over(partition, partition, eligible)
        if change.leader is KEEP:
            continue
        records.append(change_record(image, key, partition, change, cause))
        elected.append(key)
    return ControllerResult(records, elected)


def elect_preferred(
    image: MetadataImage, cause: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that preferred leaders lead again where they are in sync. Answer: what moves."""
    eligible = image.eligible_brokers()
    # A million partitions have a hundred leaders: what they share is made once.
    changes = {broker_id: PartitionChange(leader=broker_id) for broker_id in image.brokers}
    changed: dict[TopicId, list[tuple[int, PartitionRegistration, PartitionChange]]] = {}
    moved = []
    for key, partition in image.partitions() if keys is None else _named(image, keys):
        leader = elect_leader(partition, eligible=eligible, election=Election.PREFERRED).leader
        # In sync, so that what the change leads to holds: it need not be merged to see that.
        if leader is not None and leader != partition.leader and leader in partition.isr:
            found = (key.partition, partition, changes[leader])
            changed.setdefault(key.topic_id, []).append(found)
            moved.append(key)
    records = [
        record
        for topic_id, decided in changed.items()
        for record in _records(image.topics[topic_id], decided, cause)
    ]
    return ControllerResult(records, moved)


def _named(
    image: MetadataImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    """Yield those of `keys` that are there, each once."""
    for key in dict.fromkeys(keys):
        partition = image.partition(key)
        if partition is not None:
            yield key, partition


def imbalance_percentages(image: MetadataImage) -> dict[BrokerId, float]:
    """Return the share of each broker's preferred leaderships that others hold, in per cent, if
    others hold any.

    Source: leader.imbalance.per.broker.percentage.
    """
    elsewhere = Counter(
        partition.replicas[0]
        for _, partition in image.unsettled_partitions()
        if partition.leader != partition.replicas[0]
    )
    if not elsewhere:
        return {}
    preferred = Counter(partition.replicas[0] for _, partition in image.partitions())
    return {
        broker_id: 100.0 * count / preferred[broker_id] for broker_id, count in elsewhere.items()
    }
