"""What shows in a log's bytes that it is not compacted: all of what its records show together."""

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck import replica_audit
from kafka_on_spark.log.merging import encode_merged
from kafka_on_spark.log.segments import SEGMENT_SCHEMA
from kafka_on_spark.store.delta.delta_files import FileEntry
from tests.kept import KeyedRecord

RECORDS_A_FILE = 25


def entry(number):
    return FileEntry(
        path=f"file{number}",
        size_bytes=1,
        values={"base_offset": str(number * RECORDS_A_FILE)},
        record_count=RECORDS_A_FILE,
        timestamp_min_us=None,
        timestamp_max_us=None,
        time_ms=1,
    )


def encoded(records):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "offset_delta": each.offset % RECORDS_A_FILE,
            "timestamp": at,
            "key": each.key,
            "value": None if each.is_tombstone else b"value",
            "headers": None,
        }
        for each in records
    ]
    table = pa.Table.from_pylist(rows, schema=SEGMENT_SCHEMA)
    return encode_merged(table.to_batches(), Offset(0)).data.to_pybytes()


def flaws_in(records, *, below, tombstones_below):
    files = [entry(number) for number in range(-(-len(records) // RECORDS_A_FILE))]
    contents = {
        each.path: encoded(records[first : first + RECORDS_A_FILE])
        for each, first in zip(files, range(0, len(records), RECORDS_A_FILE), strict=True)
    }
    return list(
        replica_audit.compaction_flaws(
            files,
            lambda file: contents[file.path],
            compacted_below=Offset(below),
            tombstones_below=Offset(tombstones_below),
        )
    )


def test_keys_that_all_stand_twice_are_found_however_many_they_are(monkeypatch):
    monkeypatch.setattr(replica_audit, "KEYS_AT_ONCE", 10)
    keys = [b"%d" % number for number in range(50)] * 2
    records = [KeyedRecord(Offset(offset), key) for offset, key in enumerate(keys)]

    flaws = flaws_in(records, below=100, tombstones_below=0)

    assert sorted(flaws) == [
        (offset, f"the key of the record at {offset} stands at {offset - 50} too, below 100")
        for offset in range(50, 100)
    ]


# fmt: off
FLAWS = [  # log       C  T
    ("a b a", 3, 0, (2, "the key of the record at 2 stands at 0 too, below 3")),
    ("a -b",  2, 2, (1, "a tombstone is kept at 1, below 2")),
    ("a .",   2, 0, (1, "the record at 1, below 2, has no key")),
]
# fmt: on


@pytest.mark.parametrize("text, below, tombstones_below, flaw", FLAWS)
def test_what_is_left_of_a_log_shows_that_it_was_not_compacted(text, below, tombstones_below, flaw):
    records = [
        KeyedRecord(Offset(at), None if word == "." else word[-1:].encode(), word.startswith("-"))
        for at, word in enumerate(text.split())
    ]

    assert flaws_in(records, below=below, tombstones_below=tombstones_below) == [flaw]


@pytest.mark.parametrize("keys_at_once", [20, 2**20])
def test_each_flaw_of_all_records_together_is_told_of_once(monkeypatch, keys_at_once):
    monkeypatch.setattr(replica_audit, "KEYS_AT_ONCE", keys_at_once)
    rng = random.Random(keys_at_once)
    keys = [None, b"", *(b"%d" % number for number in range(60))]
    for _ in range(20):
        records = [
            KeyedRecord(Offset(offset), rng.choice(keys), is_tombstone=rng.random() < 0.2)
            for offset in range(4 * RECORDS_A_FILE)
        ]
        below, tombstones_below = 90, rng.choice([0, 40, 90])

        flaws = flaws_in(records, below=below, tombstones_below=tombstones_below)

        expected = sum(
            flaws_at(offset, records, below, tombstones_below) for offset in range(below)
        )
        assert len(flaws) == expected
        assert {offset for offset, _ in flaws} == {
            offset for offset in range(below) if flaws_at(offset, records, below, tombstones_below)
        }
        assert len(set(flaws)) == len(flaws) > 20


def flaws_at(offset, records, below, tombstones_below):
    """Return how many things are wrong with a record, as each record by itself is looked at."""
    key = records[offset].key
    if key is None:
        return 1
    is_again = key in [each.key for each in records[:offset]]
    return is_again + (records[offset].is_tombstone and offset < tombstones_below)
