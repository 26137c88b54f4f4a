"""The object that reads a topic as it grows: Kafka's consumer, in plain Python."""

import math
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Self

import pyarrow as pa

from kafka_on_spark.cluster.consuming.consumed import ConsumerRecord
from kafka_on_spark.cluster.consuming.handouts import Handouts
from kafka_on_spark.cluster.consuming.member_threads import MemberThreads
from kafka_on_spark.cluster.consuming.one_caller import NamesOf, OneCaller, OnPartitions
from kafka_on_spark.cluster.consuming.partition_offsets import (
    given_offsets,
    offsets_at,
    offsets_at_times,
)
from kafka_on_spark.errors import ConsumerClosedError, KafkaOnSparkError
from kafka_on_spark.ids import Offset, PartitionKey, TopicPartition, check_whole_number
from kafka_on_spark.query.consuming.assigned import assignment_of
from kafka_on_spark.query.consuming.settings import EARLIEST, LATEST, ConsumerSettings
from kafka_on_spark.query.consuming.standing import partition_of
from kafka_on_spark.query.partition_names import key_of, keys_of, names_of
from kafka_on_spark.query.subscription import Assign, Subscription
from kafka_on_spark.service.consume.consuming import Consuming
from kafka_on_spark.service.consume.members.membership import Listeners
from kafka_on_spark.spark.wiring.accounts import CONSUME
from kafka_on_spark.spark.wiring.consuming import consuming_of, witness_of
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.access.requests import operating
from kafka_on_spark.storage.calls.forks import is_forked

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
        services: Services,
        settings: ConsumerSettings,
        subscription: Subscription | None,
        timeout_ms: float | None,
        *,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        self._services = services
        self._metadata = services.metadata
        self._callers = OneCaller()
        metadata = services.metadata  # a consumer that nobody has any more is not kept by itself
        self._names: NamesOf = lambda keys: names_of(metadata.image, keys)
        listeners = Listeners(
            assigned=self._callers.telling(on_assigned, self._names),
            revoked=self._callers.telling(on_revoked, self._names),
            lost=self._callers.telling(on_revoked if on_lost is None else on_lost, self._names),
        )
        witness = witness_of(services, settings)
        self._consuming = consuming_of(services, settings, witness, listeners)
        self._handouts = Handouts(self._consuming, services.clock)
        self._is_closed = self._is_ending = False
        self._timeout_ms = math.inf if timeout_ms is None else timeout_ms
        self._threads: MemberThreads | None = None
        if subscription is not None:
            self._consuming.subscribe(subscription)
            if witness is not None and not isinstance(subscription, Assign):
                self._threads = MemberThreads(witness)
                # A consumer that nobody has any more is no reason to beat.
                weakref.finalize(self, self._threads.end).atexit = False

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
        is_in_hand = False
        try:
            with self._alone(in_callbacks=False):
                rows = self._handouts.next_rows(timeout_ms)
                is_in_hand = True
                return self._handouts.table(rows)
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
            with self._exclusive(in_callbacks=False):
                record = self._handouts.next_record(self._timeout_ms)
                if record is not None:
                    is_in_hand = True
                    self._handouts.hand_out_record()
        except BaseException:  # ^C, too, up to the last moment of the call
            if is_in_hand:
                self._consuming.take_back()
            raise
        if record is None:
            raise StopIteration
        return record

    def wakeup(self) -> None:
        """Have the call that waits in another thread, or the next one, raise a WakeupError."""
        self._consuming.wake_up()

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
            return consuming.standing(self._key(partition)).offset

    def current_lag(self, partition: Partition) -> int:
        """Return how many committed offsets of a partition are at or above the position.

        Raises: as `position`.
        """
        with self._alone() as consuming:
            image = self._metadata.catch_up()
            key = key_of(image, partition)
            offset = consuming.standing(key).offset
            return max(partition_of(image, key).high_watermark - offset, 0)

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at an offset of a partition. One that is out of range is told by the next `poll`,
        or replaced as auto_offset_reset says.

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
            for key, offset in offsets_at(image, place, keys).items():
                consuming.seek(key, offset)

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
            found = offsets_at(image, place, keys_of(image, partitions))
            return {image.name_of(key): offset for key, offset in found.items()}

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
            return offsets_at_times(self._services, times, consuming.settings.client_rack)

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
            else:
                consuming.commit_offsets(given_offsets(self._services, offsets))

    def committed(self, partitions: Iterable[Partition]) -> dict[TopicPartition, Offset | None]:
        """Return the group's offsets; None where it has none.

        Raises:
            InvalidRequestError: The consumer has no group.
            UnknownTopicOrPartitionError: A partition does not exist.
        """
        with self._alone() as consuming:
            image = self._metadata.catch_up()
            keys = keys_of(image, partitions)
            found = consuming.saving.committed(keys)
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
                if self._threads is not None:
                    self._threads.end()

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
    def _alone(self, *, in_callbacks: bool = True) -> Iterator[Consuming[pa.RecordBatch]]:
        """Do as `_exclusive`, and have the block be an operation."""
        with (
            self._exclusive(in_callbacks=in_callbacks) as consuming,
            operating(CONSUME),
        ):
            yield consuming

    @contextmanager
    def _exclusive(self, *, in_callbacks: bool) -> Iterator[Consuming[pa.RecordBatch]]:
        """Keep other threads out.

        Raises:
            ConsumerClosedError, ClusterClosedError: The consumer or the cluster is closed.
            InvalidRequestError: As `OneCaller.alone`.
        """
        with self._callers.alone(in_callbacks=in_callbacks):
            if self._is_closed and not self._is_ending:
                raise ConsumerClosedError(
                    "the consumer is closed: make another with Cluster.consumer"
                )
            self._metadata.check_open()
            try:
                yield self._consuming
            except KafkaOnSparkError:
                raise
            except BaseException:  # ^C, or a signal handler's error, in the middle of anything
                self._consuming.void()
                raise

    def _key(self, name: object) -> PartitionKey:
        """Return the key of a partition that is assigned, as far as is known without a look at the
        metadata root for each."""
        return key_of(self._consuming.newest(), name)

    def _keys(self, names: object) -> list[PartitionKey]:
        return keys_of(self._consuming.newest(), names)
