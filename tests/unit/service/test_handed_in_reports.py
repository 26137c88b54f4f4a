"""Reports as notes: the same when they are read, and nothing at all if anything is amiss."""

import json
from hashlib import blake2b

import pytest

from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.service.handed_in import encode_reports, handed_in
from tests.builders import report, seen

FIRST, SECOND = PartitionKey("t", 0), PartitionKey("t", 1)
REPORTS = [
    report(
        seen(1, 7),
        seen(2, 6, missing_since_ms=3, missing_bytes=9),
        seen(3, 0, fence=None, last_epoch=None, error_code=56, error="away: \u2603", is_bad=True),
        uncommitted_since_ms=5,
        key=FIRST,
    ),
    report(seen(1, 1), key=SECOND),
]


def sealed(fields):
    content = json.dumps(fields).encode()
    return blake2b(content, digest_size=16).digest() + content


def fields_of(reports):
    return json.loads(encode_reports(reports)[16:])


def test_reports_are_read_as_they_were_handed_in():
    assert handed_in([encode_reports(REPORTS)], besides=()) == REPORTS


def test_one_report_a_partition_counts_and_none_of_ones_own():
    notes = [encode_reports(REPORTS), encode_reports([report(seen(1, 9), key=SECOND)])]

    assert handed_in(notes, besides={FIRST}) == REPORTS[1:]


def test_a_note_with_any_bit_changed_says_nothing():
    note = encode_reports(REPORTS[1:])

    for place in range(len(note)):
        damaged = note[:place] + bytes([note[place] ^ 1]) + note[place + 1 :]
        assert handed_in([damaged], besides=()) == []


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize("place", ["report", "replica"])
@pytest.mark.parametrize("change", ["more", "fewer"])
def test_a_note_of_another_version_says_nothing(place, change):
    [fields] = fields_of(REPORTS[1:])
    changed = fields if place == "report" else fields["leader"]
    changed = changed | {"new": 1} if change == "more" else without(changed, [*changed][-1])
    fields = changed if place == "report" else fields | {"leader": changed}

    assert handed_in([sealed([fields])], besides=()) == []


@pytest.mark.parametrize("content", [None, 3, "x", [3], [None], {"a": 1}, [[]]])
def test_a_note_that_holds_no_reports_says_nothing(content):
    assert handed_in([sealed(content)], besides=()) == []


# fmt: off
WRONG = [
    ("leader_epoch", None), ("leader_epoch", 1.0), ("leader_epoch", "1"), ("leader_epoch", True),
    ("key", ["t", "0"]), ("key", [None, 0]), ("key", ["t", 0, 0]), ("now_ms", [1]),
    ("borders", [[1]]), ("borders", [["1", 2]]), ("followers", None), ("followers", {"a": 1}),
]
WRONG_OF_REPLICA = [
    ("log_end_offset", None), ("log_end_offset", 1.5), ("fence", "0"), ("is_bad", 1), ("broker_id", "1"),
    ("replica_uuid", None), ("error", 5), ("directory_id", {}),
]
# fmt: on


@pytest.mark.parametrize("name, value", WRONG)
def test_a_note_whose_report_has_a_value_of_another_type_says_nothing(name, value):
    [fields] = fields_of(REPORTS[1:])

    assert handed_in([sealed([fields | {name: value}])], besides=()) == []


@pytest.mark.parametrize("name, value", WRONG_OF_REPLICA)
def test_a_note_whose_replica_has_a_value_of_another_type_says_nothing(name, value):
    [fields] = fields_of(REPORTS[1:])
    fields["leader"] |= {name: value}

    assert handed_in([sealed([fields])], besides=()) == []


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a":' * 50_000, b'["\\ud800"]', b"[1e999]"])
def test_a_note_that_no_process_writes_says_nothing_and_stops_nobody(content):
    note = blake2b(content, digest_size=16).digest() + content
    mine = encode_reports(REPORTS)

    assert handed_in([note, mine], besides=()) == REPORTS
