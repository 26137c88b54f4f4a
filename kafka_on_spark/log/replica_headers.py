"""Encodes a segment's header as the partition columns of an `add` action, and decodes it.

A table's content is a claim: this module refuses a header that is incomplete, or of a kind that
this version does not write; the chain (log/state.py) shows whether the rest is true.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, ProducerEpoch
from kafka_on_spark.log.batch import Batch, LogPart, MergedSegment, ProducerStamp, Segment
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.store.delta.delta_files import AddFile, FileEntry, RemoveFile

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


def _with_headers(batch: LogPart) -> Iterable[tuple[Segment, dict[str, str | None]]]:
    """Yield each segment with its header."""
    shared = _header_of_batch(batch) if isinstance(batch, Batch) else _header_of_merged(batch)
    ranges = zip(batch.ranges(), batch.chain_digests, strict=True)
    for (segment, base_offset, end_offset), chain_digest in ranges:
        yield (
            segment,
            {
                "base_offset": str(base_offset),
                **shared,
                "leader_epoch": str(batch.leader_epoch),
                "transaction": None,
                "chain_digest": chain_digest,
                "end_offset": str(end_offset),
                "timestamp_type": str(APPEND_TIME if batch.has_append_time else CREATE_TIME),
            },
        )


def _header_of_batch(batch: Batch) -> dict[str, str | None]:
    stamp = batch.producer
    return {
        "batch_base_offset": str(batch.base_offset),
        "batch_record_count": str(batch.record_count),
        "partition_count": str(batch.partition_count),
        "producer_id": None if stamp is None else stamp.producer_id,
        "producer_epoch": None if stamp is None else str(stamp.producer_epoch),
        "sequence": None if stamp is None else str(stamp.sequence),
        "payload_digest": None if stamp is None else str(stamp.payload_digest),
        "content_digest": None,
    }


def _header_of_merged(merged: MergedSegment) -> dict[str, str | None]:
    return {
        **dict.fromkeys(_OF_ONE_BATCH),
        "content_digest": str(merged.content_digest),
    }


def added_files(batch: LogPart, *, changes_data: bool = True) -> Iterable[AddFile]:
    """Yield the actions that add a batch's segments to a table.

    `changes_data`: the table did not have all of its records.
    """
    for segment, header in _with_headers(batch):
        yield AddFile(
            path=segment.file_name,
            size_bytes=segment.size_bytes,
            values=header,
            time_ms=batch.appended_at_ms,
            stats=_stats(segment),
            changes_data=changes_data,
        )


def removed_files(batch: LogPart, *, changes_data: bool = True) -> Iterable[RemoveFile]:
    """Yield the actions that remove a batch's segments from a table.

    `changes_data`: the table does not keep all of its records.
    """
    for segment, header in _with_headers(batch):
        yield RemoveFile(
            path=segment.file_name,
            size_bytes=segment.size_bytes,
            values=header,
            changes_data=changes_data,
        )


def _stats(segment: Segment) -> str:
    return json.dumps(
        {
            "numRecords": segment.record_count,
            "minValues": {"timestamp": iso(segment.timestamp_min_us)},
            "maxValues": {"timestamp": iso(segment.timestamp_max_us)},
            "nullCount": {"timestamp": 0},
        }
    )


def iso(time_us: int) -> str:
    """Return µs since 1970 UTC as Delta's statistics have it."""
    seconds, micros = divmod(time_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{micros:06d}Z"


def in_offset_order(files: Iterable[FileEntry]) -> list[FileEntry]:
    """Return a table's files in the order of their offsets."""
    try:
        return sorted(files, key=lambda file: _number(file, "base_offset"))
    except (TypeError, KeyError, ValueError) as error:
        raise CorruptLogError(f"a file has no batch header: {error}") from error


def batches_of(files: Sequence[FileEntry]) -> Iterator[LogPart]:
    """Yield the batches and merged segments of a table's files, which are in offset order."""
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
        chain_digest=_chain_digest(file),
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
        chain_digests=tuple(map(_chain_digest, files)),
    )


def _number(file: FileEntry, name: str) -> int:
    text = file.values[name]
    if text is None:
        raise TypeError(f"no {name}")
    return int(text)


def _chain_digest(file: FileEntry) -> ChainDigest:
    digest = file.values["chain_digest"]
    if digest is None:
        raise TypeError("no chain_digest")
    return ChainDigest(digest)


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
