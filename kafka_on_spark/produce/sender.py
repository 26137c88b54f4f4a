"""The threads that send a producer's records: one begins appends, others try again.

The first makes one append at a time, with all that has gathered, and tries it once. What has no
answer then is tried again in another, for each set of brokers that partitions need: only these
partitions wait for it, and what can go on soon does not wait for what can't. Futures get their
results and callbacks run in these threads, one at a time, as in Kafka's one.

The set of the senders at work is a module global: a process that ends gives each of them a moment.
It can go once daemon threads can be asked to end before the interpreter does.
"""

import atexit
import concurrent.futures.thread  # noqa: F401 - Arrow's first array needs it; at exit it's too late
import copy
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import InvalidStateError
from functools import partial
from itertools import chain
from typing import Final

from kafka_on_spark.base.back_off import pauses_ms
from kafka_on_spark.base.errors import (
    BufferExhaustedError,
    InvalidRequestError,
    MessageTooLargeError,
    ProducerClosedError,
    RequestTimedOutError,
)
from kafka_on_spark.produce.accumulator import Accumulator, held_bytes
from kafka_on_spark.produce.appending import ProducerAppends, Settle
from kafka_on_spark.produce.delivery import (
    TRY_MS_MIN,
    Delivery,
    Outcome,
    PendingPart,
    expired_error,
)
from kafka_on_spark.produce.muted_partitions import MutedPartitions
from kafka_on_spark.produce.sent_record import RecordMetadata, SentRecord
from kafka_on_spark.produce.settings import ProducerSettings
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.daemon_threads import EXIT_SECONDS, is_forked, no_thread_error

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 60.0
"""A finalizer may end the producer in the sender's own thread, between its look and its wait:
nobody wakes it then, so it looks again by itself."""

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

THREADS_MAX: Final = 16
"""That try again, of one producer. Beyond, and where the process has no other thread, the first
thread tries again itself, and what is sent meanwhile waits."""

_clock: Final = SystemClock()
_senders: Final[set["Sender"]] = set()


class Sender:
    """Gathers records of any thread, and sends them in its own ones."""

    def __init__(self, appends: ProducerAppends, settings: ProducerSettings) -> None:
        self._appends = appends
        self._settings = settings
        self._gathering = Accumulator(settings)
        self._muted = MutedPartitions()
        # What the first thread has taken and not handed on, by topic.
        self._under_way: list[tuple[str, list[SentRecord]]] = []
        self._settling: list[list[Outcome]] = []
        self._flushes: list[set[SentRecord]] = []
        # Taken twice by one thread if a collection of garbage ends the producer there.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._calling = threading.Lock()
        self._answered = threading.Condition()
        self._is_closing = False
        self._is_cut_off = False
        self._retriers: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self.begin_close()
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

    @property
    def _threads(self) -> list[threading.Thread]:
        return [self._thread, *self._retriers]

    def _is_own_thread(self) -> bool:
        return threading.current_thread() in self._threads

    def _wait_for_room(self, size_bytes: int) -> None:
        gathering, settings = self._gathering, self._settings
        if not gathering.fits(size_bytes):
            raise MessageTooLargeError(
                f"a record has {size_bytes} bytes, and buffer_memory is {settings.buffer_memory}:"
                " make it smaller, or give the producer more"
            )
        has_room = False
        if not self._is_own_thread():  # which alone make room
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
            InvalidRequestError: A callback calls it: callbacks run in the threads that send.
            RequestTimedOutError: Some of it had none within `timeout_ms`.
        """
        if self._is_own_thread():
            raise InvalidRequestError(
                "a callback can't flush its producer, because it runs in the thread that sends:"
                " call flush elsewhere"
            )
        with self._lock:
            unanswered = set(self._unanswered())
            self._gathering.flush()
            self._work.notify()
            self._flushes.append(unanswered)
            try:
                is_done = self._done.wait_for(
                    lambda: not unanswered or self._is_cut_off, _seconds(timeout_ms)
                )
            finally:
                self._flushes = [each for each in self._flushes if each is not unanswered]
        if not is_done:
            raise RequestTimedOutError(
                f"not all records had an answer within {timeout_ms} ms: they are still being sent;"
                " ask their futures"
            )

    def _unanswered(self) -> Iterator[SentRecord]:
        """Return the records whose answers are not known, or are being told."""
        yield from self._gathering.records
        for part in self._muted.tried:
            # A part is muted for a moment longer than it has no answer.
            yield from (each for each in part.unanswered if not each.done())
        for _, records in self._muted.waiting:
            yield from records
        for _, records in self._under_way:
            yield from (each for each in records if not each.done())
        for outcome in chain.from_iterable(self._settling):
            yield from outcome.records

    def begin_close(self) -> None:
        """Take no more records, and send what has gathered at once."""
        if is_forked():
            return  # the threads are the parent's
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
        if self._is_own_thread() or self._is_cut_off:
            return 0
        last_ms = None if timeout_ms is None else _clock.monotonic_ms() + timeout_ms
        self._join([self._thread], last_ms)
        self._join(self._retriers, last_ms)  # to which it adds none any more
        if not any(each.is_alive() for each in self._threads):
            return 0
        unknown = RequestTimedOutError(
            "the producer was closed in the middle of an append with this record: whether it"
            " will be committed is unknown"
        )
        not_sent = ProducerClosedError("the producer was closed before it had sent this record")
        with self._lock:
            self._is_cut_off = True
            tried = [(part.topic, part.unanswered) for part in self._muted.tried]
            waiting = [*self._muted.waiting, *self._gathering.take().items()]
            cut_off = [_failed(*each, unknown) for each in (*self._under_way, *tried)]
            cut_off += [_failed(*each, not_sent) for each in waiting]
            for condition in (self._work, self._room, self._done):
                condition.notify_all()
        # Beside the callbacks of the other threads, one of which may never end.
        held = _answer(cut_off)
        with self._lock:
            self._gathering.release(held)
        return sum(len(each.records) for each in cut_off)

    def _join(self, threads: Iterable[threading.Thread], last_ms: float | None) -> None:
        for each in threads:
            if each.is_alive():  # and not about to begin
                each.join(_seconds(None if last_ms is None else last_ms - _clock.monotonic_ms()))

    def _run(self) -> None:
        try:
            while (topics := self._next()) is not None:
                self._send(topics)
        finally:
            _senders.discard(self)

    def _next(self) -> dict[str, list[SentRecord]] | None:
        """Wait until an append is due; return its records by topic, None at the end."""
        with self._lock:
            while not self._is_cut_off:
                due_ms, now_ms = self._gathering.due_at_ms(), _clock.monotonic_ms()
                if due_ms is None and self._is_closing and self._muted.is_empty:
                    return None
                is_due = due_ms is not None and (due_ms <= now_ms or self._is_closing)
                if is_due or self._muted.has_released:
                    topics = self._gathering.take()
                    self._under_way = list(topics.items())
                    self._answered = threading.Condition()  # of the futures of the next append
                    return topics
                wait_s = IDLE_SECONDS if due_ms is None else (due_ms - now_ms) / 1000
                self._work.wait(min(wait_s, IDLE_SECONDS))
            return None

    def _send(self, topics: dict[str, list[SentRecord]]) -> None:
        left: list[PendingPart] = []
        try:
            left = self._try_first(topics)
        except Exception as error:  # a bug: the thread must live, and no future wait for ever
            log.exception("a producer's append failed")
            outcomes = [_failed(*each, error) for each in self._under_way]
            self._settle(lambda: outcomes)
        with self._lock:
            self._under_way = []
            self._muted.mute(left)
        # Without the lock: a collection of garbage in a thread that starts may take it.
        for delivery in map(Delivery, self._appends.apart(left)):
            if not self._begin_retries(delivery):
                self._retry_all(delivery)

    def _begin_retries(self, delivery: Delivery) -> bool:
        """Have a delivery tried again in another thread; return False if there can be none."""
        thread = threading.Thread(
            target=self._retry_all, args=(delivery,), name="producer-retries", daemon=True
        )
        others = [each for each in self._retriers if each.is_alive()]
        if len(others) >= THREADS_MAX:
            return False
        self._retriers = [*others, thread]  # before it runs callbacks, which may ask
        try:
            thread.start()
        except RuntimeError:
            self._retriers = others
            return False
        return True

    def _retry_all(self, delivery: Delivery) -> None:
        """Try again, with pauses, until all of it has an answer."""
        for pause_ms in pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX):
            if not delivery.parts:
                return
            wait_ms = min(pause_ms, delivery.left_ms(_clock.monotonic_ms()))
            with self._lock:
                if self._done.wait_for(lambda: self._is_cut_off, wait_ms / 1000):
                    return
            self._retry(delivery)

    def _try_first(self, topics: dict[str, list[SentRecord]]) -> list[PendingPart]:
        """Begin an append, and try it once; return what has no answer then."""
        with self._lock:
            muted = self._muted.keys
        number, parts, outcomes = self._appends.begin(topics, muted)
        self._settle(lambda: outcomes)
        with self._lock:
            if self._is_cut_off:
                return []
            delivery = Delivery(self._muted.join(parts, number))
            self._under_way = [(part.topic, part.records) for part in delivery.parts]
        self._settle(lambda: delivery.expire(_clock.monotonic_ms()))
        self._settle(self._expire_gathered)
        if delivery.parts:
            # As short as may be: all that is sent meanwhile waits for it.
            self._try(delivery, TRY_MS_MIN, self._settle)
        return delivery.parts

    def _expire_gathered(self) -> list[Outcome]:
        expired = self._gathering.expire(_clock.monotonic_ms())
        why = " (an earlier append was still under way)"
        return [_failed(*each, expired_error(each[0], why)) for each in expired.items()]

    def _try(self, delivery: Delivery, try_ms: int, settle: Settle) -> None:
        self._appends.try_once(delivery, try_ms, settle)
        for each in delivery.lost_runs:
            self._appends.leave(each)
        delivery.lost_runs.clear()

    def _retry(self, delivery: Delivery) -> None:
        """Answer what has expired, and try the rest once."""
        settle = partial(self._settle_retried, delivery)
        now_ms, keys = _clock.monotonic_ms(), delivery.keys
        try:
            settle(lambda: delivery.expire(now_ms) + self._muted.expire(keys, now_ms))
            if delivery.parts and not self._is_cut_off:
                self._try(delivery, delivery.try_ms(_clock.monotonic_ms()), settle)
                if (word := delivery.slow_word(_clock.monotonic_ms())) is not None:
                    log.warning("%s", word)
        except Exception as error:  # a bug, as above
            log.exception("a retry of a producer failed")
            outcomes = delivery.give_up(error)
            settle(lambda: outcomes)

    def _settle_retried(self, delivery: Delivery, find: Callable[[], list[Outcome]]) -> None:
        """Settle outcomes of retries; let what waited behind partitions with an answer be sent."""
        for each in self._settle(find):
            if each.error is not None:
                where = f"{each.topic}-{each.partition}"
                log.warning("%d records for %s: %s", len(each.records), where, each.error)
        with self._lock:
            self._muted.unmute(delivery.take_answered())
            self._work.notify()

    def _settle(self, find: Callable[[], list[Outcome]]) -> list[Outcome]:
        """Give records their answers, and word to those that wait for that; return the outcomes.

        `find` returns them. It is called under the lock, so that a flush finds each record where it
        was, or here.
        """
        with self._lock:
            outcomes = find()
            if not outcomes:
                return []
            self._settling.append(outcomes)
        with self._calling:
            held = _answer(outcomes)
        with self._lock:
            self._settling = [each for each in self._settling if each is not outcomes]
            self._gathering.release(held)
            for flush in self._flushes:
                for outcome in outcomes:
                    flush.difference_update(outcome.records)
            self._room.notify_all()
            self._done.notify_all()
        return outcomes


def _answer(outcomes: Iterable[Outcome]) -> int:
    """Give futures and callbacks their answers, in the order of sends; return how many bytes of
    buffer.memory the records held. A record that has an answer already keeps it, and counts 0."""
    held = 0
    for outcome in outcomes:
        stands = outcome.error is None
        for place, record in enumerate(outcome.records):
            if stands:
                is_told = _tell(outcome.topic, record, _metadata(outcome, place, record), None)
            else:  # a copy, since an error that is raised twice collects both tracebacks
                is_told = _tell(outcome.topic, record, None, copy.copy(outcome.error))
            if is_told:
                held += held_bytes(record)
                if stands:  # else an append with it may be under way
                    record.forget()
    return held


def _metadata(outcome: Outcome, place: int, record: SentRecord) -> RecordMetadata:
    assert outcome.partition is not None, "what stands has a partition"
    base, append_ms = outcome.base_offset, outcome.append_time_ms
    return RecordMetadata(
        outcome.topic,
        outcome.partition,
        None if base is None else base + place,
        record.timestamp_us if append_ms is None else append_ms * 1000,
    )


def _failed(topic: str, records: Iterable[SentRecord], error: Exception) -> Outcome:
    """Return the outcome of the records that have no answer yet, if they fail with `error`."""
    left = [each for each in records if not each.done()]
    return Outcome(topic=topic, partition=None, records=left, error=error)


def _tell(
    topic: str, record: SentRecord, metadata: RecordMetadata | None, error: Exception | None
) -> bool:
    """Give a record its answer; return False if it has one, because `close` has cut it off.

    Callbacks may raise what they want, SystemExit too: it is their fault, and other records go on.
    """
    try:
        if metadata is None:
            record.set_exception(error)
        else:
            record.set_result(metadata)
    except InvalidStateError:
        return False
    except BaseException:
        log.exception("a callback of a future of a record for %s failed", topic)
    if record.callback is not None:
        try:
            record.callback(metadata, error)
        except BaseException:
            log.exception("a callback of a record for %s failed", topic)
    return True


def _closed() -> ProducerClosedError:
    return ProducerClosedError("the producer is closed: make another with Cluster.producer")


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else max(timeout_ms, 0) / 1000


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
