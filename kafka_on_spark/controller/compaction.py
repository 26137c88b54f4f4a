"""When a partition is compacted again, and how far: the offsets of `metadata.partition`.

A decision takes no new partition epoch. It is committed on the image that it is decided on, so the
ISR that has finished the decision before is the ISR of then. Source: LogCleanerManager, of which
the clock of a tombstone differs: it runs from when every replica that counts has lost what the
tombstone deletes. It is read after the decision that says so was seen in the metadata log: a commit
may take as long as it likes. One wrong clock of three, whichever it is, makes the wait longer only.
One wait at a time is under way, so that a register has two numbers of it and not a list: what is
cleaned meanwhile waits for the next, twice delete.retention.ms in all at most.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, ReplicaUuid
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.log.compaction import CompactionProgress, Dirt
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import Compaction, PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """What one replica's table says: where its log ends, and how far it is compacted."""

    replica_uuid: ReplicaUuid
    log_end_offset: Offset
    progress: CompactionProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport:
    """What was found in one partition's tables, for a compaction decision: the leader's dirty part,
    fenced at `leader_epoch`, and the progress of each replica that answered.

    `cleaned_below`: the partition's, in the image of the plan. `now_ms`: the earliest of three
    clocks, since one that is ahead must not remove a tombstone. `latest_ms`: the latest, since a
    clock that is behind must not begin the wait before.
    """

    key: PartitionKey
    leader_epoch: LeaderEpoch
    dirt: Dirt
    replicas: Mapping[BrokerId, ReplicaProgress]
    cleaned_below: Offset
    now_ms: int
    latest_ms: int


def compact(image: MetadataImage, report: CompactionReport) -> PartitionChangeRecord | None:
    """Decide how far a partition is compacted from now on; None: as far as it is."""
    partition = image.partition(report.key)
    if partition is None or partition.leader_epoch != report.leader_epoch:
        return None
    settings = image.settings(report.key.topic_id)
    if "compact" not in settings.policies or not _is_finished(partition, report):
        return None
    now = partition.compaction
    due = why_dirty(settings, partition, report.dirt, report.now_ms) or _tombstones_due(
        settings, now, report
    )
    if due is None:
        return None
    decided = _decided(settings, partition, report)
    if decided == now or not decided.continues(now):
        return None
    change = PartitionChange(compaction=decided)
    cause = (
        f"compacted below {decided.compacted_below}, without tombstones below"
        f" {decided.tombstones_below}: {due}"
    )
    return change_record(image, report.key, partition, change, cause)


def _is_finished(partition: PartitionRegistration, report: CompactionReport) -> bool:
    for broker_id in partition.isr:
        seen = report.replicas.get(broker_id)
        if seen is None or seen.replica_uuid != partition.uuid_of(broker_id):
            return False
        if not seen.progress.has_finished(partition.compaction):
            return False
    return True


def _cleanable_below(partition: PartitionRegistration, dirt: Dirt) -> Offset:
    """Return how far the log may be compacted: never above what is committed."""
    if dirt.cleanable_below > partition.high_watermark:
        return partition.compaction.compacted_below
    return max(dirt.cleanable_below, partition.compaction.compacted_below)


def why_dirty(
    settings: Settings, partition: PartitionRegistration, dirt: Dirt, now_ms: int
) -> str | None:
    """Return why the dirty part is due, in words; None if it is not."""
    if _cleanable_below(partition, dirt) == partition.compaction.compacted_below:
        return None
    if dirt.oldest_dirty_ms is None:
        return None
    least = settings.number("min.cleanable.dirty.ratio")
    if dirt.ratio >= least:
        return f"{dirt.ratio:.2f} of its bytes are dirty (min.cleanable.dirty.ratio={least:g})"
    age_ms, most = now_ms - dirt.oldest_dirty_ms, settings.integer("max.compaction.lag.ms")
    if age_ms > most:
        return f"its oldest dirty batch is {age_ms / 1000:.1f} s old (max.compaction.lag.ms={most})"
    return None


def _tombstones_due(settings: Settings, now: Compaction, report: CompactionReport) -> str | None:
    """Return why tombstones, or the wait for them, are due, in words; None if they are not."""
    if _began_later(now, report):
        return "the wait for tombstones is said to have begun later than now"
    if not now.is_expiring:
        if now.compacted_below == now.tombstones_below:
            return None
        return f"every replica in sync is compacted below {now.compacted_below}"
    retention_ms = settings.integer("delete.retention.ms")
    waited_ms = report.now_ms - now.expiring_since_ms
    if waited_ms < retention_ms:
        return None
    return (
        f"what tombstones below {now.expiring_below} deleted has been gone for"
        f" {waited_ms / 1000:.1f} s (delete.retention.ms={retention_ms})"
    )


def _began_later(now: Compaction, report: CompactionReport) -> bool:
    """Return whether a clock that was far ahead began the wait: then it begins anew."""
    return now.is_expiring and now.expiring_since_ms > report.latest_ms


def _decided(
    settings: Settings, partition: PartitionRegistration, report: CompactionReport
) -> Compaction:
    now = partition.compaction
    tombstones_below = now.tombstones_below
    waited_ms = report.now_ms - now.expiring_since_ms
    if now.is_expiring and waited_ms >= settings.integer("delete.retention.ms"):
        # A replica that is being made would not see the tombstones, and would be made again.
        ends = (seen.log_end_offset for seen in report.replicas.values())
        tombstones_below = max(tombstones_below, min([now.expiring_below, *ends]))
    compacted_below = now.compacted_below
    if why_dirty(settings, partition, report.dirt, report.now_ms) is not None:
        compacted_below = _cleanable_below(partition, report.dirt)
    decided = replace(
        now,
        compacted_below=compacted_below,
        cleaned_below=now.compacted_below,
        tombstones_below=tombstones_below,
    )
    if decided.is_expiring:
        began_later = _began_later(now, report)
        return replace(decided, expiring_since_ms=report.latest_ms) if began_later else decided
    seen_below = min(report.cleaned_below, now.cleaned_below)
    is_expiring = seen_below > tombstones_below
    return replace(
        decided,
        expiring_below=max(seen_below, tombstones_below),
        expiring_since_ms=report.latest_ms if is_expiring else 0,
    )
