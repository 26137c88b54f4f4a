"""The turns of partitions: the one that is read, the next one, and those tried again later.

Apart from `consuming`, which says when there is more to hand out: it knows of no wait, no commit
and no group.
"""

from collections import deque
from collections.abc import Iterator, Set
from typing import Final, Generic

from kafka_on_spark.errors import (
    CommitOutcomeUnknownError,
    KafkaOnSparkError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.consuming.assigned import due_in_turn
from kafka_on_spark.query.consuming.standing import partition_of
from kafka_on_spark.query.reads.read_order import plan_read
from kafka_on_spark.service.consume.failing import FailingPartitions
from kafka_on_spark.service.consume.positions import Positions
from kafka_on_spark.service.consume.turns import TURN_OFFSETS_MAX, ReadRows, Rows, Turn
from kafka_on_spark.service.metadata.metadata_outage import ROOTS_AWAY
from kafka_on_spark.service.metadata.metadata_service import MetadataService

TRIED_AGAIN: Final = (*ROOTS_AWAY, RequestTimedOutError, CommitOutcomeUnknownError)
"""Errors of a read that may succeed later: of its replicas, or of a compaction that it waits for,
which commits."""


class TurnTaking(Generic[Rows]):
    """The turns of one consumer's partitions.

    Attributes:
        turn: The one under way, if there is one.
    """

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        positions: Positions,
        read: ReadRows[Rows],
        *,
        client_rack: str | None,
        timeout_ms: int,
    ) -> None:
        self.turn: Turn[Rows] | None = None
        self._metadata = metadata
        self._clock = clock
        self._positions = positions
        self._read = read
        self._client_rack = client_rack
        self._failing = FailingPartitions(timeout_ms)
        self._last: PartitionKey | None = None
        self._due: deque[PartitionKey] = deque()
        self._due_in: MetadataImage | None = None

    @property
    def failure(self) -> KafkaOnSparkError | None:
        """As `FailingPartitions.longest`."""
        return self._failing.longest

    def forget(self, keys: Set[PartitionKey]) -> None:
        """Forget what was read of some partitions and not handed out: it is read again."""
        if self.turn is not None and self.turn.key in keys:
            self.turn = None

    def leave(self, keys: Set[PartitionKey]) -> None:
        """Forget all of some partitions: they are not read any more, or from elsewhere."""
        self.forget(keys)
        for key in keys:
            self._failing.forget(key)

    def peek(self, rows_max: int) -> Rows | None:
        """Return the next rows of the turn under way; None if there is none, or it is over.

        Raises:
            KafkaStorageError, or another of TRIED_AGAIN: No replica serves the partition, and that
                has lasted.
            OffsetOutOfRangeError: The records are gone, and the log does not start behind them.
        """
        turn = self.turn
        if turn is None:
            return None
        try:
            rows = turn.peek(rows_max)
        except TRIED_AGAIN as error:
            self.turn = None
            self._failing.note(turn.key, error, self._clock.monotonic_ms())
            return None
        except OffsetOutOfRangeError:
            self.turn = None
            now = self._metadata.catch_up().partition(turn.key)
            if now is not None and now.log_start_offset <= turn.order.partition.log_start_offset:
                raise
            return None  # the newest image says where the log starts
        except BaseException:
            # Its source has ended by that, which is no end of the turn: it is read again.
            self.turn = None
            raise
        if rows is None:
            self.turn = None
            # Behind gaps that compaction has left.
            self._positions.move(turn.key, turn.order.end_offset)
        self._failing.forget(turn.key)
        return rows

    def begin(self, image: MetadataImage, paused: Set[PartitionKey]) -> bool:
        """Begin to read the next partition that has records; return whether there is one.

        Raises: as `revised`.
        """
        # For each turn it would take too long to look for all that are due.
        if image is self._due_in and self._due and self._begin_due(image, paused):
            return True
        self._due_in = image
        self._due = deque(due_in_turn(image, self._positions.standings, self._last))
        self._failing.keep_only(self._due)
        return self._begin_due(image, paused)

    def _begin_due(self, image: MetadataImage, paused: Set[PartitionKey]) -> bool:
        now_ms = self._clock.monotonic_ms()
        standings = self._positions.standings
        while self._due:
            key = self._due[0]
            is_left = key not in standings or key in paused
            is_left = is_left or self._failing.is_waiting(key, now_ms)
            if not is_left:
                self._positions.revise(image, key)  # where that raises, this one stays the next
            self._due.popleft()
            if is_left:
                continue
            start, end = standings[key].offset, partition_of(image, key).high_watermark
            if start < end:
                order = plan_read(
                    image,
                    key,
                    start_offset=start,
                    end_offset=Offset(min(end, start + TURN_OFFSETS_MAX)),
                    client_rack=self._client_rack,
                )
                self.turn, self._last = Turn(order, self._read(order)), key
                return True
        return False

    def pauses_ms(self, now_ms: int) -> Iterator[int]:
        """Yield how long it is until each partition that fails is tried again: once the turn that
        is under way is over."""
        return self._failing.pauses_ms(now_ms) if self.turn is None else iter(())
