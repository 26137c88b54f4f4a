"""Lines as records, by Kafka's properties, and the escapes in options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.cli.lines import READER_PROPERTIES, line_parser, properties_of, unescaped

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
