"""Plans a view of a topic: its files, and which part of each belongs to the view.

A view is planned as a read is: on the same orders, by the same proof, and with the same way from
one replica to the next. The plan never changes, so an engine that knows nothing of this package can
read the view for as long as the files exist.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.base.moments import given_micros
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.reading import FinishCompaction, Piece, read_pieces
from kafka_on_spark.log.replicas import ReplicaStore

FindSize = Callable[[ReplicaAddress, str], int | None]
"""Returns the size of a file of a replica, or None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewFile:
    """A segment of a view, on the replica that it is read from.

    Attributes:
        address: The replica.
        segment: The file.
        partition: Number of the partition.
        base_offset: First offset that the file covers, which may lie before the view.
        covered: How many offsets the file covers; it may have fewer records.
        first_delta: First offset of the file that is in the view, counted from 0.
        end_delta: First offset behind the view, likewise.
        appended_at_ms: Time of the leader's commit.
        has_append_time: The records' timestamp is the time of their append (LogAppendTime).
        common_timestamp_us: That time, where it is not in the file.
    """

    address: ReplicaAddress
    segment: Segment
    partition: int
    base_offset: Offset
    covered: int
    first_delta: int
    end_delta: int
    appended_at_ms: int
    has_append_time: bool
    common_timestamp_us: int | None

    def __post_init__(self) -> None:
        assert 0 <= self.first_delta < self.end_delta <= self.covered, self

    @property
    def is_cut(self) -> bool:
        """Whether some of the file's offsets are not in the view."""
        return self.end_delta - self.first_delta < self.covered


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of timestamps, µs since 1970 UTC, the end exclusive; None: no bound."""

    start_us: int | None = None
    end_us: int | None = None

    def has_any_of(self, segment: Segment) -> bool:
        """Return whether a segment may have a record in the range."""
        ends_after_start = self.start_us is None or segment.timestamp_max_us >= self.start_us
        begins_before_end = self.end_us is None or segment.timestamp_min_us < self.end_us
        return ends_after_start and begins_before_end


def time_range(start: object, end: object) -> TimeRange:
    """Return the range between two moments; a value of another type sets no bound.

    Raises:
        InvalidRequestError: A moment has no time zone.
    """
    return TimeRange(_micros("start", start), _micros("end", end))


def _micros(name: str, given: object) -> int | None:
    return given_micros(name, given) if isinstance(given, datetime) else None


def files_of(
    order: ReadOrder,
    replicas: ReplicaStore,
    find_size: FindSize,
    times: TimeRange,
    finish_compaction: FinishCompaction | None = None,
) -> list[ViewFile]:
    """Return the files that hold an order's range and may have records of `times`, in order.

    A file that is missing, or not as long as the log says, is taken from another replica.
    `finish_compaction`: as in `read_pieces`.

    Raises:
        KafkaStorageError: No replica has the rest of the range; it names each one's error.
    """

    def file_of(piece: Piece, position: Offset) -> Iterator[ViewFile]:
        if not piece.segment.record_count or not times.has_any_of(piece.segment):
            return
        size = find_size(piece.address, piece.segment.file_name)
        if size != piece.segment.size_bytes:
            raise CorruptLogError(
                "a segment is missing or cut short",
                path=piece.segment.file_name,
                size_bytes=size,
                expected_bytes=piece.segment.size_bytes,
            )
        yield ViewFile(
            address=piece.address,
            segment=piece.segment,
            partition=order.name.partition,
            base_offset=piece.base_offset,
            covered=piece.end_offset - piece.base_offset,
            first_delta=max(position - piece.base_offset, 0),
            end_delta=min(order.end_offset, piece.end_offset) - piece.base_offset,
            appended_at_ms=piece.batch.appended_at_ms,
            has_append_time=piece.batch.has_append_time,
            common_timestamp_us=piece.batch.common_timestamp_us,
        )

    return list(read_pieces(order, replicas, file_of, finish_compaction=finish_compaction))


@dataclass(frozen=True, slots=True, order=True)
class Branch:
    """A kind of files, which one query reads in one way.

    Attributes:
        has_append_time: Their records' timestamp is that of the append.
        has_common_time: It is not in the file.
        is_cut: Not all of their records are in the view.
    """

    has_append_time: bool = False
    has_common_time: bool = False
    is_cut: bool = False


def branches_of(files: Sequence[ViewFile]) -> list[Branch]:
    """Return the kinds of files in a view, at least one; most topics have one kind.

    So only the few files that need a condition on each row, and a column for it, pay for that.
    """
    found = {
        Branch(each.has_append_time, each.common_timestamp_us is not None, each.is_cut)
        for each in files
    }
    return sorted(found) or [Branch()]
