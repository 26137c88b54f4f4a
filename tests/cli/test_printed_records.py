"""A record as it is printed: Kafka's properties, kcat's format strings; and where to begin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_on_spark.cli.consume.starts import Span, span_of, start_offset
from kafka_on_spark.cli.lines.line_format import LineFormat
from kafka_on_spark.cli.lines.printed import form_of, format_string
from kafka_on_spark.cluster.consuming.consumed import ConsumerRecord
from kafka_on_spark.errors import InvalidRequestError

HEADERS = [("h", b"1"), ("i", None)]
RECORD = ConsumerRecord("t", 3, 7, 1_700_000_000_123_456, 0, b"k", b"v\xff", HEADERS, 58)
BARE = ConsumerRecord("t", 0, 0, 0, 1, None, None, [], 0)
ALL = "timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value"

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
    pytest.param({f"print.{each}": "true" for each in ALL},      RECORD, b"CreateTime:1700000000123\tPartition:3\tOffset:7\tDelivery:NOT_PRESENT\tEpoch:58\th:1,i:null\tk\tv\xff\n", id="all"),
    pytest.param({"print.timestamp": "true"},                    BARE,   b"LogAppendTime:0\tnull\n", id="the time of the append"),
]
FORMATS = [
    pytest.param(r"%t [%p] at %o: %k=%s\n", RECORD, b"t [3] at 7: k=v\xff\n", id="as in kcat's help"),
    pytest.param("%T %K %S|%h",             RECORD, b"1700000000123 1 2|h=1,i=NULL", id="time, lengths, headers"),
    pytest.param("%K %S|%k%s%h|",           BARE,   b"-1 -1||", id="null"),
    pytest.param("%R%s",                    RECORD, b"\0\0\0\2v\xff", id="a length in four bytes"),
    pytest.param("%R",                      BARE,   b"\xff\xff\xff\xff", id="of null"),
    pytest.param(r"100%%%p%%s\x41\t",       RECORD, b"100%3%sA\t", id="percent signs and escapes"),
    pytest.param("",                        RECORD, b"", id="nothing"),
]
# fmt: on


@pytest.mark.parametrize("properties, record, written", PROPERTIES)
def test_properties_say_what_is_printed(properties, record, written):
    assert form_of(properties)(record) == written


@pytest.mark.parametrize("text, record, written", FORMATS)
def test_format_string_says_what_is_printed(text, record, written):
    assert format_string(text)(record) == written


def test_null_of_a_format_string_may_be_shown():
    assert format_string("%k %s", b"NULL")(BARE) == b"NULL NULL"


@pytest.mark.parametrize("text", ["%", "%q", "a%", "%%%"])
def test_format_string_with_an_unknown_letter_is_refused(text):
    with pytest.raises(InvalidRequestError, match="or %% for a percent sign"):
        format_string(text)


@given(text=st.text("ab%\\nt7 "))
def test_format_string_is_a_form_or_is_refused(text):
    try:
        form = format_string(text)
    except InvalidRequestError:
        assert "%" in text
    else:
        assert isinstance(form(BARE), bytes)


@pytest.mark.parametrize(
    "properties, why",
    [
        ({"print.keys": "true"}, "did you mean 'print.key'"),
        ({"print.key": "1"}, "give true or false"),
        ({"key.deserializer": "X"}, "no class of Java's"),
    ],
)
def test_properties_that_mean_nothing_are_refused(properties, why):
    with pytest.raises(InvalidRequestError, match=why):
        form_of(properties)


_PARTS = st.binary(max_size=8).filter(lambda part: not {*b"\t,:\n"} & {*part} and part != b"null")


@given(
    key=st.none() | _PARTS,
    value=st.none() | _PARTS,
    headers=st.lists(st.tuples(st.text("ab\u00e9", min_size=1), st.none() | _PARTS), min_size=1),
)
def test_line_that_is_printed_is_read_back_by_produce(key, value, headers):
    shown = {f"print.{each}": "true" for each in ("headers", "key", "value")}
    form = LineFormat(parses_key=True, parses_headers=True, null_marker=b"null")

    line = form_of(shown)(ConsumerRecord("t", 0, 0, 0, 0, key, value, headers, 0))
    columns, bad = form.records([line.removesuffix(b"\n")])

    assert bad is None
    assert (columns.keys, columns.values, columns.headers) == ([key], [value], [headers])


# fmt: off
SPANS = [
    pytest.param([],                                   Span(),                            id="nothing"),
    pytest.param(["beginning"],                        Span(start="earliest"),            id="kcat's word"),
    pytest.param(["end"],                              Span(start="latest"),              id="kcat's other word"),
    pytest.param(["42"],                               Span(start=42),                    id="an offset"),
    pytest.param(["-42"],                              Span(start=-42),                   id="from the end"),
    pytest.param(["s@1700000000123"],                  Span(start_ms=1_700_000_000_123),  id="a time"),
    pytest.param(["s@1", "e@1970-01-01T00:00:02Z"],    Span(start_ms=1, end_ms=2000),     id="two times"),
    pytest.param(["e@5", "-3"],                        Span(start=-3, end_ms=5),          id="an end first"),
]
STARTS = [
    pytest.param(Span(),                "latest",   None, 20, id="what comes"),
    pytest.param(Span(),                "earliest", None, 10, id="the log start"),
    pytest.param(Span(start="earliest"), "latest",  None, 10, id="asked for"),
    pytest.param(Span(start=15),        "latest",   None, 15, id="an offset"),
    pytest.param(Span(start=5),         "latest",   None, 5,  id="an offset that is gone is told of"),
    pytest.param(Span(start=42),        "earliest", None, 20, id="an offset that is not there yet"),
    pytest.param(Span(start=-3),        "latest",   None, 17, id="the last three"),
    pytest.param(Span(start=-30),       "latest",   None, 10, id="as many as there are"),
    pytest.param(Span(start_ms=1),      "latest",   12,   12, id="a time"),
    pytest.param(Span(start_ms=1),      "latest",   None, 20, id="a time after all"),
]
# fmt: on


@pytest.mark.parametrize("texts, span", SPANS)
def test_offset_says_where_to_begin_and_to_end(texts, span):
    assert span_of(texts) == span


@pytest.mark.parametrize("span, default, at_start, offset", STARTS)
def test_call_begins_where_its_span_says(span, default, at_start, offset):
    assert start_offset(span, default, 10, 20, at_start) == offset


@pytest.mark.parametrize(
    "texts",
    [["soon"], ["1.5"], ["s@"], ["e@noon"], ["s@2026-01-31"], ["1", "2"], ["e@1", "e@2"], [""]],
)
def test_offset_of_another_form_is_refused(texts):
    with pytest.raises(InvalidRequestError, match="--offset"):
        span_of(texts)
