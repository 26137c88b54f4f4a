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
import logging
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
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
from kafka_on_spark.log.segments import HEADERS, TIMESTAMP
from kafka_on_spark.metadata.image import MetadataImage, TopicImage, id_of_one_run
from kafka_on_spark.metadata.reports import is_under_min_isr, too_few_in_sync
from kafka_on_spark.node.node import ID_SOURCE, Node
from kafka_on_spark.produce.accumulator import (
    RECORD_OVERHEAD_BYTES,
    TRY_MS_MIN,
    Accumulator,
    Delivery,
    Outcome,
    ProducerBatch,
    ProducerSettings,
    SentRecord,
    is_passing,
)
from kafka_on_spark.produce.append import answer_staged
from kafka_on_spark.produce.idempotence import NextAppend, ProducerRuns
from kafka_on_spark.produce.leader_log import PartitionBatch
from kafka_on_spark.produce.records import INPUT_SCHEMA, TopicLimits, topic_limits
from kafka_on_spark.produce.staging import (
    AppendPlan,
    ProducerRun,
    StagedSegment,
    choose_partitions,
    plan_stage,
    stage_records,
)
from kafka_on_spark.store.counts import APPEND, operating
from kafka_on_spark.store.deadlines import (
    EXIT_SECONDS,
    SystemClock,
    is_forked,
    no_thread_error,
    pauses_ms,
)

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

INBOX_MAX: Final = 64
"""Records that threads leave for the one that has the lock."""

_Staged = tuple[AppendPlan, list[StagedSegment], list[ProducerBatch]]

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

_clock: Final = SystemClock()
_senders: Final[set["Sender"]] = set()


def split_by_partition(
    records: Sequence[SentRecord], partition_count: int, sticky: int
) -> dict[int, list[SentRecord]]:
    """Return the records of each partition, in their order; those that name neither a key nor a
    partition go to `sticky`."""
    split: defaultdict[int, list[SentRecord]] = defaultdict(list)
    numbers = choose_partitions(
        pa.array([each.partition for each in records], pa.int32()),
        pa.array([each.key for each in records], pa.binary()),
        partition_count,
        np.full(len(records), sticky, np.int32),
    )
    for record, number in zip(records, numbers.tolist(), strict=True):
        split[number].append(record)
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
        pa.array([each.headers for each in records], HEADERS),
        pa.array(numbers, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


class ProducerAppends:
    """The appends of one producer. One thread begins them; several may try them.

    Attributes:
        limits: What topics allow, by name, as of the last append or the first send.
        producer_id: The id of its appends, which no other producer has.
    """

    def __init__(self, node: Node, settings: ProducerSettings) -> None:
        self._node = node
        self._settings = settings
        self.limits: dict[str, TopicLimits] = {}
        self.producer_id = id_of_one_run(ID_SOURCE.new_uuid())
        self._sequences = count()
        self._asked = (-1, 0)
        # A process that makes a producer for each request would remember the runs of all. An append
        # may be under way for as long as a thread has this object.
        weakref.finalize(self, node.part(ProducerRuns).forget, self.producer_id).atexit = False

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
        limits = topic_limits(image, image.topic(topic))
        self.limits[topic] = limits
        return limits

    def begin(
        self, topics: Mapping[str, list[SentRecord]], muted: Container[PartitionKey]
    ) -> tuple[list[ProducerBatch], list[Outcome]]:
        """Return the batches of the next append of records, by topic; and the outcomes of those
        whose topics are gone. No keyless one goes to a `muted` partition."""
        image, sequence = self._node.metadata.image, next(self._sequences)
        batches: list[ProducerBatch] = []
        outcomes: list[Outcome] = []
        for name, records in topics.items():
            try:
                topic = image.topic(name)
            except UnknownTopicOrPartitionError as error:
                self.limits.pop(name, None)
                outcomes.append(Outcome(records=records, error=error))
                continue
            found = _by_partition(topic, records, sequence, muted)
            batches += [ProducerBatch(name, key, sequence, found[key]) for key in sorted(found)]
        return batches, outcomes

    def apart(self, batches: Iterable[ProducerBatch]) -> list[list[ProducerBatch]]:
        """Return batches whose partitions need the same brokers together: one of these may hang."""
        image = self._node.metadata.image

        def brokers(batch: ProducerBatch) -> Set[BrokerId]:
            partition = image.partition(batch.key)
            return partition.isr if partition else frozenset()

        return list(_grouped(batches, brokers).values())

    @operating(APPEND)
    def try_once(self, delivery: Delivery, try_ms: int, settle: Callable[[], object]) -> None:
        """Try to append what has no answer yet; `settle` is called as soon as some has one.

        Records that their topics do not allow any more are left out, by the image that the try is
        planned on: an older one does not know what another process has altered, and the try would
        fail whole. `send` checks by these limits from now on. What is wrong with a topic that is
        gone, `_ready` says.
        """
        try:
            image = self._node.metadata.catch_up()
        except KafkaOnSparkError as error:
            delivery.fail(list(delivery.batches.values()), error)
            return
        topics = {key.topic_id for key in delivery.batches} & image.topics.keys()
        limits = {each: topic_limits(image, image.topics[each]) for each in topics}
        self.limits.update((each.name, each) for each in limits.values())
        delivery.leave_out(limits, self.now_ms())
        staged = self._staged(image, delivery, try_ms)
        settle()
        end_ms = self._node.clock.monotonic_ms() + try_ms
        self._append(delivery, staged, settle, end_ms)

    def _staged(self, image: MetadataImage, delivery: Delivery, try_ms: int) -> list[_Staged]:
        staged: list[_Staged] = []
        by_sequence = _grouped(delivery.batches.values(), lambda batch: batch.sequence)
        for sequence, batches in by_sequence.items():
            # If the id has expired, another run may go on with an append that none has tried yet.
            is_untried = not any(batch.may_be_appended for batch in batches)
            try:
                run = self._node.part(ProducerRuns).begin(
                    NextAppend(
                        producer_id=self.producer_id, sequence=sequence, is_untried=is_untried
                    )
                )
            except KafkaOnSparkError as error:
                delivery.fail(batches, error)
                continue
            for topic_id, of_topic in _grouped(batches, lambda each: each.key.topic_id).items():
                ready = self._ready(image, delivery, of_topic)
                if not ready:
                    continue
                try:
                    plan = self._plan(image, image.topics[topic_id], run, try_ms)
                    staged += self._stage(plan, delivery, ready)
                except KafkaOnSparkError as error:
                    delivery.fail(ready, error)
        return staged

    def _plan(
        self, image: MetadataImage, topic: TopicImage, run: ProducerRun, try_ms: int
    ) -> AppendPlan:
        """Return the plan of records that all name their partitions, each an append of its own: a
        retry names the same, however many there are by then."""
        acks, now_ms = self._settings.acks, self._node.clock.now_ms()
        order = plan_stage(image, topic, acks=acks, has_producer=True, now_ms=now_ms)
        return AppendPlan(
            topic_id=topic.topic_id,
            topic=topic.name,
            order=order,
            acks=acks,
            producer=run,
            timeout_ms=try_ms,
            is_by_partition=True,
        )

    def _ready(
        self, image: MetadataImage, delivery: Delivery, batches: Iterable[ProducerBatch]
    ) -> list[ProducerBatch]:
        """Return the batches that can be appended now: one that can't must not have the whole
        append refused."""
        ready = []
        for batch in batches:
            partition = image.partition(batch.key)
            if partition is None:
                words = f"partition {batch.name} was deleted before this append"
                delivery.fail([batch], UnknownTopicOrPartitionError(words))
            elif self._settings.acks == "all" and is_under_min_isr(
                image, batch.key.topic_id, partition
            ):
                words = too_few_in_sync(image, batch.key, partition)
                delivery.fail([batch], NotEnoughReplicasError(words))
            else:
                ready.append(batch)
        return ready

    def _stage(
        self, plan: AppendPlan, delivery: Delivery, batches: list[ProducerBatch]
    ) -> list[_Staged]:
        """Stage a topic's batches together, or one by one if that fails."""
        rows = stage_records(
            plan.order,
            [batch_of([(each.key.partition, each.records) for each in batches])],
            self._node.options,
            is_patient=any(each.last_error is not None for each in batches),  # not at a first try
        )
        refused = {row.partition: row.refusal for row in rows if row.refusal is not None}
        if -1 in refused and len(batches) > 1:
            return [each for batch in batches for each in self._stage(plan, delivery, [batch])]
        staged = []
        for batch in batches:
            why = refused.get(-1) or refused.get(batch.key.partition)
            if why is None:
                staged.append(batch)
            else:
                delivery.fail([batch], why)
        kept = [row for row in rows if row.refusal is None]
        return [(plan, kept, staged)] if staged else []

    def _append(
        self,
        delivery: Delivery,
        staged: Sequence[_Staged],
        settle: Callable[[], object],
        end_ms: int,
    ) -> None:
        """Append what was staged; one by one, if the whole is refused, perhaps for a part of it:
        for records that a retry has to bring though their topic does not allow them any more.

        They share the time of the try, until `end_ms`: no record expires before all are done, and
        what is sent meanwhile waits for them.
        """
        if not staged:
            return
        left_ms = max(end_ms - self._node.clock.monotonic_ms(), 1)
        appends = [(replace(plan, timeout_ms=left_ms), rows) for plan, rows, _ in staged]

        def take(appended: PartitionBatch) -> None:
            delivery.answer(appended)
            settle()

        try:
            answer_staged(self._node, appends, take)
        except KafkaOnSparkError as error:
            is_certain = isinstance(error, _BEFORE_COMMITS)
            batches = [batch for _, _, of_topic in staged for batch in of_topic]
            if not is_certain or is_passing(error) or len(batches) == 1:
                delivery.fail(batches, error, may_be_appended=not is_certain)
                return
            log.info("a producer's append is split: %s", error)
            for plan, rows, of_topic in staged:
                for batch in of_topic:
                    alone = [row for row in rows if row.partition == batch.key.partition]
                    self._append(delivery, [(plan, alone, [batch])], settle, end_ms)


def _grouped(
    batches: Iterable[ProducerBatch], key: Callable[[ProducerBatch], _T]
) -> dict[_T, list[ProducerBatch]]:
    found: dict[_T, list[ProducerBatch]] = {}
    for batch in batches:
        found.setdefault(key(batch), []).append(batch)
    return found


def _by_partition(
    topic: TopicImage,
    records: Sequence[SentRecord],
    sequence: int,
    muted: Container[PartitionKey],
) -> dict[PartitionKey, list[SentRecord]]:
    numbers = sorted(topic.partitions)
    keys = [PartitionKey(topic.topic_id, each) for each in numbers]
    led = [each for each in keys if topic.partitions[each.partition].leader is not None] or keys
    open_keys = [each for each in led if each not in muted] or led
    sticky = open_keys[sequence % len(open_keys)].partition
    split = split_by_partition(records, len(numbers), sticky)
    return {PartitionKey(topic.topic_id, each): split[each] for each in split}


class Sender:
    """Gathers records of any thread, and sends them in its own ones.

    Attributes:
        condition: What the futures of the next append share.
    """

    def __init__(self, appends: ProducerAppends, settings: ProducerSettings) -> None:
        self._appends = appends
        self._settings = settings
        self._gathering = Accumulator(settings)
        # What is tried again. Source: RecordAccumulator.mutePartition.
        self._muted: dict[PartitionKey, ProducerBatch] = {}
        # Of these the ones that have their answers, and records behind them.
        self._released: list[ProducerBatch] = []
        # In the order of sends: records whose answers are not known, or are being told.
        self._unanswered: dict[SentRecord, None] = {}
        # Of each thread in its order, with the time and `full_bytes`: see `add`.
        self._inbox: deque[tuple[SentRecord, float, int]] = deque()
        self._has_adder = False
        self._is_taking_in = False
        # Taken twice by one thread if a collection of garbage ends the producer there.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._done = threading.Condition(self._lock)
        self._calling = threading.Lock()
        self.condition = threading.Condition()
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

    def add(self, record: SentRecord, full_bytes: int) -> None:
        """Take a record; wait for room in buffer.memory, for at most max.block.ms.

        Threads that wait for each other's lock hand the interpreter around, which costs more than
        a record: they leave theirs in the inbox, and the one that adds takes them in. A record may
        wait there, uncounted, where buffer.memory has room for a whole inbox of its size.

        A thread may be interrupted anywhere. What it leaves in the inbox, the next one takes in, or
        the sender's own thread as it looks.
        """
        gathering, inbox = self._gathering, self._inbox
        inbox_bytes = INBOX_MAX * (record.size_bytes + RECORD_OVERHEAD_BYTES)
        if len(inbox) >= INBOX_MAX or not gathering.has_room(inbox_bytes):
            with self._lock:
                if self._is_closing:
                    raise _closed()
                self._take_in()
                if not gathering.has_room(record.size_bytes):
                    self._wait_for_room(record.size_bytes)
                inbox.append(self._given(record, full_bytes))
                self._take_in()
            return
        inbox.append(given := self._given(record, full_bytes))
        # A flag, and no lock: where two threads set it at once, one waits for the other.
        while inbox and not self._is_closing and not self._has_adder:
            try:
                self._has_adder = True
                with self._lock:
                    if not self._is_closing:
                        self._take_in()
            finally:
                self._has_adder = False  # and look again: who saw it has left a record
        # What was left before the flag was set, the sender's thread takes in.
        if self._is_closing:
            with self._lock:
                if given in inbox:
                    inbox.remove(given)
                    raise _closed()

    def _given(self, record: SentRecord, full_bytes: int) -> tuple[SentRecord, float, int]:
        now_ms = _clock.monotonic_ms()
        record.deadline_ms = now_ms + self._settings.delivery_timeout_ms
        return record, now_ms, full_bytes

    def _take_in(self) -> None:
        """Gather what is in the inbox, each record once, however often a thread is interrupted: it
        leaves the inbox last, and `Accumulator.add` knows one that it has."""
        if self._is_taking_in:  # a collection of garbage sends, in the midst of it
            return
        try:
            self._is_taking_in = True
            while self._inbox:
                given = self._inbox[0]
                self._unanswered[given[0]] = None
                if self._gathering.add(*given):
                    self._work.notify()
                self._inbox.popleft()
        finally:
            self._is_taking_in = False

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
            if not self._is_closing:
                self._take_in()
            before = set(self._unanswered)
            self._gathering.flush()
            self._work.notify()
            is_done = self._done.wait_for(
                lambda: self._is_cut_off or before.isdisjoint(self._unanswered),
                _seconds(timeout_ms),
            )
        if not is_done:
            raise RequestTimedOutError(
                f"not all records had an answer within {timeout_ms} ms: they are still being sent;"
                " ask their futures"
            )

    def _not_sent(self) -> set[SentRecord]:
        """Return the records that no append has: they gather, or wait behind one."""
        behind = (each.behind for each in self._muted.values())
        return {*self._gathering.records, *chain.from_iterable(behind)}

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
        closed = ProducerClosedError("the producer was closed before it had sent this record")
        with self._lock:
            self._is_cut_off = True
            self._take_in()
            not_sent = self._not_sent()
            left = [each for each in self._unanswered if not each.done()]
            self._gathering.take()
            for condition in (self._work, self._room, self._done):
                condition.notify_all()
        # Beside the callbacks of the other threads, one of which may never end.
        tried = Outcome(records=[each for each in left if each not in not_sent], error=unknown)
        waiting = Outcome(records=[each for each in left if each in not_sent], error=closed)
        held = tried.tell() + waiting.tell()
        with self._lock:
            self._gathering.release(held)
        return len(left)

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
                self._take_in()
                due_ms, now_ms = self._gathering.due_at_ms(), _clock.monotonic_ms()
                if due_ms is None and self._is_closing and not self._muted:
                    return None
                is_due = due_ms is not None and (due_ms <= now_ms or self._is_closing)
                if is_due or self._released:
                    self.condition = threading.Condition()
                    return self._take()
                wait_s = IDLE_SECONDS if due_ms is None else (due_ms - now_ms) / 1000
                self._work.wait(min(wait_s, IDLE_SECONDS))
            return None

    def _take(self) -> dict[str, list[SentRecord]]:
        """Take what has waited behind batches that have their answers, and what gathers after it.

        Only here are their partitions unmuted: elsewhere, later records would go before these.
        """
        topics: dict[str, list[SentRecord]] = {}
        for batch in self._released:
            topics.setdefault(batch.topic, []).extend(batch.behind)
            del self._muted[batch.key]
        self._released = []
        for topic, records in self._gathering.take().items():
            topics.setdefault(topic, []).extend(records)
        return topics

    def _send(self, topics: dict[str, list[SentRecord]]) -> None:
        delivery = Delivery()
        try:
            delivery = self._begin(topics)
            if delivery.batches:
                # As short as may be: all that is sent meanwhile waits for it.
                self._try(delivery, TRY_MS_MIN)
        except Exception as error:  # a bug: the thread must live, and no future wait for ever
            log.exception("a producer's append failed")
            with self._lock:
                others = self._not_sent().union(*(each.records for each in self._muted.values()))
                lost = [each for each in self._unanswered if each not in others]
            delivery.batches.clear()
            self._settle([Outcome(records=lost, error=error)])
        left = list(delivery.batches.values())
        with self._lock:
            self._muted.update(delivery.batches)
        # Without the lock: a collection of garbage in a thread that starts may take it.
        for batches in self._appends.apart(left):
            more = f" (and {len(batches) - 1} more)" if len(batches) > 1 else ""
            log.warning("%s%s: tries again: %s", batches[0].name, more, batches[0].last_error)
            retried = Delivery(batches, is_retried=True)
            if not self._begin_retries(retried):
                self._retry_all(retried)

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
        for pause_ms in pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX):
            if not delivery.batches:
                return
            wait_ms = min(pause_ms, delivery.left_ms(_clock.monotonic_ms()))
            with self._lock:
                if self._done.wait_for(lambda: self._is_cut_off, wait_ms / 1000):
                    return
            self._retry(delivery)

    def _begin(self, topics: dict[str, list[SentRecord]]) -> Delivery:
        """Begin an append. Records of muted partitions wait behind what is tried there."""
        with self._lock:
            muted = set(self._muted)
        batches, outcomes = self._appends.begin(topics, muted)
        with self._lock:
            delivery = Delivery()
            for batch in [] if self._is_cut_off else batches:
                if batch.key in self._muted:
                    self._muted[batch.key].behind += batch.records
                else:
                    delivery.batches[batch.key] = batch
            now_ms = _clock.monotonic_ms()
            delivery.expire(now_ms)
            outcomes += self._gathering.expire(now_ms)
        self._settle(outcomes)
        self._settle_of(delivery)
        return delivery

    def _try(self, delivery: Delivery, try_ms: int) -> None:
        settle = partial(self._settle_of, delivery)
        try:
            self._appends.try_once(delivery, try_ms, settle)
        finally:  # by a bug, too: nobody else knows of these outcomes
            settle()

    def _retry(self, delivery: Delivery) -> None:
        try:
            with self._lock:
                delivery.expire(_clock.monotonic_ms())
            self._settle_of(delivery)
            if delivery.batches and not self._is_cut_off:
                self._try(delivery, delivery.try_ms(_clock.monotonic_ms()))
        except Exception as error:  # a bug, as above
            log.exception("a retry of a producer failed")
            delivery.give_up(list(delivery.batches.values()), error)
            self._settle_of(delivery)

    def _settle_of(self, delivery: Delivery) -> None:
        """Settle what a delivery has found; let what waited behind its answered batches be sent."""
        outcomes, answered = delivery.take_outcomes()
        self._settle(outcomes)
        for each in outcomes if delivery.is_retried else ():
            if each.error is not None:
                where = f"{each.records[0].topic}-{each.partition}"
                log.warning("%d records for %s: %s", len(each.records), where, each.error)
        with self._lock:
            for batch in answered:
                if batch.behind:
                    self._released.append(batch)
                else:
                    self._muted.pop(batch.key, None)
            self._work.notify()

    def _settle(self, outcomes: Sequence[Outcome]) -> None:
        """Give records their answers, and word to those that wait for that."""
        if not outcomes:
            return
        with self._calling:
            held = sum(each.tell() for each in outcomes)
        with self._lock:
            for record in chain.from_iterable(each.records for each in outcomes):
                self._unanswered.pop(record, None)
            self._gathering.release(held)
            self._room.notify_all()
            self._done.notify_all()


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
