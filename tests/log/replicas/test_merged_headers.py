"""The header of a merged segment: what a table says of it, and what it may not say."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.log.batch import TIME_MS_END
from kafka_on_spark.log.segments import HEADER_SCHEMA, batches_of, files_of, in_offset_order
from kafka_on_spark.store.delta.delta_files import FileEntry
from tests.builders import log, merged, with_merged

STATE = with_merged(with_merged(log("0:aabb 1:ccd 1:e"), 0, 4), 4, 7, records=1)


def entries(*parts):
    return [
        FileEntry(
            path=file.path,
            size_bytes=file.size_bytes,
            values=file.values,
            record_count=segment.record_count,
            timestamp_min_us=segment.timestamp_min_us,
            timestamp_max_us=segment.timestamp_max_us,
            time_ms=file.time_ms,
            changes_data=file.changes_data,
        )
        for part in parts
        for file, segment in zip(files_of(part), part.segments, strict=True)
    ]


def test_a_log_of_both_kinds_is_read_as_it_was_written():
    found = tuple(batches_of(in_offset_order(reversed(entries(*STATE.batches)))))

    assert found == STATE.batches


def test_a_merged_segment_names_every_column_and_none_of_one_append():
    [file] = files_of(merged(log("0:aabb"), 0, 4))

    assert file.values.keys() == set(HEADER_SCHEMA.names)
    null = {name for name, value in file.values.items() if value is None}
    assert null == {
        *("batch_base_offset", "batch_record_count", "partition_count", "transaction"),
        *("producer_id", "producer_epoch", "sequence", "payload_digest"),
    }


# fmt: off
DAMAGED = [
    pytest.param("content_digest", None,              id="no content digest"),
    pytest.param("content_digest", str(2**63),        id="a content digest of 65 bits"),
    pytest.param("end_offset", None,                  id="no end"),
    pytest.param("end_offset", "0",                   id="an end at its base"),
    pytest.param("end_offset", "3",                   id="more records than offsets"),
    pytest.param("end_offset", str(2**31),            id="more offsets than a delta counts"),
    pytest.param("batch_base_offset", "0",            id="of a batch"),
    pytest.param("partition_count", "1",              id="a split"),
    pytest.param("batch_record_count", "4",           id="a count of a batch"),
    pytest.param("producer_id", "p",                  id="a producer"),
    pytest.param("sequence", "1",                     id="a sequence"),
    pytest.param("payload_digest", "1",               id="a digest of an append"),
    pytest.param("timestamp_type", "2",               id="another kind of timestamps"),
    pytest.param("timestamp_type", None,              id="no kind of timestamps"),
    pytest.param("transaction", "1",                  id="a transaction"),
    pytest.param("leader_epoch", None,                id="no epoch"),
    pytest.param("leader_epoch", "-1",                id="an epoch below all"),
    pytest.param("chain_digest", None,                id="no chain digest"),
    pytest.param("base_offset", "-1",                 id="a base below all"),
]
# fmt: on


@pytest.mark.parametrize("name, value", DAMAGED)
def test_a_header_that_is_not_one_of_a_merged_segment_is_refused(name, value):
    [entry] = entries(merged(log("0:aabb"), 0, 4))
    damaged = replace(entry, values={**entry.values, name: value})

    with pytest.raises(CorruptLogError):
        list(batches_of(in_offset_order([damaged])))


def test_times_and_names_of_a_merged_segment_are_checked():
    [entry] = entries(merged(log("0:aabb"), 0, 4))

    for fields in ({"time_ms": TIME_MS_END}, {"path": "../elsewhere.parquet"}):
        with pytest.raises(CorruptLogError):
            list(batches_of(in_offset_order([replace(entry, **fields)])))
