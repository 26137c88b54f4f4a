"""Merged segments as files: their records, their borders, what is checked, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import NO_CHAIN, Offset
from kafka_on_spark.log import merging
from kafka_on_spark.log.batch import Border
from kafka_on_spark.log.hashing import content_digests, sum_digests
from kafka_on_spark.log.merging import encode_merged, read_borders
from kafka_on_spark.log.segments import SEGMENT_SCHEMA, read_segment, segment_batches
from tests.log.replicas.rewriting import EPOCH, OPTIONS, merge, two, written


def test_the_time_of_an_append_is_written_into_the_file(roots):
    here = roots[1]
    first = written(here, 0, 2, at_ms=7, has_append_time=True)
    second = written(here, 2, 1, at_ms=9, has_append_time=True, before=first.chain_digest)

    made = merge(here, [first, second])

    times = read_segment(here, made.segment, OPTIONS, ["timestamp"])["timestamp"].cast(pa.int64())
    assert times.to_pylist() == [7000, 7000, 9000]
    assert (made.has_append_time, made.appended_at_ms) == (True, 9)
    assert (made.segment.timestamp_min_us, made.segment.timestamp_max_us) == (7000, 9000)


def test_the_content_digest_covers_offset_time_key_value_and_headers(roots):
    here = roots[1]
    made = merge(here, two(here))
    [records] = read_segment(here, made.segment, OPTIONS).combine_chunks().to_batches()

    def digest(batch, base=10):
        return sum_digests(content_digests(batch, base))

    assert digest(records) == made.content_digest
    assert digest(records, 11) != made.content_digest
    for name in ("timestamp", "key", "value", "headers"):
        column = records.column(name).to_pylist()
        place = records.schema.get_field_index(name)
        field = records.schema.field(name)
        changed = pa.array(column[1:] + column[:1], field.type)
        assert digest(records.set_column(place, field, changed)) != made.content_digest


def test_the_file_has_the_encodings_of_a_segment_and_page_checksums(roots):
    here = roots[1]
    made = merge(here, [written(here, 0, 2000)])
    path = Path(here.folder) / made.segment.file_name

    file = pq.ParquetFile(path, page_checksum_verification=True)

    assert file.read().num_rows == 2000
    columns = [file.metadata.row_group(0).column(place) for place in range(4)]
    wanted = ("DELTA_BINARY_PACKED", "DELTA_BINARY_PACKED", "DELTA_BYTE_ARRAY", "PLAIN")
    for column, encoding in zip(columns, wanted, strict=True):
        assert set(column.encodings) <= {encoding, "RLE"}
    assert {each.compression for each in columns} == {"ZSTD"}


def test_a_segment_without_records_is_a_file(roots):
    none, gone = SEGMENT_SCHEMA.empty_table().to_batches(), written(roots[1], 5, 2)

    file = encode_merged(none, Offset(5))

    header = file.header([gone], Offset(5), Border(Offset(7), gone.chain_digest), EPOCH)
    assert header.record_count == file.content.record_count == 0
    assert header.segment.timestamp_max_us == gone.segments[0].timestamp_max_us
    assert pq.read_table(pa.BufferReader(file.data)).schema.names == SEGMENT_SCHEMA.names


def test_a_merged_segment_with_other_records_than_its_header_says_is_found(roots):
    here = roots[1]
    made = merge(here, two(here))

    with pytest.raises(CorruptLogError, match="header says"):
        merge(here, [replace(made, content_digest=made.content_digest ^ 1)])


def test_borders_of_another_segment_are_not_taken(roots):
    here = roots[1]
    made = merge(here, two(here))

    for fields in ({"end_offset": Offset(20)}, {"chain_digest": NO_CHAIN}):
        with pytest.raises((CorruptLogError, KafkaStorageError)):
            read_borders(here, replace(made, **fields), OPTIONS)


def test_a_write_that_is_not_read_back_as_it_was_is_no_merge(roots, monkeypatch):
    here = roots[1]
    parts = two(here)
    read = merging.segment_batches

    def lies(*arguments):
        for records in read(*arguments):
            yield records.slice(1)

    monkeypatch.setattr(merging, "segment_batches", lies)

    with pytest.raises(KafkaStorageError, match="other records"):
        merge(here, parts)


def test_no_more_than_a_row_group_of_a_file_is_decoded_at_once_however_few_rows_it_has(
    roots, monkeypatch
):
    """65,536 rows of large values would be all of a merged file, which compresses well: gigabytes,
    and more than Arrow holds of a record's parts side by side."""
    here = roots[1]
    monkeypatch.setattr(merging, "GROUP_BYTES", 1)
    made = merge(here, two(here))

    batches = segment_batches(here, made.segment, OPTIONS, ("offset_delta", "value"), 3)

    assert [each.num_rows for each in batches] == [3, 2, 3, 1]
