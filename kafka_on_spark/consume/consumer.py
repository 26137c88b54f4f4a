"""The object that reads a topic as it grows: Kafka's consumer, in plain Python."""

import math
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from operator import index
from types import TracebackType
from typing import Self

import pyarrow as pa

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    ConsumerClosedError,
    InvalidRequestError,
    KafkaOnSparkError,
)
from kafka_on_spark.base.ids import (
    Offset,
    PartitionKey,
    TopicPartition,
    check_mapping,
    check_number,
    check_whole_number,
    given_micros,
)
from kafka_on_spark.consume.consuming import ConsumerRecord, Consuming
from kafka_on_spark.consume.member import Listeners
from kafka_on_spark.consume.reads import handling_of
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Assign, Subscription, assignment_of
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.offsets import EARLIEST, LATEST, at, partition_of
from kafka_on_spark.log.read_order import ReadOrder, after_others
from kafka_on_spark.log.reading import look_up_offsets, read_rows
from kafka_on_spark.metadata.image import key_of, keys_of, names_of
from kafka_on_spark.metadata.metadata_service import CommitWait
from kafka_on_spark.node.node import Node, heartbeats
from kafka_on_spark.store.counts import BYTES_OUT, CONSUME, MESSAGES_OUT, REQUEST_MS, operating
from kafka_on_spark.store.deadlines import FORKED, WakingClock, is_forked

Partition = tuple[str, int]


class Consumer:
    """Reads committed records as they come, and keeps a group's offsets. Made by
    `Cluster.consumer`.

    `poll` returns rows as Arrow; a loop over the consumer gets records one by one, and waits for
    the next. One thread uses it at a time; `wakeup` is for any. Close it, or use it in `with`.

    What was handed out counts as processed once more is asked for, or by `commit` and `close`. So a
    loop that fails in the middle of a record reads that record again, and nothing is skipped.
    """

    def __init__(
        self,
        node: Node,
        settings: ConsumerSettings,
        subscription: Subscription | None,
        timeout_ms: float | None,
        listeners: Listeners,
    ) -> None:
        self._node = node
        self._metadata = node.metadata
        # The thread that is in a call. It never keeps itself out: ^C may end a call that has the
        # lock and no block yet that gives it back, and the thread must be able to close.
        self._lock = threading.RLock()
        self._listeners = listeners
        self._consuming = _consuming_of(node, settings, listeners)
        self._is_closed = self._is_ending = False
        self._timeout_ms = math.inf if timeout_ms is None else timeout_ms
        self._ended: threading.Event | None = None
        if subscription is not None:
            self._consuming.subscribe(subscription)
            liveness = self._consuming.liveness
            if liveness is not None and not isinstance(subscription, Assign):
                self._ended = liveness.begin_threads()
                # A consumer that nobody has any more is no reason to beat.
                weakref.finalize(self, self._ended.set).atexit = False

    # Records

    def poll(self, timeout_ms: float | None = 0) -> pa.Table:
        """Return the next records, in the columns of `Cluster.read` and leaderEpoch, under which a
        record was appended; wait for them for at most `timeout_ms` (None: for as long as it takes).
        Without any the table is empty.

        A table has max_poll_records at most, of one partition or several, each in offset order.

        Raises:
            InvalidRequestError: The consumer has no partitions.
            UnknownTopicOrPartitionError: One of them is gone.
            OffsetOutOfRangeError, LogTruncatedError: A position is gone, or was never decided, and
                auto_offset_reset is 'none'.
            KafkaStorageError: The metadata root, or all replicas of a partition, have not answered
                for long.
            UnreleasedInstanceIdError, GroupMaxSizeReachedError, UnsupportedAssignorError: The group
                does not take the consumer.
            FencedInstanceIdError: The consumer was fenced, and another is the static member now.
            WakeupError: Another thread has called `wakeup`.
        """
        if timeout_ms is not None:
            check_number(timeout_ms, "timeout_ms")
        most_ms = math.inf if timeout_ms is None else timeout_ms
        is_in_hand = False
        try:
            with self._alone(in_callbacks=False) as consuming:
                rows = consuming.next_rows(most_ms, consuming.settings.max_poll_records)
                is_in_hand = True
                return consuming.table(rows)
        except BaseException:  # ^C, too, up to the last moment of the call
            if is_in_hand:
                self._consuming.take_back()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ConsumerRecord:
        """Return the next record; wait for it for at most consumer_timeout_ms, which does not run
        while the consumer `is_waiting`.

        Raises: as `poll`.
        """
        is_in_hand = False
        try:
            with self._exclusive(in_callbacks=False) as consuming:
                record = consuming.next_record(self._timeout_ms)
                if record is not None:
                    is_in_hand = True
                    consuming.hand_out(1, Offset(record.offset + 1))
        except BaseException:  # ^C, too, up to the last moment of the call
            if is_in_hand:
                self._consuming.take_back()
            raise
        if record is None:
            raise StopIteration
        return record

    def wakeup(self) -> None:
        """Have the call that waits in another thread, or the next one, raise a WakeupError."""
        self._consuming.is_woken = True

    # Partitions

    @property
    def is_waiting(self) -> bool:
        """Whether the consumer waits for partitions that others of its group have still: for two
        sessions at most, in which members are fenced that were killed."""
        return self._consuming.is_waiting

    @property
    def failure(self) -> KafkaOnSparkError | None:
        """Why the partition that fails for longest can't be read from any replica; None: all can.
        It is tried again, and others are read meanwhile."""
        return self._consuming.failure

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions and no others, as in `[("orders", 0)]`. What was handed out before
        counts as processed; with enable_auto_commit it is committed, and a failure of that logged.

        Raises:
            InvalidRequestError: A partition is not named by topic and number, or there is none.
            UnknownTopicOrPartitionError: One does not exist.
        """
        with self._alone() as consuming:
            consuming.subscribe(assignment_of(self._metadata.catch_up(), partitions))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read.

        Raises:
            UnknownTopicOrPartitionError: One of them is gone.
        """
        with self._alone() as consuming:
            return self._names(consuming.assignment())

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Hand out nothing of these partitions until they are resumed; positions stay.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        with self._alone() as consuming:
            consuming.pause(set(self._keys(partitions)))

    def resume(self, partitions: Iterable[Partition]) -> None:
        """Go on with partitions that were paused.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        with self._alone() as consuming:
            consuming.resume(set(self._keys(partitions)))

    def paused(self) -> list[TopicPartition]:
        """Return the partitions that are paused."""
        with self._alone() as consuming:
            return self._names(consuming.paused)

    # Positions

    def position(self, partition: Partition) -> Offset:
        """Return the offset of the next record that is handed out of a partition.

        Raises:
            InvalidRequestError: The partition is not assigned.
            OffsetOutOfRangeError, LogTruncatedError: As in `poll`.
        """
        with self._alone() as consuming:
            return consuming.position(self._key(partition)).offset

    def current_lag(self, partition: Partition) -> int:
        """Return how many committed offsets of a partition are at or above the position.

        Raises: as `position`.
        """
        with self._alone() as consuming:
            image = self._metadata.catch_up()
            key = key_of(image, partition)
            offset = consuming.position(key).offset
            return max(partition_of(image, key).high_watermark - offset, 0)

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at an offset of a partition. The next `poll` raises if it is out of range, or
        replaces it as auto_offset_reset says.

        Raises:
            InvalidRequestError: The partition is not assigned, or no record can have the offset.
        """
        with self._alone() as consuming:
            check_whole_number(offset, "the offset")
            consuming.seek(self._key(partition), offset)

    def seek_to_beginning(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on at the log start of partitions (None: of all that are assigned).

        Raises:
            InvalidRequestError: One is not assigned.
        """
        self._seek_to(EARLIEST, partitions)

    def seek_to_end(self, partitions: Iterable[Partition] | None = None) -> None:
        """Go on with what is committed from now on.

        Raises:
            InvalidRequestError: A partition is not assigned.
        """
        self._seek_to(LATEST, partitions)

    def _seek_to(self, place: str, partitions: Iterable[Partition] | None) -> None:
        with self._alone() as consuming:
            image = self._metadata.catch_up()
            keys = consuming.assignment() if partitions is None else keys_of(image, partitions)
            for key in keys:
                consuming.seek(key, at(partition_of(image, key), place).offset)

    def beginning_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, Offset]:
        """Return the first offset that is kept of each partition.

        Raises:
            UnknownTopicOrPartitionError: One does not exist.
        """
        return self._offsets(EARLIEST, partitions)

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[TopicPartition, Offset]:
        """Return the first offset of each partition that is not committed.

        Raises:
            UnknownTopicOrPartitionError: One does not exist.
        """
        return self._offsets(LATEST, partitions)

    def _offsets(self, place: str, partitions: Iterable[Partition]) -> dict[TopicPartition, Offset]:
        with self._alone():
            image = self._metadata.catch_up()
            return {
                image.name_of(key): at(partition_of(image, key), place).offset
                for key in keys_of(image, partitions)
            }

    def offsets_for_times(
        self, times: Mapping[Partition, datetime | int]
    ) -> dict[TopicPartition, Offset | None]:
        """Return the offset of the first record of each partition that is not older than a time, a
        datetime with a time zone or ms since 1970; None: all committed records are older.

        Raises:
            InvalidRequestError: A time is neither.
            UnknownTopicOrPartitionError: A partition does not exist.
            KafkaStorageError: No replica can answer.
        """
        with self._alone() as consuming:
            check_mapping(times, "times", "partitions and times")
            image = self._metadata.catch_up()
            asked = [(key_of(image, name), _milliseconds(time)) for name, time in times.items()]
            rack = consuming.settings.client_rack
            found = look_up_offsets(image, image, asked, self._node.options, rack)
            return {
                image.name_of(key): offset for (key, _), offset in zip(asked, found, strict=True)
            }

    # Commits

    def commit(self, offsets: Mapping[Partition, int] | None = None) -> None:
        """Commit the group's offsets: the positions, so that all that was handed out counts as
        processed; or other ones, and what was handed out below them does.

        Raises:
            InvalidRequestError: The consumer has no group.
            OffsetOutOfRangeError: A given offset is below the log start or above the high
                watermark.
            UnknownTopicOrPartitionError: A partition does not exist.
            UnknownMemberIdError: The consumer was fenced: others go on from what was committed; or
                the group has members, and it is none.
            StaleMemberEpochError: A partition is not the consumer's any more.
            RequestTimedOutError: Other commits were always faster: nothing is committed.
            CommitOutcomeUnknownError: Whether it is committed is unknown; commit again.
        """
        with self._alone() as consuming:
            if offsets is None:
                consuming.commit()
                return
            check_mapping(offsets, "offsets", "partitions and offsets")
            for offset in offsets.values():
                check_whole_number(offset, "the offset")
            image = self._metadata.catch_up()
            consuming.commit_offsets(
                {key_of(image, name): offset for name, offset in offsets.items()}
            )

    def committed(self, partitions: Iterable[Partition]) -> dict[TopicPartition, Offset | None]:
        """Return the group's offsets; None where it has none.

        Raises:
            InvalidRequestError: The consumer has no group.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        with self._alone() as consuming:
            image = self._metadata.catch_up()
            keys = keys_of(image, partitions)
            found = consuming.committed(keys)
            return {image.name_of(key): found[key] for key in keys}

    # The end

    def close(self) -> None:
        """End; with enable_auto_commit, commit the positions first. A member leaves its group.

        Raises:
            RequestTimedOutError, CommitOutcomeUnknownError: As `commit`. It is closed; others fence
                a member that could not leave.
        """
        self._close(is_failed=False)

    def _close(self, *, is_failed: bool) -> None:
        if self._is_closed or is_forked():
            return
        with self._alone(in_callbacks=False) as consuming:
            self._is_closed = self._is_ending = True  # a callback may still commit
            try:
                consuming.end(is_failed=is_failed)
            finally:
                self._is_ending = False
                if self._ended is not None:
                    self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; after an error what was handed out last does not count as processed."""
        self._close(is_failed=error is not None)

    @contextmanager
    def _alone(self, *, in_callbacks: bool = True) -> Iterator[Consuming]:
        """Do as `_exclusive`, and have the block be an operation."""
        with self._exclusive(in_callbacks=in_callbacks) as consuming, operating(CONSUME):
            yield consuming

    @contextmanager
    def _exclusive(self, *, in_callbacks: bool) -> Iterator[Consuming]:
        """Keep other threads out. `in_callbacks`: a callback may make this call, in the middle of
        its caller's. Source: KafkaConsumer.acquire.

        Raises:
            ClusterClosedError: The cluster is closed, or this process was forked.
            ConsumerClosedError: The consumer is.
            InvalidRequestError: Another thread is in a call, or a callback may not make this one.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        if self._listeners.in_thread == threading.get_ident() and not in_callbacks:
            raise InvalidRequestError(
                "a callback about partitions can't ask for records or close the consumer, which"
                " is in the middle of that: do it after the poll"
            )
        if not self._lock.acquire(blocking=False):
            raise InvalidRequestError(
                "another thread is in a call of this consumer, which is for one thread at a time:"
                " make a consumer for each thread, or end the call by wakeup()"
            )
        try:
            if self._is_closed and not self._is_ending:
                raise ConsumerClosedError(
                    "the consumer is closed: make another with Cluster.consumer"
                )
            self._metadata.check_open()
            yield self._consuming
        except KafkaOnSparkError:
            raise
        except BaseException:  # ^C, or a signal handler's error, in the middle of anything
            self._consuming.fetch = None
            raise
        finally:
            self._lock.release()

    def _names(self, keys: Iterable[PartitionKey]) -> list[TopicPartition]:
        return names_of(self._metadata.image, keys)

    def _key(self, name: object) -> PartitionKey:
        """Return a key, as far as is known without asking the metadata root each time."""
        return key_of(self._consuming.wait.newest(), name)

    def _keys(self, names: object) -> list[PartitionKey]:
        return keys_of(self._consuming.wait.newest(), names)


def _milliseconds(time: object) -> int:
    if isinstance(time, datetime):
        return given_micros("a time", time) // 1000
    check_whole_number(time, "a time that is no datetime")
    return index(time)  # type: ignore[arg-type]


def _consuming_of(node: Node, settings: ConsumerSettings, listeners: Listeners) -> Consuming:
    handling, worker = handling_of(node), node.tasks.worker

    def read(order: ReadOrder) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an order, and count what they have and how long each was read."""
        if node.metadata.suspects:
            order = after_others(order, node.metadata.suspects)
        batches = read_rows(order, worker.replicas, worker.options, has_epochs=True, **handling)
        counts = node.counts
        began_ms = counts.now_ms()
        try:
            for batch in batches:
                counts.add(REQUEST_MS, counts.now_ms() - began_ms, request="Fetch")
                counts.add(MESSAGES_OUT, batch.num_rows, topic=order.name.topic)
                counts.add(BYTES_OUT, batch.nbytes, topic=order.name.topic)
                yield batch
                began_ms = counts.now_ms()
        finally:
            batches.close()
            if node.metadata.suspects:
                from kafka_on_spark.controller.inspections import inspect_findings

                inspect_findings(node)

    liveness = None
    if settings.group is not None:
        liveness = Liveness(
            node.metadata,
            node.part(heartbeats),
            WakingClock(),
            group=settings.group,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            timeout_ms=node.timeout_ms,
            new_id=node.ids.new_uuid,
        )
    wait = CommitWait(node.metadata, node.clock)
    return Consuming(node, wait, settings, read=read, liveness=liveness, listeners=listeners)
