"""Reads the committed records of a range, from one replica after another until it has all.

Each replica proves first that it has every committed record. If one fails in the middle, the next
goes on at the next offset. Rows have the columns of Spark's Kafka source.

The Delta log is the time index, too: each segment has its smallest and largest timestamp there, so
a question for an offset reads only the segments that may hold it, and only their timestamps.
Source: Kafka's ListOffsets, UnifiedLog.fetchOffsetByTimestamp.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypedDict, TypeVar, Unpack

import pyarrow as pa

from kafka_on_spark.base.errors import (
    KafkaOnSparkError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log.batch import LogPart, Segment
from kafka_on_spark.log.read_order import ReadOrder, check_left, replicas_to_read
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import (
    APPEND_TIME,
    CREATE_TIME,
    HEADERS,
    TIMESTAMP,
    begin_at,
    between_deltas,
    checked_content,
    fetched_content,
    read_segment,
    segment_batches,
)
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of, check_readable
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.deadlines import Call, DaemonThreads, is_local
from kafka_on_spark.store.roots import StorageOptions

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


class Handling(TypedDict, total=False):
    """What follows where a replica can't be read, besides the next one; see `read_pieces`."""

    note: NoteFailure
    on_deleted: OnDeleted
    finish_compaction: FinishCompaction | None


def refuse_deleted(order: ReadOrder, first: Offset, log_start_offset: Offset) -> None:
    end = min(log_start_offset, order.end_offset)
    raise OffsetOutOfRangeError(
        f"offsets {first} to {end} of {order.name} were deleted after the read was planned: its log"
        f" starts at {log_start_offset} now; read again from there"
    )


def pass_deleted(order: ReadOrder, first: Offset, log_start_offset: Offset) -> None:
    """Pass over what was deleted: the caller wants what is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A segment that holds a part of what is left to read of a range, on the replica that is read.

    Attributes:
        covered: How many offsets the file covers; it may have fewer records.
        first_delta, end_delta: Those of them that are to be read, counted from its base.
        fetching: Its file, on a store, which is fetched ahead.
    """

    address: ReplicaAddress
    partition: int
    batch: LogPart
    segment: Segment
    fetching: Call[bytes | None] | None = None
    base_offset: Offset
    covered: int
    first_delta: int
    end_delta: int

    @property
    def is_cut(self) -> bool:
        return self.end_delta - self.first_delta < self.covered


def read_pieces(
    order: ReadOrder,
    replicas: ReplicaStore,
    read: Callable[[Piece], Iterable[Rows]],
    note: NoteFailure = lambda address, segment, error: None,
    *,
    end_of: Callable[[Rows], Offset] | None = None,
    fetch: Callable[[Piece], bytes | None] | None = None,
    loaded: ReplicaState | KafkaOnSparkError | None = None,
    on_deleted: OnDeleted = refuse_deleted,
    finish_compaction: FinishCompaction | None = None,
) -> Iterator[Rows]:
    """Yield what `read` returns for the range's segments, in offset order.

    If a replica fails in the middle, `note` is called, and another replica goes on at the next
    offset. A segment that the replica has removed meanwhile is no failure: the rest is planned
    again. `end_of` returns the offset after some rows; `read` may fail after rows of a segment only
    where it is given. `on_deleted` is called if the log start has passed the next offset since the
    read was planned; `finish_compaction`, once, if a replica is not compacted as far as it must be.
    `fetch`: fetches a segment's file; on a store some are fetched ahead. `loaded`: the log of the
    first replica, or why it can't be loaded, if that was begun since the read was asked for.

    Raises:
        KafkaStorageError: No replica can serve the rest of the range; it names each one's error.
        OffsetOutOfRangeError: Compaction has removed what the order asks for from all that answer.
        And what `on_deleted` raises.
    """
    reading = _Reading(order, replicas, order.start_offset, fetch, loaded)
    while reading.position < order.end_offset:
        reading = replace(reading, log_start_offset=None, is_unfinished=False)
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
        if reading.position < reading.log_start_offset:  # else another replica has read past it
            on_deleted(order, reading.position, reading.log_start_offset)
            reading.position = reading.log_start_offset


_Failure = tuple[Segment | None, KafkaOnSparkError]


@dataclass(slots=True)
class _Reading:
    """How far a range was read.

    Attributes:
        log_start_offset: The lowest log start above it of the replicas that were asked; None: none
            of them starts above it.
        is_unfinished: One of them is not compacted as far as it must be to be read.
    """

    order: ReadOrder
    replicas: ReplicaStore
    position: Offset
    fetch: Callable[[Piece], bytes | None] | None = None
    loaded: ReplicaState | KafkaOnSparkError | None = None
    log_start_offset: Offset | None = None
    is_unfinished: bool = False

    def read_from(
        self,
        address: ReplicaAddress,
        read: Callable[[Piece], Iterable[Rows]],
        end_of: Callable[[Rows], Offset] | None,
    ) -> Generator[Rows, None, _Failure | None]:
        """Yield the rest of the range from one replica; return what it failed at, if it did.

        A file that the replica has removed meanwhile is no failure: the rest is planned again.
        """
        failure: _Failure | None = None
        for _ in range(PLANS_MAX):
            piece = None
            try:
                for piece in self._ahead(address, self._pieces(address)):
                    for rows in read(piece):
                        yield rows
                        if end_of is not None:
                            self.position = end_of(rows)
                    self.position = Offset(piece.base_offset + piece.end_delta)
                return None
            except KafkaOnSparkError as error:
                failure = (None if piece is None else piece.segment, error)
                if piece is None or not _was_cleaned(self.replicas, piece):
                    break
        return failure

    def _ahead(self, address: ReplicaAddress, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield pieces; on a store, files of the next ones are fetched meanwhile."""
        if self.fetch is None or is_local(address.root):
            yield from pieces
            return
        begun: deque[Piece] = deque()
        try:
            for piece in pieces:
                call = begin_at(address, partial(self.fetch, piece))
                begun.append(replace(piece, fetching=call if isinstance(call, Call) else None))
                while len(begun) > AHEAD_MAX or _size_of(begun) > AHEAD_BYTES:
                    yield begun.popleft()
            while begun:
                yield begun.popleft()
        finally:
            for each in begun:  # the reader has stopped early, or the replica has failed
                if each.fetching is not None:
                    each.fetching.cancel()

    def _state(self, address: ReplicaAddress) -> ReplicaState:
        loaded, self.loaded = self.loaded, None
        if loaded is not None and address == self.order.candidates[0]:
            if isinstance(loaded, KafkaOnSparkError):
                raise loaded
            with suppress(NotLeaderOrFollowerError, ReplicaLostError):  # a newer state may do
                check_readable(loaded, self.order.partition)
                if loaded.log_start_offset <= self.position:
                    return loaded
        return self.replicas.open(address).load()

    def _pieces(self, address: ReplicaAddress) -> Iterator[Piece]:
        order, position = self.order, self.position
        state = self._state(address)
        start = state.log_start_offset
        if not order.partition.compaction.may_count(state.compaction.finished_below):
            self.is_unfinished = True  # check_readable says so
        if start > max(position, order.partition.log_start_offset):
            # No replica's log starts above what was decided (I16). Another may not know of it yet.
            known = self.log_start_offset
            self.log_start_offset = start if known is None else min(known, start)
            raise NotLeaderOrFollowerError(
                "the log starts above the next offset to read", start=start, offset=position
            )
        check_readable(state, order.partition)
        check_left(order, state.compaction)
        for batch in state.batches_between(position, order.end_offset):
            for segment, base_offset, end_offset in batch.ranges():
                if base_offset < order.end_offset and end_offset > position:
                    yield Piece(
                        address=address,
                        partition=order.name.partition,
                        batch=batch,
                        segment=segment,
                        base_offset=base_offset,
                        covered=end_offset - base_offset,
                        first_delta=max(position - base_offset, 0),
                        end_delta=min(order.end_offset, end_offset) - base_offset,
                    )


def _size_of(pieces: Iterable[Piece]) -> int:
    return sum(each.segment.size_bytes for each in pieces)


def _was_cleaned(replicas: ReplicaStore, piece: Piece) -> bool:
    """Return whether the replica does not name a file any more: a cleaner may have removed it."""
    try:
        state = replicas.open(piece.address).load()
    except KafkaOnSparkError:
        return False
    return all(piece.segment not in part.segments for part in state.batches)


AHEAD_MAX: Final = 16
"""Files of a store that are fetched side by side for one range."""

AHEAD_BYTES: Final = 8 * 2**20
"""Bytes that one range fetches ahead, about. They share a link, and each file has its time."""

BATCH_ROWS_MAX: Final = 16_384
"""Rows that are decoded at once: two megabytes of usual records, few enough to be in the
processor's cache still when they are sent to Spark."""

ROW_SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
"""Rows of Spark's Kafka source."""

ROW_SCHEMA_WITH_HEADERS: Final = ROW_SCHEMA.append(pa.field("headers", HEADERS))

LEADER_EPOCH: Final = pa.field("leaderEpoch", pa.int32())
"""Under which leadership a record was appended: no column of Spark's source. Source: Kafka's
ConsumerRecord.leaderEpoch."""


def row_schema(*, has_headers: bool, has_epochs: bool = False) -> pa.Schema:
    schema = ROW_SCHEMA_WITH_HEADERS if has_headers else ROW_SCHEMA
    return schema.append(LEADER_EPOCH) if has_epochs else schema


def read_rows(
    order: ReadOrder,
    replicas: ReplicaStore,
    options: StorageOptions,
    *,
    has_headers: bool = True,
    has_epochs: bool = False,
    is_whole: bool = True,
    loaded: ReplicaState | KafkaOnSparkError | None = None,
    **handling: Unpack[Handling],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of `order`'s range in offset order; raise as `read_pieces`. `is_whole`: all
    of them are likely to be taken."""
    constants = _Constants(order)
    columns = ("offset_delta", "timestamp", "key", "value", *(("headers",) if has_headers else ()))
    schema = row_schema(has_headers=has_headers, has_epochs=has_epochs)

    def fetch(piece: Piece) -> bytes | None:
        return fetched_content(piece.address, piece.segment, options)

    def rows_of(piece: Piece) -> Iterator[pa.RecordBatch]:
        address, segment = piece.address, piece.segment
        fetching = None if piece.fetching is None else piece.fetching.in_time
        known = checked_content(address, segment, options, fetching)
        for records in segment_batches(address, segment, options, columns, BATCH_ROWS_MAX, known):
            wanted = between_deltas(records, piece.first_delta, piece.end_delta)
            if wanted.num_rows:
                yield _rows(constants, piece, wanted, schema)
            if records.column("offset_delta")[-1].as_py() >= piece.end_delta - 1:
                return

    ahead = fetch if is_whole else None
    yield from read_pieces(
        order, replicas, rows_of, end_of=end_of, fetch=ahead, loaded=loaded, **handling
    )


def count_records(
    order: ReadOrder,
    replicas: ReplicaStore,
    options: StorageOptions,
    **handling: Unpack[Handling],
) -> int:
    """Return how many records `order`'s range has, by the headers of its segments.

    A file is read only where the range begins or ends inside it and records are missing there: of
    that one the offsets count.
    """

    def counts_of(piece: Piece) -> Iterator[int]:
        first, end = piece.first_delta, piece.end_delta
        if not piece.is_cut:
            yield piece.segment.record_count
        elif piece.segment.record_count == piece.covered:
            yield end - first
        else:
            records = read_segment(piece.address, piece.segment, options, ("offset_delta",))
            yield between_deltas(records, first, end).num_rows

    return sum(read_pieces(order, replicas, counts_of, **handling))


def end_of(rows: pa.RecordBatch) -> Offset:
    return Offset(rows.column("offset")[-1].as_py() + 1)


class _Constants:
    """The columns of a partition's rows that have one value, for any batch of a task."""

    def __init__(self, order: ReadOrder) -> None:
        rows_max = min(order.end_offset - order.start_offset, BATCH_ROWS_MAX)
        self.topic = pa.repeat(order.name.topic, rows_max)
        self.partition = pa.repeat(pa.scalar(order.name.partition, pa.int32()), rows_max)
        self.types = {
            each: pa.repeat(pa.scalar(each, pa.int32()), rows_max)
            for each in (CREATE_TIME, APPEND_TIME)
        }


def _rows(
    constants: _Constants, piece: Piece, records: pa.RecordBatch, schema: pa.Schema
) -> pa.RecordBatch:
    count = records.num_rows
    timestamp_us = piece.batch.common_timestamp_us
    if timestamp_us is not None:
        timestamps = pa.repeat(pa.scalar(timestamp_us, pa.int64()).cast(TIMESTAMP), count)
    else:
        timestamps = records.column("timestamp").cast(TIMESTAMP)
    kind = APPEND_TIME if piece.batch.has_append_time else CREATE_TIME
    columns = [
        records.column("key"),
        records.column("value"),
        constants.topic.slice(0, count),
        constants.partition.slice(0, count),
        pc.add(records.column("offset_delta").cast(pa.int64()), piece.base_offset),
        timestamps,
        constants.types[kind].slice(0, count),
    ]
    if "headers" in schema.names:
        columns.append(records.column("headers").cast(HEADERS))
    if LEADER_EPOCH.name in schema.names:
        epoch = pa.scalar(piece.batch.leader_epoch, LEADER_EPOCH.type)
        columns.append(pa.repeat(epoch, count))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_timestamps(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> Iterable[tuple[int, int]]:
    """Return `offset_delta` and timestamp, µs since 1970 UTC, of a segment's records, in order."""
    records = read_segment(address, segment, options, ("offset_delta", "timestamp"))
    times = records.column("timestamp").cast(TIMESTAMP).cast(pa.int64()).to_pylist()
    return zip(records.column("offset_delta").to_pylist(), times, strict=True)


def header_pairs(
    headers: Sequence[Mapping[str, Any] | None] | None,
) -> list[tuple[str, bytes | None]]:
    """Return the names and values of a record's headers, as rows have them.

    Appends refuse a header that is null or has no name; one that a log has all the same gets the
    name "".
    """
    return [
        ("", None) if each is None else (each["key"] or "", each["value"]) for each in headers or ()
    ]


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """An offset, and what is known of the record there.

    Attributes:
        timestamp_us: The record's, µs since 1970 UTC; None: the question was for no record.
        leader_epoch: Leadership that appended it; for a log end, the latest one.
    """

    offset: Offset
    timestamp_us: int | None
    leader_epoch: LeaderEpoch | None


ReadSegmentTimes = Callable[[Segment], Iterable[tuple[int, int]]]
"""Reads the `offset_delta` and the timestamp, µs, of a segment's records, in offset order."""


def offset_for_time(
    state: ReplicaState, timestamp_us: int, read_timestamps: ReadSegmentTimes
) -> FoundOffset | None:
    """Return the first record that is not older than `timestamp_us`, or None.

    First by offset: timestamps of producers need not rise.
    """

    def may_hold(segment: Segment) -> bool:
        return segment.timestamp_max_us >= timestamp_us

    records = _records(state, may_hold, read_timestamps)
    return next((found for time_us, found in records if time_us >= timestamp_us), None)


def offset_of_latest_time(
    state: ReplicaState, read_timestamps: ReadSegmentTimes
) -> FoundOffset | None:
    """Return the first of the records with the largest timestamp, or None for an empty log.

    Not the last record: timestamps of producers need not rise (KIP-734).
    """
    best: FoundOffset | None = None
    latest_us = 0

    def may_hold(segment: Segment) -> bool:
        return best is None or segment.timestamp_max_us > latest_us

    for time_us, found in _records(state, may_hold, read_timestamps):
        if best is None or time_us > latest_us:
            best, latest_us = found, time_us
    return best


def _records(
    state: ReplicaState, may_hold: Callable[[Segment], bool], read_timestamps: ReadSegmentTimes
) -> Iterator[tuple[int, FoundOffset]]:
    """Yield the times of a log's records, and these, from its start on, but for segments that can't
    hold the answer."""
    for batch in state.batches:
        for segment, base_offset, end_offset in batch.ranges():
            if not segment.record_count or not may_hold(segment):
                continue
            is_dense = segment.record_count == end_offset - base_offset
            if is_dense and segment.timestamp_min_us == segment.timestamp_max_us:
                times = (segment.timestamp_min_us,) * segment.record_count
                found: Iterable[tuple[int, int]] = enumerate(times)
            else:
                found = read_timestamps(segment)
            for offset_delta, timestamp_us in found:
                offset = Offset(base_offset + offset_delta)
                if offset >= state.log_start_offset:
                    yield timestamp_us, FoundOffset(offset, timestamp_us, batch.leader_epoch)


ReadReplicaTimes = Callable[[ReplicaAddress, Segment], Iterable[tuple[int, int]]]
"""Reads the same of a segment on a replica."""


def look_up_offset(
    now: MetadataImage,
    then: MetadataImage,
    key: PartitionKey,
    timestamp_us: int | None,
    *,
    replicas: ReplicaStore,
    read_timestamps: ReadReplicaTimes,
    client_rack: str | None = None,
) -> FoundOffset | None:
    """Return the first record of a partition, committed in the image `then`, that is not older than
    a time; without a time, the first of those with the largest timestamp. None: there is none.

    The replicas of the image `now` are asked in order, until one answers. Both images may be one.

    Raises:
        KafkaStorageError: No replica can answer; it names each one's error.
    """
    partition, seen = now.partition(key), then.partition(key)
    assert seen is not None, "questions are about the image's partitions"
    if partition is None or seen.log_start_offset == seen.high_watermark:
        return None
    reasons = []
    for broker_id in replicas_to_read(now, partition, client_rack):
        address = address_of(now, key, partition, broker_id)
        try:
            state = replicas.open(address).load()
            check_readable(state, partition)
            # A replica applies a log start after it was decided; readers never see records below.
            first = max(state.log_start_offset, partition.log_start_offset)
            state = replace(state, log_start_offset=first)
            read = partial(read_timestamps, address)
            if timestamp_us is not None:
                found = offset_for_time(state, timestamp_us, read)
            else:
                committed = (e for e in state.batches if e.end_offset <= seen.high_watermark)
                found = offset_of_latest_time(replace(state, batches=tuple(committed)), read)
        except KafkaOnSparkError as error:
            reasons.append(f"broker {broker_id}: {error}")
            continue
        return found if found is not None and found.offset < seen.high_watermark else None
    asked = "its latest time" if timestamp_us is None else f"timestamp {timestamp_us // 1000}"
    raise KafkaStorageError(
        f"the offset of {now.name_of(key)} for {asked} can't be read from any replica:"
        f" {'; '.join(reasons) or 'none was ever created'}"
    )


LOOK_UP_THREADS: Final = 8


def look_up_offsets(
    now: MetadataImage,
    then: MetadataImage,
    asked: Iterable[tuple[PartitionKey, int]],
    options: StorageOptions,
    client_rack: str | None,
) -> list[Offset | None]:
    """Return, in order, what `look_up_offset` finds for partitions and times in ms, in threads of
    this process."""
    replicas = Worker(options).replicas

    def one(question: tuple[PartitionKey, int]) -> Offset | None:
        key, timestamp_ms = question
        found = look_up_offset(
            now,
            then,
            key,
            timestamp_ms * 1000,
            replicas=replicas,
            read_timestamps=partial(read_timestamps, options=options),
            client_rack=client_rack,
        )
        return None if found is None else found.offset

    with DaemonThreads(LOOK_UP_THREADS, "times") as threads:
        return list(threads.map(one, asked))
