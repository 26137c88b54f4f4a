"""Leaders for partitions whose ISR and ELR have nobody left: proven ones, then unclean ones.

The high watermark in the register is the true one, so whoever proves to have it has every
committed record, and may lead without loss though it was out of sync: beyond Kafka, where the
last replica standing decides (FAULTS P*8, b.17). Whoever can't prove it loses records: allowed by
configuration or by request only, and said (KIP-320, KIP-841).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_on_spark.controller.brokers import change_record
from kafka_on_spark.controller.election import Election, elect_leader, eligible_replicas
from kafka_on_spark.controller.high_watermark import has_all_committed
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import (
    NO_CHAIN,
    BrokerId,
    ChainDigest,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionKey,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import Record

NO_BROKERS: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLook:
    """One replica's log as a task saw it, for an election.

    Attributes:
        key: The partition.
        broker_id: Whose replica.
        partition_epoch: Of the image that the look was planned on.
        high_watermark: Of that image.
        log_start_offset: Of the log.
        log_end_offset: Of the log.
        last_epoch: Of its last record; None without any.
        epoch_below_high_watermark: Of the record below that high watermark; None: not here.
        chain_digest: Of the log at its end, computed.
        chain_at_high_watermark: The same at that high watermark; None: no batch ends there.
    """

    key: PartitionKey
    broker_id: BrokerId
    partition_epoch: PartitionEpoch
    high_watermark: Offset
    log_start_offset: Offset
    log_end_offset: Offset
    last_epoch: LeaderEpoch | None
    epoch_below_high_watermark: LeaderEpoch | None
    chain_digest: ChainDigest
    chain_at_high_watermark: ChainDigest | None


def leaderless(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[PartitionKey]:
    """Return the partitions, of `keys` or of all, that no decision from the image can help."""
    eligible = image.eligible_brokers()
    wanted = None if keys is None else set(keys)
    return [
        key
        for key, partition in image.unsettled_partitions()
        if partition.leader is None
        and (wanted is None or key in wanted)
        and elect_leader(partition, eligible=eligible, election=Election.ONLINE).leader is None
    ]


def recover(
    image: MetadataImage,
    looks: Sequence[ReplicaLook],
    *,
    forced: frozenset[PartitionKey] = frozenset(),
) -> ControllerResult[list[PartitionKey]]:
    """Decide leaders from `looks`; an unclean one where configured, or for `forced` partitions.

    Answer: what got a leader. A look at a partition that has changed since says nothing.
    """
    eligible = image.eligible_brokers()
    helpless = set(leaderless(image, {look.key for look in looks}))
    records: list[Record] = []
    elected = []
    for key in sorted(helpless):
        partition = image.partition(key)
        assert partition is not None, "it has no leader, so it is there"
        candidates = [
            look
            for look in looks
            if look.key == key and _is_current(partition, look) and look.broker_id in eligible
        ]
        is_allowed = key in forced or image.settings(key.topic_id).boolean(
            "unclean.leader.election.enable"
        )
        decided = _proven(image, key, partition, candidates)
        if decided is None and is_allowed:
            decided = _unclean(partition, candidates)
        if decided is not None:
            records.append(change_record(image, key, partition, *decided))
            elected.append(key)
    return ControllerResult(records, elected)


def _is_current(partition: PartitionRegistration, look: ReplicaLook) -> bool:
    return (
        look.partition_epoch == partition.partition_epoch
        and look.high_watermark == partition.high_watermark
        and look.broker_id in partition.replicas
        and partition.is_made(look.broker_id)
    )


def _proven(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    looks: Sequence[ReplicaLook],
) -> tuple[PartitionChange, str] | None:
    complete = [
        look
        for look in looks
        if has_all_committed(
            partition,
            log_start_offset=look.log_start_offset,
            log_end_offset=look.log_end_offset,
            epoch_below_high_watermark=look.epoch_below_high_watermark,
            chain_at_high_watermark=look.chain_at_high_watermark,
        )
    ]
    if not complete:
        return None
    best = _furthest(partition, complete)
    isr = frozenset({best.broker_id})
    minimum = image.settings(key.topic_id).integer("min.insync.replicas")
    elr = eligible_replicas(partition, isr, minimum)
    change = PartitionChange(leader=best.broker_id, isr=isr, elr=elr)
    cause = (
        f"broker {best.broker_id}: proves to have all {partition.high_watermark} committed offsets,"
        " and nobody in sync is left"
    )
    return change, cause


def _unclean(
    partition: PartitionRegistration, looks: Sequence[ReplicaLook]
) -> tuple[PartitionChange, str] | None:
    """The longest log leads; its end is what is committed from now on.

    One that ends below the log start begins there, with nothing: no record below the high
    watermark has an epoch then, and the chain begins anew.
    """
    if not looks:
        return None
    best = _furthest(partition, looks)
    begins_empty = best.log_end_offset < partition.log_start_offset
    end, before = max(best.log_end_offset, partition.log_start_offset), partition.high_watermark
    if end < before:
        lost = f"offsets {end} to {before - 1} are lost"
    else:
        lost = f"records below {before} may be others than those that were committed"
    change = PartitionChange(
        leader=best.broker_id,
        isr=frozenset({best.broker_id}),
        elr=NO_BROKERS,
        high_watermark=end,
        high_watermark_epoch=None if begins_empty else best.last_epoch,
        high_watermark_chain=NO_CHAIN if begins_empty else best.chain_digest,
        unclean_generation=partition.unclean_generation + 1,
    )
    return change, f"broker {best.broker_id}: unclean election, {lost}"


def _furthest(partition: PartitionRegistration, looks: Sequence[ReplicaLook]) -> ReplicaLook:
    """Return the look at the log of the latest leadership, the longest of those, the first."""

    def rank(look: ReplicaLook) -> tuple[int, int, int]:
        epoch = -1 if look.last_epoch is None else look.last_epoch
        return (epoch, look.log_end_offset, -partition.replicas.index(look.broker_id))

    return max(looks, key=rank)
