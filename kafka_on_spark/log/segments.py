"""Reads and writes segments: records as Parquet files, written once and never changed.

A table names its segments in `add` actions, whose partition columns are the segment's header. A
table's content is a claim: a header that is incomplete, or of a kind that this version does not
write, is refused; the chain (log/state.py) shows whether the rest is true.

A segment is written under a unique name; it is part of a log from the moment a commit names it.
Its name carries the digest of its bytes, so a copy is checked, and two replicas are compared,
without opening a table.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import BrokerId, ChainDigest, LeaderEpoch, Offset, ProducerEpoch
from kafka_on_spark.log.batch import (
    Batch,
    Border,
    LogPart,
    MergedSegment,
    ProducerStamp,
    Segment,
    segment_name,
)
from kafka_on_spark.log.evidence import file_flaw, inspect_root
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.deadlines import LONG, SHORT, Call, begin, within
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.error_translation import ABSENT
from kafka_on_spark.store.local_files import SEGMENT_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.parquet_files import parquet_batches, read_parquet
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

T = TypeVar("T")

log = logging.getLogger(__name__)

HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

RECORD_SCHEMA: Final = pa.schema(
    [
        pa.field("timestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""Records on their way into a segment."""

SEGMENT_SCHEMA: Final = pa.schema([pa.field("offset_delta", pa.int32()), *RECORD_SCHEMA])
"""What a segment file holds."""

# Part of the format: three replicas take 2.97 × the bytes of one plain Parquet copy.
_ENCODINGS: Final = {
    "offset_delta": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "key": "DELTA_BYTE_ARRAY",
    "value": "PLAIN",
}

_COMPRESSED_BYTES_MIN: Final = 1024
"""Fewer bytes of records hardly shrink, and zstd's set-up takes as long as all the rest."""


def create_folder(address: ReplicaAddress, options: StorageOptions) -> None:
    """Create a local replica's folder, if its root is the disk that the address names.

    If it is another or none, nothing is written: a mount point without its disk would take the
    files, and hide them. A store has no mount points, and a file there counts only once a log that
    stands in the same folder names it. Part of a call to the root.
    """
    if not is_local(address.root):
        return
    link = link_in_path(address)
    if link is not None:
        raise KafkaStorageError(
            f"{link} is a link: put the folder itself in its place, a replica lies on its"
            " broker's root"
        )
    root, folder = address.root, address.folder
    if within(root, partial(os.path.isdir, folder), SHORT):
        return
    check_directory(root, address.directory_id, options)
    files = RootFiles(root, options)
    files.make_folders([os.path.dirname(folder), folder])
    if address.is_flushed:
        files.flush([root, os.path.dirname(folder)])


def link_in_path(address: ReplicaAddress) -> str | None:
    """Return the link in place of a local replica's folder or its topic's, or None: a link could
    lead out of the root."""
    if not is_local(address.root):
        return None
    folder = address.folder
    way = (os.path.dirname(folder), folder, f"{folder}/_delta_log")
    links: list[str] = within(address.root, partial(list, filter(os.path.islink, way)), SHORT)
    return links[0] if links else None


def check_no_link(address: ReplicaAddress) -> None:
    """Check that a replica's folder lies on its root, before it is read."""
    link = link_in_path(address)
    if link is not None:
        raise ReplicaLostError(f"{link} is a link, and a replica lies on its broker's root")


def flush_folder(address: ReplicaAddress, options: StorageOptions) -> None:
    """Flush a replica's folder, so that the names of new files in it are durable. Part of a call to
    the root."""
    if address.is_flushed:
        RootFiles(address.root, options).flush([address.folder])


def parquet_format(size_bytes: int) -> dict[str, Any]:
    is_small = size_bytes < _COMPRESSED_BYTES_MIN
    return {
        "compression": "none" if is_small else "zstd",
        "compression_level": None if is_small else 1,
        "use_dictionary": False,
        "column_encoding": _ENCODINGS,
        "write_page_checksum": True,
        # No reader skips pages by a value's bytes, and comparing them takes a seventh of the time.
        "write_statistics": ["offset_delta", "timestamp", "key"],
        "store_schema": False,
    }


def new_segment(records: pa.Table, leader_epoch: LeaderEpoch) -> tuple[Segment, pa.Buffer]:
    """Return `records` as a new segment, staged under `leader_epoch`, and its bytes."""
    deltas = pa.array(np.arange(records.num_rows, dtype=np.int32))
    table = records.add_column(0, SEGMENT_SCHEMA.field(0), deltas)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **parquet_format(records.nbytes))
    content = sink.getvalue()
    span = pc.min_max(records.column("timestamp").cast(pa.int64()))
    segment = Segment(
        file_name=segment_name(leader_epoch, uuid4().hex, digest_of(content)),
        size_bytes=content.size,
        record_count=records.num_rows,
        timestamp_min_us=span["min"].as_py(),
        timestamp_max_us=span["max"].as_py(),
    )
    return segment, content


digest_of: Final[Callable[[Any], str]] = xxhash.xxh3_128_hexdigest
"""Returns the digest of a segment's bytes that is in its name."""


def segment_pieces(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> Iterator[Any]:
    """Yield the pieces of a replica's segment, and check their size and digest after the last.

    Raises:
        CorruptLogError: The segment is missing, or has another size or digest.
        KafkaStorageError: The root is another disk or none, or does not answer. Its `broker_id`
            tells which of a copy's two roots failed.
    """
    path = f"{address.folder}/{segment.file_name}"
    try:
        try:
            files = RootFiles(address.root, options)
            yield from checked(segment, files.pieces(path, bytes_max_of(segment)))
        except (NotTheSegmentError, UnsafeFileError, *ABSENT) as claim:
            raise segment_error(address, segment, options) from claim
    except KafkaStorageError as error:
        context = {**error.context, "broker_id": address.broker_id}
        raise type(error)(error.message, **context) from error


class NotTheSegmentError(Exception):
    """The bytes that were read have another size or digest than the segment's name says."""


def checked(segment: Segment, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield the pieces of a file, and check after the last that they are the segment's."""
    digest = xxhash.xxh3_128()
    size = 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
        yield piece
    if size != segment.size_bytes or digest.hexdigest() != segment.digest:
        raise NotTheSegmentError


def segment_error(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> KafkaOnSparkError:
    """Return what an inspection finds wrong with a segment, or that nothing is proved.

    A file that is missing or cut short may be on a disk that went away just now.
    """
    folder = address.folder.removeprefix(f"{address.root}/")
    with inspect_root(address.root, address.directory_id, options) as inspection:
        flaw = file_flaw(
            inspection,
            folder,
            segment.file_name,
            segment.size_bytes,
            lambda content: _flaw_of(content, segment),
        )
    if flaw is not None:
        flaw.context["segment"] = segment.file_name  # for a second inspection
    return flaw or KafkaStorageError(
        f"{segment.file_name} could not be read, and an inspection found nothing wrong with it"
    )


def _flaw_of(content: bytes, segment: Segment) -> str | None:
    if digest_of(content) != segment.digest:
        return "its bytes are not what its name says"
    try:
        read_parquet(content, segment.file_name, row_count=segment.record_count)
    except CorruptLogError as error:
        return error.message
    return None


def bytes_max_of(segment: Segment) -> int:
    return min(segment.size_bytes, SEGMENT_BYTES_MAX)


def read_segment(
    address: ReplicaAddress,
    segment: Segment,
    options: StorageOptions,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return a segment's records with `offset_delta`, after a check of the file's digest.

    The digest covers every byte that is read, also page headers and the footer. Page checksums
    do not cover those, and take five times as long. Raises as `segment_pieces`.
    """
    path, content = checked_content(address, segment, options)
    try:
        return read_parquet(content, path, columns=columns, row_count=segment.record_count)
    except CorruptLogError as claim:
        raise segment_error(address, segment, options) from claim


def segment_batches(
    address: ReplicaAddress,
    segment: Segment,
    options: StorageOptions,
    columns: Sequence[str],
    batch_rows_max: int,
    known: tuple[str, bytes] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a segment's records as `read_segment` does, at most `batch_rows_max` at once. `known`:
    what `checked_content` has returned."""
    path, content = known or checked_content(address, segment, options)
    try:
        yield from parquet_batches(
            content,
            path,
            columns=columns,
            row_count=segment.record_count,
            batch_rows_max=batch_rows_max,
        )
    except CorruptLogError as claim:
        raise segment_error(address, segment, options) from claim


def between_deltas(records: pa.RecordBatch, first: int, end: int) -> pa.RecordBatch:
    """Return the records of a segment whose `offset_delta` is in ``[first, end)``.

    Their place in the file says nothing: records of a merged segment may be gone.
    """
    deltas = records.column("offset_delta").to_numpy(zero_copy_only=False)
    start, stop = np.searchsorted(deltas, (first, end))
    return records.slice(start, stop - start)


def fetched_content(
    address: ReplicaAddress, segment: Segment, options: StorageOptions
) -> bytes | None:
    """Return what stands in a segment's place, None if nothing does; as `RootFiles.read`."""
    path = f"{address.folder}/{segment.file_name}"
    return RootFiles(address.root, options).read(path, bytes_max_of(segment))


def checked_content(
    address: ReplicaAddress,
    segment: Segment,
    options: StorageOptions,
    fetching: Callable[[], bytes | None] | None = None,
) -> tuple[str, bytes]:
    """Return a segment's path and bytes, whose digest is right; raise as `read_segment`.
    `fetching`: returns what `fetched_content` does; None: it is fetched here."""
    path = f"{address.folder}/{segment.file_name}"
    try:
        fetch = fetching or partial(fetched_content, address, segment, options)
        content = fetch()
    except UnsafeFileError as claim:
        raise segment_error(address, segment, options) from claim
    is_whole = content is not None and len(content) == segment.size_bytes
    if content is None or not is_whole or digest_of(content) != segment.digest:
        raise segment_error(address, segment, options)
    return path, content


OTHERS_SECONDS: Final = 0.5
"""Once each partition has its records somewhere, the other replicas have this long at least."""

IMPATIENT_PART: Final = 15
"""An impatient caller waits for a root that hangs for this part of the time of a write."""

POLL_SECONDS: Final = 0.25

Write = Call[None] | KafkaStorageError
"""A write to one root, or why it was not begun."""


def begin_puts(
    addresses: Iterable[ReplicaAddress],
    segment: Segment,
    content: Any,
    options: StorageOptions,
) -> dict[BrokerId, Write]:
    """Begin to write a new segment to several replicas, durably; return the writes, by broker."""

    def put(address: ReplicaAddress) -> None:
        create_folder(address, options)
        path = f"{address.folder}/{segment.file_name}"
        RootFiles(address.root, options).write(path, content, is_flushed=address.is_flushed)
        flush_folder(address, options)

    return {each.broker_id: begin_at(each, partial(put, each)) for each in addresses}


def begin_at(address: ReplicaAddress, work: Callable[[], T]) -> Call[T] | KafkaStorageError:
    """Begin a call to a replica's root; return it, or why it was not begun."""
    try:
        return begin(address.root, work)
    except KafkaStorageError as error:
        return error


def ended(
    writes: Sequence[Mapping[BrokerId, Write]], *, is_patient: bool = True
) -> list[dict[BrokerId, KafkaOnSparkError | None]]:
    """Wait for writes of several partitions; return the failures of each, None where it is written.

    A partition needs one replica that has its records. Once each has one, the others have as long
    again: an append goes on without them, and fetches bring them what they lack. `is_patient`: a
    partition of which no root answers is waited for until the deadlines of its calls.
    """
    began = time.monotonic()
    for each in writes:
        calls = [write for write in each.values() if isinstance(write, Call)]
        while not any(call.done() and not call.exception() for call in calls):
            limit = None if is_patient else began
            if not (left := [call for call in calls if _may_end(call, limit)]):
                break
            wait(left, POLL_SECONDS, FIRST_COMPLETED)
    running = [
        write
        for each in writes
        for write in each.values()
        if isinstance(write, Call) and _may_end(write, None)
    ]
    wait(running, max(OTHERS_SECONDS, time.monotonic() - began))
    return [{broker_id: _failure(write) for broker_id, write in each.items()} for each in writes]


def _may_end(call: Call[None], began: float | None) -> bool:
    """Return whether to wait for a call; `began`: for a part of what such a call may take."""
    if call.done() or call.is_stuck:
        return False
    patience = (LONG.disk if is_local(call.root) else LONG.store) / IMPATIENT_PART
    return began is None or time.monotonic() < began + patience


def _failure(write: Write) -> KafkaOnSparkError | None:
    if isinstance(write, KafkaStorageError):
        return write
    if not write.done():
        return write.leave()
    try:
        write.result()
    except KafkaOnSparkError as error:
        return error
    return None


class SegmentStore:
    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        named: Sequence[Segment] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        """Copy `segments` to `target`, checked by size and digest, and durable.

        One that `target` has already, complete and undamaged, is not copied. `named`: as they
        are named in `target`, if otherwise. `is_staged`: they were written to `target` just now,
        and flushed: on a disk, which may have been away since, one of the right size is complete.
        Raises as `segment_pieces`.
        """

        def copy() -> None:
            create_folder(target, self._options)
            targets = RootFiles(target.root, self._options)
            missing, is_fresh = [], is_staged
            for segment, own in zip(segments, named or segments, strict=True):
                path = f"{target.folder}/{own.file_name}"
                if is_fresh and (not is_local(path) or targets.size(path) == segment.size_bytes):
                    continue
                is_fresh = False
                if self._is_there(targets, path, segment):
                    # Its writer may not have flushed it.
                    if target.is_flushed:
                        targets.flush([path])
                    continue
                missing.append((path, segment_pieces(source, segment, self._options)))
            if not is_fresh:
                targets.write_all(missing, is_flushed=target.is_flushed)
                flush_folder(target, self._options)

        if segments:
            within(target.root, copy)

    def rewrite(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        end_offset: Offset,
    ) -> MergedSegment:
        """Write what neighbouring `parts` of `source`'s log, of one leadership and one kind of
        timestamps, have between two borders as one merged segment: see `merging.rewrite`."""
        # In the function: most processes merge nothing.
        from kafka_on_spark.log.merging import rewrite

        write = partial(
            rewrite,
            source,
            target,
            parts,
            self._options,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        return within(target.root, write)

    def too_large_to_merge(
        self, address: ReplicaAddress, parts: Iterable[LogPart]
    ) -> frozenset[Segment]:
        from kafka_on_spark.log.merging import too_large_to_merge

        find = partial(too_large_to_merge, address, parts, self._options)
        return within(address.root, find)

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> tuple[Border, ...]:
        """Return the borders that a merged segment keeps: see `merging.read_borders`."""
        from kafka_on_spark.log.merging import read_borders

        return within(address.root, partial(read_borders, address, merged, self._options))

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Check that a replica has a segment, by size and digest; raise as `segment_pieces`."""
        for _ in segment_pieces(address, segment, self._options):
            pass

    @staticmethod
    def _is_there(targets: RootFiles, path: str, segment: Segment) -> bool:
        """Return whether the segment is at `path`; a file of other bytes is written over.

        A disk that lost its power may keep a file of the right size with other bytes. A store has
        an object as it was put, or not at all.
        """
        if targets.size(path) != segment.size_bytes:
            return False
        if not is_local(path):
            return True
        try:
            for _ in checked(segment, targets.pieces(path, bytes_max_of(segment))):
                pass
        except (NotTheSegmentError, UnsafeFileError, *ABSENT):
            return False
        return True


CREATE_TIME: Final = 0

APPEND_TIME: Final = 1

HEADER_SCHEMA: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("batch_base_offset", pa.int64()),
        ("batch_record_count", pa.int64()),
        ("partition_count", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.string()),
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int64()),
        ("payload_digest", pa.int64()),
        ("transaction", pa.int64()),
        ("chain_digest", pa.string()),
        ("end_offset", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("content_digest", pa.int64()),
    ]
)

_OF_ONE_BATCH: Final = (
    *("batch_base_offset", "batch_record_count", "partition_count"),
    *("producer_id", "producer_epoch", "sequence", "payload_digest"),
)
"""The columns that are null for a merged segment."""

_SHARED: Final = (*_OF_ONE_BATCH, "leader_epoch", "transaction", "timestamp_type")
"""The columns in which all segments of a batch are alike."""

TABLE_SCHEMA: Final = pa.schema([*HEADER_SCHEMA, *SEGMENT_SCHEMA])


def files_of(part: LogPart, *, changes_data: bool = True) -> Iterator[FileEntry]:
    """Yield a batch's segments as its table names them; `changes_data`: as of `FileEntry`."""
    shared: dict[str, str | None] = dict.fromkeys((*_OF_ONE_BATCH, "content_digest"))
    if isinstance(part, Batch):
        shared |= {
            "batch_base_offset": str(part.base_offset),
            "batch_record_count": str(part.record_count),
            "partition_count": str(part.partition_count),
        }
    else:
        shared["content_digest"] = str(part.content_digest)
    if (stamp := part.producer) is not None:
        shared |= {
            "producer_id": stamp.producer_id,
            "producer_epoch": str(stamp.producer_epoch),
            "sequence": str(stamp.sequence),
            "payload_digest": str(stamp.payload_digest),
        }
    ranges = zip(part.ranges(), part.chain_digests, strict=True)
    for (segment, base_offset, end_offset), chain_digest in ranges:
        header = {
            "base_offset": str(base_offset),
            **shared,
            "leader_epoch": str(part.leader_epoch),
            "transaction": None,
            "chain_digest": chain_digest,
            "end_offset": str(end_offset),
            "timestamp_type": str(APPEND_TIME if part.has_append_time else CREATE_TIME),
        }
        yield FileEntry(
            path=segment.file_name,
            size_bytes=segment.size_bytes,
            values=header,
            record_count=segment.record_count,
            timestamp_min_us=segment.timestamp_min_us,
            timestamp_max_us=segment.timestamp_max_us,
            time_ms=part.appended_at_ms,
            changes_data=changes_data,
        )


def in_offset_order(files: Iterable[FileEntry]) -> list[FileEntry]:
    try:
        return sorted(files, key=lambda file: _number(file, "base_offset"))
    except (TypeError, KeyError, ValueError) as error:
        raise CorruptLogError(f"a file has no batch header: {error}") from error


def batches_of(files: Sequence[FileEntry]) -> Iterator[LogPart]:
    for batch, run in groupby(files, key=lambda file: file.values.get("batch_base_offset")):
        group = list(run)
        try:
            parts: list[LogPart] = [_batch(group)] if batch else [_merged(each) for each in group]
        except (AssertionError, TypeError, KeyError, ValueError) as error:
            raise CorruptLogError("not a segment's header", path=group[0].path) from error
        yield from parts


def _merged(file: FileEntry) -> MergedSegment:
    if any(file.values[name] is not None for name in _OF_ONE_BATCH):
        raise CorruptLogError("a header of neither a batch nor a merged segment", path=file.path)
    return MergedSegment(
        base_offset=Offset(_number(file, "base_offset")),
        end_offset=Offset(_number(file, "end_offset")),
        leader_epoch=LeaderEpoch(_number(file, "leader_epoch")),
        appended_at_ms=file.time_ms,
        segment=_segment(file),
        content_digest=_number(file, "content_digest"),
        chain_digest=ChainDigest(_text(file, "chain_digest")),
        has_append_time=_has_append_time(file),
    )


def _batch(files: Sequence[FileEntry]) -> Batch:
    first = files[0]
    shared = [first.values[name] for name in _SHARED]
    for file in files[1:]:
        if file.time_ms != first.time_ms or [file.values[name] for name in _SHARED] != shared:
            raise CorruptLogError("the segments of a batch disagree", path=file.path)
    base_offset = Offset(_number(first, "batch_base_offset"))
    if _number(first, "base_offset") != base_offset:
        raise CorruptLogError("a batch has lost its first segment", base_offset=base_offset)
    segments = tuple(map(_segment, files))
    for file, segment in zip(files, segments, strict=True):
        if _number(file, "end_offset") != _number(file, "base_offset") + segment.record_count:
            raise CorruptLogError("a segment does not end where its header says", path=file.path)
        if file.values["content_digest"] is not None:
            raise CorruptLogError("a batch with the content digest of a merge", path=file.path)
    return Batch(
        base_offset=base_offset,
        record_count=_number(first, "batch_record_count"),
        leader_epoch=LeaderEpoch(_number(first, "leader_epoch")),
        partition_count=_number(first, "partition_count"),
        producer=_producer(first),
        appended_at_ms=first.time_ms,
        segments=segments,
        has_append_time=_has_append_time(first),
        chain_digests=tuple(ChainDigest(_text(file, "chain_digest")) for file in files),
    )


def _text(file: FileEntry, name: str) -> str:
    text = file.values[name]
    if text is None:
        raise TypeError(f"no {name}")
    return text


def _number(file: FileEntry, name: str) -> int:
    return int(_text(file, name))


def _has_append_time(file: FileEntry) -> bool:
    """Return the kind of a file's timestamps; the header must be one that this version writes."""
    kind = _number(file, "timestamp_type")
    if kind not in (CREATE_TIME, APPEND_TIME) or file.values["transaction"] is not None:
        raise CorruptLogError("a header of a kind that this version does not write", path=file.path)
    return kind == APPEND_TIME


def _producer(file: FileEntry) -> ProducerStamp | None:
    producer_id = file.values["producer_id"]
    if producer_id is None:
        return None
    return ProducerStamp(
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(_number(file, "producer_epoch")),
        sequence=_number(file, "sequence"),
        payload_digest=_number(file, "payload_digest"),
    )


def _segment(file: FileEntry) -> Segment:
    if file.record_count is None or file.timestamp_min_us is None or file.timestamp_max_us is None:
        raise TypeError("no statistics")
    return Segment(
        file_name=file.path,
        size_bytes=file.size_bytes,
        record_count=file.record_count,
        timestamp_min_us=file.timestamp_min_us,
        timestamp_max_us=file.timestamp_max_us,
    )
