"""A consumer's loop: hands out what is committed, partition by partition, and commits positions.

One thread at a time calls it, and it has none of its own. It asks the metadata root only when all
that it has read is handed out, as seldom as CommitWait allows.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, Generic

from kafka_on_spark.controller.commands.groups import alter_group_offsets
from kafka_on_spark.errors import (
    InvalidRequestError,
    KafkaOnSparkError,
    KafkaStorageError,
    OffsetOutOfRangeError,
    WakeupError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.consuming.assigned import assigned_keys, due_in_turn
from kafka_on_spark.query.consuming.settings import ConsumerSettings
from kafka_on_spark.query.consuming.standing import (
    Standing,
    added_since,
    begin,
    cut_after,
    partition_of,
    revised,
)
from kafka_on_spark.query.offsets.group_offsets import save_standings
from kafka_on_spark.query.reads.read_order import plan_read
from kafka_on_spark.query.subscription import Subscription
from kafka_on_spark.service.consume.failing import RETRY_MS_MIN, FailingPartitions
from kafka_on_spark.service.consume.turns import TURN_OFFSETS_MAX, EndOf, ReadRows, Rows, Turn
from kafka_on_spark.service.metadata.commit_wait import CommitWait
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

RENEWAL_MS: Final = 60_000
"""How often an idle consumer looks whether its group's offsets must be saved again, to live on."""


class Consuming(Generic[Rows]):
    """Where one consumer stands, and its reads and commits."""

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
    ) -> None:
        self.settings = settings
        self.paused: Set[PartitionKey] = frozenset()
        self._metadata = metadata
        self._clock = clock
        self._wait = wait
        self._read = read
        self._end_of = end_of
        self._timeout_ms = timeout_ms
        self._subscription: Subscription | None = None
        self._resolved: MetadataImage | None = None
        self._is_begun = False
        self._standings: dict[PartitionKey, Standing] = {}
        self._handed_out: dict[PartitionKey, Standing] = {}
        self._failing = FailingPartitions(timeout_ms)
        self._turn: Turn[Rows] | None = None
        self._last: PartitionKey | None = None
        self._seen = metadata.image
        self._is_woken = False
        self._is_moved = False
        self._commit_at_ms = clock.monotonic_ms() + settings.auto_commit_interval_ms

    # What is read

    def subscribe(self, subscription: Subscription) -> None:
        """Read these partitions from now on; positions in others are forgotten.

        Raises: as `assigned_keys`.
        """
        image = self._wait.newest()
        assigned_keys(image, subscription)
        self._subscription, self._is_begun, self._resolved = subscription, False, None
        self.paused = frozenset()

    def assignment(self) -> list[PartitionKey]:
        """Return the partitions that are read.

        Raises: as `assigned_keys`; and InvalidRequestError: nothing was subscribed to.
        """
        return self._assigned(self._wait.newest())

    def _assigned(self, image: MetadataImage) -> list[PartitionKey]:
        if self._subscription is None:
            raise InvalidRequestError(
                "the consumer has no partitions: give it topics, or assign partitions to it"
            )
        return assigned_keys(image, self._subscription)

    def standing(self, key: PartitionKey) -> Standing:
        """Return the position in a partition; it is decided now if it was not.

        Raises:
            InvalidRequestError: The partition is not assigned.
            And as `begin` and `revised`.
        """
        self._check_assigned(key)
        image = self._metadata.image
        if key not in self._standings:
            self._begin(image, [key])
        self._revise(image, key)
        return self._standings[key]

    def seek(self, key: PartitionKey, offset: int) -> None:
        """Go on at `offset` in a partition.

        Raises:
            InvalidRequestError: The partition is not assigned, or the offset is below 0.
        """
        self._check_assigned(key)
        if offset < 0:
            raise InvalidRequestError(
                f"can't seek to offset {offset}: give one from 0 on, or seek to the beginning or"
                " the end"
            )
        generation = partition_of(self._metadata.image, key).unclean_generation
        self._standings[key] = Standing(Offset(offset), generation)
        self._handed_out.pop(key, None)
        self.forget_turn({key})

    def pause(self, keys: Set[PartitionKey]) -> None:
        """Hand out nothing of some partitions until they are resumed.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        for key in keys:
            self._check_assigned(key)
        self.paused |= keys
        self.forget_turn(keys)

    def resume(self, keys: Set[PartitionKey]) -> None:
        """Go on with partitions that were paused.

        Raises:
            InvalidRequestError: One is not assigned.
        """
        for key in keys:
            self._check_assigned(key)
        self.paused -= keys

    def _check_assigned(self, key: PartitionKey) -> None:
        if key not in self.assignment():
            name = self._metadata.image.name_of(key)
            raise InvalidRequestError(f"{name} is not assigned to this consumer: assign it first")

    def forget_turn(self, keys: Set[PartitionKey]) -> None:
        """Forget what was read of some partitions and not handed out: it is read again."""
        if self._turn is not None and self._turn.key in keys:
            self._turn = None

    def void(self) -> None:
        """Forget all that was read and not handed out: a call was interrupted anywhere."""
        self._turn = None

    # Handing out

    def wake_up(self) -> None:
        """End the wait that is under way, or the next one. Any thread may call it."""
        self._is_woken = True

    def next_rows(self, timeout_ms: float, rows_max: int) -> Rows | None:
        """Return the next rows of some partition, which `hand_out` hands out; wait for them for
        `timeout_ms` at most. None: there are none.

        What was handed out before counts as processed from now on.

        Raises:
            WakeupError: Another thread has ended the wait.
            KafkaStorageError: No replica serves a partition, or the metadata root is away, and that
                has lasted.
            And as `assigned_keys`, `begin` and `revised`.
        """
        end_ms = self._clock.monotonic_ms() + timeout_ms
        self.go_on()
        while (rows := self.more_rows(rows_max)) is None:
            left_ms = end_ms - self._clock.monotonic_ms()
            if left_ms > 0:
                self._wait.wait(self._seen.offset, self._until_due(left_ms), lambda: self._is_woken)
                self._commit_if_due()
            if self._is_woken:
                self._is_woken = False
                raise WakeupError()
            if left_ms <= 0:
                return None
        return rows

    def go_on(self) -> None:
        """Take what was handed out as processed; commit it, if it is time to."""
        self._handed_out.clear()
        self._commit_if_due()

    def more_rows(self, rows_max: int) -> Rows | None:
        """Return the next rows without a wait; what was handed out is not processed yet.

        Raises: as `next_rows`.
        """
        while (rows := self._peek(rows_max)) is None:
            image = self._wait.newest()
            self._resolve(image)
            self._seen = image
            if not self._begin_turn(image):
                return None
        return rows

    def hand_out(self, rows: Rows) -> None:
        """Take rows that `next_rows` has returned, or the first of them, as handed out."""
        assert self._turn is not None, "there are rows of it"
        key = self._turn.key
        self._handed_out.setdefault(key, self._standings[key])
        self._turn.advance(rows.num_rows)
        self._move(key, self._end_of(rows))

    @property
    def turn(self) -> object:
        """Whose rows `next_rows` has returned; what it has returned is void once this changes."""
        return self._turn

    def _move(self, key: PartitionKey, offset: Offset) -> None:
        self._is_moved = True
        self._standings[key] = Standing(offset, self._standings[key].unclean_generation)

    def _peek(self, rows_max: int) -> Rows | None:
        """Return the next rows of the turn under way; None if there is none, or it is over."""
        turn = self._turn
        if turn is None:
            return None
        try:
            rows = turn.peek(rows_max)
        except KafkaStorageError as error:
            self._turn = None
            self._failing.note(turn.key, error, self._clock.monotonic_ms())
            return None
        except OffsetOutOfRangeError:
            self._turn = None
            now = self._metadata.catch_up().partition(turn.key)
            if now is not None and now.log_start_offset <= turn.order.partition.log_start_offset:
                raise
            return None  # the newest image says where the log starts
        if rows is None:
            self._turn = None
            self._move(turn.key, turn.order.end_offset)  # behind gaps that compaction has left
        self._failing.forget(turn.key)
        return rows

    def _until_due(self, left_ms: float) -> float:
        """Return how long to wait: until a partition is tried again, or a commit is due."""
        now_ms = self._clock.monotonic_ms()
        due = list(self._failing.pauses_ms(now_ms))
        if self.settings.is_auto_commit:
            due.append(self._commit_at_ms - now_ms + (0 if self._is_moved else RENEWAL_MS))
        return max(min([left_ms, *due]), 1)

    def _resolve(self, image: MetadataImage) -> None:
        """Take up partitions that are new in `image`, and leave those that are gone."""
        if self._resolved is image:
            return
        keys = self._assigned(image)
        self._leave(self._standings.keys() - set(keys))
        self._begin(image, [key for key in keys if key not in self._standings])
        self._resolved, self._is_begun = image, True

    def _leave(self, keys: Set[PartitionKey]) -> None:
        self.forget_turn(keys)
        self.paused -= keys
        for key in keys:
            self._standings.pop(key, None)
            self._handed_out.pop(key, None)
            self._failing.forget(key)

    def _begin(self, image: MetadataImage, keys: Sequence[PartitionKey]) -> None:
        group, reset = self.settings.group, self.settings.auto_offset_reset
        added = set(keys) if self._is_begun else added_since(image, keys, group)
        for key in keys:
            self._standings[key] = begin(
                image, key, group=group, reset=reset, is_added=key in added
            )

    def _revise(self, image: MetadataImage, key: PartitionKey) -> None:
        before = self._standings[key]
        after = revised(
            image,
            key,
            before,
            reset=self.settings.auto_offset_reset,
            find_cut=lambda key, generation: cut_after(self._metadata.history(), key, generation),
        )
        if after.offset != before.offset:
            name = image.name_of(key)
            log.warning("%s goes on at offset %d, not %d", name, after.offset, before.offset)
        self._standings[key] = after

    def _begin_turn(self, image: MetadataImage) -> bool:
        """Begin to read the next partition that has records; return whether there is one."""
        now_ms = self._clock.monotonic_ms()
        for key in due_in_turn(image, self._standings, self._last):
            if key in self.paused or self._failing.is_waiting(key, now_ms):
                continue
            self._revise(image, key)
            start, end = self._standings[key].offset, partition_of(image, key).high_watermark
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

    # Commits

    def commit(self) -> None:
        """Commit the positions: all that was handed out counts as processed.

        Raises:
            InvalidRequestError: The consumer has no group.
            RequestTimedOutError, CommitOutcomeUnknownError: As `MetadataService.submit`.
        """
        self._save(self._standings)

    def commit_offsets(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit these offsets; positions stay.

        Raises:
            OffsetOutOfRangeError: One is below the log start or above the high watermark.
            And as `commit`.
        """
        group = self.group()
        self._metadata.submit(
            lambda image: alter_group_offsets(image, group, offsets), timeout_ms=self._timeout_ms
        )

    def commit_processed(self) -> None:
        """Commit what was processed: not what the last call has handed out.

        Raises: as `commit`.
        """
        self._save({**self._standings, **self._handed_out})

    def _commit_if_due(self) -> None:
        """Commit what was processed, if it is time to; a failure is logged, and tried again."""
        now_ms = self._clock.monotonic_ms()
        if not self.settings.is_auto_commit or now_ms < self._commit_at_ms:
            return
        interval_ms = max(self.settings.auto_commit_interval_ms, RETRY_MS_MIN)
        self._commit_at_ms = now_ms + interval_ms
        try:
            self.commit_processed()
            self._is_moved = False
        except KafkaOnSparkError as error:
            log.warning("the offsets of group %r were not committed: %s", self.group(), error)

    def group(self) -> str:
        """Return the group.

        Raises:
            InvalidRequestError: The consumer has none.
        """
        if self.settings.group is None:
            raise InvalidRequestError("the consumer has no group to commit for: give it one")
        return self.settings.group

    def _save(self, standings: Mapping[PartitionKey, Standing]) -> None:
        group, now_ms = self.group(), self._clock.now_ms()
        positions = dict(standings)
        if save_standings(self._metadata.image, group, positions, now_ms).records:
            self._metadata.submit(
                lambda image: save_standings(image, group, positions, now_ms),
                timeout_ms=self._timeout_ms,
            )

    def committed(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Offset | None]:
        """Return the group's offsets; None where it has none.

        Raises:
            InvalidRequestError: The consumer has no group.
        """
        group, groups = self.group(), self._metadata.catch_up().groups
        found = {key: groups.get((group, key)) for key in keys}
        return {key: None if each is None else each.offset for key, each in found.items()}
