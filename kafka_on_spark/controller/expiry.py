"""Expiry: producer ids that no run renews, and groups' offsets that nobody saves again, go.

Each is a decision in the metadata log, with its cause. So all processes agree on which producers
are known, and a retry of one that has expired is refused, never appended a second time. Clocks say
only when to decide. Writers under a transactional id have no sequences, and stay.
"""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.log.batch import WRITER_PREFIX
from kafka_on_spark.log.producers import RegisteredProducers
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    OffsetCommitRecord,
    ProducerRecord,
    Record,
    RemoveProducerRecord,
)
from kafka_on_spark.metadata.result import ControllerResult

MINUTE_MS: Final = 60_000
"""The unit of offsets.retention.minutes."""

_UNSAVED: Final = " (offsets.retention.minutes)"


@dataclass(frozen=True, slots=True)
class Expired:
    """What a decision has removed: producer ids, and offsets of groups."""

    producers: int = 0
    offsets: int = 0


def expire(image: MetadataImage, now_ms: int) -> ControllerResult[Expired]:
    """Decide which producer ids and which groups' offsets have expired by `now_ms`."""
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
        for (group, key), position in image.groups.items()
        if position.saved_at_ms < since_ms and group not in image.consumer_groups
    ]


@dataclass(frozen=True, slots=True)
class TimeReset:
    """What a reset of the metadata's time found ahead of the clocks, and has begun to count anew.

    Attributes:
        newest_ms: The newest time in the metadata before.
        now_ms: What time it is.
        producers: Producer ids.
        offsets: Offsets of groups without members.
    """

    newest_ms: int
    now_ms: int
    producers: int = 0
    offsets: int = 0


def reset_time(image: MetadataImage, now_ms: int) -> ControllerResult[TimeReset]:
    """Decide that it is `now_ms`, and that clients that were heard of later were heard of now;
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
        for (group, key), place in image.groups.items()
        if place.saved_at_ms > latest_ms and group not in image.consumer_groups
    ]
    says_time = ClusterRecord(cluster_id=image.cluster_id, cause=cause)
    done = TimeReset(newest_ms, now_ms, len(producers), len(offsets))
    return ControllerResult([says_time, *producers, *offsets], done)


def needs_renewal(image: MetadataImage, producer_id: str, now_ms: int) -> bool:
    """Return whether a run should renew its id now: half of the time is over."""
    half_ms = image.settings().integer("producer.id.expiration.ms") // 2
    renewed_at_ms = image.producer_times.get(producer_id)
    return renewed_at_ms is not None and _is_to_be_said_again(image, renewed_at_ms, now_ms, half_ms)


def _is_to_be_said_again(image: MetadataImage, said_at_ms: int, now_ms: int, after_ms: int) -> bool:
    """Return whether what a client said is older than `after_ms`, by the clock of its process or by
    the newest commit: the log may have gone on since the process looked at its clock. What was said
    by a clock that was far ahead is to be said again, too."""
    return max(image.time_ms, now_ms) - said_at_ms >= after_ms or said_at_ms - now_ms >= after_ms


def offsets_retention_ms(settings: Settings) -> int:
    """Return how long a group's offset stays that nobody saves again."""
    return settings.integer("offsets.retention.minutes") * MINUTE_MS


def needs_saving_again(image: MetadataImage, known: GroupOffset | None, now_ms: int) -> bool:
    """Return whether half of the time is over after which a saved offset expires."""
    half_ms = offsets_retention_ms(image.settings()) // 2
    return known is not None and _is_to_be_said_again(image, known.saved_at_ms, now_ms, half_ms)


def registered_producers(image: MetadataImage) -> RegisteredProducers | None:
    """Return which producer ids have not expired; None: none ever has."""
    if image.expired_epoch < 0:
        return None
    return RegisteredProducers(ids=image.producers, expired_epoch=image.expired_epoch)
