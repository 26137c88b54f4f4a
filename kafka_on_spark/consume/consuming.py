"""A consumer's loop: hands out what is committed, partition by partition, and commits positions.

One thread at a time calls it. It asks the metadata root only when all that it has read is handed
out, as seldom as CommitWait allows; a member of a group asks also between two calls. Partitions
take turns: a turn reads all that is committed of one, up to TURN_OFFSETS_MAX, because a file is
read and checked as a whole, and turns row by row would read it again and again.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Protocol, Self, TypeVar

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    InvalidRequestError,
    KafkaOnSparkError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    WakeupError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.base.process import Clock
from kafka_on_spark.base.setting_values import LONG_MAX
from kafka_on_spark.consume.following import save_positions
from kafka_on_spark.consume.member import RETRY_MS, Listeners, Member
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.consume.standing import (
    Standing,
    begin,
    cuts_after,
    is_due,
    partition_of,
    revised,
)
from kafka_on_spark.consume.subscription import Assign, Subscription, assigned_keys
from kafka_on_spark.groups.checks import Membership
from kafka_on_spark.groups.groups import save_offsets
from kafka_on_spark.groups.offsets import added_since
from kafka_on_spark.groups.witness import Witness
from kafka_on_spark.log.read_order import ReadOrder, plan_read
from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY, CommitWait
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.result import submit_if_due

log = logging.getLogger(__name__)

TURN_OFFSETS_MAX: Final = 1_000_000
"""So many offsets of one partition are read before the next has its turn."""

COMMIT_PAUSE_MS_MIN: Final = 100
"""Automatic commits are so far apart at least, whatever auto.commit.interval.ms says."""

TRIED_AGAIN: Final = (*ROOTS_AWAY, RequestTimedOutError, CommitOutcomeUnknownError)
"""Errors of a read that may succeed later: of its replicas, or of a compaction that it waits for,
which commits."""


class RowBatch(Protocol):
    """Rows of one partition in offset order: a batch of Arrow's."""

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        ...

    def slice(self, offset: int, length: int) -> Self:
        """Return some of the rows."""
        ...


Rows = TypeVar("Rows", bound=RowBatch)

ReadRows = Callable[[ReadOrder], Iterator[Rows]]
"""Reads an order's rows; raises OffsetOutOfRangeError if records of it were deleted meanwhile."""

EndOf = Callable[[Rows], Offset]
"""Returns the offset after the last of some rows."""


@dataclass(slots=True)
class Turn(Generic[Rows]):
    """A partition's turn.

    Attributes:
        order: What is read.
        source: The batches that are still to come.
        rows: The batch that is being handed out.
        start: Its first row that was not handed out.
    """

    order: ReadOrder
    source: Iterator[Rows]
    rows: Rows | None = None
    start: int = 0

    @property
    def key(self) -> PartitionKey:
        """The partition."""
        return self.order.key

    def peek(self, rows_max: int) -> Rows | None:
        """Return the next rows, of which `start` is moved as they are handed out; None at the end
        of the turn."""
        while self.rows is None or self.start >= self.rows.num_rows:
            self.rows, self.start = next(self.source, None), 0
            if self.rows is None:
                return None
        return self.rows.slice(self.start, min(rows_max, self.rows.num_rows - self.start))


@dataclass(slots=True)
class _Failing:
    """Why no replica serves a partition, and since when; by the process's monotonic clock."""

    error: KafkaOnSparkError
    since_ms: int
    retry_at_ms: int


class Consuming(Generic[Rows]):
    """Where one consumer stands, and its reads and commits.

    Attributes:
        settings: The consumer's.
        witness: Of a consumer with a group: beats for it, and looks at others.
        paused: Partitions of which it hands out nothing.
    """

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        wait: CommitWait,
        *,
        settings: ConsumerSettings,
        read: ReadRows[Rows],
        end_of: EndOf[Rows],
        timeout_ms: int,
        witness: Witness | None,
        listeners: Listeners,
        new_id: Callable[[], str],
    ) -> None:
        self.settings = settings
        self.paused: Set[PartitionKey] = frozenset()
        self._metadata = metadata
        self._clock = clock
        self._wait = wait
        self._read = read
        self._end_of = end_of
        self._timeout_ms = timeout_ms
        self.witness = witness
        self._listeners = listeners
        self._new_id = new_id
        self._member: Member | None = None
        self._subscription: Subscription | None = None
        self._assignment: tuple[MetadataImage | None, object, Mapping[PartitionKey, None]]
        self._assignment = None, None, {}
        self._resolved: Mapping[PartitionKey, None] | None = None
        self._is_begun = False
        # Where it goes on, by partition; and where it stood before what is in its caller's hands.
        self._standings: dict[PartitionKey, Standing] = {}
        self._handed_out: dict[PartitionKey, Standing] = {}
        self._turn: Turn[Rows] | None = None
        self._last: PartitionKey | None = None
        self._due: deque[PartitionKey] = deque()
        self._due_in: MetadataImage | None = None
        self._failing: dict[PartitionKey, _Failing] = {}
        self._commit_at_ms = clock.monotonic_ms() + settings.auto_commit_interval_ms
        self._is_woken = False

    # What is read

    def subscribe(self, subscription: Subscription) -> None:
        """Read these partitions from now on; positions in others are committed, if commits are
        automatic, and forgotten. Those that stay assigned go on where they are, or stay paused.

        With a group, who names topics becomes a member of it by the next call; a member leaves that
        does not.

        Raises: as `assigned_keys` and `leave_group`.
        """
        keys = assigned_keys(self._wait.newest(), subscription)
        self._handed_out.clear()
        # A member whose leaving fails is none from here on, and has none of the group's partitions.
        self._subscription, self._is_begun, self._resolved = subscription, False, None
        if self._member is None:
            self._try_to_save()
        else:
            self._leave_group(is_failed=False)
        self.leave((self._standings.keys() | self.paused) - set(keys))
        if self.witness is not None and not isinstance(subscription, Assign):
            self._member = Member(
                self._metadata,
                self.witness,
                self.processed,
                self.leave,
                self._listeners,
                settings=self.settings,
                subscription=subscription,
                new_id=self._new_id,
                timeout_ms=self._timeout_ms,
            )

    def newest(self) -> MetadataImage:
        """Return the newest image, looked for as seldom as by who waits; an outage of the metadata
        root is no error until it has lasted.

        Raises: as `CommitWait.newest`.
        """
        return self._wait.newest()

    def assignment(self) -> list[PartitionKey]:
        """Return the partitions that are read. A member that has not joined its group does.

        Raises: as `assigned_keys`; and InvalidRequestError: nothing was subscribed to.
        """
        return list(self._newest_assigned())

    def _newest_assigned(self) -> Mapping[PartitionKey, None]:
        image = self._wait.newest()
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

    def standing(self, key: PartitionKey) -> Standing:
        """Return the position in a partition; it is decided now if it was not.

        Raises:
            InvalidRequestError: The partition is not assigned.
            And as `begin` and `revised`.
        """
        self._check_assigned([key])
        image = self._metadata.image
        if key not in self._standings:
            self._begin(image, [key])
        before = self._standings[key]
        self._revise(image, key)
        if self._standings[key] != before and self._turn is not None and self._turn.key == key:
            # Its rows were read before an election, or before the log start has passed them.
            self._turn = None
        return self._standings[key]

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Go on at `offset` in a partition; what was handed out of it counts as processed.

        Raises:
            InvalidRequestError: The partition is not assigned, or no record can have the offset.
        """
        self._check_assigned([key])
        if not 0 <= offset <= LONG_MAX:
            raise InvalidRequestError(
                f"can't seek to offset {offset}: give one from 0 to {LONG_MAX}, or seek to the"
                " beginning or the end"
            )
        generation = partition_of(self._metadata.image, key).unclean_generation
        self._standings[key] = Standing(Offset(offset), generation)
        self._handed_out.pop(key, None)
        self._leave_turns({key})

    def pause(self, keys: Set[PartitionKey]) -> None:
        """Hand out nothing of some partitions until they are resumed.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        self._check_assigned(keys)
        self.paused |= keys
        self._leave_turns(keys)

    def resume(self, keys: Set[PartitionKey]) -> None:
        """Go on with partitions that were paused.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        self._check_assigned(keys)
        self.paused -= keys

    def _check_assigned(self, keys: Iterable[PartitionKey]) -> None:
        assigned = self._newest_assigned()
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
            self._standings[key] = begin(
                image, key, group=group, reset=reset, is_added=key in added
            )

    def _revise(self, image: MetadataImage, key: PartitionKey) -> None:
        """Take what an image leaves of a position.

        Raises: as `revised`.
        """
        before = self._standings[key]
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
        self._standings[key] = after

    def void(self) -> None:
        """Forget all that was read and not handed out: a call was interrupted anywhere."""
        self._turn = None

    def take_back(self) -> None:
        """Go back to before what was handed out and is not processed: nobody has got it."""
        self._standings |= self._handed_out
        self._handed_out.clear()
        self._turn = None

    # Handing out

    @property
    def failure(self) -> KafkaOnSparkError | None:
        """The last error of the partition that can't be read for longest; None: all can."""
        longest = min(self._failing.values(), key=lambda each: each.since_ms, default=None)
        return None if longest is None else longest.error

    @property
    def is_waiting(self) -> bool:
        """Whether it is a member that waits for what others have, as `Member.is_waiting` says."""
        return self._member is not None and self._member.is_waiting

    def wake_up(self) -> None:
        """End the wait that is under way, or else the next call. Any thread may call it."""
        self._is_woken = True

    def next_rows(self, timeout_ms: float, rows_max: int) -> Rows | None:
        """Return the next rows of some partition, which `hand_out` hands out; wait for them for
        `timeout_ms` at most. None: there are none.

        What was handed out before counts as processed from now on.

        Raises:
            WakeupError: Another thread has woken it.
            KafkaStorageError: No replica serves a partition, or the metadata root is away, and that
                has lasted.
            And as `assigned_keys`, `begin` and `revised`.
        """
        end_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            self.go_on()
            seen = self._metadata.image.offset
            if (rows := self.more_rows(rows_max)) is not None:
                return rows
            left_ms = end_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return None
            self._wait.wait(seen, self._until_due(left_ms), lambda: self._is_woken)

    def take_as_processed(self) -> None:
        """Take what was handed out as processed, and do no more."""
        self._handed_out.clear()

    def is_due(self) -> bool:
        """Return whether `go_on` would do more than `take_as_processed`."""
        if self._is_woken or self._is_commit_due():
            return True
        return self._member is not None and (self._wait.is_due or self._member.is_due)

    def go_on(self) -> None:
        """Take what was handed out as processed; commit it, if it is time to. A member does what is
        due in its group: it may lose partitions by that, and get others.

        Raises:
            WakeupError: Another thread has woken it.
            And as `Member.follow`.
        """
        self._handed_out.clear()
        if self._is_commit_due():
            self._try_to_save()
        if self._member is not None:
            self._wait.newest()
            self._member.follow()
        if self._is_woken:
            self._is_woken = False
            raise WakeupError()

    def more_rows(self, rows_max: int) -> Rows | None:
        """Return the next rows without a wait; what was handed out is not processed yet.

        Raises: as `next_rows`.
        """
        while (rows := self._peek(rows_max)) is None:
            image = self._wait.newest()
            self._resolve(image)
            if not self._begin_turn(image):
                return None
        return rows if self._may_hand_out() else None

    def _may_hand_out(self) -> bool:
        """Return whether the turn's partition is still this consumer's, as far as can be known."""
        member, turn = self._member, self._turn
        if member is None:
            return True
        if not member.may_hand_out() and not self._handed_out:
            member.follow()
        return member.may_hand_out() and self._turn is turn

    def hand_out(self, rows: Rows) -> None:
        """Take rows that `next_rows` has returned, or the first of them, as handed out."""
        assert self._turn is not None, "there are rows of it"
        key = self._turn.key
        self._handed_out.setdefault(key, self._standings[key])
        self._turn.start += rows.num_rows
        self._move(key, self._end_of(rows))

    def _move(self, key: PartitionKey, offset: Offset) -> None:
        self._standings[key] = Standing(offset, self._standings[key].unclean_generation)

    @property
    def turn(self) -> Turn[Rows] | None:
        """Whose rows `next_rows` has returned; what it has returned is void once this is another,
        or None."""
        is_sure = self._member is None or self._member.is_sure
        return self._turn if is_sure else None

    def _until_due(self, left_ms: float) -> float:
        """Return how long to wait: until a partition is tried again, or a commit or a member's turn
        is due."""
        now_ms = self._clock.monotonic_ms()
        due = [left_ms]
        if self._turn is None:
            due += (each.retry_at_ms - now_ms for each in self._failing.values())
        if self.settings.is_auto_commit:
            due.append(self._commit_at_ms - now_ms)
        if self._member is not None:
            due.append(self._member.pause_ms())
        return max(min(due), 1)

    def _resolve(self, image: MetadataImage) -> None:
        """Take up partitions that are new in `image`, and leave those that are gone."""
        keys = self._assigned(image)
        if self._resolved is keys:
            return
        self.leave(self._standings.keys() - keys.keys())
        self._begin(image, [key for key in keys if key not in self._standings])
        self._resolved, self._is_begun = keys, True

    # Turns

    def _peek(self, rows_max: int) -> Rows | None:
        """Return the next rows of the turn under way; None if there is none, or it is over.

        Raises:
            KafkaStorageError, or another of TRIED_AGAIN: No replica serves the partition, and that
                has lasted.
            OffsetOutOfRangeError: The records are gone, and the log does not start behind them.
        """
        # An error ends its source, which is no end of the turn: what is left is read again.
        turn, self._turn = self._turn, None
        if turn is None:
            return None
        try:
            rows = turn.peek(rows_max)
        except TRIED_AGAIN as error:
            self._note_failing(turn.key, error)
            return None
        except OffsetOutOfRangeError:
            now = self._metadata.catch_up().partition(turn.key)
            if now is not None and now.log_start_offset <= turn.order.partition.log_start_offset:
                raise
            return None  # the newest image says where the log starts
        self._failing.pop(turn.key, None)
        if rows is None:
            self._move(turn.key, turn.order.end_offset)  # behind gaps that compaction has left
        else:
            self._turn = turn
        return rows

    def _note_failing(self, key: PartitionKey, error: KafkaOnSparkError) -> None:
        """Read other partitions meanwhile, and try this one again; raise `error` if it has failed
        for too long."""
        now_ms = self._clock.monotonic_ms()
        known = self._failing.get(key)
        if known is None:
            log.warning("a consumer reads other partitions meanwhile: %s", error)
        elif now_ms - known.since_ms >= self._timeout_ms:
            del self._failing[key]
            raise error
        since_ms = now_ms if known is None else known.since_ms
        self._failing[key] = _Failing(error, since_ms, now_ms + RETRY_MS)

    def _begin_turn(self, image: MetadataImage) -> bool:
        """Begin to read the next partition that has records; return whether there is one.

        Raises: as `revised`.
        """
        # For each turn it would take too long to look for all that are due.
        if image is self._due_in and self._due and self._begin_due(image):
            return True
        self._due_in = image
        self._due = deque(self._due_in_turn(image))
        if self._failing:  # those that are not due have nothing that could be tried again
            self._failing = {key: self._failing[key] for key in self._due if key in self._failing}
        return self._begin_due(image)

    def _due_in_turn(self, image: MetadataImage) -> Sequence[PartitionKey]:
        """Return the partitions that have something: those behind the one that had its turn last
        come first."""
        due = sorted(
            key
            for key, standing in self._standings.items()
            if (partition := image.partition(key)) is not None and is_due(partition, standing)
        )
        place = 0 if self._last is None else sum(key <= self._last for key in due)
        return [*due[place:], *due[:place]]

    def _begin_due(self, image: MetadataImage) -> bool:
        now_ms = self._clock.monotonic_ms()
        while self._due:
            key = self._due[0]
            failing = self._failing.get(key)
            is_waiting = failing is not None and now_ms < failing.retry_at_ms
            if is_waiting or key in self.paused or key not in self._standings:
                self._due.popleft()
                continue
            self._revise(image, key)  # where that raises, this one stays the next
            self._due.popleft()
            start = self._standings[key].offset
            end = partition_of(image, key).high_watermark
            if start < end:
                order = plan_read(
                    image,
                    key,
                    start_offset=start,
                    end_offset=Offset(min(end, start + TURN_OFFSETS_MAX)),
                    client_rack=self.settings.client_rack,
                )
                self._turn, self._last = Turn(order, self._read(order)), key
                return True
        return False

    def _leave_turns(self, keys: Set[PartitionKey]) -> None:
        """Forget what was read of some partitions and not handed out, and that they fail."""
        if self._turn is not None and self._turn.key in keys:
            self._turn = None
        for key in keys:
            self._failing.pop(key, None)

    # Commits, and the group

    def commit(self) -> None:
        """Commit the positions: all that was handed out counts as processed.

        Raises: as `_save`.
        """
        self._save(self._standings)
        self._handed_out.clear()

    def commit_offsets(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit these offsets; positions stay. What was handed out below them counts as processed.

        Raises:
            OffsetOutOfRangeError: One is below the log start or above the high watermark.
            And as `_save`.
        """
        group, member, now_ms = self._group(), self._speaker(), self._clock.now_ms()
        self._metadata.submit(
            lambda image: save_offsets(image, group, offsets, member, now_ms),
            timeout_ms=self._timeout_ms,
        )
        for key, offset in offsets.items():
            before = self._handed_out.get(key)
            if before is None or offset <= before.offset:
                continue
            if offset >= self._standings[key].offset:
                del self._handed_out[key]
            else:
                self._handed_out[key] = Standing(Offset(offset), before.unclean_generation)

    def committed(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Offset | None]:
        """Return the group's offsets; None where it has none.

        Raises:
            InvalidRequestError: The consumer has no group.
        """
        group, groups = self._group(), self._metadata.catch_up().groups
        found = {key: groups.get((group, key)) for key in keys}
        return {key: None if each is None else each.offset for key, each in found.items()}

    def _group(self) -> str:
        if self.settings.group is None:
            raise InvalidRequestError("the consumer has no group to commit for: give it one")
        return self.settings.group

    def _speaker(self) -> Membership | None:
        return None if self._member is None else self._member.speaker()

    def _save(self, standings: Mapping[PartitionKey, Standing]) -> None:
        """Save positions.

        Raises:
            InvalidRequestError: The consumer has no group.
            UnknownMemberIdError, StaleMemberEpochError: As `check_may_commit`.
            RequestTimedOutError, CommitOutcomeUnknownError: As `MetadataService.submit`.
        """
        group, now_ms, positions = self._group(), self._clock.now_ms(), dict(standings)
        if not positions:
            return
        member = self._speaker()
        submit_if_due(
            self._metadata.image,
            lambda image: save_positions(image, group, positions, member, now_ms),
            partial(self._metadata.submit, timeout_ms=self._timeout_ms),
        )

    def _is_commit_due(self) -> bool:
        """Return whether commits are automatic, and it is time to."""
        return self.settings.is_auto_commit and self._clock.monotonic_ms() >= self._commit_at_ms

    def _try_to_save(self) -> None:
        """Save what was processed, if commits are automatic; a failure is logged."""
        if not self.settings.is_auto_commit:
            return
        pause_ms = max(self.settings.auto_commit_interval_ms, COMMIT_PAUSE_MS_MIN)
        self._commit_at_ms = self._clock.monotonic_ms() + pause_ms
        try:
            self._save({**self._standings, **self._handed_out})
        except KafkaOnSparkError as error:
            log.warning("the offsets of group %r were not committed: %s", self._group(), error)

    def processed(self, keys: Set[PartitionKey]) -> Mapping[PartitionKey, Standing]:
        """Return up to where all is processed in some partitions."""
        known = {**self._standings, **self._handed_out}
        return {key: known[key] for key in keys if key in known}

    def leave(self, keys: Set[PartitionKey]) -> None:
        """Forget partitions: nothing of them is handed out any more."""
        self._leave_turns(keys)
        self.paused -= keys
        for key in keys:
            self._standings.pop(key, None)
            self._handed_out.pop(key, None)

    def end(self, *, is_failed: bool) -> None:
        """Commit the positions, if commits are automatic, and leave the group. `is_failed`: what
        was handed out last is not processed.

        Raises: as `_save`; a member has left then, or will be fenced.
        """
        if self._member is not None:
            self._leave_group(is_failed=is_failed)
        elif self.settings.is_auto_commit:
            in_hand = self._handed_out if is_failed else {}
            self._save({**self._standings, **in_hand})

    def _leave_group(self, *, is_failed: bool) -> None:
        member = self._member
        assert member is not None, "it is one"
        if not is_failed:
            self._handed_out.clear()
        try:
            member.leave()
        finally:
            self.leave(member.owned)
            self._member = None
