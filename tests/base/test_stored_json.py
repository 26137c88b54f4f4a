"""Stored JSON: values, or a ValueError, whatever somebody has written there."""

import json

import pytest

from kafka_on_spark.base.stored_json import parse_json

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
