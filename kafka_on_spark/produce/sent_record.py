"""A record on its way from `send` to its answer, and what its topic allows of it.

A wrong record is refused in `send`. It is checked again before each try, until one may have
appended it: the topic's settings may have changed, and one wrong record must not fail the others.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Condition
from typing import Any, Final, NamedTuple, TypeVar

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
)
from kafka_on_spark.base.ids import TopicId
from kafka_on_spark.base.moments import EPOCH
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.produce.timestamp_limits import AFTER, BEFORE

T = TypeVar("T")

_RUNNING: Final = "RUNNING"


class SentFuture(Future[T]):
    """A future that runs from the start, so it can't be cancelled."""

    def __init__(self, condition: Condition) -> None:
        # Instead of `Future.__init__`, which makes a condition.
        self._condition = condition
        self._state = _RUNNING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: Any = ()

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have `fn` called with this future at its end; at once, if it has ended."""
        with self._condition:
            self._done_callbacks = self._done_callbacks or []
            super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> T:
        """Return the result; wait for it for at most `timeout` seconds.

        Raises:
            TimeoutError: There is none yet.
            And the error that the future has got.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or None; wait for it for at most `timeout` seconds.

        Raises:
            TimeoutError: There is neither a result nor an error yet.
        """
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait for this future: another one's end also wakes those that wait."""
        with self._condition:
            self._condition.wait_for(self.done, timeout)


class RecordMetadata(NamedTuple):
    """Where a record stands. A tuple is made sooner than another object.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset; None if an earlier try had appended it, and retention has
            removed it since.
        timestamp_us: The record's timestamp, µs since 1970 UTC; None if it is the time of an append
            that retention has removed.
    """

    topic: str
    partition: int
    offset: int | None
    timestamp_us: int | None

    @property
    def timestamp(self) -> datetime | None:
        """The record's timestamp."""
        if self.timestamp_us is None:
            return None
        return EPOCH + timedelta(microseconds=self.timestamp_us)


Headers = list[tuple[str, bytes | None]]

Callback = Callable[[RecordMetadata | None, Exception | None], object]
"""Called with where a record stands, or with why it does not."""


class SentRecord(SentFuture[RecordMetadata]):
    """One record that was sent, and the future of its answer: one object, because `send` makes one
    for each record, and the garbage collector visits it.

    Attributes:
        key: None for a keyless record.
        value: None for a tombstone.
        headers: Names and values; None without any.
        timestamp_us: Create time, µs since 1970 UTC.
        partition: As given; None: by key, or the sticky one.
        size_bytes: Of key, value and headers.
        deadline_ms: When it expires, on the monotonic clock.
        callback: Gets the answer, too.
    """

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_us: int,
        partition: int | None,
        size_bytes: int,
        callback: Callback | None,
        condition: Condition,
        deadline_ms: float = 0,
    ) -> None:
        super().__init__(condition)
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_us = timestamp_us
        self.partition = partition
        self.size_bytes = size_bytes
        self.deadline_ms = deadline_ms
        self.callback = callback

    def forget(self) -> None:
        """Let what was sent go, when no try will bring it again: a future may be kept for long."""
        self.key = self.value = self.headers = self.callback = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """What a topic allows of a record, by one image.

    Attributes:
        topic_id: Which topic of that name.
        partition_count: Its partitions.
        record_bytes_max: Source: max.message.bytes.
        before_max_ms: Source: message.timestamp.before.max.ms; None: the broker's clock counts.
        after_max_ms: Source: message.timestamp.after.max.ms; None likewise.
        needs_key: The topic is compacted (KIP-135). Source: cleanup.policy.
    """

    topic_id: TopicId
    partition_count: int
    record_bytes_max: int
    before_max_ms: int | None
    after_max_ms: int | None
    needs_key: bool

    def refusal(
        self,
        size_bytes: int,
        partition: int | None,
        timestamp_us: int,
        now_ms: int,
        *,
        has_key: bool,
    ) -> KafkaOnSparkError | None:
        """Return why a record is refused, or None."""
        if size_bytes > self.record_bytes_max:
            return MessageTooLargeError(
                f"a record has {size_bytes} bytes, more than"
                f" max.message.bytes={self.record_bytes_max}: make it smaller, or raise the topic's"
                " setting"
            )
        if partition is not None and not 0 <= partition < self.partition_count:
            return InvalidRecordError(
                f"invalid partition given with record: {partition} is not in the range"
                f" [0, {self.partition_count}); leave it out to have it chosen by key"
            )
        if self.needs_key and not has_key:
            return InvalidRecordError(
                "a record has no key, and its topic is compacted (cleanup.policy): give each record"
                " a key, or alter the setting"
            )
        if self.after_max_ms is None or self.before_max_ms is None:
            return None
        age_us = now_ms * 1000 - timestamp_us
        if -self.after_max_ms * 1000 <= age_us <= self.before_max_ms * 1000:
            return None
        setting, limit_ms = (
            (BEFORE, self.before_max_ms) if age_us > 0 else (AFTER, self.after_max_ms)
        )
        return InvalidTimestampError(
            f"a record's timestamp is {abs(age_us) // 1000} ms from now, and {setting} is"
            f" {limit_ms}: give it another, or set {setting}"
        )


def limits_of(image: MetadataImage, name: str) -> TopicLimits:
    """Return what a topic allows.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
    topic = image.topic(name)
    settings = image.settings(topic.topic_id)
    is_own = settings.text("message.timestamp.type") != "LogAppendTime"
    return TopicLimits(
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        record_bytes_max=settings.integer("max.message.bytes"),
        before_max_ms=settings.integer(BEFORE) if is_own else None,
        after_max_ms=settings.integer(AFTER) if is_own else None,
        needs_key=is_compacted(settings),
    )


def refused(
    limits: TopicLimits, records: Iterable[SentRecord], now_ms: int
) -> list[tuple[SentRecord, KafkaOnSparkError]]:
    """Return the records that `limits` refuse, and why."""
    found = []
    for each in records:
        why = limits.refusal(
            each.size_bytes,
            each.partition,
            each.timestamp_us,
            now_ms,
            has_key=each.key is not None,
        )
        if why is not None:
            found.append((each, why))
    return found
