"""Retention: from which offset on a log is kept, by the age and the size of its batches.

What goes is whole batches, the oldest first, and only what is committed. The newest batch goes too,
as Kafka's active segment does once it is rolled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import LogPart
from kafka_on_spark.log.state import ReplicaState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """What a topic's settings allow its logs to keep: batches that are older go, and the oldest
    while those after them have as many bytes. None: no reason."""

    retention_ms: int | None
    retention_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What a log may keep, and why the rest goes.

    Attributes:
        expired_to: Below it, batches are older than retention.ms; if none is, where the log starts.
        newest_ms: Of the expired batches, the latest time that counts for the age; None: none is
            expired.
        expires_at_ms: When the first batch that stays is older than retention.ms; None: never.
    """

    log_start_offset: Offset
    expired_to: Offset
    newest_ms: int | None
    removed_bytes: int
    kept_bytes: int
    expires_at_ms: int | None


def limits_of(settings: Settings) -> RetentionLimits | None:
    """Return the limits of a topic with these settings; None: everything is kept.

    A topic that is compacted only keeps everything, whatever its age and size.
    """
    retention_ms, retention_bytes = map(settings.integer, ("retention.ms", "retention.bytes"))
    if "delete" not in settings.policies or (retention_ms < 0 and retention_bytes < 0):
        return None
    return RetentionLimits(
        retention_ms=None if retention_ms < 0 else retention_ms,
        retention_bytes=None if retention_bytes < 0 else retention_bytes,
    )


def is_lower(limits: RetentionLimits | None, than: RetentionLimits | None) -> bool:
    """Return whether `limits` have an age or a size below that of others."""
    return limits is not None and any(
        now is not None and (before is None or now < before)
        for name in RetentionLimits.__slots__
        for now, before in [(getattr(limits, name), getattr(than, name, None))]
    )


def retained(
    state: ReplicaState,
    limits: RetentionLimits,
    *,
    log_start_offset: Offset,
    high_watermark: Offset,
    now_ms: int,
) -> Retained:
    """Return what `limits` let a log keep; nothing at or above `high_watermark` goes.

    `log_start_offset` is the decided one, which the log may not have applied yet. Age comes first,
    then the size of what is left. Source: UnifiedLog.deleteOldSegments.
    """
    start_offset = max(state.log_start_offset, log_start_offset)
    batches = [each for each in state.batches if each.end_offset > start_offset]
    times = _times(batches)
    committed = sum(each.end_offset <= high_watermark for each in batches)
    expired = 0
    if limits.retention_ms is not None:
        while expired < committed and now_ms - times[expired] > limits.retention_ms:
            expired += 1
    kept_bytes = sum(each.size_bytes for each in batches[expired:])
    gone = expired
    if limits.retention_bytes is not None:
        while gone < committed:
            left = kept_bytes - batches[gone].size_bytes
            if left < limits.retention_bytes:
                break
            kept_bytes, gone = left, gone + 1
    expires_at_ms = None
    if limits.retention_ms is not None and gone < len(batches):
        expires_at_ms = times[gone] + limits.retention_ms + 1
    return Retained(
        log_start_offset=batches[gone - 1].end_offset if gone else start_offset,
        expired_to=batches[expired - 1].end_offset if expired else start_offset,
        newest_ms=max(times[:expired], default=None),
        removed_bytes=sum(each.size_bytes for each in batches[:gone]),
        kept_bytes=kept_bytes,
        expires_at_ms=expires_at_ms,
    )


def _times(parts: Sequence[LogPart]) -> list[int]:
    """Return the time of each part of a log that its age is counted from, ms.

    It is the smaller of its largest timestamp and its append time, so that a timestamp in the
    future keeps nothing for ever. An append time before that of an earlier batch is a wrong
    clock's, and counts as the earlier one's.
    """
    times = []
    appended_ms = 0
    for part in parts:
        appended_ms = max(appended_ms, part.appended_at_ms)
        stamped_ms = max(each.timestamp_max_us for each in part.segments) // 1000
        times.append(appended_ms if part.has_append_time else min(stamped_ms, appended_ms))
    return times
