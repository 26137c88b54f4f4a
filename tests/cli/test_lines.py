"""Records as lines, both ways: with Kafka's properties, and as JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.consume import start_offset
from kafka_on_spark.cli.lines import (
    FLAGS,
    READER_PROPERTIES,
    form_of,
    json_form,
    line_parser,
    parsed_json,
    unescaped,
)
from kafka_on_spark.cli.options import properties_of
from kafka_on_spark.consume.consuming import ConsumerRecord
from tests.examples import many

# fmt: off
CASES = [
    pytest.param({},                                            b"a\tb",        (None, b"a\tb"),              id="a line is a value"),
    pytest.param({},                                            b"",            (None, b""),                  id="an empty line is an empty value"),
    pytest.param({"null.marker": "-"},                          b"-",           (None, None),                 id="the marker is null"),
    pytest.param({"null.marker": ""},                           b"",            (None, None),                 id="the marker may be empty"),
    pytest.param({"parse.key": "true"},                         b"k\tv\tw",     (b"k", b"v\tw"),              id="the first tab ends the key"),
    pytest.param({"parse.key": " TRUE "},                       b"\t",          (b"", b""),                   id="both may be empty"),
    pytest.param({"parse.key": "true", "key.separator": "::"},  b"k:::v",       (b"k", b":v"),                id="a separator of two"),
    pytest.param({"parse.key": "true", "key.separator": "\\x00"}, b"k\x00\xff", (b"k", b"\xff"),              id="bytes that are no text"),
    pytest.param({"parse.key": "true", "null.marker": "N"},     b"N\tN",        (None, None),                 id="null key and value"),
]
REFUSED = [
    pytest.param({"parse.keys": "true"},                        "did you mean 'parse.key'",                         id="an unknown name"),
    pytest.param({"parse.key": "yes"},                          "give true or false",                               id="neither true nor false"),
    pytest.param({"key.separator": ""},                         "can't be empty",                                   id="no separator"),
    pytest.param({"null.marker": "\t"},                         "or equal to null.marker",   id="the marker separates"),
]
# fmt: on


def _rows(found):
    values = found.columns["value"]
    return list(zip(found.columns.get("key", [None] * len(values)), values, strict=True))


@pytest.mark.parametrize("properties, line, row", CASES)
def test_line_is_a_record_as_the_properties_say(properties, line, row):
    found = line_parser(properties)([line])

    assert (_rows(found), found.bad) == ([row], None)


def test_line_without_a_key_ends_what_is_read_and_says_why():
    lines = [b"k\tv", b"k\tv", b"v", b"k\tv"]

    found = line_parser({"parse.key": "true"})(lines)
    place, why = found.bad

    assert len(_rows(found)) == place == 2
    assert "has no key separator" in why


def _given(properties):
    return ["=".join(each) for each in properties.items()]


@pytest.mark.parametrize("properties, why", REFUSED)
def test_properties_that_mean_nothing_are_refused(properties, why):
    with pytest.raises(InvalidRequestError, match=why):
        line_parser(properties_of(_given(properties), "--property", READER_PROPERTIES))


@given(rows=st.lists(st.tuples(st.binary().filter(lambda key: b"\t" not in key), st.binary())))
def test_records_that_were_written_as_lines_are_read_back(rows):
    found = line_parser({"parse.key": "true"})([b"\t".join(row) for row in rows])

    assert found.bad is None
    assert _rows(found) == rows


@pytest.mark.parametrize(
    "text, meant",
    [
        (r"\t", b"\t"),
        (r"\n\r", b"\n\r"),
        (r"\x00\xfF", b"\x00\xff"),
        (r"\0", b"\0"),
        (r"\\t", rb"\t"),
        (r"\q", b"q"),
        (r"\x", b"x"),
        ("\\", b"\\"),
        ("\u00e9", "\u00e9".encode()),
        ("\udcff", b"\xff"),
    ],
)
def test_escapes_are_those_of_c(text, meant):
    assert unescaped(text) == meant


def test_marker_of_databases_is_null_and_its_letter_is_not():
    found = line_parser({"null.marker": r"\N"})([b"N", rb"\N"])

    assert _rows(found) == [(None, b"N"), (None, None)]


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
    pytest.param('{"value": {"base64": "?"}}',            'that is {"base64": "?"}',           id="bad base64"),
    pytest.param('{"value": {"base64": 1}}',              'that is {"base64": 1}',             id="no base64"),
    pytest.param('{"value": "\\ud800"}',                  'that is "\\ud800"',                 id="half a pair"),
    pytest.param('{"value": "", "headers": 1}',           '"headers" that are 1',              id="no headers"),
    pytest.param('{"value": "", "headers": [{"key": 1}]}', '"headers" that are',               id="a header without a name"),
    pytest.param('{"value": "", "headers": {"\\udfff": ""}}', 'that is "\\udfff"',             id="a name that is no text"),
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


HEADERS = [("h", b"1"), ("i", None)]
RECORD = ConsumerRecord("t", 3, 7, 1_700_000_000_123_456, 0, b"k", b"v\xff", HEADERS, 58)
BARE = ConsumerRecord("t", 0, 0, 0, 1, None, None, [], 0)
ALL = "timestamp", "partition", "offset", "epoch", "headers", "key", "value"

# fmt: off
PROPERTIES = [
    pytest.param({},                                             RECORD, b"v\xff\n",           id="the value alone"),
    pytest.param({},                                             BARE,   b"null\n",            id="a tombstone"),
    pytest.param({"null.literal": ""},                           BARE,   b"\n",                id="null is nothing"),
    pytest.param({"null.literal": "\\N"},                        BARE,   b"\\N\n",             id="null as databases write it"),
    pytest.param({"print.key": "true"},                          RECORD, b"k\tv\xff\n",        id="key and value"),
    pytest.param({"print.key": "true", "key.separator": "\\x00"}, RECORD, b"k\0v\xff\n",       id="a separator of their own"),
    pytest.param({"print.key": "true", "print.value": "false"},  RECORD, b"k\n",               id="the key alone"),
    pytest.param({"print.value": "false"},                       RECORD, b"",                  id="nothing"),
    pytest.param({"line.separator": "\\0"},                      RECORD, b"v\xff\0",           id="another end"),
    pytest.param({"print.headers": "true"},                      BARE,   b"NO_HEADERS\tnull\n", id="no headers"),
    pytest.param({f"print.{each}": "true" for each in ALL},      RECORD, b"CreateTime:1700000000123\tPartition:3\tOffset:7\tEpoch:58\th:1,i:null\tk\tv\xff\n", id="all"),
    pytest.param({"print.timestamp": "true"},                    BARE,   b"LogAppendTime:0\tnull\n", id="the time of the append"),
]
# fmt: on


@pytest.mark.parametrize("properties, record, written", PROPERTIES)
def test_properties_say_what_is_printed(properties, record, written):
    assert form_of(properties)(record) == written


@pytest.mark.parametrize(
    "properties, why",
    [
        ({"print.keys": "true"}, "did you mean 'print.key'"),
        ({"print.key": "1"}, "give true or false"),
    ],
)
def test_printed_properties_that_mean_nothing_are_refused(properties, why):
    with pytest.raises(InvalidRequestError, match=why):
        form_of(properties_of(["=".join(each) for each in properties.items()], "--property", FLAGS))


# fmt: off
STARTS = [
    pytest.param("latest",   20, id="what comes"),
    pytest.param("earliest", 10, id="the log start"),
    pytest.param(15,         15, id="an offset"),
    pytest.param(5,          5,  id="an offset that is gone is told of"),
    pytest.param(42,         20, id="an offset that is not there yet"),
    pytest.param(-3,         17, id="the last three"),
    pytest.param(-30,        10, id="as many as there are"),
]
# fmt: on


@pytest.mark.parametrize("start, offset", STARTS)
def test_call_begins_where_it_is_told_to(start, offset):
    assert start_offset(start, 10, 20) == offset
