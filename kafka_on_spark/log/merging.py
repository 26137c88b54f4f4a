"""Merging: neighbouring files of a replica become one, each merge a commit of its own.

A merged segment's file has the columns and encodings of any segment. Its `offset_delta` counts from
the segment's base, each record's timestamp is in it, and its key-value metadata keeps where the
plain segments ended that went in: its borders. It counts when a commit names it. Each replica
merges by itself, and only what it has proved committed (design note 8).
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset
from kafka_on_spark.base.merge_tiers import MERGED_BYTES_MAX
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch, Border, LogPart, MergedSegment, Segment, segment_name
from kafka_on_spark.log.hashing import add_digests, content_digests, sum_digests
from kafka_on_spark.log.merge_plan import MergeRules, merges_due
from kafka_on_spark.log.replicas import ReplicaLog, committed
from kafka_on_spark.log.segments import (
    SEGMENT_SCHEMA,
    TIMESTAMP,
    between_deltas,
    bytes_max_of,
    checked_content,
    create_folder,
    digest_of,
    flush_folder,
    parquet_format,
    segment_batches,
    segment_error,
)
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState, proves_complete
from kafka_on_spark.log.upkeep_work import (
    NOTHING_DONE,
    Allowance,
    UpkeepOrder,
    WorkDone,
    suspect_in,
)
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.parquet_files import read_footer, uncompressed_bytes
from kafka_on_spark.store.roots import RootFiles, StorageOptions

BORDERS: Final = b"kos.borders"
"""Key of the borders in a file's metadata: base64 of 20 bytes each, the offset from the segment's
base as 32 bits, little-endian, and the digest."""

_BORDER: Final = struct.Struct("<I16s")

BORDER_BYTES: Final = 26
"""What a border takes of a footer, and two thirds of a byte more."""


def encode_borders(borders: Sequence[Border], base_offset: Offset) -> bytes:
    packed = (
        _BORDER.pack(each.offset - base_offset, bytes.fromhex(each.chain_digest))
        for each in borders
    )
    return b64encode(b"".join(packed))


def unpack_borders(text: bytes, base_offset: Offset) -> tuple[Border, ...]:
    """Return the borders that a footer keeps, unchecked."""
    return tuple(
        Border(Offset(base_offset + delta), ChainDigest(digest.hex()))
        for delta, digest in _BORDER.iter_unpack(b64decode(text, validate=True))
    )


def border_count(footer: pq.FileMetaData) -> int:
    """Return how many borders a file brings into a merge: those that it keeps, or its end."""
    text = (footer.metadata or {}).get(BORDERS, b"")
    return max(1, len(text) * 3 // 4 // _BORDER.size)


def read_borders(
    address: ReplicaAddress, merged: MergedSegment, options: StorageOptions
) -> tuple[Border, ...]:
    """Return the borders that a replica's merged segment keeps, after a check of the whole file;
    empty: it keeps none. Raises as `segment_pieces`."""
    _, content = checked_content(address, merged.segment, options)
    try:
        return borders_in(content, merged)
    except CorruptLogError as claim:
        raise segment_error(address, merged.segment, options) from claim


def borders_in(content: bytes, merged: MergedSegment) -> tuple[Border, ...]:
    own = Border(merged.end_offset, merged.chain_digest)
    return decode_borders(content, merged.segment.file_name, merged.base_offset, own)


def decode_borders(
    content: bytes, name: str, base_offset: Offset, own: Border
) -> tuple[Border, ...]:
    """Return the borders in the bytes of the file `name` of a merged segment; empty: it keeps none.

    `base_offset`: where the segment begins. `own`: where it ends.
    """
    text = (read_footer(content, name).metadata or {}).get(BORDERS)
    if text is None:
        return ()
    try:
        borders = unpack_borders(text, base_offset)
    except (ValueError, struct.error) as error:
        raise CorruptLogError("borders that can't be read", path=name) from error
    ends = [base_offset, *(each.offset for each in borders)]
    if own not in borders[-1:] or sorted(set(ends)) != ends:
        raise CorruptLogError("borders that are not those of the segment", path=name)
    return borders


BORDERS_MAX: Final = 2**20
"""Borders of a merged segment at most, if more than one part is in it: a text of more than 100 MB
in a footer is refused by all that reads Parquet."""

COLUMNS: Final = tuple(SEGMENT_SCHEMA.names)

BATCH_ROWS: Final = 2**16
"""Records that are decoded, and hashed, at once."""

UNCOMPRESSED_MAX: Final = 2**31
"""Bytes of a merged segment once uncompressed, at most, if more than one part is in it: half of
what a reader takes."""

GROUP_BYTES: Final = 2**25
"""Bytes of a row group before compression, about: a merge holds them beside the file."""


@dataclass(frozen=True, slots=True)
class Content:
    """What records amount to, however they are cut: their number and the sum of their digests."""

    record_count: int = 0
    digest: int = 0

    def plus(self, records: pa.RecordBatch, base_offset: int) -> "Content":
        digest = sum_digests(content_digests(records, base_offset))
        return self.with_more(Content(records.num_rows, digest))

    def with_more(self, other: "Content") -> "Content":
        digest = add_digests(self.digest, other.digest)
        return Content(self.record_count + other.record_count, digest)


def content_of(records: pa.Table, base_offset: int) -> Content:
    content = Content()
    for each in records.to_batches(BATCH_ROWS):
        content = content.plus(typed(each), base_offset)
    return content


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedFile:
    """The bytes of a merged segment, and what its header says of them.

    Its timestamps are µs since 1970 UTC; None without records.
    """

    data: pa.Buffer
    content: Content
    timestamp_min_us: int | None
    timestamp_max_us: int | None

    def header(
        self, parts: Sequence[LogPart], base_offset: Offset, end: Border, leader_epoch: LeaderEpoch
    ) -> MergedSegment:
        """Return the merged segment of what `parts` have from `base_offset` to `end`, under a new
        name of `leader_epoch`. Without records it has the span of times of those that went."""
        segments = [segment for part in parts for segment in part.segments]
        low, high = self.timestamp_min_us, self.timestamp_max_us
        segment = Segment(
            file_name=segment_name(leader_epoch, uuid4().hex, digest_of(self.data)),
            size_bytes=self.data.size,
            record_count=self.content.record_count,
            timestamp_min_us=min(e.timestamp_min_us for e in segments) if low is None else low,
            timestamp_max_us=max(e.timestamp_max_us for e in segments) if high is None else high,
        )
        return MergedSegment(
            base_offset=base_offset,
            end_offset=end.offset,
            leader_epoch=parts[0].leader_epoch,
            appended_at_ms=max(part.appended_at_ms for part in parts),
            segment=segment,
            content_digest=self.content.digest,
            chain_digest=end.chain_digest,
            has_append_time=parts[0].has_append_time,
        )


def encode_merged(
    records: Iterable[pa.RecordBatch], base_offset: Offset, borders: Sequence[Border] = ()
) -> MergedFile:
    """Return records (SEGMENT_SCHEMA) as the file of a merged segment that begins at `base_offset`.

    Their offset_delta counts from there and rises.
    """
    sink, content = pa.BufferOutputStream(), Content()
    low: int | None = None
    high: int | None = None
    writer: pq.ParquetWriter | None = None
    for group in _groups(records):
        if writer is None:
            writer = pq.ParquetWriter(sink, SEGMENT_SCHEMA, **parquet_format(group.nbytes))
        for each in group.to_batches(BATCH_ROWS):
            content = content.plus(each, base_offset)
        span = pc.min_max(group.column("timestamp").cast(pa.int64()))
        if group.num_rows:
            low = min(span["min"].as_py(), span["min"].as_py() if low is None else low)
            high = max(span["max"].as_py(), span["max"].as_py() if high is None else high)
        writer.write_table(group, row_group_size=max(1, group.num_rows))
    writer = writer or pq.ParquetWriter(sink, SEGMENT_SCHEMA, **parquet_format(0))
    if borders:
        writer.add_key_value_metadata({BORDERS: encode_borders(borders, base_offset)})
    writer.close()
    return MergedFile(
        data=sink.getvalue(), content=content, timestamp_min_us=low, timestamp_max_us=high
    )


def _groups(records: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for each in records:
        waiting.append(each)
        size += each.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def rewrite(
    source: ReplicaAddress,
    target: ReplicaAddress,
    parts: Sequence[LogPart],
    options: StorageOptions,
    *,
    leader_epoch: LeaderEpoch,
    start_offset: Offset,
    end_offset: Offset,
) -> MergedSegment:
    """Write what `parts` of a log have in ``[start_offset, end_offset)`` as one file of `target`.

    Of several parts it takes as many, from the first on, as one file may hold. Every byte that is
    read is checked, and what was written is read back and must have the same records. The file is
    durable, under a new name of `leader_epoch`.

    Raises:
        CorruptLogError: A file of `source` is missing or damaged, or has no border where it is cut.
        KafkaStorageError: A root does not answer; its `broker_id` says which, if it is `source`'s.
    """
    read = _Read(source, options, start_offset, end_offset)
    try:
        file = encode_merged(read.records(parts), start_offset, read.borders)
    except KafkaStorageError as error:
        context = {**error.context, "broker_id": source.broker_id}
        raise type(error)(error.message, **context) from error
    taken = [part for part in parts if part.base_offset < read.end_offset]
    merged = file.header(taken, start_offset, read.borders[-1], leader_epoch)
    put_merged(target, merged, file, options)
    return merged


def put_merged(
    target: ReplicaAddress, merged: MergedSegment, file: MergedFile, options: StorageOptions
) -> None:
    """Write a merged segment's file, durable, and read it back.

    Raises:
        KafkaStorageError: The root is another disk or none, or does not answer, or what was read
            back is not what was written; or no reader would take the file, which is not written.
    """
    path = f"{target.folder}/{merged.segment.file_name}"
    try:
        read_footer(file.data, path)
    except CorruptLogError as error:
        raise KafkaStorageError(
            f"{path} was not written: uncompressed it would be more than a reader takes, since one"
            " append has so many records; append fewer at once"
        ) from error
    create_folder(target, options)
    RootFiles(target.root, options).write(path, file.data, is_flushed=target.is_flushed)
    flush_folder(target, options)
    content = Content()
    try:
        for records in segment_batches(target, merged.segment, options, COLUMNS, BATCH_ROWS):
            content = content.plus(typed(records), merged.base_offset)
    except CorruptLogError as error:
        raise KafkaStorageError(f"a file just written is damaged: {error.message}") from error
    if content != file.content:
        raise KafkaStorageError(f"{path} was just written, and has other records than were written")


class _Read:
    """Reads a range of a log, part by part, and keeps the borders of what was read as a whole."""

    def __init__(
        self,
        source: ReplicaAddress,
        options: StorageOptions,
        start_offset: Offset,
        end_offset: Offset,
    ) -> None:
        self.borders: list[Border] = []
        self._source = source
        self._options = options
        self._start = start_offset
        self._end = end_offset
        self._size = 0
        self._border_count = 0

    @property
    def end_offset(self) -> Offset:
        return self.borders[-1].offset if self.borders else self._start

    def records(self, parts: Iterable[LogPart]) -> Iterator[pa.RecordBatch]:
        """Yield the range's records as far as one file may hold them; their offset_delta counts
        from the range's start."""
        for part in parts:
            files = [
                (base_offset, segment, checked_content(self._source, segment, self._options))
                for segment, base_offset, _ in part.ranges()
            ]
            footers = [read_footer(data, path) for _, _, (path, data) in files]
            self._size += sum(map(uncompressed_bytes, footers))
            self._border_count += sum(map(border_count, footers))
            is_full = self._size > UNCOMPRESSED_MAX or self._border_count > BORDERS_MAX
            if self.borders and is_full:
                return
            content = Content()
            for base_offset, segment, known in files:
                for records in segment_batches(
                    self._source, segment, self._options, COLUMNS, BATCH_ROWS, known
                ):
                    whole = typed(records, part.common_timestamp_us)
                    if isinstance(part, MergedSegment):
                        content = content.plus(whole, base_offset)
                    wanted = between_deltas(
                        whole, self._start - base_offset, self._end - base_offset
                    )
                    if wanted.num_rows:
                        yield moved(wanted, base_offset - self._start)
            self._finish(part, content, files[0][2][1])

    def _finish(self, part: LogPart, content: Content, data: bytes) -> None:
        if isinstance(part, Batch):
            ends = zip(part.ranges(), part.chain_digests, strict=True)
            found = tuple(Border(end_offset, digest) for (_, _, end_offset), digest in ends)
        elif content.digest != part.content_digest:
            raise CorruptLogError(
                "a merged segment has other records than its header says",
                base_offset=part.base_offset,
            )
        else:
            found = borders_in(data, part) or (Border(part.end_offset, part.chain_digest),)
        self.borders += [each for each in found if self._start < each.offset <= self._end]
        if self.end_offset != min(part.end_offset, self._end):
            raise CorruptLogError("a cut at an offset where no batch ended", offset=self._end)


def typed(records: pa.RecordBatch, common_timestamp_us: int | None = None) -> pa.RecordBatch:
    """Return records as SEGMENT_SCHEMA has them, with the timestamp that they have in common."""
    columns = [records.column(name).cast(SEGMENT_SCHEMA.field(name).type) for name in COLUMNS]
    if common_timestamp_us is not None:
        moment = pa.scalar(common_timestamp_us, pa.int64()).cast(TIMESTAMP)
        columns[COLUMNS.index("timestamp")] = pa.repeat(moment, records.num_rows)
    return pa.RecordBatch.from_arrays(columns, schema=SEGMENT_SCHEMA)


def moved(records: pa.RecordBatch, by: int) -> pa.RecordBatch:
    deltas = pc.add(records.column(0).cast(pa.int64()), by).cast(pa.int32())
    return records.set_column(0, SEGMENT_SCHEMA.field(0), deltas)


RATIO_MAX: Final = 2**15
"""How many bytes zstd makes of one at most: a block of 128 KiB takes 4 at least. So the footers of
small files need not be read."""

END_BYTES: Final = 2**16
"""What is read of a file's end at first: most footers are smaller."""

_LENGTH_BYTES: Final = 8
"""A Parquet file ends with the length of its footer, as 32 bits, and a mark of four bytes."""


def too_large_to_merge(
    address: ReplicaAddress, parts: Iterable[LogPart], options: StorageOptions
) -> frozenset[Segment]:
    """Return the files of those parts that have more than half of what a merged segment may have,
    of bytes or of borders.

    Any two others fit into one file. A part that can't be read is not among them: a merge finds out
    what is wrong with it.
    """
    least = UNCOMPRESSED_MAX // 2
    return frozenset(
        segment
        for part in parts
        if part.size_bytes * RATIO_MAX > least and _uncompressed(address, part, options) > least
        for segment in part.segments
    )


def fitting_into_one(
    address: ReplicaAddress, parts: Sequence[LogPart], options: StorageOptions
) -> int:
    """Return how many of those parts, from the first on, one merged segment may hold; one at least.
    A part that can't be read counts for nothing: whoever reads it finds out what is wrong with it.
    """
    most = UNCOMPRESSED_MAX
    if len(parts) == 1 or sum(part.size_bytes for part in parts) * RATIO_MAX <= most:
        return len(parts)
    size = 0
    for count, part in enumerate(parts):
        size += _uncompressed(address, part, options)
        if count and size > most:
            return count
    return len(parts)


def _uncompressed(address: ReplicaAddress, part: LogPart, options: StorageOptions) -> int:
    try:
        return sum(_size_in(address, segment, options) for segment in part.segments)
    except CorruptLogError:
        return 0


def _size_in(address: ReplicaAddress, segment: Segment, options: StorageOptions) -> int:
    """Return how many bytes a segment has uncompressed, as its file's footer says.

    One with too many borders for a merge counts as full. Its footer has little else, and is not
    read.
    """
    files, size_bytes = RootFiles(address.root, options), bytes_max_of(segment)
    path = f"{address.folder}/{segment.file_name}"
    end = files.read_end(path, size_bytes, min(END_BYTES, size_bytes)) or b""
    footer_bytes = int.from_bytes(end[-_LENGTH_BYTES:-4], "little") + _LENGTH_BYTES
    half_bytes = BORDERS_MAX // 2 * BORDER_BYTES
    if half_bytes < footer_bytes <= size_bytes:
        return UNCOMPRESSED_MAX
    if len(end) < footer_bytes <= size_bytes:
        end = files.read_end(path, size_bytes, footer_bytes) or b""
    return uncompressed_bytes(read_footer(end, path))


def merge_replica(order: UpkeepOrder, worker: Worker, allowance: Allowance) -> WorkDone:
    """Merge what is due in one replica, as far as the allowance goes.

    A damaged file is reported, and ends the merge of its own neighbours only. Runs that can't be
    merged, or lost a race, are skipped: they may stay so, and must not hold up the rest.
    """
    replica = worker.replicas.open(order.address)
    state = replica.load()
    if not may_merge(order, state):
        return NOTHING_DONE
    merger = _Merger(order, worker, replica, state)
    if order.is_dry_run:
        due = merger.mergeable()
        return WorkDone(
            count=len(due),
            what=WHAT,
            size_bytes=sum(map(_size_of, due)),
        )
    while due := merger.due():
        before = merger.work.count, len(merger.left_out)
        for run in due:
            # A visit that may rewrite anything ends with a merge, however long it took to find one:
            # otherwise each could end with what all others have found.
            if allowance.is_spent if merger.work.count else allowance.bytes_left == 0:
                return merger.done(is_left=True)
            # What can't be merged costs nothing: it would be all that a small allowance is spent
            # on.
            if merger.merge(run):
                allowance.charge(2 * _size_of(run))
        if before == (merger.work.count, len(merger.left_out)):
            break  # others have merged them, or the fence has moved
    return merger.done(is_left=bool(merger.due()))


def may_merge(order: UpkeepOrder, state: ReplicaState) -> bool:
    """Return whether a log is under the leadership of the order's image, and has all that is
    committed in it. If not, it is behind, or bad, or the image is old."""
    is_led = state.leader_epoch == order.partition.leader_epoch
    return is_led and proves_complete(state, order.partition)


def _size_of(run: Sequence[LogPart]) -> int:
    return sum(part.size_bytes for part in run)


WHAT: Final = "merges"
NOTHING_MERGED: Final = WorkDone(what=WHAT)

ENTRY_BYTES: Final = 64
"""What a producer takes in the file of the producer state, about."""


def rules_of(order: UpkeepOrder, state: ReplicaState) -> MergeRules:
    settings, producers = order.settings, state.producers
    if order.registered is not None:
        producers = order.registered.without_expired(producers)
    return MergeRules(
        # Without transactions the last stable offset is the high watermark.
        stable_offset=order.partition.high_watermark,
        size_bytes_max=min(settings.integer("segment.bytes"), MERGED_BYTES_MAX),
        span_ms=settings.integer("segment.ms"),
        lag_batches=settings.integer("merge.min.lag.batches"),
        size_bytes_min=ENTRY_BYTES * len(producers),
    )


@dataclass(slots=True)
class _Merger:
    """Merges one replica's runs of neighbours, one after the other.

    Attributes:
        damage: What is wrong with files that could not be read.
    """

    order: UpkeepOrder
    worker: Worker
    replica: ReplicaLog
    state: ReplicaState
    work: WorkDone = NOTHING_MERGED
    damage: dict[Segment, CorruptLogError] = field(default_factory=dict)
    too_large: set[Segment] = field(default_factory=set)

    @property
    def left_out(self) -> frozenset[Segment]:
        return frozenset(self.too_large.union(self.damage))

    def done(self, *, is_left: bool) -> WorkDone:
        done = replace(self.work, is_left=is_left)
        segment, error = next(iter(self.damage.items()), (None, None))
        return done if error is None else done.failed(error, segment)

    def due(self) -> list[tuple[LogPart, ...]]:
        rules = replace(rules_of(self.order, self.state), left_out=self.left_out)
        return merges_due(self.state.batches, rules)

    def mergeable(self) -> list[tuple[LogPart, ...]]:
        """Return the merges that are due next, once the sizes of all their files are known."""
        while True:
            due = self.due()
            if not [run for run in due if self._finds_large(run)]:
                return due

    def _finds_large(self, run: Sequence[LogPart]) -> bool:
        """Return whether a run has files that are too large to be merged, which are left out from
        now on."""
        found = self.worker.segments.too_large_to_merge(self.order.address, run)
        self.too_large |= found
        return bool(found)

    def merge(self, run: Sequence[LogPart]) -> bool:
        """Write one file of a run of neighbours and commit it in their place.

        It may hold the first of them only. What was written for nothing is an orphan, which the
        cleaner takes. Return False if nothing was written, since one of their files can't be read,
        or is too large: no other run rests on it.
        """
        if self._finds_large(run):
            return False
        address, epoch = self.order.address, self.order.partition.leader_epoch
        try:
            merged = self.worker.segments.rewrite(
                address,
                address,
                run,
                leader_epoch=epoch,
                start_offset=run[0].base_offset,
                end_offset=run[-1].end_offset,
            )
        except CorruptLogError as error:
            self.state = self.replica.load()
            suspect = suspect_in(self.state, error)
            if suspect is not None:
                self.damage[suspect] = error
            elif "segment" not in error.context:
                raise
            return False  # or another process has merged it, and its inputs are cleaned
        taken = [part for part in run if part.end_offset <= merged.end_offset]
        if sum(len(part.segments) for part in taken) > 1:
            self._commit(taken, merged)
        else:  # no two fit: the same would be written again and again
            self.too_large.update(run[0].segments)
        return True

    def _commit(self, inputs: Sequence[LogPart], merged: MergedSegment) -> None:
        """Commit a merge; after a conflict again, if fence and inputs still stand."""
        epoch = self.order.partition.leader_epoch

        def decide(state: ReplicaState) -> LogChange | None:
            if state.leader_epoch != epoch:
                return None
            return operations.replace_neighbours(
                state,
                inputs,
                merged,
                operation="merge",
                leader_epoch=epoch,
                stable_offset=self.order.partition.high_watermark,
                registered=self.order.registered,
            )

        self.state, change = committed(self.replica, decide, self.state)
        if change is not None:
            self.work = self.work.with_piece(_size_of(inputs), merged.size_bytes)
