"""Reads the committed records of a range, from one replica after another until it has all.

Each replica proves first that it has every committed record. If one fails in the middle, the next
goes on at the next offset.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    KafkaOnSparkError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.cuts import check_left
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.replica_operations import check_readable
from kafka_on_spark.log.replicas import ReplicaStore

Rows = TypeVar("Rows")

PLANS_MAX: Final = 8
"""How often a replica's log is read for one range: it may be merged while the range is read."""

NoteFailure = Callable[[ReplicaAddress, Segment | None, KafkaOnSparkError], None]
"""Called with a replica that could not be read: its log, or one segment."""

OnDeleted = Callable[[ReadOrder, Offset, Offset], None]
"""Called with a range, an offset in it and a log start above that, which was decided after the read
was planned: no replica has the records between them any more. It raises, or the rest is read."""


FinishCompaction = Callable[[ReadOrder], None]
"""Called where replicas have the records of a range, and can't be read before they are compacted:
it has the leader compacted, if it can."""


def refuse_deleted(order: ReadOrder, first: Offset, log_start_offset: Offset) -> None:
    """Raise OffsetOutOfRangeError: records that are asked for are deleted."""
    end = min(log_start_offset, order.end_offset)
    raise OffsetOutOfRangeError(
        f"offsets {first} to {end} of {order.name} were deleted after the read was planned: its log"
        f" starts at {log_start_offset} now; read again from there"
    )


def pass_deleted(order: ReadOrder, first: Offset, log_start_offset: Offset) -> None:
    """Have the rest read: whatever is there was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A segment that holds a part of a range, on the replica that is read.

    Attributes:
        address: The replica.
        batch: What the segment belongs to.
        segment: The file.
        base_offset: First offset that it covers, which may lie before the range.
        end_offset: Offset after the last one, which may lie behind the range.
    """

    address: ReplicaAddress
    batch: LogPart
    segment: Segment
    base_offset: Offset
    end_offset: Offset


def read_pieces(
    order: ReadOrder,
    replicas: ReplicaStore,
    read: Callable[[Piece, Offset], Iterable[Rows]],
    note: NoteFailure = lambda address, segment, error: None,
    *,
    end_of: Callable[[Rows], Offset] | None = None,
    on_deleted: OnDeleted = refuse_deleted,
    finish_compaction: FinishCompaction | None = None,
) -> Iterator[Rows]:
    """Yield what `read` returns for the range's segments, in offset order.

    `read` gets a segment and the first offset to read of it. If a replica fails in the middle,
    `note` is called, and another replica goes on at the next offset. A segment that the replica has
    removed meanwhile is no failure: the rest is planned again. `end_of` returns the offset
    after some rows; `read` may fail after rows of a segment only where it is given. `on_deleted` is
    called if the log start has passed the next offset since the read was planned;
    `finish_compaction`, once, if a replica is not compacted as far as it must be.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; it names each one's error.
        OffsetOutOfRangeError: Compaction has removed what the order asks for from all that answer.
        And what `on_deleted` raises.
    """
    reading = _Reading(order, replicas, order.start_offset)
    while reading.position < order.end_offset:
        reading.forget_reasons()
        reasons: list[str] = []
        gone: OffsetOutOfRangeError | None = None
        for address in order.candidates:
            failure = yield from reading.read_from(address, read, end_of)
            if reading.position >= order.end_offset:
                return
            if failure is not None:
                segment, error = failure
                gone = error if isinstance(error, OffsetOutOfRangeError) else gone
                reasons.append(f"broker {address.broker_id}: {error}")
                note(address, segment, error)
        if reading.is_unfinished and finish_compaction is not None:
            finish_compaction(order)
            finish_compaction = None
            continue
        if reading.log_start_offset is None:
            asked = "; ".join(reasons) or "none was ever created"
            raise gone or KafkaStorageError(
                f"offsets {order.start_offset} to {order.end_offset} of {order.name} can't be read"
                f" from any replica: {asked}"
            )
        on_deleted(order, reading.position, reading.log_start_offset)
        reading.position = reading.log_start_offset


_Failure = tuple[Segment | None, KafkaOnSparkError]


@dataclass(slots=True)
class _Reading:
    """How far a range was read.

    Attributes:
        order: The range.
        replicas: Opens replicas.
        position: The next offset to read.
        log_start_offset: The lowest log start above it of the replicas that were asked; None: none
            of them starts above it.
        is_unfinished: One of them is not compacted as far as it must be to be read.
    """

    order: ReadOrder
    replicas: ReplicaStore
    position: Offset
    log_start_offset: Offset | None = None
    is_unfinished: bool = False

    def forget_reasons(self) -> None:
        """Begin to ask all replicas."""
        self.log_start_offset, self.is_unfinished = None, False

    def read_from(
        self,
        address: ReplicaAddress,
        read: Callable[[Piece, Offset], Iterable[Rows]],
        end_of: Callable[[Rows], Offset] | None,
    ) -> Generator[Rows, None, _Failure | None]:
        """Yield the rest of the range from one replica; return what it failed at, if it did.

        A file that the replica has removed meanwhile is no failure: the rest is planned again.
        """
        failure: _Failure | None = None
        for _ in range(PLANS_MAX):
            piece = None
            try:
                for piece in self._pieces(address):
                    for rows in read(piece, self.position):
                        yield rows
                        if end_of is not None:
                            self.position = end_of(rows)
                    self.position = Offset(min(piece.end_offset, self.order.end_offset))
                return None
            except KafkaOnSparkError as error:
                failure = (None if piece is None else piece.segment, error)
                if piece is None or not _was_cleaned(self.replicas, piece):
                    break
        return failure

    def _pieces(self, address: ReplicaAddress) -> Iterator[Piece]:
        """Yield the segments that hold the rest of the range.

        Raises:
            NotLeaderOrFollowerError: The replica's log starts above the next offset, or the image
                is old for another reason.
            ReplicaLostError: The replica does not prove that it has all committed records.
        """
        order, position = self.order, self.position
        state = self.replicas.open(address).load()
        start = state.log_start_offset
        if not state.compaction.may_count(order.partition.compaction):
            self.is_unfinished = True  # which is told below
        if start > max(position, order.partition.log_start_offset):
            # No replica's log starts above what was decided (I16). Another may not know of it yet.
            known = self.log_start_offset
            self.log_start_offset = start if known is None else min(known, start)
            raise NotLeaderOrFollowerError(
                "the log starts above the next offset to read", start=start, offset=position
            )
        check_readable(state, order.partition)
        check_left(
            order.name,
            state.compaction,
            compacted_max=order.compacted_max,
            tombstones_max=order.tombstones_max,
        )
        for batch in state.batches_between(position, order.end_offset):
            for segment, base_offset, end_offset in batch.ranges():
                if base_offset < order.end_offset and end_offset > position:
                    yield Piece(
                        address=address,
                        batch=batch,
                        segment=segment,
                        base_offset=base_offset,
                        end_offset=end_offset,
                    )


def _was_cleaned(replicas: ReplicaStore, piece: Piece) -> bool:
    """Return whether the replica does not name a file any more: a cleaner may have removed it."""
    try:
        state = replicas.open(piece.address).load()
    except KafkaOnSparkError:
        return False
    return all(piece.segment not in part.segments for part in state.batches)
