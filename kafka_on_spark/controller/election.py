"""Who leads a partition, clean or unclean, and what else follows when replicas leave or are lost.

Kafka's PartitionChangeBuilder: a decision says who leaves, joins or is lost; what follows from that
stands here. A partition without a leader is led from its ISR or ELR, else by a replica that proves
its log (docs/design/006), else uncleanly, by a setting (KIP-106) or a request; then the change says
which offsets are lost (KIP-320, KIP-841). Preferred leaders lead again by request, or where a
broker lacks too many leaderships.

A replica that is lost keeps its uuid, or stands in `former_uuids` once it is created again, until
the new incarnation is in sync. Until then nothing of it is removed, and it may be restored as it
is, if its log proves to have all that is committed, and all of its files are whole.

`eligible` brokers are registered, unfenced and not shutting down. The chosen leader proves its log
when it fences its table.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import (
    KEEP,
    LOST,
    NO_CHAIN,
    BrokerId,
    DirectoryId,
    Keep,
    PartitionEpoch,
    PartitionKey,
    ReplicaUuid,
    TopicId,
)
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import (
    PartitionChange,
    PartitionRegistration,
    construct_many,
    has_all_committed,
)
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record
from kafka_on_spark.metadata.reports import ReplicaInspection, min_isr

LIMIT = "leader.imbalance.per.broker.percentage"


def elect_leader(
    partition: PartitionRegistration,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid] = frozenset(),
    *,
    preferred: bool = False,
) -> BrokerId | None:
    """Choose a leader that has every committed record; None if no replica of ISR or ELR may lead.

    The leader leads on if it may, unless the `preferred` one may, too (KIP-460). A replica that was
    lost never leads. None of `suspects`, which this process has found bad once, is chosen: what it
    lacks is not known yet. One that leads leads on.
    """
    candidates = eligible.intersection(partition.replicas)
    if LOST in partition.directories:
        candidates = frozenset(each for each in candidates if partition.directory_of(each) != LOST)
    trusted = candidates
    if not suspects.isdisjoint(partition.replica_uuids):
        trusted = frozenset(each for each in candidates if partition.uuid_of(each) not in suspects)
    in_sync = partition.isr & trusted
    if preferred and partition.replicas[0] in in_sync:
        return partition.replicas[0]
    if partition.leader in partition.isr & candidates:
        return partition.leader
    for pool in (in_sync, partition.elr & trusted):
        if pool:
            return min(pool, key=partition.replicas.index)
    return None


def eligible_replicas(
    partition: PartitionRegistration, isr: frozenset[BrokerId], min_isr: int
) -> frozenset[BrokerId]:
    """Return the eligible leader replicas of `partition` once its ISR is `isr` (KIP-966).

    Below the minimum the high watermark stands still, so a replica that was in sync, or eligible,
    still has all that is committed. At the minimum the high watermark moves on without it. Source:
    PartitionChangeBuilder.populateTargetElr.
    """
    if len(isr) >= min(min_isr, len(partition.replicas)):
        return frozenset()
    return frozenset(
        each
        for each in (partition.elr | partition.isr) - isr
        if partition.directory_of(each) != LOST
    )


def change_of_isr(
    partition: PartitionRegistration,
    isr: frozenset[BrokerId],
    *,
    leader: BrokerId | None,
    min_isr: int,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange | None:
    """Return the change after which `isr` is in sync; None if nothing changes.

    `leader` leads on; without one, a broker of `eligible` that does not leave is elected
    (`elect_leader`). If nobody would be in sync, the present members stay, since no other replica
    has their records, and the ELR may lead meanwhile. Source: PartitionChangeBuilder.
    """
    kept = isr or partition.isr
    elr = eligible_replicas(partition, kept, min_isr)
    after = replace(partition, isr=kept, elr=elr, leader=leader)
    change = _change_to(after, partition, eligible - (partition.isr - isr), suspects)
    return None if change == PartitionChange() else change


def _change_to(
    after: PartitionRegistration,
    before: PartitionRegistration,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange:
    """Return the change of ISR, ELR and leader; if `after` has no leader, one is elected.

    A leader from the ELR is alone in sync. The members of the ISR before it have every committed
    record as well, since the high watermark stood still: they become eligible (KIP-966).
    """
    leader: BrokerId | Keep | None = KEEP
    isr, elr = after.isr, after.elr
    if after.leader is None:
        elected = elect_leader(after, eligible, suspects)
        leader = KEEP if elected == before.leader else elected
    if isinstance(leader, int) and leader not in isr:
        others = (isr | elr) - {leader}
        isr = frozenset({leader})
        elr = frozenset(each for each in others if after.directory_of(each) != LOST)
    return PartitionChange(
        isr=isr if isr != before.isr else KEEP,
        elr=elr if elr != before.elr else KEEP,
        leader=leader,
    )


def lost_change(
    image: MetadataImage, partition: PartitionRegistration, broker_id: BrokerId
) -> PartitionChange:
    """Return the change that marks a bad replica as lost.

    Its directory becomes LOST and it leaves ISR and ELR; if it led, another replica takes over.
    The last member of the ISR stays in it: the partition goes offline and loses no records.
    """
    place = partition.replicas.index(broker_id)
    directories = (*partition.directories[:place], LOST, *partition.directories[place + 1 :])
    isr = partition.isr - {broker_id}
    if not isr:
        leader = None if partition.leader is not None else KEEP
        return PartitionChange(directories=directories, leader=leader)
    after = replace(
        partition,
        isr=isr,
        elr=partition.elr - {broker_id},
        leader=None if partition.leader == broker_id else partition.leader,
    )
    eligible = image.eligible_brokers() - {broker_id}
    change = _change_to(after, partition, eligible, image.suspects)
    return replace(change, directories=directories)


def lose_replica(
    image: MetadataImage, key: PartitionKey, broker_id: BrokerId, cause: str
) -> ControllerResult[None]:
    """Decide that a replica is lost because a person says so."""
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
    if broker_id not in partition.replicas or not partition.is_created(broker_id):
        holders = ", ".join(str(each) for each in partition.replicas if partition.is_created(each))
        raise InvalidRequestError(
            f"can't give up the replica of {image.name_of(key)} on broker {broker_id}: it has none"
            f" that is not lost already; name one of the brokers {holders}"
        )
    change = lost_change(image, partition, broker_id)
    return ControllerResult([change_record(image, key, partition, change, cause)], None)


def recreate_lost(
    image: MetadataImage, new_uuid: Callable[[], str]
) -> ControllerResult[list[PartitionKey]]:
    """Decide new uuids for lost replicas outside the ISR: they are created and fetched again.

    The last member of an ISR keeps its uuid: its disk may come back with records that no other
    replica has. The former uuids of the others are kept, so that a wrong verdict can be taken back.
    """
    records: list[Record] = []
    renewed = []
    for key, partition in image.partitions_needing_work():
        places = [
            place
            for place, broker_id in enumerate(partition.replicas)
            if partition.directories[place] == LOST
            and broker_id not in partition.isr
            and image.brokers[broker_id].is_online
        ]
        if not places:
            continue
        uuids, directories = list(partition.replica_uuids), list(partition.directories)
        former = list(partition.former_uuids) or [None] * len(uuids)
        for place in places:
            former[place] = former[place] or uuids[place]
            uuids[place], directories[place] = ReplicaUuid(new_uuid()), None
        change = PartitionChange(
            replica_uuids=tuple(uuids),
            former_uuids=tuple(former),
            directories=tuple(directories),
        )
        brokers = ", ".join(str(partition.replicas[place]) for place in places)
        cause = f"broker {brokers}: lost replica is made anew and fetched from the log start"
        records.append(change_record(image, key, partition, change, cause))
        renewed.append(key)
    return ControllerResult(records, renewed)


@dataclass(frozen=True, slots=True)
class WholeReplica:
    """A lost replica whose table was found whole, on the disk that it names and that the root is.
    Its log was proved by the registration of `partition_epoch`."""

    address: ReplicaAddress
    partition_epoch: PartitionEpoch


def lost_replicas(
    image: MetadataImage, partition: PartitionRegistration
) -> Iterator[tuple[BrokerId, ReplicaUuid]]:
    """Yield the lost replicas of a partition that may be taken back, on brokers that answer."""
    places = zip(partition.replicas, partition.replica_uuids, partition.directories, strict=True)
    for broker_id, replica_uuid, directory in places:
        if not image.brokers[broker_id].is_online:
            continue
        former = partition.former_of(broker_id)
        if former is not None:
            yield broker_id, former
        elif directory == LOST:
            yield broker_id, replica_uuid


def take_back_lost(
    image: MetadataImage, found: Sequence[WholeReplica]
) -> ControllerResult[list[PartitionKey]]:
    """Decide that whole replicas are lost no more. Answer: the partitions that get one back.

    The last member of an ISR is still in it; all others come back out of sync. A finding about a
    partition that has changed since does not count.
    """
    records: list[Record] = []
    restored = []
    for one in found:
        key, broker_id = one.address.key, one.address.broker_id
        replica_uuid, directory_id = one.address.replica_uuid, one.address.directory_id
        partition, broker = image.partition(key), image.brokers.get(broker_id)
        if (
            key in restored
            or partition is None
            or partition.partition_epoch != one.partition_epoch
            or broker is None
            or broker.directory_id != directory_id
            or (broker_id, replica_uuid) not in set(lost_replicas(image, partition))
        ):
            continue
        place = partition.replicas.index(broker_id)
        uuids, directories = list(partition.replica_uuids), list(partition.directories)
        former = list(partition.former_uuids) or [None] * len(uuids)
        uuids[place], directories[place], former[place] = replica_uuid, directory_id, None
        change = PartitionChange(
            replica_uuids=tuple(uuids), directories=tuple(directories), former_uuids=tuple(former)
        )
        cause = f"broker {broker_id}: the replica that was lost is whole: taken back"
        records.append(change_record(image, key, partition, change, cause))
        restored.append(key)
    return ControllerResult(records, restored)


def change_record(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    change: PartitionChange,
    cause: str,
) -> PartitionChangeRecord:
    """Return the record of `change`, with the epochs after it. The changed registration is valid:
    `merge` has checked it."""
    change = partition.completed(change)
    partition.merge(change)  # to have it checked
    leader_epoch, partition_epoch = partition.epochs_after(change)
    return PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=change,
        topic=image.topics[key.topic_id].name,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        cause=cause,
    )


def change_records(
    topic: TopicImage,
    changes: Sequence[tuple[int, PartitionRegistration, PartitionChange]],
    cause: str,
) -> list[PartitionChangeRecord]:
    """Return the records of changes to a topic's partitions, as `change_record` makes one.

    The caller has checked the changes (by `merge`), and none of them needs `completed`.
    """
    count = len(changes)
    epochs = [partition.epochs_after(change) for _, partition, change in changes]
    return construct_many(
        PartitionChangeRecord,
        {
            "topic_id": repeat(topic.topic_id, count),
            "partition": [number for number, _, _ in changes],
            "change": [change for _, _, change in changes],
            "topic": repeat(topic.name, count),
            "leader_epoch": [leader_epoch for leader_epoch, _ in epochs],
            "partition_epoch": [partition_epoch for _, partition_epoch in epochs],
            "cause": repeat(cause, count),
        },
        count,
    )


def elect_where_none(
    image: MetadataImage, eligible: frozenset[BrokerId], cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide leaders for partitions that have none and can have one of ISR or ELR; answer these."""
    records: list[Record] = []
    elected = []
    for key, partition in image.partitions_needing_work():
        if partition.leader is None:
            change = _change_to(partition, partition, eligible, image.suspects)
            if change.leader is not KEEP:
                records.append(change_record(image, key, partition, change, cause))
                elected.append(key)
    return ControllerResult(records, elected)


def leaderless(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[PartitionKey]:
    """Return the partitions, of `keys` or of all, for which ISR and ELR have no leader.

    A suspect counts as one: as long as it may be whole, nobody else leads by proof or uncleanly.
    """
    eligible = image.eligible_brokers()
    wanted = None if keys is None else set(keys)
    return [
        key
        for key, partition in image.partitions_needing_work()
        if partition.leader is None
        and (wanted is None or key in wanted)
        and elect_leader(partition, eligible) is None
    ]


def why_not_led(image: MetadataImage, key: PartitionKey, *, preferred: bool = False) -> str | None:
    """Return, in words, why no replica of a partition leads, or not the `preferred` one; None: one
    does. An unclean election was held before, of the replicas that could be read."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    wanted = partition.replicas[: 1 if preferred else None]
    if partition.leader is not None and (not preferred or partition.leader in wanted):
        return None

    def why_not(broker_id: BrokerId) -> str:
        broker = image.brokers[broker_id]
        if not broker.is_eligible:
            return f"is {broker.state.value}"
        if not partition.is_created(broker_id):
            return "has no replica: it is lost, or was never made"
        if partition.uuid_of(broker_id) in image.suspects:
            return "has a replica that was found bad, and is inspected again"
        if broker_id in partition.isr | partition.elr:
            return "may lead: a pass of a controller elects it"
        return "is not in sync" if preferred else "has a log that can't be read"

    return "; ".join(f"broker {each} {why_not(each)}" for each in wanted)


def elect_by_inspections(
    image: MetadataImage,
    inspections: Sequence[ReplicaInspection],
    *,
    forced: frozenset[PartitionKey] = frozenset(),
) -> ControllerResult[list[PartitionKey]]:
    """Decide leaders by `inspections`; for `forced` partitions an unclean one is allowed.

    A new generation of the cluster, and nothing else, leaves a partition without an ISR: its high
    watermark may have been higher. So it is led by force alone, and a replica proves something only
    where all of them were inspected.

    Answer: the partitions that get a leader. If a partition has changed since it was inspected,
    the inspection does not count.
    """
    eligible = image.eligible_brokers()
    records: list[Record] = []
    elected = []
    for key in sorted(set(leaderless(image, {each.key for each in inspections}))):
        partition = image.partition(key)
        assert partition is not None, "it has no leader, so it is there"
        if not partition.isr and key not in forced:
            continue
        current = [
            each
            for each in inspections
            if each.key == key
            and each.broker_id in partition.replicas
            and each.partition_epoch == partition.partition_epoch
            and each.high_watermark == partition.high_watermark
            and partition.uuid_of(each.broker_id) not in image.suspects
        ]
        decided = None
        if partition.isr or _have_all_answered(partition, current):
            decided = _proven(image, key.topic_id, partition, current)
        if decided is None and (key in forced or is_unclean_allowed(image, key.topic_id)):
            chosen = furthest_replica(partition, current, eligible=eligible)
            decided = None if chosen is None else unclean_change(partition, chosen)
        if decided is not None:
            records.append(change_record(image, key, partition, *decided))
            elected.append(key)
    return ControllerResult(records, elected)


def _have_all_answered(
    partition: PartitionRegistration, inspections: Sequence[ReplicaInspection]
) -> bool:
    created = set(filter(partition.is_created, partition.replicas))
    return created <= {each.broker_id for each in inspections}


def complete_replicas(
    partition: PartitionRegistration, inspections: Iterable[ReplicaInspection]
) -> list[ReplicaInspection]:
    """Return those of the replicas that prove to have every committed record."""
    return [
        each
        for each in inspections
        if has_all_committed(
            partition,
            log_start_offset=each.log_start_offset,
            log_end_offset=each.log_end_offset,
            epoch_below_high_watermark=each.epoch_below_high_watermark,
            chain_at_high_watermark=each.chain_at_high_watermark,
        )
        # An unclean election has cut what had replaced records that it lacks.
        and each.compacted_below <= partition.high_watermark
    ]


def _proven(
    image: MetadataImage,
    topic_id: TopicId,
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
) -> tuple[PartitionChange, str] | None:
    """Return the change to a leader that proves to have every committed record, and why."""
    complete = complete_replicas(partition, inspections)
    best = furthest_replica(partition, complete, eligible=image.eligible_brokers())
    if best is None:
        return None
    isr = frozenset({best.broker_id})
    elr = eligible_replicas(partition, isr, min_isr(image, topic_id, partition))
    change = PartitionChange(leader=best.broker_id, isr=isr, elr=elr)
    cause = (
        f"broker {best.broker_id}: proves to have all {partition.high_watermark} committed offsets,"
        " and nobody in sync is left"
    )
    return change, cause


def unclean_change(
    partition: PartitionRegistration, leader: ReplicaInspection
) -> tuple[PartitionChange, str]:
    """Return the change to an unclean leader, and what is lost by it.

    The end of the leader's log is what is committed from now on. A log that ends below the log
    start begins there without a record: no record below the high watermark has an epoch then, and
    the chain starts again. A log that lacks records which later ones had replaced, and lacks those
    too, is what is left of them: the other replicas are made again, since they may have more.
    """
    begins_empty = leader.log_end_offset < partition.log_start_offset
    end = max(leader.log_end_offset, partition.log_start_offset)
    before = partition.high_watermark
    if end < before:
        lost = f"offsets {end} to {before - 1} are lost"
    else:
        lost = f"records below {before} may be others than those that were committed"
    directories: tuple[DirectoryId | None, ...] | Keep = KEEP
    if leader.compacted_below > end:
        lost += f", and records that others below {leader.compacted_below} had replaced"
        directories = tuple(
            each if broker_id == leader.broker_id or each is None else LOST
            for broker_id, each in zip(partition.replicas, partition.directories, strict=True)
        )
    change = PartitionChange(
        leader=leader.broker_id,
        isr=frozenset({leader.broker_id}),
        elr=frozenset(),
        directories=directories,
        high_watermark=end,
        high_watermark_epoch=None if begins_empty else leader.last_epoch,
        high_watermark_chain=NO_CHAIN if begins_empty else leader.chain_digest,
        unclean_generation=partition.unclean_generation + 1,
    )
    return change, f"broker {leader.broker_id}: unclean election, {lost}"


def is_unclean_allowed(image: MetadataImage, topic_id: TopicId) -> bool:
    return image.settings(topic_id).boolean("unclean.leader.election.enable")


def furthest_replica(
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
    *,
    eligible: frozenset[BrokerId],
) -> ReplicaInspection | None:
    """Return the eligible replica whose log is of the latest leadership, the longest of those, the
    first of those in order of preference; None if there is none.

    Eligibility bounds the unclean election, too: Kafka once forgot it for one kind and elected a
    fenced broker (KAFKA-19522). A replica that was never created, or was lost, never leads.
    """

    def rank(inspection: ReplicaInspection) -> tuple[int, int, int]:
        epoch = -1 if inspection.last_epoch is None else inspection.last_epoch
        place = partition.replicas.index(inspection.broker_id)
        return (epoch, inspection.log_end_offset, -place)

    candidates = [
        each
        for each in inspections
        if each.broker_id in eligible.intersection(partition.replicas)
        and partition.is_created(each.broker_id)
    ]
    return max(candidates, key=rank, default=None)


def elect_preferred(
    image: MetadataImage, cause: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that preferred leaders lead again where they are in sync. Answer: the partitions."""
    eligible = image.eligible_brokers()
    # A million partitions have a hundred leaders: equal changes are one value.
    changes = {broker_id: PartitionChange(leader=broker_id) for broker_id in image.brokers}
    changed: dict[TopicId, list[tuple[int, PartitionRegistration, PartitionChange]]] = {}
    moved = []
    wanted: Iterable[tuple[PartitionKey, PartitionRegistration | None]] = image.partitions()
    if keys is not None:
        wanted = ((key, image.partition(key)) for key in dict.fromkeys(keys))
    for key, partition in wanted:
        if partition is None:
            continue
        leader = elect_leader(partition, eligible, image.suspects, preferred=True)
        # The leader is in the ISR, so the changed registration is valid without a merge.
        if leader is not None and leader != partition.leader and leader in partition.isr:
            one = (key.partition, partition, changes[leader])
            changed.setdefault(key.topic_id, []).append(one)
            moved.append(key)
    records = [
        record
        for topic_id, decided in changed.items()
        for record in change_records(image.topics[topic_id], decided, cause)
    ]
    return ControllerResult(records, moved)


def rebalance_leaders(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide that eligible brokers lead again what they should, if they lack more than the limit.
    Answer: the partitions whose leader moves."""
    limit = image.settings().integer(LIMIT)
    unbalanced = {
        broker_id: percentage
        for broker_id, percentage in imbalance_percentages(image).items()
        if percentage > limit and image.is_eligible(broker_id)
    }
    if not unbalanced:
        return ControllerResult([], [])
    keys = [
        key
        for key, partition in image.partitions_needing_work()
        if partition.replicas[0] in unbalanced
    ]
    shares = ", ".join(
        f"broker {broker_id} lacks {share:.0f} %" for broker_id, share in sorted(unbalanced.items())
    )
    cause = f"preferred leaders: {shares} of its leaderships ({LIMIT}={limit})"
    return elect_preferred(image, cause, keys)


def imbalance_percentages(image: MetadataImage) -> dict[BrokerId, float]:
    """Return the share of each broker's preferred leaderships that others hold, in per cent, if
    others hold any."""
    elsewhere = Counter(
        partition.replicas[0]
        for _, partition in image.partitions_needing_work()
        if partition.leader != partition.replicas[0]
    )
    if not elsewhere:
        return {}
    preferred = Counter(partition.replicas[0] for _, partition in image.partitions())
    return {
        broker_id: 100.0 * count / preferred[broker_id] for broker_id, count in elsewhere.items()
    }
