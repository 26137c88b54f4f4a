"""Encodes a segment's header as the partition columns of an `add` action, and decodes it.

A table's content is a claim: this module refuses a header that is incomplete, or of a kind that
this version does not write; the chain (log/state.py) shows whether the rest is true.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import ChainDigest, LeaderEpoch, Offset, ProducerEpoch
from kafka_on_spark.log.batch import Batch, LogPart, MergedSegment, ProducerStamp, Segment
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.store.delta.delta_files import AddFile, RemoveFile
from kafka_on_spark.store.delta.history import FileEntry

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


class Row(NamedTuple):
    """One file of a table: its `add` action and its header."""

    path: str
    size_bytes: int
    num_records: int
    timestamp_min_us: int
    timestamp_max_us: int
    base_offset: Offset
    end_offset: Offset
    chain_digest: ChainDigest
    content_digest: int | None
    modification_time: int
    batch_base_offset: Offset | None
    batch_record_count: int
    partition_count: int
    leader_epoch: LeaderEpoch
    producer_id: str | None
    producer_epoch: ProducerEpoch
    sequence: int
    payload_digest: int
    transaction: int | None
    timestamp_type: int


_BATCH_FIELDS: Final = slice(Row._fields.index("modification_time"), None)
"""The fields that all files of a batch share."""


def rows_of(files: Iterable[FileEntry]) -> list[Row]:
    """Return a table's files, a row each, in offset order.

    Raises:
        CorruptLogError: A file has no header.
    """
    try:
        return sorted(map(_row, files), key=attrgetter("base_offset"))
    except (TypeError, KeyError, ValueError) as error:
        raise CorruptLogError(f"a file has no batch header: {error}") from error


def _row(file: FileEntry) -> Row:
    values = file.values

    def number(name: str) -> Any:
        text = values[name]
        return None if text is None else int(text)

    return Row(
        path=file.path,
        size_bytes=file.size_bytes,
        num_records=_there(file.record_count),
        timestamp_min_us=_there(file.timestamp_min_us),
        timestamp_max_us=_there(file.timestamp_max_us),
        base_offset=_there(number("base_offset")),
        end_offset=number("end_offset"),
        chain_digest=_there(values["chain_digest"]),
        content_digest=number("content_digest"),
        modification_time=file.time_ms,
        batch_base_offset=number("batch_base_offset"),
        batch_record_count=number("batch_record_count"),
        partition_count=number("partition_count"),
        leader_epoch=number("leader_epoch"),
        producer_id=values["producer_id"],
        producer_epoch=number("producer_epoch"),
        sequence=number("sequence"),
        payload_digest=number("payload_digest"),
        transaction=number("transaction"),
        timestamp_type=number("timestamp_type"),
    )


def _there(value: Any) -> Any:
    if value is None:
        raise TypeError("a value is missing")
    return value


def batches_of(rows: Sequence[Row]) -> Iterable[LogPart]:
    """Yield the batches and merged segments of a table's files, in offset order.

    Raises:
        CorruptLogError: A header is incomplete, or a batch's files disagree.
    """
    for batch_base_offset, run in groupby(rows, key=attrgetter("batch_base_offset")):
        if batch_base_offset is None:
            yield from map(_merged, run)
        else:
            yield _batch(batch_base_offset, list(run))


def _merged(row: Row) -> MergedSegment:
    if any(getattr(row, name) is not None for name in _OF_ONE_BATCH) or row.content_digest is None:
        raise CorruptLogError(
            "a header of neither a batch nor a merged segment", base_offset=row.base_offset
        )
    _check_kind(row)
    try:
        return MergedSegment(
            base_offset=row.base_offset,
            end_offset=row.end_offset,
            leader_epoch=row.leader_epoch,
            appended_at_ms=row.modification_time,
            segment=_segment(row),
            content_digest=row.content_digest,
            chain_digest=row.chain_digest,
            has_append_time=row.timestamp_type == APPEND_TIME,
        )
    except (AssertionError, TypeError) as error:
        raise CorruptLogError("not a merged segment", base_offset=row.base_offset) from error


def _batch(batch_base_offset: Offset, rows: Sequence[Row]) -> Batch:
    first = rows[0]
    if any(row[_BATCH_FIELDS] != first[_BATCH_FIELDS] for row in rows):
        raise CorruptLogError("the segments of a batch disagree", base_offset=first.base_offset)
    if first.base_offset != batch_base_offset:
        raise CorruptLogError("a batch has lost its first segment", base_offset=batch_base_offset)
    try:
        for row in rows:
            _check_header(row)
        return Batch(
            base_offset=batch_base_offset,
            record_count=first.batch_record_count,
            leader_epoch=first.leader_epoch,
            partition_count=first.partition_count,
            producer=_producer(first),
            appended_at_ms=first.modification_time,
            segments=tuple(_segment(row) for row in rows),
            has_append_time=first.timestamp_type == APPEND_TIME,
            chain_digests=tuple(row.chain_digest for row in rows),
        )
    except (AssertionError, TypeError) as error:
        raise CorruptLogError("not a segment of a batch", base_offset=first.base_offset) from error


def _check_header(row: Row) -> None:
    """Check that a header is of a kind that this version writes."""
    if row.end_offset != row.base_offset + row.num_records:
        raise CorruptLogError(
            "a segment does not end where its header says",
            base_offset=row.base_offset,
            end_offset=row.end_offset,
            records=row.num_records,
        )
    if row.content_digest is not None:
        raise CorruptLogError(
            "a batch with the content digest of a merged segment", base_offset=row.base_offset
        )
    _check_kind(row)


def _check_kind(row: Row) -> None:
    if row.timestamp_type not in (CREATE_TIME, APPEND_TIME) or row.transaction is not None:
        raise CorruptLogError(
            "a header of a kind that this version does not write", base_offset=row.base_offset
        )


def _producer(row: Row) -> ProducerStamp | None:
    if row.producer_id is None:
        return None
    return ProducerStamp(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        sequence=row.sequence,
        payload_digest=row.payload_digest,
    )


def _segment(row: Row) -> Segment:
    return Segment(
        file_name=row.path,
        size_bytes=row.size_bytes,
        record_count=row.num_records,
        timestamp_min_us=row.timestamp_min_us,
        timestamp_max_us=row.timestamp_max_us,
    )
