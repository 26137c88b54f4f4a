"""Text that others wrote: which characters are shown as they are; what is accepted as JSON."""

import json
import sys
import unicodedata
from itertools import chain

import pytest

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.text import parse_json, quoted, visible, visible_json, visible_lines

EVIL = "\x1b]0;owned\x07\u202egpj.exe\x9b2J"


PLANES = range((sys.maxunicode >> 16) + 1)
WITH_CHARACTERS = (0, 1, 2, 3, 14)
"""The others are unassigned, or for private use."""


def kept_of(planes):
    codes = chain.from_iterable(range(plane << 16, (plane + 1) << 16) for plane in planes)
    return {each for each in map(chr, codes) if visible(each) == each}


def test_of_all_characters_only_visible_ones_and_blanks_are_shown_as_they_are():
    kept = kept_of(WITH_CHARACTERS)

    assert {unicodedata.category(each)[0] for each in kept} == {"L", "M", "N", "P", "S", "Z"}
    assert not any(unicodedata.bidirectional(each) in ("RLO", "LRI", "PDI", "B") for each in kept)
    assert kept >= set("aé日本א🙂 \u00a0\u3000")


@pytest.mark.long
def test_of_planes_without_characters_nothing_is_shown_as_it_is():
    assert kept_of(set(PLANES).difference(WITH_CHARACTERS)) == set()


CASES = [
    ("",                    ""),
    ("plain",               "plain"),
    ("\x1b[2J",             r"\x1b[2J"),
    ("a\nb\tc\r",           r"a\x0ab\x09c\x0d"),
    ("\x7f\x9b",            r"\x7f\x9b"),
    ("\u202e\u2066",        r"\u202e\u2066"),
    ("\u2028\u200b\ufeff",  r"\u2028\u200b\ufeff"),
    ("\ud800",              r"\ud800"),
    ("\U000e0041",          r"\U000e0041"),
]  # fmt: skip


@pytest.mark.parametrize("text, shown", CASES)
def test_escapes(text, shown):
    assert visible(text) == shown
    visible(text).encode()


def test_lines_stay_lines_only_where_there_are_to_be_some():
    assert visible_lines("a\n\x1bb") == "a\n\\x1bb"
    assert quoted('a\n"\\') == r'"a\x0a\"\\"'


def test_json_is_all_visible_and_says_what_it_was_given():
    text = visible_json({"a": EVIL + "\x7f\ud800"})

    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == {"a": EVIL + "\x7f\ud800"}


def test_an_error_shows_nothing_that_a_terminal_would_obey():
    error = KafkaOnSparkError(f"no topic {EVIL}", path=EVIL)

    assert str(error).isprintable()
    assert error.message == f"no topic {EVIL}"


# fmt: off
SOUND = [
    0, -1, 2**63 - 1, 2**64 - 1, -(2**63), 1.5, "", "text", "\u2603", "\U0001f600", None, True, [],
    {}, [1, [2, {"a": "\x00"}]], {"a": {"b": [None]}},
]
UNSOUND = [
    b"", b"{", b"nonsense", b"\xff", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999",
    b"1" + b"0" * 20, b"-" + b"9" * 19, b"9" * 5000, b'"\\ud800"', b'["\\uDFFF"]', b'{"\\udbff": 1}',
    b'"\\ud83d x \\ude00"', b"[" * 100_000, b'{"a":' * 100_000, b"[1] [2]", bytes(10),
]
# fmt: on


@pytest.mark.parametrize("value", SOUND, ids=repr)
def test_what_json_can_say_is_read(value):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert parse_json(text) == value
        assert parse_json(text.encode()) == value


@pytest.mark.parametrize("content", UNSOUND, ids=lambda content: repr(content)[:30])
def test_what_no_writer_of_ours_writes_is_one_kind_of_error(content):
    with pytest.raises(ValueError, match=r"."):
        parse_json(content)
