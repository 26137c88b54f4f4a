"""A record as a line of JSON, both ways."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.cli.lines import json_form, parsed_json
from kafka_on_spark.consume.consumed import ConsumerRecord
from tests.examples import many

# fmt: off
BAD = [
    pytest.param("{",                                     "is not JSON",                       id="half an object"),
    pytest.param('"\xff"',                                "is not JSON",                       id="no text"),
    pytest.param("[" * 100_000,                           "recursion",                         id="very deep"),
    pytest.param("[1]",                                   "give an object",                    id="a list"),
    pytest.param('{"key": "a"}',                          'has no "value"',                    id="no value"),
    pytest.param('{"valeu": 1}',                          "did you mean 'value'",              id="an unknown field"),
    pytest.param('{"value": {"a": 1}}',                   "tojson",                            id="an object"),
    pytest.param('{"value": 1}',                          'has a "value" that is 1',           id="a number"),
    pytest.param('{"value": {"base64": "?"}}',            "is no base64",                      id="bad base64"),
    pytest.param('{"value": {"base64": 1}}',              "is no base64",                      id="no base64"),
    pytest.param('{"value": "\\ud800"}',                  "surrogate",                         id="half a pair"),
    pytest.param('{"value": "", "headers": 1}',           '"headers" that are 1',              id="no headers"),
    pytest.param('{"value": "", "headers": [{"key": 1}]}', '"headers" that are',               id="a header without a name"),
    pytest.param('{"value": "", "headers": {"\\udfff": ""}}', 'surrogate',                     id="a name that is no text"),
    pytest.param('{"value": "", "timestamp": "12:00"}',   "a time with its zone",              id="no time"),
    pytest.param('{"value": "", "timestamp": "2026-01-31"}', "a time with its zone",           id="a time without a zone"),
    pytest.param('{"value": "", "timestamp": -1}',        "milliseconds since 1970",           id="Kafka's number for no timestamp"),
    pytest.param('{"value": "", "timestamp": true}',      "a time with its zone",              id="a truth"),
    pytest.param('{"value": "", "timestamp": 1e300}',     "a time with its zone",              id="no whole number"),
    pytest.param('{"value": "", "timestamp": 99999999999999999999}', "a time with its zone",   id="too late"),
    pytest.param('{"value": "", "headers": ["h"]}',       '"headers" that are',                id="a name without a value"),
    pytest.param('{"value": "", "partition": -1}',        "a number from 0 on",                id="a negative partition"),
    pytest.param('{"value": "", "partition": 4294967296}', "a number from 0 on",               id="a large partition"),
]
# fmt: on


@pytest.mark.parametrize("line, why", BAD)
def test_line_that_is_no_record_says_why(line, why):
    found = parsed_json([b'{"value": "a"}', b"", line.encode("latin-1"), b"{}"])
    place, said = found.bad

    assert (found.columns["value"], place) == ([b"a"], 2)
    assert why in said


def test_blank_lines_are_passed_over_and_counted():
    found = parsed_json([b"", b'{"value": null}', b" \t", b'{"value": "b", "key": "k"}'])

    assert (found.bad, found.places) == (None, [1, 3])
    assert (found.columns["value"], found.columns["key"]) == ([None, b"b"], [None, b"k"])


def test_times_are_milliseconds_or_have_a_zone():
    given_times = [1_700_000_000_123, "2026-01-31T12:00:00+01:00", None]
    lines = [json.dumps({"value": "", "timestamp": each}).encode() for each in given_times]

    found = parsed_json(lines)

    assert found.columns["timestamp"] == [1_700_000_000_123_000, 1_769_857_200_000_000, None]


_CONTENT = st.none() | st.binary(max_size=9) | st.text(max_size=9).map(str.encode)
_TIMES = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@settings(max_examples=many(100))
@given(
    key=_CONTENT,
    value=_CONTENT,
    headers=st.lists(st.tuples(st.text(max_size=5), _CONTENT), max_size=3),
    timestamp_us=_TIMES,
    partition=st.integers(0, 2**31 - 1),
)
def test_printed_record_is_read_back_whole(key, value, headers, timestamp_us, partition):
    record = ConsumerRecord("t", partition, 7, timestamp_us, 0, key, value, headers, 0)

    line, end = json_form(record).split(b"\n")
    found = parsed_json([line])

    assert (end, found.bad) == (b"", None)
    assert found.columns == {
        "key": [key],
        "value": [value],
        "headers": [[{"key": name.encode(), "value": value} for name, value in headers] or None],
        "timestamp": [timestamp_us],
        "partition": [partition],
    }
