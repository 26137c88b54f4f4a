"""The thread that sends a producer's records: one append at a time, with all that has gathered.

Futures get their results and callbacks run in this thread, as in Kafka. The set of the senders at
work is a module global: a process that ends gives each of them a moment. It can go once daemon
threads can be asked to end before the interpreter does.
"""

import atexit
import concurrent.futures.thread  # noqa: F401 - Arrow's first array needs it; at exit it's too late
import copy
import logging
import threading
from collections.abc import Iterable
from concurrent.futures import InvalidStateError
from typing import Final

from kafka_on_spark.cluster.producing.appending import ProducerAppends
from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import (
    BufferExhaustedError,
    InvalidRequestError,
    KafkaOnSparkError,
    MessageTooLargeError,
    ProducerClosedError,
    RequestTimedOutError,
)
from kafka_on_spark.service.append.produce.accumulator import Accumulator, Gathered
from kafka_on_spark.service.append.produce.delivery import Delivery, Outcome, expired_error
from kafka_on_spark.service.append.produce.sent_record import RecordMetadata, SentRecord
from kafka_on_spark.service.append.produce.settings import ProducerSettings
from kafka_on_spark.storage.calls.clock import SystemClock
from kafka_on_spark.storage.calls.deadlines import EXIT_SECONDS, no_thread_error
from kafka_on_spark.storage.calls.forks import is_forked

log = logging.getLogger(__name__)

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

_clock: Final = SystemClock()
_senders: Final[set["Sender"]] = set()


class Sender:
    """Gathers records of any thread, and sends them in its own."""

    def __init__(self, appends: ProducerAppends, settings: ProducerSettings) -> None:
        self._appends = appends
        self._settings = settings
        self._gathering = Accumulator(settings)
        # Taken twice by one thread if a collection of garbage ends the producer there.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._answered = threading.Condition()
        self._done_through = -1
        self._is_closing = False
        self._is_cut_off = False
        self._under_way: Gathered | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise no_thread_error() from error
        _senders.add(self)

    @property
    def condition(self) -> threading.Condition:
        """What the futures of the records share that are sent at about the same time."""
        return self._answered

    def add(self, topic: str, record: SentRecord, full_bytes: int) -> None:
        """Take a record; wait for room in buffer.memory, for at most max.block.ms.

        As little as can be is done under the lock: a thread that is interrupted there holds up all
        others. So deadlines of two threads may differ from the order of their records by moments.

        Raises:
            BufferExhaustedError: There was no room.
            MessageTooLargeError: There never will be.
            ProducerClosedError: The producer is closed.
        """
        gathering, timeout_ms = self._gathering, self._settings.delivery_timeout_ms
        now_ms = _clock.monotonic_ms()
        record.deadline_ms = now_ms + timeout_ms
        with self._lock:
            if self._is_closing:
                raise _closed()
            if not gathering.has_room(record.size_bytes):
                self._wait_for_room(record.size_bytes)
                now_ms = _clock.monotonic_ms()
                record.deadline_ms = now_ms + timeout_ms
            if gathering.add(topic, record, now_ms, full_bytes):
                self._work.notify()

    def _wait_for_room(self, size_bytes: int) -> None:
        gathering, settings = self._gathering, self._settings
        if not gathering.fits(size_bytes):
            raise MessageTooLargeError(
                f"a record has {size_bytes} bytes, and buffer_memory is {settings.buffer_memory}:"
                " make it smaller, or give the producer more"
            )
        has_room = False
        if threading.current_thread() is not self._thread:  # which alone makes room
            gathering.waiting_count += 1
            self._work.notify()
            try:
                has_room = self._room.wait_for(
                    lambda: self._is_closing or gathering.has_room(size_bytes),
                    settings.max_block_ms / 1000,
                )
            finally:
                gathering.waiting_count -= 1
        if self._is_closing:
            raise _closed()
        if not has_room:
            raise BufferExhaustedError(
                f"no room for a record of {size_bytes} bytes within max.block.ms"
                f" ({settings.max_block_ms}): buffer.memory ({settings.buffer_memory}) is full of"
                " records without an answer; send more slowly, or give the producer more"
            )

    def flush(self, timeout_ms: float | None) -> None:
        """Send what has gathered at once; wait until all that was sent before has an answer.

        Raises:
            InvalidRequestError: A callback calls it: callbacks run in the thread that sends.
            RequestTimedOutError: Some of it had none within `timeout_ms`.
        """
        if threading.current_thread() is self._thread:
            raise InvalidRequestError(
                "a callback can't flush its producer, because it runs in the thread that sends:"
                " call flush elsewhere"
            )
        with self._lock:
            last = self._gathering.flush()
            self._work.notify()
            is_done = self._done.wait_for(
                lambda: self._done_through >= last or self._is_cut_off, _seconds(timeout_ms)
            )
        if not is_done:
            raise RequestTimedOutError(
                f"not all records had an answer within {timeout_ms} ms: they are still being sent;"
                " ask their futures"
            )

    def begin_close(self) -> None:
        """Take no more records, and send what has gathered at once."""
        if is_forked():
            return  # the thread is the parent's
        with self._lock:
            self._is_closing = True
            self._work.notify_all()
            self._room.notify_all()

    def close(self, timeout_ms: float | None) -> int:
        """Send what has gathered, for at most `timeout_ms`; return how many records were cut off.

        Their futures fail: with a ProducerClosedError if they were not sent, with a
        RequestTimedOutError if an append with them is under way.
        """
        self.begin_close()
        if threading.current_thread() is self._thread or self._is_cut_off:
            return 0
        self._thread.join(_seconds(timeout_ms))
        if not self._thread.is_alive():
            return 0
        with self._lock:
            self._is_cut_off = True
            under_way, waiting = self._under_way, self._gathering.take()
            self._gathering.release(waiting.held_bytes)
            for each in (self._work, self._room, self._done):
                each.notify_all()
        cut_off = 0
        if under_way is not None:
            unknown = RequestTimedOutError(
                "the producer was closed in the middle of an append with this record: whether it"
                " will be committed is unknown"
            )
            cut_off += _settle_all(under_way, unknown)
        not_sent = ProducerClosedError("the producer was closed before it had sent this record")
        return cut_off + _settle_all(waiting, not_sent)

    def _run(self) -> None:
        try:
            while (gathered := self._next()) is not None:
                self._send(gathered)
        finally:
            _senders.discard(self)

    def _next(self) -> Gathered | None:
        """Wait until an append is due; return its records, None at the end."""
        with self._lock:
            while not self._is_cut_off:
                due_ms, now_ms = self._gathering.due_at_ms(), _clock.monotonic_ms()
                if due_ms is None and self._is_closing:
                    return None
                if due_ms is not None and (due_ms <= now_ms or self._is_closing):
                    self._under_way = self._gathering.take()
                    self._answered = threading.Condition()  # of the futures of the next append
                    return self._under_way
                self._work.wait(None if due_ms is None else (due_ms - now_ms) / 1000)
            return None

    def _send(self, gathered: Gathered) -> None:
        try:
            self._deliver(gathered)
        except Exception as error:  # a bug: the thread must live, and no future wait for ever
            log.exception("a producer's append failed")
            _settle_all(gathered, error)
        with self._lock:
            self._under_way = None
            self._gathering.release(gathered.held_bytes)
            self._done_through = gathered.number
            self._room.notify_all()
            self._done.notify_all()

    def _deliver(self, gathered: Gathered) -> None:
        """Try to append until each record has an answer."""
        delivery, outcomes = self._appends.begin(gathered.topics)
        _settle(outcomes)
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while delivery.parts and not self._is_cut_off:
            self._expire(delivery)
            if not delivery.parts:
                break
            _settle(self._appends.try_once(delivery, delivery.try_ms(_clock.monotonic_ms())))
            if delivery.parts:
                pause_ms = min(next(pauses), delivery.left_ms(_clock.monotonic_ms()))
                with self._lock:
                    self._work.wait_for(lambda: self._is_cut_off, pause_ms / 1000)
        if delivery.is_run_lost:
            self._appends.begin_run()
            log.warning(
                "a producer can't go on under its id; it takes another: %s",
                self._appends.producer_id,
            )

    def _expire(self, delivery: Delivery) -> None:
        """Answer records beyond their deadlines: of the append first, whose records are older."""
        now_ms = _clock.monotonic_ms()
        expired = delivery.expire(now_ms)
        for each in expired:
            log.warning(
                "%d records for %s-%s: %s",
                len(each.records),
                each.topic,
                each.partition,
                each.error,
            )
        _settle(expired)
        with self._lock:
            waiting = self._gathering.expire(now_ms)
            if waiting:
                self._room.notify_all()
        for topic, records in waiting.items():
            _settle([_expired(topic, records)])


def _expired(topic: str, records: list[SentRecord]) -> Outcome:
    error: KafkaOnSparkError = expired_error(topic, " (an earlier append was still under way)")
    return Outcome(topic=topic, partition=None, records=records, error=error)


def _closed() -> ProducerClosedError:
    return ProducerClosedError("the producer is closed: make another with Cluster.producer")


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else max(timeout_ms, 0) / 1000


def _settle_all(gathered: Gathered, error: Exception) -> int:
    """Fail all records that have no answer yet; return how many."""
    outcomes = [
        Outcome(
            topic=topic,
            partition=None,
            records=[each for each in records if not each.done()],
            error=error,
        )
        for topic, records in gathered.topics.items()
    ]
    _settle(outcomes)
    return sum(len(each.records) for each in outcomes)


def _settle(outcomes: Iterable[Outcome]) -> None:
    """Give futures and callbacks their answers, in the order of sends."""
    for outcome in outcomes:
        if outcome.error is None:
            _settle_standing(outcome)
        else:
            _settle_failed(outcome, outcome.error)


def _settle_standing(outcome: Outcome) -> None:
    topic, partition, base = outcome.topic, outcome.partition, outcome.base_offset
    assert partition is not None, "what stands has a partition"
    append_us = None if outcome.append_time_ms is None else outcome.append_time_ms * 1000
    for place, record in enumerate(outcome.records):
        metadata = RecordMetadata(
            topic,
            partition,
            None if base is None else base + place,
            record.timestamp_us if append_us is None else append_us,
        )
        try:
            record.set_result(metadata)
        except InvalidStateError:
            continue  # `close` has cut it off
        _call_back(topic, record, metadata, None)
        record.forget()


def _settle_failed(outcome: Outcome, error: Exception) -> None:
    for record in outcome.records:  # which forget nothing: an append with them may be under way
        own = copy.copy(error)  # an error that is raised twice collects both tracebacks
        try:
            record.set_exception(own)
        except InvalidStateError:
            continue
        _call_back(outcome.topic, record, None, own)


def _call_back(
    topic: str, record: SentRecord, metadata: RecordMetadata | None, error: Exception | None
) -> None:
    if record.callback is None:
        return
    try:
        record.callback(metadata, error)
    except Exception:  # the callback's fault: other records go on
        log.exception("a callback of a record for %s failed", topic)


def _finish() -> None:
    """Send for a moment: the interpreter is about to end."""
    last_ms = _clock.monotonic_ms() + EXIT_SECONDS * 1000
    senders = list(_senders)
    for each in senders:
        each.begin_close()
    left = sum(each.close(last_ms - _clock.monotonic_ms()) for each in senders)
    if left:
        log.warning(
            "the process ended before %d records of producers were acknowledged: close a producer,"
            " or use it in `with`",
            left,
        )


atexit.register(_finish)
