"""A producer's records from `send` to their answer: its settings, what topics allow, what gathers,
what is tried, and what waits behind that.

Apart from the threads that send (sender.py), and without a lock or a clock: they have both.

What gathers while an append is under way goes with the next one. What a try refuses, or leaves of
unknown outcome, is tried again under the same sequence, so that what an earlier try has appended is
found. As long as no try may have appended a partition's records, those that expire, or that their
topic does not allow any more, are left out of the next one. Afterwards all of them stay in it: a
retry must bring the same records. Meanwhile its partition is muted: a later append that lands first
would make them fail. What is sent to it waits, and goes with the first append afterwards; the other
partitions go on.

Source: org.apache.kafka.clients.producer.internals.RecordAccumulator.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_on_spark.base.config import check_acks
from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    DuplicateSequenceError,
    InvalidConfigError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordExpiredError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import EPOCH, PartitionKey, TopicId, check_whole_number
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.metadata.image import MetadataImage

if TYPE_CHECKING:
    from kafka_on_spark.produce.appender import AppendPart

LINGER_MS: Final = 5
BATCH_SIZE: Final = 2**20
"""Kafka's is 16 KiB: there a batch of one partition is a request's, here an append has a commit for
each partition."""
BUFFER_MEMORY: Final = 32 * 2**20
MAX_BLOCK_MS: Final = 60_000

RECORD_OVERHEAD_BYTES: Final = 70
"""Counted for each record besides its key, value and headers. Source: at most what Kafka counts
(DefaultRecordBatch and DefaultRecord.MAX_RECORD_OVERHEAD)."""

TRY_MS_MIN: Final = 1_000
"""A try that is cut off says less than one that ends."""

TRY_MS_MAX: Final = 30_000
"""Answers of a try come together. Source: Kafka's default of request.timeout.ms."""

SILENT_MS: Final = 2_000
"""So long something is tried before people are told why it takes longer."""

_BEFORE: Final = "message.timestamp.before.max.ms"
_AFTER: Final = "message.timestamp.after.max.ms"

_UNKNOWN: Final = (
    CommitOutcomeUnknownError,
    NotEnoughReplicasAfterAppendError,
    RequestTimedOutError,
)
_RUN_IS_LOST: Final = (DuplicateSequenceError, OutOfOrderSequenceError, ProducerFencedError)
"""None of them befalls a producer whose id is its own: the next append takes another id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends. Source: org.apache.kafka.clients.producer.ProducerConfig.

    Attributes:
        acks: "all" or "1".
        linger_ms: How long records gather before an append begins. Source: linger.ms.
        batch_size: Bytes a partition that begin it earlier. Source: batch.size.
        buffer_memory: Bytes of all records without an answer. Source: buffer.memory.
        max_block_ms: How long `send` waits for room in it. Source: max.block.ms.
        delivery_timeout_ms: From a record's send to its answer. Source: delivery.timeout.ms.
    """

    acks: str
    linger_ms: int
    batch_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int


def producer_settings(
    *, acks: str | int, max_in_flight: int, transactional_id: str | None, **numbers: int
) -> ProducerSettings:
    """Return the settings of a producer, checked."""
    acks = check_acks(acks)
    if acks == "0":
        raise InvalidConfigError(
            "acks=0 waits for no answer, and a producer's futures are answers: give 'all' or 1"
        )
    if transactional_id is not None:
        raise InvalidConfigError(
            "transactional_id is not allowed: there are no transactions yet; leave it out, and the"
            " producer is idempotent"
        )
    check_whole_number(max_in_flight, "max_in_flight_requests_per_connection")
    if max_in_flight != 1:
        raise InvalidConfigError(
            f"max_in_flight_requests_per_connection can't be {max_in_flight}: a partition has one"
            " append under way at a time, because sequences count appends, and a later one that"
            " lands first makes the earlier one fail with an OutOfOrderSequenceError; give 1. What"
            " gathers meanwhile goes with the next append"
        )
    for name, value in numbers.items():
        check_whole_number(value, name)
        least = 1 if name in ("buffer_memory", "delivery_timeout_ms") else 0
        if value < least:
            raise InvalidConfigError(f"{name} can't be {value}: give {least} or more")
    settings = ProducerSettings(acks=acks, **numbers)
    if settings.delivery_timeout_ms < settings.linger_ms:
        raise InvalidConfigError(
            f"delivery_timeout_ms {settings.delivery_timeout_ms} is less than linger_ms"
            f" {settings.linger_ms}: records would expire while they gather; give more"
        )
    return settings


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


class SentRecord(Future[RecordMetadata]):
    """One record that was sent, and the future of its answer: one object, because `send` makes one
    for each record, and the garbage collector visits it. It runs from the start, so it can't be
    cancelled.

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
        callback: Callback | None,
        condition: Condition,
    ) -> None:
        # Instead of `Future.__init__`, which makes a condition.
        self._condition = condition
        self._state = "RUNNING"
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks: Any = ()
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_us = timestamp_us
        self.partition = partition
        self.size_bytes = (0 if key is None else len(key)) + (0 if value is None else len(value))
        if headers is not None:
            for name, content in headers:
                self.size_bytes += len(name.encode()) + len(content or b"")
        self.deadline_ms = 0.0
        self.callback = callback

    def forget(self) -> None:
        """Let what was sent go, when no try will bring it again: a future may be kept for long."""
        self.key = self.value = self.headers = self.callback = None

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Have `fn` called with this future at its end; at once, if it has ended."""
        with self._condition:
            self._done_callbacks = self._done_callbacks or []
            super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """What a topic allows of a record, by one image.

    Attributes:
        topic_id: Which topic of that name.
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

    def refusal(self, record: SentRecord, now_ms: int) -> KafkaOnSparkError | None:
        """Return why a record is refused, or None."""
        size_bytes, partition = record.size_bytes, record.partition
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
        if self.needs_key and record.key is None:
            return InvalidRecordError(
                "a record has no key, and its topic is compacted (cleanup.policy): give each record"
                " a key, or alter the setting"
            )
        if self.after_max_ms is None or self.before_max_ms is None:
            return None
        age_us = now_ms * 1000 - record.timestamp_us
        if -self.after_max_ms * 1000 <= age_us <= self.before_max_ms * 1000:
            return None
        setting, limit_ms = (
            (_BEFORE, self.before_max_ms) if age_us > 0 else (_AFTER, self.after_max_ms)
        )
        return InvalidTimestampError(
            f"a record's timestamp is {abs(age_us) // 1000} ms from now, and {setting} is"
            f" {limit_ms}: give it another, or set {setting}"
        )


def limits_of(image: MetadataImage, name: str) -> TopicLimits:
    """Return what a topic allows."""
    topic = image.topic(name)
    settings = image.settings(topic.topic_id)
    is_own = settings.text("message.timestamp.type") != "LogAppendTime"
    return TopicLimits(
        topic_id=topic.topic_id,
        partition_count=len(topic.partitions),
        record_bytes_max=settings.integer("max.message.bytes"),
        before_max_ms=settings.integer(_BEFORE) if is_own else None,
        after_max_ms=settings.integer(_AFTER) if is_own else None,
        needs_key=is_compacted(settings),
    )


class Accumulator:
    """Records that wait for the next append, and the memory of all without an answer.

    Attributes:
        waiting_count: Sends that wait for room: a reason to send at once.
        used_bytes: Of buffer.memory.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        self._linger_ms = settings.linger_ms
        self._buffer_memory = settings.buffer_memory
        self.waiting_count = 0
        self.used_bytes = 0
        self._clear()

    def _clear(self) -> None:
        self._topics: dict[str, list[SentRecord]] = {}
        self._bytes: dict[str, int] = {}
        self._since_ms: float | None = None
        self._is_full = False
        self._is_asked_for = False

    @property
    def records(self) -> Iterator[SentRecord]:
        """The records that wait."""
        return chain.from_iterable(self._topics.values())

    def fits(self, size_bytes: int) -> bool:
        """Return whether a record of that size has room once all others are gone."""
        return size_bytes + RECORD_OVERHEAD_BYTES <= self._buffer_memory

    def has_room(self, size_bytes: int) -> bool:
        """Return whether a record of that size has room now."""
        return self.used_bytes + size_bytes + RECORD_OVERHEAD_BYTES <= self._buffer_memory

    def add(self, topic: str, record: SentRecord, now_ms: float, full_bytes: int) -> bool:
        """Take a record; return whether `due_at_ms` has changed.

        `full_bytes`: with so many of the topic, the append begins before linger.ms is over.
        """
        held = held_bytes(record)
        self.used_bytes += held
        if topic in self._topics:
            self._topics[topic].append(record)
            self._bytes[topic] += held
        else:
            self._topics[topic] = [record]
            self._bytes[topic] = held
        is_first = self._since_ms is None
        if is_first:
            self._since_ms = now_ms
        if self._is_full or self._bytes[topic] < full_bytes:
            return is_first
        self._is_full = True
        return True

    def flush(self) -> None:
        """Have all that waits sent at once."""
        self._is_asked_for = self._since_ms is not None

    def due_at_ms(self) -> float | None:
        """Return from when on the next append is due; None: nothing waits."""
        if self._since_ms is None:
            return None
        is_due = self._is_full or self.waiting_count or self._is_asked_for
        return self._since_ms if is_due else self._since_ms + self._linger_ms

    def take(self) -> dict[str, list[SentRecord]]:
        """Return all that waits, for one append, by topic name and in the order of their sends.
        Its memory stays in use until `release`."""
        topics = self._topics
        self._clear()
        return topics

    def release(self, held_bytes: int) -> None:
        """Give memory back, of records that have an answer."""
        self.used_bytes -= held_bytes
        assert self.used_bytes >= 0, self.used_bytes

    def expire(self, now_ms: float) -> dict[str, list[SentRecord]]:
        """Return the records that wait beyond their deadlines, and let them wait no longer.

        Deadlines rise in the order of sends: those that have passed are the first of each topic.
        """
        expired: dict[str, list[SentRecord]] = {}
        for topic, records in list(self._topics.items()):
            count = expired_count(records, now_ms)
            if not count:
                continue
            expired[topic] = records[:count]
            self._topics[topic] = records[count:]
            self._bytes[topic] -= sum(map(held_bytes, expired[topic]))
            if count == len(records):
                del self._topics[topic], self._bytes[topic]
        if not self._topics:
            self._clear()
        return expired


def held_bytes(record: SentRecord) -> int:
    """Return what a record takes of buffer.memory, until it has an answer."""
    return record.size_bytes + RECORD_OVERHEAD_BYTES


def expired_count(records: list[SentRecord], now_ms: float, start: int = 0) -> int:
    """Return how many records from `start` on are beyond their deadlines, which rise."""
    end = start
    while end < len(records) and records[end].deadline_ms <= now_ms:
        end += 1
    return end - start


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of some of a partition's records, in the order of their sends.

    Attributes:
        partition: None if none was chosen.
        base_offset: Offset of the first; None with an error, or if retention has removed them.
        append_time_ms: Their timestamp, where the time of the append counts.
        error: Why they are not acknowledged, or None.
    """

    topic: str
    partition: int | None
    records: Sequence[SentRecord]
    base_offset: int | None = None
    append_time_ms: int | None = None
    error: Exception | None = None


class AppendNumber(NamedTuple):
    """Which append of a producer it is: all tries of it have the same number."""

    producer_id: str
    sequence: int


Refusals = Mapping[PartitionKey, Sequence[tuple[SentRecord, KafkaOnSparkError]]]
"""Records that their topics do not allow, and why."""


@dataclass(slots=True)
class SlowWord:
    """What people are told, once, of an append that takes longer than two seconds."""

    began_ms: float
    is_said: bool = False

    def until_ms(self, end_ms: float) -> float:
        """Return when a try must end whose error may be said in time; it all ends at `end_ms`."""
        return end_ms if self.is_said else min(end_ms, self.began_ms + SILENT_MS)

    def say(self, now_ms: float, end_ms: float, error: KafkaOnSparkError) -> str | None:
        """Return why it is still tried, and for how long, if that is to be said now."""
        if self.is_said or now_ms - self.began_ms < SILENT_MS:
            return None
        self.is_said = True
        return f"tries for {max(end_ms - now_ms, 0) // 1000:.0f} s more: {error}"


@dataclass(slots=True)
class PendingPart:
    """One partition's records in an append.

    Attributes:
        records: What each try brings.
        answered_count: The first ones that have an answer already: they have expired.
        may_be_appended: A try may have appended them.
        last_error: Of the last try.
        behind: Later records that wait for their answer, in the order of their sends.
    """

    topic: str
    key: PartitionKey
    number: AppendNumber
    records: list[SentRecord]
    answered_count: int = 0
    may_be_appended: bool = False
    last_error: KafkaOnSparkError | None = None
    behind: list[SentRecord] = field(default_factory=list)

    @property
    def unanswered(self) -> list[SentRecord]:
        """The records without an answer."""
        return self.records[self.answered_count :]

    @property
    def name(self) -> str:
        """Topic and number, for people."""
        return f"{self.topic}-{self.key.partition}"

    def failed(self, error: Exception, records: Sequence[SentRecord] | None = None) -> Outcome:
        """Return the outcome of some records, all by default, that fail with `error`."""
        return Outcome(
            topic=self.topic,
            partition=self.key.partition,
            records=self.unanswered if records is None else records,
            error=error,
        )


class Delivery:
    """Partitions that are tried together and have no answer yet.

    Attributes:
        lost_runs: The producer ids under which nothing more can be appended.
        slow: What is said of it, from the first retry on.
    """

    def __init__(self, parts: Iterable[PendingPart] = ()) -> None:
        self.lost_runs: set[str] = set()
        self._parts = {each.key: each for each in parts}
        self._taken = set(self._parts)
        self.slow: SlowWord | None = None

    def take_answered(self) -> set[PartitionKey]:
        """Return the partitions that have had their answers since this was last asked."""
        answered = self._taken - self._parts.keys()
        self._taken -= answered
        return answered

    @property
    def parts(self) -> list[PendingPart]:
        """The partitions without an answer, in the order in which they came."""
        return list(self._parts.values())

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """Which partitions these are."""
        return frozenset(self._parts)

    def left_ms(self, now_ms: float) -> float:
        """Return how long it is until the next record expires; there is one."""
        first = min(each.records[each.answered_count].deadline_ms for each in self.parts)
        return max(first - now_ms, 0)

    def try_ms(self, now_ms: float) -> int:
        """Return how long the next try may take: until the next record expires, within bounds.

        Not only until it is to be said why it takes long, which counts from the first call: a try
        that is cut short while a root hangs begins the next one at nothing.
        """
        self.slow = self.slow or SlowWord(now_ms)
        return int(min(max(self.left_ms(now_ms), TRY_MS_MIN), TRY_MS_MAX))

    def slow_word(self, now_ms: float) -> str | None:
        """Return why these partitions have no answer yet, if that is to be said now."""
        for part in self.parts:
            if part.last_error is not None and self.slow is not None:
                end_ms = max(each.records[-1].deadline_ms for each in self.parts)
                word = self.slow.say(now_ms, end_ms, part.last_error)
                more = f" (and {len(self._parts) - 1} more)" if len(self._parts) > 1 else ""
                return word and f"{part.name}{more}: {word}"
        return None

    def expire(self, now_ms: float) -> list[Outcome]:
        """Return the outcomes of records beyond their deadlines."""
        outcomes = []
        for part in self.parts:
            start = part.answered_count
            end = start + expired_count(part.records, now_ms, start)
            if end == start:
                continue
            outcomes.append(part.failed(_expired(part), part.records[start:end]))
            if end == len(part.records):
                del self._parts[part.key]
            elif part.may_be_appended:
                part.answered_count = end
            else:
                part.records = part.records[end:]
        return outcomes

    def refusals(self, limits: Mapping[TopicId, TopicLimits], now_ms: int) -> Refusals:
        """Return the records that `limits` do not allow, and that no try may have appended."""
        found: dict[PartitionKey, list[tuple[SentRecord, KafkaOnSparkError]]] = {}
        for part in self.parts:
            of_topic = limits.get(part.key.topic_id)
            if of_topic is None or part.may_be_appended:
                continue
            for record in part.records:
                why = of_topic.refusal(record, now_ms)
                if why is not None:
                    found.setdefault(part.key, []).append((record, why))
        return found

    def leave_out(self, refusals: Refusals) -> list[Outcome]:
        """Leave records out of the next try; return their outcomes."""
        outcomes = []
        for key, found in refusals.items():
            part, wrong = self._parts[key], {record for record, _ in found}
            outcomes += [part.failed(error, [record]) for record, error in found]
            part.records = [each for each in part.records if each not in wrong]
            if not part.records:
                del self._parts[key]
        return outcomes

    def answer(self, appended: "AppendPart") -> list[Outcome]:
        """Take a partition's answer of a try; return what is settled by it."""
        part, error = self._parts[appended.key], appended.error
        if error is not None:
            return self.fail([part], error, may_be_appended=may_stand(error))
        del self._parts[part.key]
        base = appended.base_offset
        return [
            Outcome(
                topic=part.topic,
                partition=part.key.partition,
                records=part.unanswered,
                base_offset=None if base is None else base + part.answered_count,
                append_time_ms=appended.append_time_ms,
            )
        ]

    def fail(
        self, parts: Iterable[PendingPart], error: KafkaOnSparkError, *, may_be_appended: bool
    ) -> list[Outcome]:
        """Take a try's error for `parts`; return what is settled by it.

        `may_be_appended`: this try may have appended their records.
        """
        outcomes = []
        for part in parts:
            if part.key not in self._parts:
                continue  # settled by another error of the same try
            part.last_error = error
            part.may_be_appended = part.may_be_appended or may_be_appended
            if not is_passing(error):
                del self._parts[part.key]
                outcomes.append(part.failed(_refusal(part, error)))
            if isinstance(error, _RUN_IS_LOST):
                self.lost_runs.add(part.number.producer_id)
        return outcomes

    def give_up(self, error: Exception) -> list[Outcome]:
        """Return the outcomes of all records if no more tries are made, because of `error`."""
        outcomes = [each.failed(error) for each in self.parts]
        self._parts.clear()
        return outcomes


def is_passing(error: KafkaOnSparkError) -> bool:
    """Return whether another try of the same append may succeed. So it may where a root denies: it
    may be mounted for writing again, and records that were sent are not to be dropped."""
    return error.is_retriable or isinstance(error, (*_UNKNOWN, RootAccessDeniedError))


def may_stand(error: KafkaOnSparkError) -> bool:
    """Return whether what failed with an error of the append itself may be in the log."""
    return isinstance(error, _UNKNOWN) or bool(error.context.get("may_be_committed"))


def _refusal(part: PendingPart, error: KafkaOnSparkError) -> KafkaOnSparkError:
    """Return `error`, which says so if an earlier try may have appended the part."""
    if not part.may_be_appended or error.context.get("may_be_committed"):
        return error
    words = f"{error.message}; a try of this append may be committed"
    return type(error)(words, **{**error.context, "may_be_committed": True})


def _expired(part: PendingPart) -> KafkaOnSparkError:
    why = "" if part.last_error is None else f" ({part.last_error})"
    if not part.may_be_appended:
        return expired_error(part.name, why)
    return RequestTimedOutError(
        f"a record for {part.name} was not acknowledged within"
        f" delivery.timeout.ms{why}; whether it will be committed is unknown: read the topic"
        " before you send it again"
    )


def expired_error(where: str, why: str = "") -> RecordExpiredError:
    """Return the error of a record that no try has appended in time."""
    return RecordExpiredError(
        f"a record for {where} was not appended within delivery.timeout.ms{why}: send it again, or"
        " give more time"
    )


class MutedPartitions:
    """The partitions that a producer tries again, and the records that wait behind them.

    Source: org.apache.kafka.clients.producer.internals.RecordAccumulator.mutePartition.
    """

    def __init__(self) -> None:
        self._muted: dict[PartitionKey, PendingPart] = {}
        self._released: dict[PartitionKey, tuple[str, list[SentRecord]]] = {}

    @property
    def keys(self) -> frozenset[PartitionKey]:
        """The muted partitions."""
        return frozenset(self._muted)

    @property
    def is_empty(self) -> bool:
        """Whether no partition is muted, and nothing has waited behind one."""
        return not self._muted and not self._released

    @property
    def has_released(self) -> bool:
        """Whether records that have waited may be sent now."""
        return bool(self._released)

    @property
    def tried(self) -> list[PendingPart]:
        """What is tried again."""
        return list(self._muted.values())

    @property
    def waiting(self) -> Iterator[tuple[str, list[SentRecord]]]:
        """The records that no append has, by topic name."""
        behind = ((each.topic, each.behind) for each in self._muted.values())
        return chain(behind, self._released.values())

    def mute(self, parts: Iterable[PendingPart]) -> None:
        """Have later records of these partitions wait."""
        for each in parts:
            assert each.key not in self._muted, each.key
            self._muted[each.key] = each

    def unmute(self, keys: Iterable[PartitionKey]) -> None:
        """Have what waits behind these partitions sent with the next append."""
        for key in keys:
            part = self._muted.pop(key)
            if part.behind:
                self._released[key] = (part.topic, part.behind)

    def join(self, parts: Iterable[PendingPart], number: AppendNumber) -> list[PendingPart]:
        """Return what the append `number`, which is about to begin, tries.

        Records of `parts` whose partitions are muted wait from now on. Those that have waited, and
        need not any more, go with it, before later ones.
        """
        released, self._released = self._released, {}
        tried = []
        for part in parts:
            muted = self._muted.get(part.key)
            if muted is not None:
                muted.behind += part.records
                continue
            _, before = released.pop(part.key, (part.topic, []))
            part.records = before + part.records
            tried.append(part)
        later = [
            PendingPart(topic=topic, key=key, number=number, records=records)
            for key, (topic, records) in released.items()
        ]
        return tried + later

    def expire(self, keys: Iterable[PartitionKey], now_ms: float) -> list[Outcome]:
        """Return the outcomes of records that wait behind these partitions beyond their deadlines.

        Only what tries a partition asks: its records are earlier, and have their answers first.
        """
        outcomes = []
        for key in keys:
            part = self._muted[key]
            count = expired_count(part.behind, now_ms)
            if not count:
                continue
            expired, part.behind = part.behind[:count], part.behind[count:]
            last = "" if part.last_error is None else f": {part.last_error}"
            why = f" (an earlier append to the partition has no answer yet{last})"
            outcomes.append(part.failed(expired_error(part.name, why), expired))
        return outcomes
