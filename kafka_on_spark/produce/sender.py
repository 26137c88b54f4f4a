"""Sends a producer's records: the threads, and one try of an append in one of them.

The first thread makes one append at a time, with all that has gathered, and tries it once. What has
no answer then is tried again in another, for each set of brokers that partitions need: only these
partitions wait for it, and what can go on soon does not wait for what can't. Futures get their
results and callbacks run in these threads, one at a time, as in Kafka's one. What a try's errors
mean is decided in accumulator.py.

The set of the senders at work is a module global: a process that ends gives each of them a moment.
It can go once daemon threads can be asked to end before the interpreter does.
"""

import atexit
import concurrent.futures.thread  # noqa: F401 - Arrow's first array needs it; at exit it's too late
import copy
import logging
import threading
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import InvalidStateError
from dataclasses import replace
from functools import partial
from itertools import chain, count
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from kafka_on_spark.base.errors import (
    BufferExhaustedError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    KafkaOnSparkError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    ProducerClosedError,
    ProducerFencedError,
    RequestTimedOutError,
    RootAccessDeniedError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.base.process import pauses_ms
from kafka_on_spark.log.hashing import partitions_of_keys
from kafka_on_spark.log.segments import HEADERS, TIMESTAMP
from kafka_on_spark.metadata.image import MetadataImage, TopicImage, id_of_one_run
from kafka_on_spark.metadata.reports import is_under_min_isr, too_few_in_sync
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.accumulator import (
    TRY_MS_MIN,
    Accumulator,
    AppendNumber,
    Delivery,
    Headers,
    MutedPartitions,
    Outcome,
    PendingPart,
    ProducerSettings,
    RecordMetadata,
    Refusals,
    SentRecord,
    TopicLimits,
    expired_error,
    held_bytes,
    is_passing,
    limits_of,
)
from kafka_on_spark.produce.append import answer_staged, plan_chosen
from kafka_on_spark.produce.idempotence import ProducerRuns
from kafka_on_spark.produce.records import INPUT_SCHEMA
from kafka_on_spark.produce.staging import AppendPlan, StagedSegment, stage_records
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.clock import SystemClock, new_uuid
from kafka_on_spark.store.counts import APPEND, operating
from kafka_on_spark.store.deadlines import EXIT_SECONDS, is_forked, no_thread_error

log = logging.getLogger(__name__)

_T = TypeVar("_T")

IDLE_SECONDS: Final = 60.0
"""A finalizer may end the producer in the sender's own thread, between its look and its wait:
nobody wakes it then, so it looks again by itself."""

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000
"""Between tries. Source: retry.backoff.ms, retry.backoff.max.ms."""

THREADS_MAX: Final = 16
"""That try again, of one producer. Beyond, and where the process has no other thread, the first
thread tries again itself, and what is sent meanwhile waits."""

_Staged = tuple[AppendPlan, list[StagedSegment], list[PendingPart]]

Settle = Callable[[Callable[[], list[Outcome]]], object]
"""Is called with what finds outcomes, as soon as there are some; gives records their answers."""

_BEFORE_COMMITS: Final = (
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    ProducerFencedError,
    RootAccessDeniedError,
    UnknownTopicOrPartitionError,
)
"""What refuses a whole append refuses it before its first commit."""

_OF_RECORDS: Final = (InvalidRecordError, InvalidTimestampError, MessageTooLargeError)
"""What refuses a topic's records may be due to one partition's."""

_clock: Final = SystemClock()
_senders: Final[set["Sender"]] = set()


def split_by_partition(
    records: Sequence[SentRecord], partition_count: int, sticky: int
) -> dict[int, list[SentRecord]]:
    """Return the records of each partition, in their order.

    A record's partition: as given, else by its key as Kafka's default partitioner chooses it, else
    `sticky`.
    """
    split: dict[int, list[SentRecord]] = {}
    keys = pa.array([each.key for each in records], pa.binary())
    numbers = np.full(len(records), sticky, np.int32)
    if keys.null_count < len(records):
        by_key = partitions_of_keys(pc.fill_null(keys, b""), partition_count)
        is_keyed = pc.is_valid(keys).to_numpy(zero_copy_only=False)
        numbers = np.where(is_keyed, by_key, numbers)
    for record, chosen in zip(records, numbers.tolist(), strict=True):
        number = chosen if record.partition is None else record.partition
        if number in split:
            split[number].append(record)
        else:
            split[number] = [record]
    return split


def batch_of(parts: Iterable[tuple[int, Sequence[SentRecord]]]) -> pa.RecordBatch:
    """Return records, by partition, as INPUT_SCHEMA."""
    parts = list(parts)
    records = [record for _, part in parts for record in part]
    numbers = np.repeat([number for number, _ in parts], [len(part) for _, part in parts])
    columns = [
        pa.array([each.timestamp_us for each in records], pa.int64()).cast(TIMESTAMP),
        pa.array([each.key for each in records], pa.binary()),
        pa.array([each.value for each in records], pa.binary()),
        _header_lists([each.headers for each in records]),
        pa.array(numbers, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


def _header_lists(given: Sequence[Headers | None]) -> pa.Array:
    if not any(given):
        return pa.nulls(len(given), HEADERS)
    return pa.array(
        [
            None if each is None else [{"key": name, "value": value} for name, value in each]
            for each in given
        ],
        HEADERS,
    )


class ProducerAppends:
    """The appends of one producer. One thread begins them; several may try them.

    Attributes:
        limits: What topics allow, by name, as of the last append or the first send.
        producer_id: The id of the next append, which no other producer has.
    """

    def __init__(self, node: Node, settings: ProducerSettings) -> None:
        self._node = node
        self._settings = settings
        self.limits: dict[str, TopicLimits] = {}
        self._begin_run()
        self._ids = [self.producer_id]
        self._asked = (-1, 0)
        self._leaving = threading.Lock()
        # A process that makes a producer for each request would remember the runs of all. One that
        # was left may have an append under way for as long as a thread has this object.
        weakref.finalize(self, node.part(ProducerRuns).forget, self._ids).atexit = False

    def _begin_run(self) -> None:
        # As a whole: an id with the sequences of another would have appends called duplicates.
        producer_id = id_of_one_run(new_uuid())
        self._numbers = (AppendNumber(producer_id, each) for each in count())
        self.producer_id = producer_id

    def leave(self, producer_id: str) -> None:
        """Append under a new producer id from now on, if this one is in use."""
        with self._leaving:
            if producer_id != self.producer_id:
                return
            self._begin_run()
            self._ids.append(self.producer_id)
        log.warning("a producer can't go on under its id; it takes another: %s", self.producer_id)

    def now_ms(self) -> int:
        """Return the time of a record that is sent now.

        It is held to the root's clock once in a millisecond, in which a thread sends a hundred
        records: for each of them that took a third of `send`.
        """
        clock = self._node.clock
        at_ms, now_ms = self._asked
        if at_ms != (monotonic_ms := clock.monotonic_ms()):
            now_ms = clock.now_ms()
            self._asked = monotonic_ms, now_ms
        return now_ms

    def learn(self, topic: str) -> TopicLimits:
        """Return what a topic allows by now."""
        with operating(APPEND):
            image = self._node.metadata.catch_up()
        limits = limits_of(image, topic)
        self.limits[topic] = limits
        return limits

    def begin(
        self, topics: Mapping[str, list[SentRecord]], muted: Container[PartitionKey]
    ) -> tuple[AppendNumber, list[PendingPart], list[Outcome]]:
        """Return the number and the partitions of the next append of records, by topic; and the
        outcomes of those whose topics are gone. No keyless one goes to a `muted` partition."""
        image, number = self._node.metadata.image, next(self._numbers)
        parts: list[PendingPart] = []
        outcomes: list[Outcome] = []
        for name, records in topics.items():
            try:
                topic = image.topic(name)
            except UnknownTopicOrPartitionError as error:
                self.limits.pop(name, None)
                outcomes.append(Outcome(topic=name, partition=None, records=records, error=error))
                continue
            split = _split(topic, records, number, muted)
            parts += [PendingPart(name, key, number, split[key]) for key in sorted(split)]
        return number, parts, outcomes

    def apart(self, parts: Iterable[PendingPart]) -> list[list[PendingPart]]:
        """Return partitions that need the same brokers together: one of these may hang."""
        image = self._node.metadata.image

        def brokers(part: PendingPart) -> Set[BrokerId]:
            partition = image.partition(part.key)
            return partition.isr if partition else frozenset()

        return list(_grouped(parts, brokers).values())

    @operating(APPEND)
    def try_once(self, delivery: Delivery, try_ms: int, settle: Settle) -> None:
        """Try to append what has no answer yet; `settle` what this answers, partition by partition.

        Records that their topics do not allow any more are left out, by the image that the try is
        planned on: an older one does not know what another process has altered, and the try would
        fail whole.
        """
        outcomes: list[Outcome] = []
        try:
            image = self._node.metadata.catch_up()
        except KafkaOnSparkError as error:
            outcomes = delivery.fail(delivery.parts, error, may_be_appended=False)
            settle(lambda: outcomes)
            return
        refusals = self._refusals(image, delivery)
        settle(lambda: delivery.leave_out(refusals))
        try:
            staged = self._staged(image, delivery, try_ms, outcomes)
        finally:  # by a bug, too: nobody else knows of them any more
            settle(lambda: outcomes)
        end_ms = self._node.clock.monotonic_ms() + try_ms
        self._append(delivery, staged, settle, end_ms)

    def _refusals(self, image: MetadataImage, delivery: Delivery) -> Refusals:
        """Return the records that their topics do not allow: settings may have changed since they
        were sent, and `send` checks by them from now on. What is wrong with a topic that is gone,
        `_ready` says."""
        topics = {part.key.topic_id for part in delivery.parts} & image.topics.keys()
        limits = {each: limits_of(image, image.topics[each].name) for each in topics}
        self.limits.update((image.topics[each].name, limits[each]) for each in topics)
        return delivery.refusals(limits, self.now_ms())

    def _staged(
        self, image: MetadataImage, delivery: Delivery, try_ms: int, outcomes: list[Outcome]
    ) -> list[_Staged]:
        """Return what can be appended now, staged; add what is settled already to `outcomes`."""
        staged: list[_Staged] = []
        for number, parts in _grouped(delivery.parts, lambda part: part.number).items():
            # If the id has expired, another run may go on with an append that none has tried yet.
            is_untried = not any(part.may_be_appended for part in parts)
            try:
                run = self._node.part(ProducerRuns).begin(
                    number.producer_id, None, number.sequence, is_untried=is_untried
                )
            except KafkaOnSparkError as error:
                outcomes += delivery.fail(parts, error, may_be_appended=False)
                continue
            assert run is not None, "a producer and a sequence are given"
            for topic_id, of_topic in _grouped(parts, lambda part: part.key.topic_id).items():
                ready = self._ready(image, delivery, of_topic, outcomes)
                if not ready:
                    continue
                try:
                    plan = plan_chosen(
                        self._node,
                        image,
                        topic_id,
                        acks=self._settings.acks,
                        producer=run,
                        timeout_ms=try_ms,
                    )
                    staged += self._stage(plan, delivery, ready, outcomes)
                except KafkaOnSparkError as error:
                    outcomes += delivery.fail(ready, error, may_be_appended=False)
        return staged

    def _ready(
        self,
        image: MetadataImage,
        delivery: Delivery,
        parts: Iterable[PendingPart],
        outcomes: list[Outcome],
    ) -> list[PendingPart]:
        """Return the partitions that can be appended to now: one that can't must not have the
        whole append refused."""
        ready = []
        for part in parts:
            partition = image.partition(part.key)
            error: KafkaOnSparkError
            if partition is None:
                error = UnknownTopicOrPartitionError(
                    f"partition {part.name} was deleted before this append"
                )
            elif self._settings.acks == "all" and is_under_min_isr(
                image, part.key.topic_id, partition
            ):
                error = NotEnoughReplicasError(too_few_in_sync(image, part.key, partition))
            else:
                ready.append(part)
                continue
            outcomes += delivery.fail([part], error, may_be_appended=False)
        return ready

    def _stage(
        self,
        plan: AppendPlan,
        delivery: Delivery,
        parts: list[PendingPart],
        outcomes: list[Outcome],
    ) -> list[_Staged]:
        """Stage a topic's partitions together, or one by one if that fails."""
        batch = batch_of([(each.key.partition, each.records) for each in parts])
        rows = stage_records(
            plan.order,
            [batch],
            self._node.options,
            by_partition=True,
            is_patient=any(each.last_error is not None for each in parts),  # not at a first try
        )
        refused = {row.partition: row.refusal for row in rows if row.refusal is not None}
        error = refused.get(-1)
        if error is None:
            for each in parts:
                if (alone := refused.get(each.key.partition)) is not None:
                    outcomes += delivery.fail([each], alone, may_be_appended=False)
            staged = [each for each in parts if each.key.partition not in refused]
            of_staged = [row for row in rows if row.partition not in refused]
            return [(plan, of_staged, staged)] if staged else []
        if len(parts) == 1:
            outcomes += delivery.fail(parts, error, may_be_appended=False)
            return []
        apart = [each for part in parts for each in self._stage(plan, delivery, [part], outcomes)]
        rows = [row for _, of_part, _ in apart for row in of_part]
        return [(plan, rows, [part for _, _, [part] in apart])] if apart else []

    def _append(
        self, delivery: Delivery, staged: Sequence[_Staged], settle: Settle, end_ms: int
    ) -> None:
        """Append what was staged; in two halves, if the whole is refused for a part of it.

        They share the time of the try, until `end_ms`: no record expires before all are done, and
        what is sent meanwhile waits for them.
        """
        if not staged:
            return
        left_ms = max(end_ms - self._node.clock.monotonic_ms(), 1)
        appends = [(replace(plan, timeout_ms=left_ms), rows) for plan, rows, _ in staged]

        try:
            answer_staged(self._node, appends, lambda part: settle(lambda: delivery.answer(part)))
        except KafkaOnSparkError as error:
            is_certain = isinstance(error, _BEFORE_COMMITS)
            halves = _split_refused(staged, error) if is_certain and not is_passing(error) else []
            if halves:
                log.info("a producer's append is split: %s", error)
                for each in halves:
                    self._append(delivery, each, settle, end_ms)
                return
            parts = [part for _, _, parts in staged for part in parts]
            failures = delivery.fail(parts, error, may_be_appended=not is_certain)
            settle(lambda: failures)


def _grouped(
    parts: Iterable[PendingPart], key: Callable[[PendingPart], _T]
) -> dict[_T, list[PendingPart]]:
    found: dict[_T, list[PendingPart]] = {}
    for part in parts:
        found.setdefault(key(part), []).append(part)
    return found


def _split(
    topic: TopicImage,
    records: Sequence[SentRecord],
    number: AppendNumber,
    muted: Container[PartitionKey],
) -> dict[PartitionKey, list[SentRecord]]:
    numbers = sorted(topic.partitions)
    keys = [PartitionKey(topic.topic_id, each) for each in numbers]
    led = [each for each in keys if topic.partitions[each.partition].leader is not None] or keys
    open_keys = [each for each in led if each not in muted] or led
    sticky = open_keys[number.sequence % len(open_keys)].partition
    split = split_by_partition(records, len(numbers), sticky)
    return {PartitionKey(topic.topic_id, each): split[each] for each in split}


def _split_refused(
    staged: Sequence[_Staged], error: KafkaOnSparkError
) -> Sequence[Sequence[_Staged]]:
    """Return the halves of an append's topics, or else of a topic's partitions: `error` may be of
    one of them. It is so of records that a retry has to bring though their topic does not allow
    them any more. By halves, for that one is found by far fewer appends than one for each takes."""
    if len(staged) > 1:
        return _halves(staged)
    [(plan, rows, parts)] = staged
    if len(parts) == 1 or not isinstance(error, _OF_RECORDS):
        return []
    found = []
    for half in _halves(parts):
        numbers = {part.key.partition for part in half}
        found.append([(plan, [row for row in rows if row.partition in numbers], [*half])])
    return found


def _halves(items: Sequence[_T]) -> tuple[Sequence[_T], Sequence[_T]]:
    middle = len(items) // 2
    return items[:middle], items[middle:]


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
        """Send what has gathered at once; wait until all that was sent before has an answer."""
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
