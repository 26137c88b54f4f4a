"""Which partitions get another leader, clean or unclean: without one, or as the preferred is back.

A partition without a leader is led from its ISR or ELR, else by a replica that proves its log. The
register's high watermark is the true one, so a replica that proves to have it has every committed
record, and may lead without loss although it was out of sync. Kafka decides by the last replica
standing instead. If no replica can prove it, records are lost: that needs a setting (KIP-106) or a
request, and the change says which offsets are lost (KIP-320, KIP-841). Preferred leaders lead again
by request, or where a broker lacks too many leaderships (auto.leader.rebalance and
leader.imbalance.per.broker.percentage).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafka_on_spark.base.ids import (
    KEEP,
    LOST,
    NO_CHAIN,
    BrokerId,
    DirectoryId,
    Keep,
    PartitionKey,
    TopicId,
)
from kafka_on_spark.controller.partition_change import (
    Election,
    change_between,
    change_record,
    change_records,
    elect_leader,
    eligible_replicas,
)
from kafka_on_spark.metadata.high_watermark import has_all_committed, min_isr
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.metadata.result import ControllerResult


def elect_where_none(
    image: MetadataImage, eligible: frozenset[BrokerId], cause: str
) -> ControllerResult[list[PartitionKey]]:
    """Decide leaders for partitions that have none and can have one from ISR or ELR.

    Answer: the partitions that get a leader.
    """
    records: list[Record] = []
    elected = []
    for key, partition in image.partitions_needing_work():
        if partition.leader is not None:
            continue
        change = change_between(partition, partition, eligible, image.suspects)
        if change.leader is KEEP:
            continue
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
        and elect_leader(
            partition, eligible=eligible, election=Election.ONLINE, suspects=frozenset()
        )
        is None
    ]


def recover(
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
    helpless = set(leaderless(image, {each.key for each in inspections}))
    records: list[Record] = []
    elected = []
    for key in sorted(helpless):
        partition = image.partition(key)
        assert partition is not None, "it has no leader, so it is there"
        current = [
            each for each in inspections if each.key == key and _counts(image, partition, each)
        ]
        if not partition.isr and key not in forced:
            continue
        decided = None
        if partition.isr or _have_all_answered(partition, current):
            decided = _proven(image, key.topic_id, partition, current)
        if decided is None:
            chosen = choose_unclean_leader(
                image, key.topic_id, partition, current, is_requested=key in forced
            )
            decided = None if chosen is None else _unclean(partition, chosen)
        if decided is not None:
            records.append(change_record(image, key, partition, *decided))
            elected.append(key)
    return ControllerResult(records, elected)


def _have_all_answered(
    partition: PartitionRegistration, inspections: Sequence[ReplicaInspection]
) -> bool:
    created = set(filter(partition.is_created, partition.replicas))
    return created <= {each.broker_id for each in inspections}


def _counts(
    image: MetadataImage, partition: PartitionRegistration, inspection: ReplicaInspection
) -> bool:
    return (
        inspection.broker_id in partition.replicas
        and inspection.partition_epoch == partition.partition_epoch
        and inspection.high_watermark == partition.high_watermark
        and partition.uuid_of(inspection.broker_id) not in image.suspects
    )


def _proven(
    image: MetadataImage,
    topic_id: TopicId,
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
) -> tuple[PartitionChange, str] | None:
    """Return the change to a leader that proves to have every committed record, and why."""
    complete = [
        each
        for each in inspections
        if has_all_committed(
            partition,
            log_start_offset=each.log_start_offset,
            log_end_offset=each.log_end_offset,
            epoch_below_high_watermark=each.epoch_below_high_watermark,
            chain_at_high_watermark=each.chain_at_high_watermark,
        )
        # An unclean election has cut what had replaced records that it lacks: see `_unclean`.
        and each.compacted_below <= partition.high_watermark
    ]
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


def _unclean(
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


def choose_unclean_leader(
    image: MetadataImage,
    topic_id: TopicId,
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
    *,
    is_requested: bool,
) -> ReplicaInspection | None:
    """Choose a leader that may lack committed records; None unless a setting or a request allows
    it, or if nobody answers."""
    if not (is_requested or is_unclean_allowed(image, topic_id)):
        return None
    return furthest_replica(partition, inspections, eligible=image.eligible_brokers())


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
    candidates = [
        each
        for each in inspections
        if each.broker_id in eligible.intersection(partition.replicas)
        and partition.is_created(each.broker_id)
    ]

    def rank(inspection: ReplicaInspection) -> tuple[int, int, int]:
        epoch = -1 if inspection.last_epoch is None else inspection.last_epoch
        place = partition.replicas.index(inspection.broker_id)
        return (epoch, inspection.log_end_offset, -place)

    return max(candidates, key=rank, default=None)


LIMIT = "leader.imbalance.per.broker.percentage"


def elect_preferred(
    image: MetadataImage, cause: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that preferred leaders lead again where they are in sync. Answer: the partitions."""
    eligible = image.eligible_brokers()
    # A million partitions have a hundred leaders: equal changes are one value.
    changes = {broker_id: PartitionChange(leader=broker_id) for broker_id in image.brokers}
    changed: dict[TopicId, list[tuple[int, PartitionRegistration, PartitionChange]]] = {}
    moved = []
    for key, partition in image.partitions() if keys is None else _existing(image, keys):
        leader = elect_leader(
            partition, eligible=eligible, election=Election.PREFERRED, suspects=image.suspects
        )
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


def _existing(
    image: MetadataImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    for key in dict.fromkeys(keys):
        partition = image.partition(key)
        if partition is not None:
            yield key, partition


def rebalance_leaders(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
    """Decide that eligible brokers lead again what they should, if they lack more than the limit.

    Answer: the partitions whose leader moves.
    """
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
    return elect_preferred(image, _cause(unbalanced, limit), keys)


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


def _cause(unbalanced: Mapping[BrokerId, float], limit: int) -> str:
    shares = ", ".join(
        f"broker {broker_id} lacks {share:.0f} %" for broker_id, share in sorted(unbalanced.items())
    )
    return f"preferred leaders: {shares} of its leaderships ({LIMIT}={limit})"
