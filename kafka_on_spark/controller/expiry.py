"""Expiry: producer ids that no run renews, and groups' offsets that nobody saves again, go.

Each is a decision in the metadata log, with its cause. So all processes agree on which producers
are known, and a retry of one that has expired is refused, never appended a second time. Clocks say
only when to decide. Writers under a transactional id have no sequences, and stay.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.groups.offsets import is_renewal_due, offsets_retention_ms
from kafka_on_spark.log.batch import WRITER_PREFIX
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    OffsetCommitRecord,
    ProducerRecord,
    Record,
    RemoveProducerRecord,
)

CHECK_MS_MAX: Final = 600_000
"""Source: producer.id.expiration.check.interval.ms, offsets.retention.check.interval.ms."""

_UNSAVED: Final = " (offsets.retention.minutes)"


@dataclass(frozen=True, slots=True)
class Expired:
    """What a decision has removed: producer ids, and offsets of groups."""

    producers: int = 0
    offsets: int = 0


def check_interval_ms(settings: Settings) -> int:
    shortest_ms = min(settings.integer("producer.id.expiration.ms"), offsets_retention_ms(settings))
    return min(CHECK_MS_MAX, shortest_ms // 4)


def expire(image: MetadataImage, now_ms: int) -> ControllerResult[Expired]:
    settings = image.settings()
    producers = _producers(image, now_ms - settings.integer("producer.id.expiration.ms"))
    minutes = settings.integer("offsets.retention.minutes")
    offsets = _offsets(image, now_ms - offsets_retention_ms(settings), minutes)
    return ControllerResult([*producers, *offsets], Expired(len(producers), len(offsets)))


def _producers(image: MetadataImage, since_ms: int) -> list[Record]:
    return [
        RemoveProducerRecord(
            producer_id=producer_id,
            producer_epoch=image.producers[producer_id],
            cause=f"producer {producer_id!r}: not renewed within producer.id.expiration.ms",
        )
        for producer_id, at_ms in image.producer_times.items()
        if at_ms < since_ms and not producer_id.startswith(WRITER_PREFIX)
    ]


def _offsets(image: MetadataImage, since_ms: int, minutes: int) -> list[Record]:
    """Return the records that remove what has expired; nothing of a group that has members."""
    return [
        OffsetCommitRecord(
            group=group,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=None,
            leader_epoch=None,
            cause=f"group {group!r} left {image.name_of(key)}: nothing saved for {minutes:,}"
            f" minutes{_UNSAVED}",
        )
        for (group, key), position in image.group_offsets.items()
        if position.saved_at_ms < since_ms and group not in image.consumer_groups
    ]


@dataclass(frozen=True, slots=True)
class TimeReset:
    """What a reset of the metadata's time found ahead of the clocks, and has begun to count anew:
    the newest time before, producer ids, and offsets of groups without members."""

    newest_ms: int
    now_ms: int
    producers: int = 0
    offsets: int = 0


def reset_time(image: MetadataImage, now_ms: int) -> ControllerResult[TimeReset]:
    """Decide that it is `now_ms`, and that clients whose last sign of life is later gave it now;
    nothing if no time is ahead by more than clocks may differ.

    What records are stamped with stays as it is. Members of groups renew their offsets themselves.
    """
    newest_ms, latest_ms = (
        image.newest_ms(),
        now_ms + image.settings().integer("clock.ahead.max.ms"),
    )
    if newest_ms <= latest_ms or image.cluster_id is None:
        return ControllerResult([], TimeReset(newest_ms, now_ms))
    cause = f"the time is reset by request: it was {newest_ms - now_ms} ms ahead"
    producers = [
        ProducerRecord(
            producer_id=producer_id,
            producer_epoch=image.producers[producer_id],
            renewed_at_ms=now_ms,
            cause=cause,
        )
        for producer_id, at_ms in image.producer_times.items()
        if at_ms > latest_ms
    ]
    offsets = [
        OffsetCommitRecord.again(group, key, place, renewed_at_ms=now_ms, cause=cause)
        for (group, key), place in image.group_offsets.items()
        if place.saved_at_ms > latest_ms and group not in image.consumer_groups
    ]
    says_time = ClusterRecord(cluster_id=image.cluster_id, cause=cause)
    done = TimeReset(newest_ms, now_ms, len(producers), len(offsets))
    return ControllerResult([says_time, *producers, *offsets], done)


def needs_renewal(image: MetadataImage, producer_id: str, now_ms: int) -> bool:
    """Return whether a run should renew its id now: half of the time is over."""
    half_ms = image.settings().integer("producer.id.expiration.ms") // 2
    renewed_at_ms = image.producer_times.get(producer_id)
    return renewed_at_ms is not None and is_renewal_due(image, renewed_at_ms, now_ms, half_ms)
