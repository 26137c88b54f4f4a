"""A consumer's loop: hands out what is committed, partition by partition, and commits positions.

One thread at a time calls it. It asks the metadata root only when all that it has read is handed
out, as seldom as CommitWait allows; a member of a group asks also between two calls.
"""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Generic

from kafka_on_spark.controller.groups.checks import Membership
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError, WakeupError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.consuming.assigned import assigned_keys
from kafka_on_spark.query.consuming.settings import ConsumerSettings
from kafka_on_spark.query.consuming.standing import Standing, partition_of
from kafka_on_spark.query.subscription import Assign, Subscription
from kafka_on_spark.service.consume.members.membership import Hands, Member
from kafka_on_spark.service.consume.positions import Positions
from kafka_on_spark.service.consume.saving import Saving
from kafka_on_spark.service.consume.turn_taking import TurnTaking
from kafka_on_spark.service.consume.turns import EndOf, ReadRows, Rows
from kafka_on_spark.service.metadata.commit_wait import CommitWait
from kafka_on_spark.service.metadata.metadata_service import MetadataService
from kafka_on_spark.setting_values import LONG_MAX

log = logging.getLogger(__name__)

MakeMember = Callable[[Hands, Subscription], Member]
"""Makes a member of the consumer's group, which has not joined."""


class Consuming(Generic[Rows]):
    """Where one consumer stands, and its reads and commits.

    Attributes:
        settings: The consumer's.
        paused: Partitions of which it hands out nothing.
        saving: Commits its offsets.
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
        make_member: MakeMember | None = None,
    ) -> None:
        self.settings = settings
        self.paused: Set[PartitionKey] = frozenset()
        self._metadata = metadata
        self._clock = clock
        self._wait = wait
        self._end_of = end_of
        self._make_member = make_member
        self._member: Member | None = None
        self._subscription: Subscription | None = None
        self._resolved: Mapping[PartitionKey, None] | None = None
        self._assignment: tuple[MetadataImage | None, object, Mapping[PartitionKey, None]]
        self._assignment = None, None, {}
        self._is_begun = False
        self._positions = Positions(settings, metadata.pieces_newest_first)
        self.saving = Saving(
            metadata, clock, settings, self._positions, self._speaker, timeout_ms=timeout_ms
        )
        self._turns = TurnTaking(
            metadata,
            clock,
            self._positions,
            read,
            client_rack=settings.client_rack,
            timeout_ms=timeout_ms,
        )
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
        self._positions.take_as_processed()
        # A member whose leaving fails is none from here on, and has none of the group's partitions.
        self._subscription, self._is_begun, self._resolved = subscription, False, None
        if self._member is None:
            self.saving.try_to_save()
        else:
            self.leave_group(is_failed=False)
        self.leave((self._positions.standings.keys() | self.paused) - set(keys))
        if self._make_member is not None and not isinstance(subscription, Assign):
            self._member = self._make_member(self, subscription)

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
        image = self._wait.newest()
        self._follow_first()
        return list(self._assigned(image))

    def _follow_first(self) -> None:
        if self._member is not None and not self._member.is_begun:
            self._member.follow()

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
        self._check_assigned(key)
        image = self._metadata.image
        standings = self._positions.standings
        if key not in standings:
            self._begin(image, [key])
        before = standings[key]
        self._positions.revise(image, key)
        if standings[key] != before:
            # Its rows were read before an election, or before the log start has passed them.
            self._turns.forget({key})
        return standings[key]

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Go on at `offset` in a partition.

        Raises:
            InvalidRequestError: The partition is not assigned, or no record can have the offset.
        """
        self._check_assigned(key)
        if not 0 <= offset <= LONG_MAX:
            raise InvalidRequestError(
                f"can't seek to offset {offset}: give one from 0 to {LONG_MAX}, or seek to the"
                " beginning or the end"
            )
        generation = partition_of(self._metadata.image, key).unclean_generation
        self._positions.seek(key, Standing(Offset(offset), generation))
        self._turns.leave({key})

    def pause(self, keys: Set[PartitionKey]) -> None:
        """Hand out nothing of some partitions until they are resumed.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        for key in keys:
            self._check_assigned(key)
        self.paused |= keys
        self._turns.leave(keys)

    def resume(self, keys: Set[PartitionKey]) -> None:
        """Go on with partitions that were paused.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        for key in keys:
            self._check_assigned(key)
        self.paused -= keys

    def _check_assigned(self, key: PartitionKey) -> None:
        image = self._wait.newest()
        self._follow_first()
        if key not in self._assigned(image):
            name = self._metadata.image.name_of(key)
            raise InvalidRequestError(f"{name} is not assigned to this consumer: assign it first")

    def void(self) -> None:
        """Forget all that was read and not handed out: a call was interrupted anywhere."""
        self._turns.turn = None

    def take_back(self) -> None:
        """Go back to before what was handed out and is not processed: nobody has got it."""
        self._positions.take_back()
        self._turns.turn = None

    # Handing out

    @property
    def failure(self) -> KafkaOnSparkError | None:
        """Why the partition that fails for longest can't be read; None: all can."""
        return self._turns.failure

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
        self._positions.take_as_processed()

    def is_due(self) -> bool:
        """Return whether `go_on` would do more than `take_as_processed`."""
        if self._is_woken or self.saving.is_due():
            return True
        return self._member is not None and (self._wait.is_due or self._member.is_due)

    def go_on(self) -> None:
        """Take what was handed out as processed; commit it, if it is time to. A member does what is
        due in its group: it may lose partitions by that, and get others.

        Raises:
            WakeupError: Another thread has woken it.
            And as `Member.follow`.
        """
        self._positions.take_as_processed()
        self.saving.save_if_due()
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
        while (rows := self._turns.peek(rows_max)) is None:
            image = self._wait.newest()
            self._resolve(image)
            if not self._turns.begin(image, self.paused):
                return None
        return rows if self._may_hand_out() else None

    def _may_hand_out(self) -> bool:
        """Return whether the turn's partition is still this consumer's, as far as can be known."""
        member, turn = self._member, self._turns.turn
        if member is None:
            return True
        if not member.may_hand_out() and not self._positions.has_in_hand:
            member.follow()
        return member.may_hand_out() and self._turns.turn is turn

    def hand_out(self, rows: Rows) -> None:
        """Take rows that `next_rows` has returned, or the first of them, as handed out."""
        assert self._turns.turn is not None, "there are rows of it"
        key = self._turns.turn.key
        self._positions.note_handed_out(key)
        self._turns.turn.advance(rows.num_rows)
        self._positions.move(key, self._end_of(rows))

    @property
    def turn(self) -> object:
        """Whose rows `next_rows` has returned; what it has returned is void once this is another,
        or None."""
        is_sure = self._member is None or self._member.is_sure
        return self._turns.turn if is_sure else None

    def _until_due(self, left_ms: float) -> float:
        """Return how long to wait: until a partition is tried again, or a commit or a member's turn
        is due."""
        now_ms = self._clock.monotonic_ms()
        due = [left_ms, *self._turns.pauses_ms(now_ms)]
        if (commit_ms := self.saving.pause_ms(now_ms)) is not None:
            due.append(commit_ms)
        if self._member is not None:
            due.append(self._member.pause_ms())
        return max(min(due), 1)

    def _resolve(self, image: MetadataImage) -> None:
        """Take up partitions that are new in `image`, and leave those that are gone."""
        standings, keys = self._positions.standings, self._assigned(image)
        if self._resolved is keys:
            return
        self.leave(standings.keys() - keys.keys())
        self._begin(image, [key for key in keys if key not in standings])
        self._resolved, self._is_begun = keys, True

    def _begin(self, image: MetadataImage, keys: Sequence[PartitionKey]) -> None:
        is_member = self._member is not None
        self._positions.begin(image, keys, is_begun=self._is_begun, is_member=is_member)

    # Commits, and the group

    def commit(self) -> None:
        """Commit the positions: all that was handed out counts as processed.

        Raises: as `Saving.save`.
        """
        self.saving.save(self._positions.standings)
        self._positions.take_as_processed()

    def commit_offsets(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit these offsets; positions stay. What was handed out below them counts as processed.

        Raises: as `Saving.save_offsets`.
        """
        self.saving.save_offsets(offsets)
        self._positions.take_as_processed_to(offsets)

    def _speaker(self) -> Membership | None:
        return None if self._member is None else self._member.speaker()

    def processed(self, keys: Set[PartitionKey]) -> Mapping[PartitionKey, Standing]:
        """Return up to where all is processed in some partitions."""
        known = self._positions.processed()
        return {key: known[key] for key in keys if key in known}

    def leave(self, keys: Set[PartitionKey]) -> None:
        """Forget partitions: nothing of them is handed out any more."""
        self._turns.leave(keys)
        self.paused -= keys
        self._positions.forget(keys)

    def end(self, *, is_failed: bool) -> None:
        """Commit the positions, if commits are automatic, and leave the group. `is_failed`: what
        was handed out last is not processed.

        Raises: as `Saving.save`; a member has left then, or will be fenced.
        """
        if self._member is not None:
            self.leave_group(is_failed=is_failed)
        elif self.settings.is_auto_commit:
            known = self._positions
            self.saving.save(known.processed() if is_failed else known.standings)

    def leave_group(self, *, is_failed: bool) -> None:
        """Leave the group, if the consumer is a member, with its positions committed if commits are
        automatic.

        Raises: as `Member.leave`.
        """
        member = self._member
        if member is None:
            return
        if not is_failed:
            self._positions.take_as_processed()
        try:
            member.leave()
        finally:
            self.leave(member.owned)
            self._member = None
