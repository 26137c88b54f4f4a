"""What a soak makes of its figures and notes: tenths, and what is missing or double."""

import pytest

from tests.rigs.soaking.checking import (
    COPIED_AGAIN,
    Sent,
    copy_findings,
    findings_of,
    stream_findings,
)
from tests.rigs.soaking.notes import (
    TABLE_KEYS,
    Run,
    Seen,
    is_tombstone,
    sent_by,
    value_of,
)
from tests.rigs.soaking.report import Sample, tenths_of
from tests.rigs.soaking.watching import descriptors


@pytest.mark.parametrize(
    "open_files, counted",
    [
        pytest.param((14, 65, 65), 14, id="a burst of open files is over"),
        pytest.param((14, 15, 16), 14, id="a few more each time"),
        pytest.param((65, 66, 65), 65, id="what is never closed stays"),
    ],
)
def test_of_open_files_a_tenth_counts_the_lowest(open_files, counted):
    name = descriptors("a client")
    samples = [Sample(at, {name: value}) for at, value in enumerate(open_files)]

    assert tenths_of(samples, [], 100.0)[0].values[name] == counted


SENT = Sent({"a": [Run(0, 5, 0, 2), Run(1, 0, 2, 1)]}, {"a": {3}})
WHOLE = {0: [(5, "a", 0), (6, "a", 1)], 1: [(0, "a", 2)]}

# fmt: off
FOUND = [
    pytest.param(WHOLE,                             {},     None, id="all is there"),
    pytest.param({**WHOLE, 1: [(0, "a", 2), (1, "a", 3)]}, {}, None, id="a failed append may stand there"),
    pytest.param({0: WHOLE[0]},                     {},     "a:2 was acknowledged at offset 0", id="one is missing"),
    pytest.param({0: WHOLE[0]},                     {1: 1}, None, id="one is deleted"),
    pytest.param({**WHOLE, 1: [(0, "a", 3)]},       {},     "where a:3 stands", id="another stands there"),
    pytest.param({**WHOLE, 1: [(0, "a", 3)]},       {1: 1}, "where a:3 stands", id="another stands below the log start"),
    pytest.param({**WHOLE, 1: [(0, "a", 2), (1, "a", 1)]}, {}, "a:1 of partition 1 comes after 2", id="out of order"),
    pytest.param({**WHOLE, 1: [(0, "a", 2), (1, "a", 2)]}, {}, "a:2 stands at", id="twice"),
    pytest.param({**WHOLE, 1: [(0, "a", 2), (0, "a", 3)]}, {}, "offset 0 of partition 1 comes after", id="an offset twice"),
    pytest.param({**WHOLE, 1: [(0, "a", 2), (1, "b", 0)]}, {}, "b:0 at (1, 1) was never", id="nobody's"),
]
# fmt: on


@pytest.mark.parametrize("records, log_starts, expected", FOUND)
def test_what_is_there_is_held_against_what_was_acknowledged(records, log_starts, expected):
    found = list(findings_of(SENT, records, log_starts))

    assert (found == []) == (expected is None)
    assert expected is None or any(expected in each for each in found)


def test_compacted_topic_may_lack_all_but_the_newest_of_a_key():
    sent = Sent({"a": [Run(0, 0, 0, TABLE_KEYS + 1)]})
    newest = {0: [(each, "a", each) for each in range(1, TABLE_KEYS + 1)]}
    lacking = {0: newest[0][1:]}

    assert list(findings_of(sent, newest, {}, is_compacted=True)) == []
    assert "a:1 was acknowledged" in next(findings_of(sent, lacking, {}, is_compacted=True))


def test_tombstone_may_be_gone_and_says_who_sent_it():
    number = next(each for each in range(10) if is_tombstone(each))
    sent = Sent({"a": [Run(0, 0, 0, 10)]})
    rest = {0: [(each, "a", each) for each in range(10) if each != number]}

    assert list(findings_of(sent, rest, {}, is_compacted=True)) == []
    assert list(findings_of(sent, rest, {})) != []
    headers = [{"key": "sent", "value": value_of("a", number).encode()}]
    assert sent_by(None, headers) == sent_by(headers[0]["value"], None) == ("a", number)


STREAMED = Sent({"a": [Run(0, 0, 0, 6)]}, {"a": {9}})

# fmt: off
SEEN = [
    pytest.param([Run(0, 0, 0, 6)],                   {},           None, id="all of it"),
    pytest.param([Run(0, 1, 1, 4)],                   {},           None, id="from the first to the last that it saw"),
    pytest.param([Run(0, 0, 0, 2), Run(0, 4, 4, 2)],  {0: [(2, 4)]}, None, id="but for what a log start had passed"),
    pytest.param([Run(0, 0, 0, 2), Run(0, 4, 4, 2)],  {0: [(3, 4)]}, "a:2 was acknowledged at offset 2", id="a gap is a loss"),
    pytest.param([Run(0, 0, 0, 5), Run(0, 5, 9, 1)],  {},           "where the stream saw a:9", id="another record"),
    pytest.param([Run(0, 0, 0, 6), Run(0, 6, 9, 1)],  {},           None, id="a failed append may be seen"),
    pytest.param([Run(0, 0, 0, 6), Run(0, 6, 3, 1)],  {},           "the stream saw a:3 at (0, 6)", id="a record twice"),
    pytest.param([],                                  {},           "the stream saw nothing of partition 0", id="nothing"),
]
# fmt: on


@pytest.mark.parametrize("runs, gaps, expected", SEEN)
def test_what_a_stream_saw_is_held_against_what_was_acknowledged(runs, gaps, expected):
    found = list(stream_findings(STREAMED, [Seen("a", each) for each in runs], gaps))

    assert (found == []) == (expected is None)
    assert expected is None or any(expected in each for each in found)


def test_copy_whose_start_was_deleted_has_all_that_is_newer_than_its_first_records():
    count = COPIED_AGAIN + 10
    events = {0: [(each, "a", each) for each in range(count)]}
    copy = [(each, "a", each) for each in range(5, count)]

    assert list(copy_findings(events, {0: copy}, is_whole=False)) == []
    [found] = copy_findings(events, {0: copy[:-1]}, is_whole=False)
    assert found == f"the copy lacks 1 records, a:{count - 1} among them"


def test_copy_has_each_record_once_and_all_of_them_where_nothing_was_deleted():
    half = {0: WHOLE[0]}

    assert list(copy_findings(WHOLE, {3: WHOLE[0] + [(7, "a", 2)]}, is_whole=True)) == []
    assert "lacks 1 records" in next(copy_findings(WHOLE, half, is_whole=True))
    older = {0: [*WHOLE[0], (7, "a", 3)]}
    assert list(copy_findings(WHOLE, older, is_whole=False)) == []
    assert list(copy_findings(WHOLE, {**half, 1: WHOLE[0]}, is_whole=False))
