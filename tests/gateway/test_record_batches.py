"""Kafka's record batches, from and to columns."""

import struct

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from crc32c import crc32c

from kafka_on_spark.base.errors import CorruptLogError, InvalidRecordError
from kafka_on_spark.gateway.record_batches import batch_in, empty, encoded, end_of, rows_of
from kafka_on_spark.log.reading import row_schema
from tests.gateway.raw_client import batch

SCHEMA = row_schema(has_headers=True, has_epochs=True)


def rows(*given):
    """Return rows of (offset, ms, type, epoch, key, value, headers)."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": key,
                "value": value,
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "timestamp": time * 1000 + 999,
                "timestampType": kind,
                "headers": headers,
                "leaderEpoch": epoch,
            }
            for offset, time, kind, epoch, key, value, headers in given
        ],
        schema=SCHEMA,
    )


def records(content):
    return [
        (each.offset, each.timestamp, each.key, each.value, each.headers)
        for each in DefaultRecordBatch(content)
    ]


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_become_rows(codec):
    headers = [("h", b"x"), ("none", None)]
    content = batch([b"a", None, b""], codec=codec, key=b"k", headers=headers)

    found = rows_of(3, batch_in(content)).to_pylist()

    assert [each["value"] for each in found] == [b"a", None, b""]
    assert {each["key"] for each in found} == {b"k"}
    assert [each["timestamp"].timestamp() for each in found] == [1.0, 1.001, 1.002]
    assert found[0]["headers"] == [{"key": "h", "value": b"x"}, {"key": "none", "value": None}]
    assert {each["partition"] for each in found} == {3}


def test_a_batch_has_records_of_one_leadership_and_of_one_append_time():
    given = rows(
        (5, 1, 0, 1, b"k", b"a", None),
        (7, 2, 0, 1, None, None, [{"key": "h", "value": None}]),  # 6 was compacted away
        (8, 3, 0, 2, b"", b"", []),
        (9, 4, 1, 2, None, b"b", None),
        (10, 4, 1, 2, None, b"c", None),
        (11, 5, 1, 2, None, b"d", None),
    )

    found = list(encoded(given))

    assert [records(each) for each in found] == [
        [(5, 1, b"k", b"a", []), (7, 2, None, None, [("h", None)])],
        [(8, 3, b"", b"", [])],
        [(9, 4, None, b"b", []), (10, 4, None, b"c", [])],
        [(11, 5, None, b"d", [])],
    ]
    assert [end_of(each) for each in found] == [8, 9, 11, 12]
    assert [struct.unpack_from(">i", each, 12)[0] for each in found] == [1, 2, 2, 2]
    assert [DefaultRecordBatch(each).timestamp_type for each in found] == [0, 0, 1, 1]
    assert all(DefaultRecordBatch(each).validate_crc() for each in found)


def test_many_bytes_make_several_batches_of_a_mebibyte_or_one_record():
    big = b"x" * (3 << 19)
    given = rows(*((n, n, 0, 0, None, big if n == 3 else b"y" * 99_999, None) for n in range(20)))

    found = list(encoded(given))

    assert [offset for each in found for offset, *_ in records(each)] == list(range(20))
    assert all(len(each) <= 1 << 20 or len(records(each)) == 1 for each in found)
    assert len(found) < 6


def test_an_empty_batch_leads_over_what_was_compacted_away():
    content = empty(5, 20, 3)

    assert end_of(content) == 20
    assert DefaultRecordBatch(content).validate_crc()
    assert records(content) == []


def changed(at, form, value, *, keeps_crc=False):
    content = bytearray(batch([b"a", b"b"]))
    struct.pack_into(form, content, at, value)
    if keeps_crc:
        struct.pack_into(">I", content, 17, crc32c(memoryview(content)[21:]))
    return bytes(content)


WRONG = {
    "nothing": (b"", CorruptLogError, "cut short"),
    "rubbish": (b"\xff" * 100, InvalidRecordError, "magic -1"),
    "cut short": (batch([b"a"])[:-1], CorruptLogError, "cut short"),
    "a length below 0": (changed(8, ">i", -5), CorruptLogError, "cut short"),
    "a wrong CRC": (changed(63, ">b", 7), CorruptLogError, "CRC"),
    "an old format": (changed(16, ">b", 1), InvalidRecordError, "magic 1"),
    "two batches": (batch([b"a"]) * 2, InvalidRecordError, "several batches"),
    "a transaction": (changed(21, ">h", 16, keeps_crc=True), InvalidRecordError, "transactional"),
    "a control batch": (changed(21, ">h", 32, keeps_crc=True), InvalidRecordError, "transactional"),
    "no records": (changed(57, ">i", 0, keeps_crc=True), InvalidRecordError, "no records"),
    "more records than bytes": (changed(57, ">i", 99, keeps_crc=True), CorruptLogError, "be read"),
    "fewer records than bytes": (changed(57, ">i", 1, keeps_crc=True), CorruptLogError, "be read"),
    "an unknown codec": (changed(21, ">h", 7, keeps_crc=True), InvalidRecordError, "be read"),
    "no gzip": (changed(21, ">h", 1, keeps_crc=True), CorruptLogError, "be read"),
    "a time that no log takes": (
        changed(27, ">q", 2**62, keeps_crc=True),
        CorruptLogError,
        "be read",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_batch_is_refused_in_a_sentence(name):
    content, error, sentence = WRONG[name]

    with pytest.raises(error, match=sentence):
        rows_of(0, batch_in(content))
