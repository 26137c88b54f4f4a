"""Lines as records, by Kafka's properties, and the escapes in options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.cli.lines.escapes import unescaped
from kafka_on_spark.cli.lines.line_format import LineFormat, line_format
from kafka_on_spark.errors import InvalidRequestError

# fmt: off
CASES = [
    # Values alone.
    pytest.param({},                                            b"a\tb",        (None, None, b"a\tb"),              id="a line is a value"),
    pytest.param({},                                            b"",            (None, None, b""),                  id="an empty line is an empty value"),
    pytest.param({"null.marker": "-"},                          b"-",           (None, None, None),                 id="the marker is null"),
    pytest.param({"null.marker": ""},                           b"",            (None, None, None),                 id="the marker may be empty"),
    # Keys.
    pytest.param({"parse.key": "true"},                         b"k\tv\tw",     (None, b"k", b"v\tw"),              id="the first tab ends the key"),
    pytest.param({"parse.key": " TRUE "},                       b"\t",          (None, b"", b""),                   id="both may be empty"),
    pytest.param({"parse.key": "true", "key.separator": "::"},  b"k:::v",       (None, b"k", b":v"),                id="a separator of two"),
    pytest.param({"parse.key": "true", "key.separator": "\\x00"}, b"k\x00\xff", (None, b"k", b"\xff"),              id="bytes that are no text"),
    pytest.param({"parse.key": "true", "null.marker": "N"},     b"N\tN",        (None, None, None),                 id="null key and value"),
    pytest.param({"parse.key": "true", "ignore.error": "true"}, b"v",           (None, None, b"v"),                 id="no key where errors are ignored"),
    # Headers.
    pytest.param({"parse.headers": "true"},                     b"h:1,i:2:3\tv", ([("h", b"1"), ("i", b"2:3")], None, b"v"), id="headers stand first"),
    pytest.param({"parse.headers": "true", "parse.key": "true"}, b"h:\tk\tv",   ([("h", b"")], b"k", b"v"),         id="then the key"),
    pytest.param({"parse.headers": "true", "null.marker": "N"}, b"N\tv",        ([], None, b"v"),                   id="no headers"),
    pytest.param({"parse.headers": "true", "null.marker": "N"}, b"h:N\tv",      ([("h", None)], None, b"v"),        id="a null header"),
    pytest.param({"parse.headers": "true", "ignore.error": "true"}, b"h\tv",    ([("h", None)], None, b"v"),        id="a header without a separator"),
    pytest.param({"parse.headers": "true", "ignore.error": "true"}, b"v",       ([], None, b"v"),                   id="no headers where errors are ignored"),
]
BAD = [
    pytest.param({"parse.key": "true"},                         b"v",           "has no key separator",             id="no key"),
    pytest.param({"parse.headers": "true"},                     b"v",           "has no headers delimiter",         id="no headers"),
    pytest.param({"parse.headers": "true"},                     b"h\tv",        "without a separator",              id="no separator in a header"),
    pytest.param({"parse.headers": "true"},                     b"\xff:1\tv",   "not UTF-8",                        id="a name that is no text"),
    pytest.param({"parse.headers": "true", "null.marker": "N"}, b"N:1\tv",      "is the null marker",               id="a name that is the marker"),
]
REFUSED = [
    pytest.param({"parse.keys": "true"},                        "did you mean 'parse.key'",                         id="an unknown name"),
    pytest.param({"parse.key": "yes"},                          "give true or false",                               id="neither true nor false"),
    pytest.param({"key.separator": ""},                         "can't be empty",                                   id="no separator"),
    pytest.param({"null.marker": "\\t"},                        "null.marker and key.separator may not be equal",   id="the marker separates"),
    pytest.param({"headers.separator": ":"},                    "may not be equal",                                 id="headers' separators alike"),
]
# fmt: on


def _rows(columns):
    count = len(columns)
    keys = columns.keys or [None] * count
    headers = columns.headers or [None] * count
    return list(zip(headers, keys, columns.values, strict=True))


@pytest.mark.parametrize("properties, line, row", CASES)
def test_line_is_a_record_as_the_properties_say(properties, line, row):
    columns, bad = line_format(properties).records([line])

    assert (_rows(columns), bad) == ([row], None)


@pytest.mark.parametrize("properties, line, why", BAD)
def test_line_that_is_no_record_ends_what_is_read_and_says_why(properties, line, why):
    good = b"h:1\tk\tv" if "parse.headers" in properties else b"k\tv"

    columns, bad = line_format(properties).records([good, good, line, good])

    assert len(columns) == bad.place == 2
    assert why in bad.why


@pytest.mark.parametrize("properties, why", REFUSED)
def test_properties_that_mean_nothing_are_refused(properties, why):
    with pytest.raises(InvalidRequestError, match=why):
        line_format(properties)


_PARTS = st.binary(max_size=8).filter(lambda part: not {*b"\t,:\n"} & {*part})
_NAMES = st.text("ab\u00e9 ", min_size=1, max_size=4)


@given(
    rows=st.lists(
        st.tuples(
            st.lists(st.tuples(_NAMES, _PARTS), min_size=1, max_size=3),
            _PARTS,
            st.binary(max_size=9),
        )
    )
)
def test_records_that_were_written_as_lines_are_read_back(rows):
    form = LineFormat(parses_key=True, parses_headers=True)
    lines = [
        b"\t".join((b",".join(name.encode() + b":" + each for name, each in headers), key, value))
        for headers, key, value in rows
    ]

    columns, bad = form.records(lines)

    assert bad is None
    assert _rows(columns) == [(headers, key, value) for headers, key, value in rows]


@pytest.mark.parametrize(
    "text, meant",
    [
        (r"\t", b"\t"),
        (r"\n\r", b"\n\r"),
        (r"\x00\xfF", b"\x00\xff"),
        (r"\0", b"\0"),
        (r"\101", b"A"),
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


@pytest.mark.parametrize(
    "text, meant",
    [
        (r"\N", rb"\N"),
        (r"\x", rb"\x"),
        (r"\\N", rb"\N"),
        (r"\t\x00", b"\t\0"),
        ("\\", b"\\"),
    ],
)
def test_unknown_escape_that_is_kept_has_its_backslash(text, meant):
    assert unescaped(text, keeps_unknown=True) == meant


def test_marker_of_databases_is_null_and_its_letter_is_not():
    columns, bad = line_format({"null.marker": r"\N"}).records([b"N", rb"\N"])

    assert bad is None
    assert columns.values == [b"N", None]
