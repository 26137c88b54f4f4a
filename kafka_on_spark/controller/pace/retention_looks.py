"""When retention looks at a leader's log again: known cheaply, so that few tables are opened.

A partition that was looked at is due when its oldest batch is too old, or has grown where its size
counts; and at once when its settings have changed. No rule of safety depends on it.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ids import Offset
from kafka_on_spark.log.upkeep.retention import Retained, RetentionLimits
from kafka_on_spark.metadata.partition import PartitionRegistration

LOOK_AGAIN_MS_MAX: Final = 60 * 60 * 1000
"""A wall clock that was wrong at the last look is put right within this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLook:
    """What is remembered of the last look at a partition; times are of the monotonic clock.

    Attributes:
        limits: The limits then.
        high_watermark: The high watermark then.
        again_ms: Before it the log is not looked at again, unless the limits change.
        expires_ms: When a batch is too old, or may be; None: there is none.
    """

    limits: RetentionLimits
    high_watermark: Offset
    again_ms: int
    expires_ms: int | None


def last_look(
    limits: RetentionLimits,
    partition: PartitionRegistration,
    found: Retained | None,
    *,
    wall_ms: int,
    monotonic_ms: int,
    interval_ms: int,
) -> LastLook:
    """Return what to remember of a look at `wall_ms`; `found` is None if it led to nothing: it
    failed, or what it deletes was not committed.

    `interval_ms`: log.retention.check.interval.ms, between two looks at a partition.
    """
    expires_ms: int | None = monotonic_ms
    if found is not None:
        expires_ms = None
        if found.expires_at_ms is not None:
            left_ms = max(0, found.expires_at_ms - wall_ms)
            expires_ms = monotonic_ms + min(left_ms, LOOK_AGAIN_MS_MAX)
    return LastLook(
        limits=limits,
        high_watermark=partition.high_watermark,
        again_ms=monotonic_ms + interval_ms,
        expires_ms=expires_ms,
    )


def can_delete(partition: PartitionRegistration) -> bool:
    """Return whether a partition has committed records, and a leader that tells of them."""
    return (
        partition.leader is not None
        and partition.is_created(partition.leader)
        and partition.high_watermark > partition.log_start_offset
    )


def is_due(
    partition: PartitionRegistration,
    limits: RetentionLimits,
    last: LastLook | None,
    monotonic_ms: int,
) -> bool:
    """Return whether a partition is to be looked at now."""
    if not can_delete(partition):
        return False
    if last is None or last.limits != limits:
        return True
    return monotonic_ms >= due_ms(partition, last)


def due_ms(partition: PartitionRegistration, last: LastLook) -> float:
    """Return when a partition is to be looked at again; infinity: when it has grown."""
    has_grown = partition.high_watermark != last.high_watermark
    by_size = last.limits.retention_bytes is not None
    if has_grown and (by_size or last.expires_ms is None):
        return last.again_ms
    return float("inf") if last.expires_ms is None else max(last.again_ms, last.expires_ms)
