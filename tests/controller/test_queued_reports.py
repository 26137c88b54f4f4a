"""Queued reports: decoded as they were encoded, and none at all if anything is wrong."""

import json
from hashlib import blake2b

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.queued_reports import decode_queued, encode_reports
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


def test_reports_are_decoded_as_they_were_encoded():
    assert decode_queued([encode_reports(REPORTS)], exclude=()) == REPORTS


def test_one_report_a_partition_counts_and_none_of_an_excluded_one():
    queued = [encode_reports(REPORTS), encode_reports([report(seen(1, 9), key=SECOND)])]

    assert decode_queued(queued, exclude={FIRST}) == REPORTS[1:]


def test_bytes_with_any_bit_changed_hold_no_reports():
    encoded = encode_reports(REPORTS[1:])

    for place in range(len(encoded)):
        damaged = encoded[:place] + bytes([encoded[place] ^ 1]) + encoded[place + 1 :]
        assert decode_queued([damaged], exclude=()) == []


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


@pytest.mark.parametrize("place", ["report", "replica"])
@pytest.mark.parametrize("change", ["more", "fewer"])
def test_bytes_of_another_version_hold_no_reports(place, change):
    [fields] = fields_of(REPORTS[1:])
    changed = fields if place == "report" else fields["leader"]
    changed = changed | {"new": 1} if change == "more" else without(changed, [*changed][-1])
    fields = changed if place == "report" else fields | {"leader": changed}

    assert decode_queued([sealed([fields])], exclude=()) == []


# fmt: off
WRONG = [
    ("leader_epoch", None), ("leader_epoch", 1.0), ("leader_epoch", "1"), ("leader_epoch", True),
    ("key", ["t", "0"]), ("key", [None, 0]), ("key", ["t", 0, 0]), ("now_ms", [1]),
    ("borders", [[1]]), ("borders", [["1", 2]]), ("followers", None), ("followers", {"a": 1}),
]
# fmt: on


@pytest.mark.parametrize("name, value", WRONG)
def test_a_report_with_a_value_of_another_type_is_none(name, value):
    [fields] = fields_of(REPORTS[1:])

    assert decode_queued([sealed([fields | {name: value}])], exclude=()) == []
