"""Segments whose records tell their number, and merges of them, as files."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.base.ids import NO_CHAIN, LeaderEpoch, Offset
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.merging import rewrite
from kafka_on_spark.log.segments import (
    RECORD_SCHEMA,
    begin_puts,
    ended,
    new_segment,
    read_segment,
)
from kafka_on_spark.log.state import batch_digests
from kafka_on_spark.store.roots import StorageOptions

OPTIONS = StorageOptions()
EPOCH = LeaderEpoch(4)
HEADERS = [[("trace", b"1"), ("trace", None)], None, []]


def rows(first, count):
    """Return records whose content tells their number; every third has no key, value or header."""
    numbers = range(first, first + count)
    return pa.table(
        [
            pa.array([1_000_000 * (each % 7) for each in numbers]),
            pa.array([None if each % 3 == 0 else b"k%d" % each for each in numbers]),
            pa.array([None if each % 3 == 1 else b"v%d" % each for each in numbers]),
            pa.array([HEADERS[each % 3] for each in numbers], RECORD_SCHEMA.field("headers").type),
        ],
        names=RECORD_SCHEMA.names,
    ).cast(RECORD_SCHEMA)


def written(place, base, *counts, before=NO_CHAIN, epoch=EPOCH, at_ms=5, **fields):
    """Write an append of segments with so many records each; return its batch."""
    segments, first = [], base
    for count in counts:
        segment, content = new_segment(rows(first, count), epoch)
        [failures] = ended([begin_puts([place], segment, content, OPTIONS)])
        assert failures[place.broker_id] is None
        segments.append(segment)
        first += count
    made = Batch(
        base_offset=Offset(base),
        record_count=sum(counts),
        leader_epoch=epoch,
        partition_count=1,
        producer=None,
        appended_at_ms=at_ms,
        segments=tuple(segments),
        **fields,
    )
    digests = batch_digests(before, place.key.topic_id, place.key.partition, made)
    return replace(made, chain_digests=digests)


def two(place, **fields):
    first = written(place, 10, 3, 2, **fields)
    return [first, written(place, 15, 4, before=first.chain_digest, **fields)]


def merge(source, parts, *, target=None, start=None, end=None, epoch=EPOCH):
    return rewrite(
        source,
        target or source,
        parts,
        OPTIONS,
        leader_epoch=epoch,
        start_offset=Offset(parts[0].base_offset if start is None else start),
        end_offset=Offset(parts[-1].end_offset if end is None else end),
    )


def content(place, merged):
    """Return a merged segment's records by offset."""
    table = read_segment(place, merged.segment, OPTIONS)
    return {merged.base_offset + row.pop("offset_delta"): row for row in table.to_pylist()}


def expected(first, count):
    return dict(zip(range(first, first + count), rows(first, count).to_pylist(), strict=True))


def uncompressed(place, part):
    """Return how many bytes a part has, as pyarrow reads it of the whole files."""
    paths = [Path(place.folder) / segment.file_name for segment in part.segments]
    return sum(pq.read_metadata(path).row_group(0).total_byte_size for path in paths)
