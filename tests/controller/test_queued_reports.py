"""Queued reports: decoded as they were encoded, and none at all if anything is wrong."""

import pytest

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller import isr
from kafka_on_spark.controller.isr import decode_queued, encode_reports
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport
from tests.builders import report, seen

KINDS = (PartitionReport, ReplicaReport)

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


@pytest.mark.parametrize("kind", [PartitionReport, ReplicaReport])
@pytest.mark.parametrize("type_", [float, None])
def test_bytes_of_another_version_hold_no_reports(kind, type_, monkeypatch):
    """It has a field of another type, or one less."""
    encoded = encode_reports(REPORTS)
    kept = {name: each for name, each in kind.__annotations__.items() if name != "log_end_offset"}
    [*_, last] = kept
    other = kept | {last: type_} if type_ else {name: kept[name] for name in kept if name != last}
    layouts = [other if each is kind else each.__annotations__ for each in KINDS]
    monkeypatch.setattr(isr, "_LAYOUT", repr(layouts).encode())

    assert decode_queued([encoded], exclude=()) == []
