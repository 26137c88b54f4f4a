"""A producer's records from `send` to their answer: its settings, what gathers, what is tried, and
what waits behind that.

Apart from the threads that send (sender.py), and without a lock or a clock: they have both.

What a try refuses, or leaves of unknown outcome, is tried again under the same sequence, so that
what an earlier try has appended is found. As long as no try may have appended a partition's
records, those that expire, or that their topic does not allow any more, are left out of the next
one; afterwards a retry must bring the same records. Meanwhile its partition is muted: a later
append that lands first would make them fail. What is sent to it waits, and goes with the first
append afterwards.

Source: org.apache.kafka.clients.producer.internals.RecordAccumulator.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_on_spark.base.config import check_acks
from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidConfigError,
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    RecordExpiredError,
    RequestTimedOutError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import EPOCH, PartitionKey, TopicId, check_whole_number
from kafka_on_spark.produce.records import TopicLimits, no_such_partition, too_large

if TYPE_CHECKING:
    from kafka_on_spark.produce.leader_log import PartitionBatch

log = logging.getLogger(__name__)

LINGER_MS: Final = 5
BATCH_SIZE: Final = 2**20
"""Kafka's is 16 KiB: there a batch of one partition is a request's, here an append has a commit for
each partition."""
BUFFER_MEMORY: Final = 32 * 2**20
MAX_BLOCK_MS: Final = 60_000

RECORD_OVERHEAD_BYTES: Final = 70
"""What a record without an answer takes of buffer.memory besides its `size_bytes`. Source: at most
what Kafka counts (DefaultRecordBatch and DefaultRecord.MAX_RECORD_OVERHEAD)."""

TRY_MS_MIN: Final = 1_000
"""A try that is cut off says less than one that ends."""

TRY_MS_MAX: Final = 30_000
"""Answers of a try come together. Source: Kafka's default of request.timeout.ms."""

_UNKNOWN: Final = (
    CommitOutcomeUnknownError,
    NotEnoughReplicasAfterAppendError,
    RequestTimedOutError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a producer sends. Source: org.apache.kafka.clients.producer.ProducerConfig."""

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
        partition: As given; None: by key, or the sticky one.
        size_bytes: Of key, value and headers.
        deadline_ms: When it expires, on the monotonic clock.
        is_gathered: The accumulator has it, or had it.
    """

    def __init__(
        self,
        topic: str,
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
        self.topic = topic
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
        self.is_gathered = False
        self.callback = callback

    def refusal(self, limits: TopicLimits, now_ms: int) -> KafkaOnSparkError | None:
        """Return why its topic does not allow it, or None. `send` and each try ask this of each
        record, so an error's own function is called only if there is one."""
        if self.size_bytes > limits.record_bytes_max:
            return too_large(self.size_bytes, limits.record_bytes_max)
        if self.partition is not None and not 0 <= self.partition < limits.partition_count:
            return no_such_partition(self.partition, limits.partition_count)
        if self.key is None and limits.needs_key:
            return limits.lacks_key()
        return limits.time_refusal(self.timestamp_us, now_ms)

    def answer(self, metadata: RecordMetadata | None, error: Exception | None) -> bool:
        """Take the answer, and give it to the callback; return False if there is one, because
        `close` has cut the record off.

        Callbacks may raise what they want, SystemExit too: it is their fault, and other records go
        on.
        """
        try:
            if metadata is None:
                self.set_exception(error)
            else:
                self.set_result(metadata)
        except InvalidStateError:
            return False
        except BaseException:
            log.exception("a callback of a future of a record for %s failed", self.topic)
        if self.callback is not None:
            try:
                self.callback(metadata, error)
            except BaseException:
                log.exception("a callback of a record for %s failed", self.topic)
        if error is None:
            # No try brings it again, and a future may be kept for long.
            self.key = self.value = self.headers = self.callback = None
        return True

    def add_done_callback(self, fn: Callable[[Future[RecordMetadata]], object]) -> None:
        """Have `fn` called with this future at its end; at once, if it has ended."""
        with self._condition:
            self._done_callbacks = self._done_callbacks or []
            super().add_done_callback(fn)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the result; wait for it for at most `timeout` seconds, or raise TimeoutError;
        raise the error that the future has got."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error, or None; wait for an answer for at most `timeout` seconds, or raise
        TimeoutError."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait for this future: another one's end also wakes those that wait."""
        with self._condition:
            self._condition.wait_for(self.done, timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of some of a partition's records, or of a topic's, in the order of their sends.

    Attributes:
        partition: None if none was chosen.
        base_offset: Offset of the first; None with an error, or if retention has removed them.
        append_time_ms: Their timestamp, where the time of the append counts.
    """

    records: Sequence[SentRecord]
    partition: int | None = None
    base_offset: int | None = None
    append_time_ms: int | None = None
    error: Exception | None = None

    def tell(self) -> int:
        """Give futures and callbacks their answers; return how many bytes of buffer.memory the
        records held. A record that has an answer already keeps it, and counts 0."""
        held, base, append_ms = 0, self.base_offset, self.append_time_ms
        for place, record in enumerate(self.records):
            metadata = None
            if self.error is None:
                assert self.partition is not None, "what stands has a partition"
                metadata = RecordMetadata(
                    record.topic,
                    self.partition,
                    None if base is None else base + place,
                    record.timestamp_us if append_ms is None else append_ms * 1000,
                )
            # A copy, since an error that is raised twice collects both tracebacks.
            if record.answer(metadata, self.error and copy(self.error)):
                held += record.size_bytes + RECORD_OVERHEAD_BYTES
        return held


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
        self._topics: defaultdict[str, list[SentRecord]] = defaultdict(list)
        self._bytes: defaultdict[str, int] = defaultdict(int)
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

    def add(self, record: SentRecord, now_ms: float, full_bytes: int) -> bool:
        """Take a record; return whether `due_at_ms` may have changed. One that it has it does not
        take again.

        `full_bytes`: with so many of the topic, the append begins before linger.ms is over.

        An interrupt comes before a record is taken or after it: Python handles signals where a
        call returns, and between these statements there is none.
        """
        if record.is_gathered:
            return True
        topic, held = record.topic, record.size_bytes + RECORD_OVERHEAD_BYTES
        records = self._topics[topic]
        is_first = self._since_ms is None
        record.is_gathered = True
        records += [record]
        self.used_bytes += held
        self._bytes[topic] += held
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

    def expire(self, now_ms: float) -> list[Outcome]:
        """Return the outcomes of records that wait beyond their deadlines; they wait no longer.

        Deadlines rise in the order of sends, but for moments between two threads: those that have
        passed are the first of each topic.
        """
        outcomes = []
        for topic, records in list(self._topics.items()):
            count = expired_count(records, now_ms)
            if not count:
                continue
            error = _expired_error(topic, " (an earlier append was still under way)")
            outcomes.append(Outcome(records=records[:count], error=error))
            self._topics[topic] = records[count:]
            for record in records[:count]:
                self._bytes[topic] -= record.size_bytes + RECORD_OVERHEAD_BYTES
            if count == len(records):
                del self._topics[topic], self._bytes[topic]
        if not self._topics:
            self._clear()
        return outcomes


def expired_count(records: list[SentRecord], now_ms: float, start: int = 0) -> int:
    """Return how many records from `start` on are beyond their deadlines, which rise."""
    end = start
    while end < len(records) and records[end].deadline_ms <= now_ms:
        end += 1
    return end - start


@dataclass(slots=True)
class ProducerBatch:
    """One partition's records in an append.

    Source: org.apache.kafka.clients.producer.internals.ProducerBatch.

    Attributes:
        sequence: Which append of its producer it is: all tries of it have the same number.
        answered_count: The first ones that have an answer already: they have expired.
        may_be_appended: A try may have appended them.
        behind: Later records that wait for their answer, in the order of their sends.
    """

    topic: str
    key: PartitionKey
    sequence: int
    records: list[SentRecord]
    answered_count: int = 0
    may_be_appended: bool = False
    last_error: KafkaOnSparkError | None = None
    behind: list[SentRecord] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Topic and number, for people."""
        return f"{self.topic}-{self.key.partition}"


class Delivery:
    """Batches that are tried together, until all have an answer.

    Attributes:
        batches: Those without an answer, by partition, in the order in which they came.
        is_retried: The first try was made by another delivery.
    """

    def __init__(self, batches: Iterable[ProducerBatch] = (), *, is_retried: bool = False) -> None:
        self.batches = {each.key: each for each in batches}
        self.is_retried = is_retried
        self._outcomes: list[Outcome] = []
        self._answered: list[ProducerBatch] = []

    def take_outcomes(self) -> tuple[list[Outcome], list[ProducerBatch]]:
        """Return what became of records, and the batches all of whose records have an answer, since
        this was last asked."""
        taken = self._outcomes, self._answered
        self._outcomes, self._answered = [], []
        return taken

    def left_ms(self, now_ms: float) -> float:
        """Return how long it is until the next record expires; there is one."""
        first = min(each.records[each.answered_count].deadline_ms for each in self.batches.values())
        return max(first - now_ms, 0)

    def try_ms(self, now_ms: float) -> int:
        """Return how long the next try may take: until the next record expires, within bounds."""
        return int(min(max(self.left_ms(now_ms), TRY_MS_MIN), TRY_MS_MAX))

    def expire(self, now_ms: float) -> None:
        """Answer records beyond their deadlines, and those that wait behind them: these are later,
        and have their answers afterwards."""
        for batch in list(self.batches.values()):
            start = batch.answered_count
            end = start + expired_count(batch.records, now_ms, start)
            if end > start:
                self._fail(batch, batch.records[start:end], _expired(batch))
                if end == len(batch.records):
                    self._leave(batch)
                elif batch.may_be_appended:
                    batch.answered_count = end
                else:
                    batch.records = batch.records[end:]
            count = expired_count(batch.behind, now_ms)
            if count:
                expired, batch.behind = batch.behind[:count], batch.behind[count:]
                last = "" if batch.last_error is None else f": {batch.last_error}"
                why = f" (an earlier append to the partition has no answer yet{last})"
                self._fail(batch, expired, _expired_error(batch.name, why))

    def leave_out(self, limits: Mapping[TopicId, TopicLimits], now_ms: int) -> None:
        """Refuse the records that `limits` do not allow, and that no try may have appended."""
        for batch in list(self.batches.values()):
            of_topic = limits.get(batch.key.topic_id)
            if of_topic is None or batch.may_be_appended:
                continue
            refused = {
                record: why
                for record in batch.records
                if (why := record.refusal(of_topic, now_ms)) is not None
            }
            for record, why in refused.items():
                self._fail(batch, [record], why)
            if refused:
                batch.records = [each for each in batch.records if each not in refused]
            if not batch.records:
                self._leave(batch)

    def answer(self, appended: "PartitionBatch") -> None:
        """Take a partition's answer of a try."""
        batch = self.batches[appended.key]
        if appended.error is not None:
            self.fail([batch], appended.error, may_be_appended=may_stand(appended.error))
            return
        base = appended.base_offset
        outcome = Outcome(
            partition=batch.key.partition,
            records=batch.records[batch.answered_count :],
            base_offset=None if base is None else base + batch.answered_count,
            append_time_ms=appended.append_time_ms,
        )
        self._outcomes.append(outcome)
        self._leave(batch)

    def fail(
        self,
        batches: Iterable[ProducerBatch],
        error: KafkaOnSparkError,
        *,
        may_be_appended: bool = False,
    ) -> None:
        """Take a try's error for some batches. `may_be_appended`: it may have appended them."""
        for batch in batches:
            if batch.key not in self.batches:
                continue  # another error of the same try has answered it
            batch.last_error = error
            batch.may_be_appended = batch.may_be_appended or may_be_appended
            if not is_passing(error):
                self.give_up([batch], _refusal(batch, error))

    def give_up(self, batches: Iterable[ProducerBatch], error: Exception) -> None:
        """Answer all records of some batches with an error: no more tries are made."""
        for batch in batches:
            self._fail(batch, batch.records[batch.answered_count :], error)
            self._leave(batch)

    def _fail(self, batch: ProducerBatch, records: list[SentRecord], error: Exception) -> None:
        outcome = Outcome(partition=batch.key.partition, records=records, error=error)
        self._outcomes.append(outcome)

    def _leave(self, batch: ProducerBatch) -> None:
        del self.batches[batch.key]
        self._answered.append(batch)


def is_passing(error: KafkaOnSparkError) -> bool:
    """Return whether another try of the same append may succeed. So it may where a root denies: it
    may be mounted for writing again, and records that were sent are not to be dropped."""
    return error.is_retriable or isinstance(error, (*_UNKNOWN, RootAccessDeniedError))


def may_stand(error: KafkaOnSparkError) -> bool:
    """Return whether what failed with an error of the append itself may be in the log."""
    return isinstance(error, _UNKNOWN) or bool(error.context.get("may_be_committed"))


def _refusal(batch: ProducerBatch, error: KafkaOnSparkError) -> KafkaOnSparkError:
    """Return `error`, which says so if an earlier try may have appended the batch."""
    if not batch.may_be_appended or error.context.get("may_be_committed"):
        return error
    words = f"{error.message}; a try of this append may be committed"
    return type(error)(words, **{**error.context, "may_be_committed": True})


def _expired(batch: ProducerBatch) -> KafkaOnSparkError:
    why = "" if batch.last_error is None else f" ({batch.last_error})"
    if not batch.may_be_appended:
        return _expired_error(batch.name, why)
    return RequestTimedOutError(
        f"a record for {batch.name} was not acknowledged within"
        f" delivery.timeout.ms{why}; whether it will be committed is unknown: read the topic"
        " before you send it again"
    )


def _expired_error(where: str, why: str) -> RecordExpiredError:
    return RecordExpiredError(
        f"a record for {where} was not appended within delivery.timeout.ms{why}: send it again, or"
        " give more time"
    )
