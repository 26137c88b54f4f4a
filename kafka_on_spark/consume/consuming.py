"""A consumer's loop: hands out what is committed, partition by partition, and saves positions.

One thread at a time calls it. It asks the metadata root only when all that it has read is handed
out, as seldom as CommitWait allows; a member of a group asks also between two calls. A fetch reads
all that is committed of one partition, up to FETCH_OFFSETS_MAX, because a file is read and checked
as a whole; then the next partition is fetched.
"""

import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa

from kafka_on_spark.base.config import LONG_MAX
from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    WakeupError,
)
from kafka_on_spark.base.ids import EPOCH, Offset, PartitionKey
from kafka_on_spark.consume.member import Failure, Listeners, Member
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.subscription import Assign, Subscription, assigned_keys
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.groups.membership import save_positions
from kafka_on_spark.groups.offsets import (
    EARLIEST,
    Position,
    added_since,
    begin,
    cuts_after,
    is_due,
    partition_of,
    revised,
    save_offsets,
)
from kafka_on_spark.log.read_order import ReadOrder, plan_read
from kafka_on_spark.log.reading import end_of, header_pairs, row_schema
from kafka_on_spark.metadata.image import MetadataImage, submit_if_due
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY, CommitWait
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import CONSUME, operating

log = logging.getLogger(__name__)

FETCH_OFFSETS_MAX: Final = 1_000_000
"""So many offsets of one partition are read before the next is fetched."""

COMMIT_PAUSE_MS_MIN: Final = 100
"""Automatic commits are so far apart at least, whatever auto.commit.interval.ms says."""

TRIED_AGAIN: Final = (*ROOTS_AWAY, RequestTimedOutError, CommitOutcomeUnknownError)
"""Errors of a read that may succeed later: of its replicas, or of a compaction that it waits for,
which commits."""


CHUNK_ROWS: Final = 500
"""Rows that become records at once. Source: max.poll.records."""

SLICE_MS: Final = 500
"""So long at least a member waits for partitions that others have, however short its timeout is."""

GATHER_MS: Final = 50
"""A poll that has rows takes more of what is committed for so long."""


class ConsumerRecord(NamedTuple):
    """A record and where it stands. A tuple is made sooner than another object.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The record's offset.
        timestamp_us: The record's timestamp, µs since 1970 UTC.
        timestamp_type: 0: the time of its creation; 1: of its append.
        key: The key, or None.
        value: The value; None: a tombstone.
        headers: Names and values, in order.
        leader_epoch: The leadership under which the record was appended.
    """

    topic: str
    partition: int
    offset: int
    timestamp_us: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int

    @property
    def timestamp(self) -> datetime:
        """The record's timestamp."""
        return EPOCH + timedelta(microseconds=self.timestamp_us)


def records_of(rows: pa.RecordBatch) -> Iterator[ConsumerRecord]:
    """Yield the records of rows as `Consumer.poll` returns them."""
    times = rows.column("timestamp").cast(pa.int64())
    names = "topic partition offset timestampType key value headers leaderEpoch"
    columns = [rows.column(name).to_pylist() for name in names.split()]
    for topic, partition, offset, kind, key, value, headers, epoch, time in zip(
        *columns, times.to_pylist(), strict=True
    ):
        pairs = header_pairs(headers)
        yield ConsumerRecord(topic, partition, offset, time, kind, key, value, pairs, epoch)


@dataclass(slots=True)
class Fetch:
    """A partition that is being read and handed out: of the batch `rows` what is from `start` on,
    and the batches that `source` still yields."""

    order: ReadOrder
    source: Iterator[pa.RecordBatch]
    rows: pa.RecordBatch | None = None
    start: int = 0


class Consuming:
    """Where one consumer stands, and its reads and commits.

    Attributes:
        wait: Returns the newest image; it looks for one seldom, and waits out a short outage.
        is_woken: Ends the wait that is under way, or else the next call. Any thread may set it.
        fetch: Whose rows `next_rows` has returned: what they are is void once this is another.
    """

    def __init__(
        self,
        node: Node,
        wait: CommitWait,
        settings: ConsumerSettings,
        *,
        read: Callable[[ReadOrder], Iterator[pa.RecordBatch]],
        liveness: Liveness | None,
        listeners: Listeners,
    ) -> None:
        self.settings = settings
        self._is_auto_commit = settings.enable_auto_commit and settings.group is not None
        self.paused: Set[PartitionKey] = frozenset()
        self._metadata = node.metadata
        self._clock = node.clock
        self._timeout_ms = node.timeout_ms
        self.wait = wait
        self._read = read
        self.liveness = liveness
        self._listeners = listeners
        self._member: Member | None = None
        self._subscription: Subscription | None = None
        self._assignment: tuple[MetadataImage | None, object, Mapping[PartitionKey, None]]
        self._assignment = None, None, {}
        self._resolved: Mapping[PartitionKey, None] | None = None
        self._is_begun = False
        # Where it goes on, by partition, the one that was fetched last at the end; and where it
        # stood before what is in its caller's hands.
        self._positions: OrderedDict[PartitionKey, Position] = OrderedDict()
        self._handed_out: dict[PartitionKey, Position] = {}
        self.fetch: Fetch | None = None
        # Records of the rows that were read for one, and the fetch that they are of.
        self._records: Iterator[ConsumerRecord] = iter(())
        self._records_of: Fetch | None = None
        self._due: deque[PartitionKey] = deque()
        self._due_in: MetadataImage | None = None
        self._failing: dict[PartitionKey, Failure] = {}
        self._commit_at_ms = math.inf
        if self._is_auto_commit:
            self._commit_at_ms = node.clock.monotonic_ms() + settings.auto_commit_interval_ms
        self.is_woken = False

    # What is read

    def subscribe(self, subscription: Subscription) -> None:
        """Read these partitions from now on; positions in others are committed, if commits are
        automatic, and forgotten. Those that stay assigned go on where they are, or stay paused.

        With a group, a consumer that names topics becomes a member of it by the next call; a member
        leaves that does not."""
        keys = assigned_keys(self.wait.newest(), subscription)
        self._handed_out.clear()
        # A member that fails to leave is not one from here on, and has no partitions of the group.
        self._subscription, self._is_begun, self._resolved = subscription, False, None
        if self._member is None:
            self._try_to_save()
        else:
            self._leave_group(self._member)
        self.leave((self._positions.keys() | self.paused) - set(keys))
        if self.liveness is not None and not isinstance(subscription, Assign):
            self._member = Member(
                self._metadata,
                self.liveness,
                self.processed,
                self.leave,
                self._listeners,
                settings=self.settings,
                subscription=subscription,
            )

    def assignment(self) -> Mapping[PartitionKey, None]:
        """Return the partitions that are read. A member that has not joined its group does."""
        image = self.wait.newest()
        if self._member is not None and not self._member.is_begun:
            self._member.follow()
        return self._assigned(image)

    def _assigned(self, image: MetadataImage) -> Mapping[PartitionKey, None]:
        """Return the partitions that are read in an image, in order: the same as long as nothing
        has changed, since positions are asked for one by one."""
        if self._subscription is None:
            raise InvalidRequestError(
                "the consumer has no partitions: give it topics, or assign partitions to it"
            )
        member = self._member
        of = self._subscription if member is None else member.owned
        if self._assignment[0] is not image or self._assignment[1] is not of:
            if member is None:
                keys = assigned_keys(image, self._subscription)
            else:
                keys = sorted(each for each in member.owned if image.partition(each) is not None)
            self._assignment = image, of, dict.fromkeys(keys)
        return self._assignment[2]

    def position(self, key: PartitionKey) -> Position:
        """Return the position in a partition; it is decided now if it was not."""
        self._check_assigned([key])
        image = self._metadata.image
        if key not in self._positions:
            self._begin(image, [key])
        before = self._positions[key]
        self._revise(image, key)
        fetch = self.fetch
        if self._positions[key] != before and fetch is not None and fetch.order.key == key:
            # Its rows were read before an election, or before the log start has passed them.
            self.fetch = None
        return self._positions[key]

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Go on at `offset` in a partition; what was handed out of it counts as processed."""
        self._check_assigned([key])
        if not 0 <= offset <= LONG_MAX:
            raise InvalidRequestError(
                f"can't seek to offset {offset}: give one from 0 to {LONG_MAX}, or seek to the"
                " beginning or the end"
            )
        generation = partition_of(self._metadata.image, key).unclean_generation
        self._positions[key] = Position(Offset(offset), generation)
        self._handed_out.pop(key, None)
        self._drop_fetches({key})

    def pause(self, keys: Set[PartitionKey]) -> None:
        self._check_assigned(keys)
        self.paused |= keys
        self._drop_fetches(keys)

    def resume(self, keys: Set[PartitionKey]) -> None:
        self._check_assigned(keys)
        self.paused -= keys

    def _check_assigned(self, keys: Iterable[PartitionKey]) -> None:
        assigned = self.assignment()
        for key in keys:
            if key not in assigned:
                name = self._metadata.image.name_of(key)
                raise InvalidRequestError(
                    f"{name} is not assigned to this consumer: assign it first"
                )

    def _begin(self, image: MetadataImage, keys: Sequence[PartitionKey]) -> None:
        """Begin in partitions. Where a member begins in partitions that were added, the group's
        offsets say."""
        group, reset = self.settings.group, self.settings.auto_offset_reset
        added: Set[PartitionKey] = frozenset()
        if self._member is None:
            added = set(keys) if self._is_begun else added_since(image, keys, group)
        for key in keys:
            place = EARLIEST if key in added else reset
            self._positions[key] = begin(image, key, group=group, reset=place)

    def _revise(self, image: MetadataImage, key: PartitionKey) -> None:
        before = self._positions[key]
        after = revised(
            image,
            key,
            before,
            reset=self.settings.auto_offset_reset,
            find_cuts=lambda since: cuts_after(self._metadata.pieces_newest_first(), since),
        )
        if after.offset != before.offset:
            name = image.name_of(key)
            log.warning("%s goes on at offset %d, not %d", name, after.offset, before.offset)
        self._positions[key] = after

    def take_back(self) -> None:
        """Go back to before what was handed out and is not processed: nobody has got it."""
        self._positions |= self._handed_out
        self._handed_out.clear()
        self.fetch = None

    # Handing out

    @property
    def failure(self) -> KafkaOnSparkError | None:
        longest = min(self._failing.values(), key=lambda each: each.since_ms, default=None)
        return None if longest is None else longest.error

    @property
    def is_waiting(self) -> bool:
        return self._member is not None and self._member.is_waiting

    def next_rows(self, timeout_ms: float, rows_max: int) -> pa.RecordBatch | None:
        """Return the next rows of some partition, which `hand_out` hands out; wait for them for
        `timeout_ms` at most. None: there are none. What was handed out before counts as processed
        from now on.

        Raises:
            WakeupError: Another thread has woken it.
            KafkaStorageError: No replica serves a partition, or the metadata root is away, and that
            has lasted."""
        self._records_of = None
        end_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            self.go_on()
            seen = self._metadata.image.offset
            if (rows := self.more_rows(rows_max)) is not None:
                return rows
            left_ms = end_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return None
            self.wait.wait(seen, self._until_due(left_ms), lambda: self.is_woken)

    def table(self, rows: pa.RecordBatch | None) -> pa.Table:
        """Hand out the first rows, and what else there is for a moment, as one table."""
        rows_max = self.settings.max_poll_records
        batches, count = [], 0
        until_ms = self._clock.monotonic_ms() + GATHER_MS
        while rows is not None:
            self.hand_out(rows.num_rows, end_of(rows))
            batches.append(rows)
            count += rows.num_rows
            if count >= rows_max or self._clock.monotonic_ms() >= until_ms:
                break
            rows = self.more_rows(rows_max - count)
        return pa.Table.from_batches(batches, row_schema(has_headers=True, has_epochs=True))

    def next_record(self, timeout_ms: float) -> ConsumerRecord | None:
        """Return the next record, which `hand_out` hands out; wait for it for at most
        `timeout_ms`, and as long as it is a member that waits for what others have.

        Rows that were read for a record serve the calls after it, as long as they are the
        consumer's."""
        if self._records_of is not None:
            if self.is_due():
                with operating(CONSUME):  # at each record it would cost as much as the record
                    self.go_on()
            else:
                self._handed_out.clear()
            is_theirs = self.fetch is not None and self.fetch is self._records_of
            if is_theirs and (record := next(self._records, None)) is not None:
                return record
        with operating(CONSUME):
            rows = self.next_rows(timeout_ms, CHUNK_ROWS)
            while rows is None and self.is_waiting:
                rows = self.next_rows(max(timeout_ms, SLICE_MS), CHUNK_ROWS)
        if rows is None:
            return None
        self._records, self._records_of = records_of(rows), self.fetch
        return next(self._records)

    def is_due(self) -> bool:
        """Return whether `go_on` would do more than take what was handed out as processed."""
        if self.is_woken or self._clock.monotonic_ms() >= self._commit_at_ms:
            return True
        return self._member is not None and (self.wait.is_due or self._member.is_due)

    def go_on(self) -> None:
        """Take what was handed out as processed; commit it, if it is time to. A member does what is
        due in its group: it may lose partitions by that, and get others."""
        self._handed_out.clear()
        if self._clock.monotonic_ms() >= self._commit_at_ms:
            self._try_to_save()
        if self._member is not None:
            self.wait.newest()
            self._member.follow()
            if not self._member.may_hand_out():
                self._records_of = None
        if self.is_woken:
            self.is_woken = False
            raise WakeupError()

    def more_rows(self, rows_max: int) -> pa.RecordBatch | None:
        """Return the next rows without a wait; what was handed out is not processed yet."""
        while (rows := self._peek(rows_max)) is None:
            image = self.wait.newest()
            keys = self._assigned(image)
            if self._resolved is not keys:
                if gone := self._positions.keys() - keys.keys():
                    self.leave(gone)
                self._begin(image, [key for key in keys if key not in self._positions])
                self._resolved, self._is_begun = keys, True
            if not self._begin_fetch(image):
                return None
        member, fetch = self._member, self.fetch
        if member is None:
            return rows
        # Of a partition that is still this consumer's, as far as can be known.
        if not member.may_hand_out() and not self._handed_out:
            member.follow(asks=True)
        return rows if member.may_hand_out() and self.fetch is fetch else None

    def hand_out(self, count: int, end: Offset) -> None:
        """Take the first `count` rows that `next_rows` has returned, up to `end`, as handed out."""
        assert self.fetch is not None, "there are rows of it"
        key = self.fetch.order.key
        before = self._positions[key]
        self._handed_out.setdefault(key, before)
        self.fetch.start += count
        self._positions[key] = replace(before, offset=end)

    def _until_due(self, left_ms: float) -> float:
        """Return how long to wait: until a partition is tried again, or a commit is due, or
        something for a member."""
        now_ms = self._clock.monotonic_ms()
        due = [left_ms, self._commit_at_ms - now_ms]
        if self.fetch is None:
            due += (each.retry_at_ms - now_ms for each in self._failing.values())
        if self._member is not None:
            due.append(self._member.pause_ms())
        return max(min(due), 1)

    # Fetches

    def _peek(self, rows_max: int) -> pa.RecordBatch | None:
        """Return the next rows of the fetch under way; None if there is none, or it is over. Raises
        what has failed for long, and OffsetOutOfRangeError if the records are gone and the log does
        not start behind them."""
        # An error ends its source, and not the order: what is left is read again.
        fetch, self.fetch = self.fetch, None
        if fetch is None:
            return None
        key = fetch.order.key
        try:
            while fetch.rows is None or fetch.start >= fetch.rows.num_rows:
                fetch.rows, fetch.start = next(fetch.source), 0
        except StopIteration:  # behind gaps that compaction has left
            self._failing.pop(key, None)
            self._positions[key] = replace(self._positions[key], offset=fetch.order.end_offset)
            return None
        except TRIED_AGAIN as error:
            self._note_failing(key, error)
            return None
        except OffsetOutOfRangeError:
            now = self._metadata.catch_up().partition(key)
            if now is not None and now.log_start_offset <= fetch.order.partition.log_start_offset:
                raise
            return None  # the newest image says where the log starts
        self._failing.pop(key, None)
        self.fetch = fetch
        return fetch.rows.slice(fetch.start, min(rows_max, fetch.rows.num_rows - fetch.start))

    def _note_failing(self, key: PartitionKey, error: KafkaOnSparkError) -> None:
        """Read other partitions meanwhile, and try this one again; raise `error` if it has failed
        for too long."""
        before = self._failing.pop(key, None)
        now_ms = self._clock.monotonic_ms()
        self._failing[key] = Failure.after(before, error, now_ms, self._timeout_ms)
        if before is None:
            log.warning("a consumer reads other partitions meanwhile: %s", error)

    def _begin_fetch(self, image: MetadataImage) -> bool:
        # For each fetch it would take too long to find all that are due.
        is_of_all = image is not self._due_in or not self._due
        if is_of_all:
            self._due_in = image
            self._due = deque(
                key
                for key, position in self._positions.items()
                if (partition := image.partition(key)) is not None and is_due(partition, position)
            )
            if self._failing:  # those that are not due have nothing that could be tried again
                due = set(self._due)
                self._failing = {key: each for key, each in self._failing.items() if key in due}
        now_ms = self._clock.monotonic_ms()
        while self._due:
            key = self._due[0]
            failing = self._failing.get(key)
            is_waiting = failing is not None and now_ms < failing.retry_at_ms
            if is_waiting or key in self.paused or key not in self._positions:
                self._due.popleft()
                continue
            self._revise(image, key)  # where that raises, this one stays the next
            self._due.popleft()
            start = self._positions[key].offset
            end = partition_of(image, key).high_watermark
            if start < end:
                order = plan_read(
                    image,
                    key,
                    start_offset=start,
                    end_offset=Offset(min(end, start + FETCH_OFFSETS_MAX)),
                    client_rack=self.settings.client_rack,
                )
                self.fetch = Fetch(order, self._read(order))
                self._positions.move_to_end(key)  # one step: ^C may come between two
                return True
        return not is_of_all and self._begin_fetch(image)

    def _drop_fetches(self, keys: Set[PartitionKey]) -> None:
        """Forget what was read of some partitions and not handed out, and that they fail."""
        if self.fetch is not None and self.fetch.order.key in keys:
            self.fetch = None
        for key in keys:
            self._failing.pop(key, None)

    # Commits, and the group

    def commit(self) -> None:
        """Commit the positions: all that was handed out counts as processed."""
        self._save(self._positions)
        self._handed_out.clear()

    def commit_offsets(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit these offsets; what was handed out below them counts as processed."""
        group, now_ms = self._group(), self._clock.now_ms()
        member = None if self._member is None else self._member.membership()
        self._metadata.submit(
            lambda image: save_offsets(image, group, offsets, member, now_ms),
            timeout_ms=self._timeout_ms,
        )
        for key, offset in offsets.items():
            before = self._handed_out.get(key)
            if before is None or offset <= before.offset:
                continue
            if offset >= self._positions[key].offset:
                del self._handed_out[key]
            else:
                self._handed_out[key] = Position(Offset(offset), before.unclean_generation)

    def committed(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Offset | None]:
        """Return the group's offsets; None where it has none."""
        group, saved = self._group(), self._metadata.catch_up().group_offsets
        found = {key: saved.get((group, key)) for key in keys}
        return {key: None if each is None else each.offset for key, each in found.items()}

    def _group(self) -> str:
        if self.settings.group is None:
            raise InvalidRequestError("the consumer has no group to commit for: give it one")
        return self.settings.group

    def _save(self, positions: Mapping[PartitionKey, Position]) -> None:
        group, now_ms, positions = self._group(), self._clock.now_ms(), dict(positions)
        if not positions:
            return
        member = None if self._member is None else self._member.membership()
        submit_if_due(
            self._metadata.image,
            lambda image: save_positions(image, group, positions, member, now_ms),
            partial(self._metadata.submit, timeout_ms=self._timeout_ms),
        )

    def _try_to_save(self) -> None:
        """Save what was processed, if commits are automatic; a failure is logged."""
        if not self._is_auto_commit:
            return
        pause_ms = max(self.settings.auto_commit_interval_ms, COMMIT_PAUSE_MS_MIN)
        self._commit_at_ms = self._clock.monotonic_ms() + pause_ms
        try:
            self._save({**self._positions, **self._handed_out})
        except KafkaOnSparkError as error:
            log.warning("the offsets of group %r were not committed: %s", self._group(), error)

    def processed(self, keys: Set[PartitionKey]) -> Mapping[PartitionKey, Position]:
        known = {**self._positions, **self._handed_out}
        return {key: known[key] for key in keys if key in known}

    def leave(self, keys: Set[PartitionKey]) -> None:
        """Forget partitions: nothing of them is handed out any more."""
        self._drop_fetches(keys)
        self.paused -= keys
        for key in keys:
            self._positions.pop(key, None)
            self._handed_out.pop(key, None)

    def end(self, *, is_failed: bool) -> None:
        """Commit the positions, if commits are automatic, and leave the group. `is_failed`: what
        was handed out last is not processed."""
        if not is_failed:
            self._handed_out.clear()
        if self._member is not None:
            self._leave_group(self._member)
        elif self._is_auto_commit:
            self._save({**self._positions, **self._handed_out})

    def _leave_group(self, member: Member) -> None:
        try:
            member.leave()
        finally:
            self.leave(member.owned)
            self._member = None
