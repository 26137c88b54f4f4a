"""Records as lines, both ways: what `produce` reads and `consume` prints.

Keys and values are the bytes they are. Source: Kafka's LineMessageReader and
DefaultMessageFormatter, whose properties these are. As JSON, a record is one line, and a key or a
value in it a text, null, or {"base64": "…"} for bytes that are not UTF-8. The topic, the offset and
the type of the timestamp are ignored on the way in, so that lines can be appended again.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_on_spark.base.config import unknown_name
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import EPOCH
from kafka_on_spark.base.text import quoted, visible_json, without_doubles
from kafka_on_spark.cli.options import micros, parsed_flag

if TYPE_CHECKING:
    from kafka_on_spark.consume.consuming import ConsumerRecord

_ESCAPE: Final = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_NAMED: Final = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescaped(text: str) -> bytes:
    r"""Return the bytes that a separator means: it may have \t, \n, \r, \0, \\ and \xNN. Any other
    character behind a backslash is itself."""

    def meaning(match: re.Match[bytes]) -> bytes:
        given = match[1]
        if given[:1] == b"x" and len(given) > 1:
            return bytes([int(given[1:], 16)])
        return _NAMED.get(given, given)

    return _ESCAPE.sub(meaning, text.encode(errors="surrogateescape"))


# Lines in


class Records(NamedTuple):
    """The columns of records, and where each record stood among the lines, up to the first line
    that is not a record: `bad` has its place, and why, in words that follow "line 7 "."""

    columns: dict[str, list[Any]]
    places: Sequence[int]
    bad: tuple[int, str] | None = None


Parse = Callable[[Sequence[bytes]], Records]

READER_PROPERTIES: Final = ("parse.key", "key.separator", "null.marker")


def line_parser(properties: Mapping[str, str]) -> Parse:
    """Return what reads lines as properties of Kafka's reader say: "value", or with parse.key
    "key<separator>value"; a key or a value that is the null.marker is null."""
    separator = unescaped(properties.get("key.separator", r"\t"))
    text = properties.get("null.marker")
    marker = None if text is None else text.encode(errors="surrogateescape")
    if separator in (b"", marker):
        raise InvalidRequestError(
            "property key.separator can't be empty or equal to null.marker: give another"
        )

    def nulled(parts: Sequence[bytes]) -> list[bytes | None]:
        return [None if each == marker else each for each in parts]

    def key_and_value(line: bytes) -> Sequence[Any]:
        key, found, value = line.partition(separator)
        if not found:
            raise InvalidRequestError(
                f"has no key separator ({_shown_bytes(separator)}): {_shown_bytes(line)}; give one,"
                " or leave --property parse.key=true out"
            )
        return nulled((key, value))

    if parsed_flag("parse.key", properties.get("parse.key", "false")):
        return lambda lines: _read(lines, ("key", "value"), key_and_value)
    return lambda lines: Records({"value": nulled(lines)}, range(len(lines)))


def _read(
    lines: Sequence[bytes], names: Sequence[str], record_of: Callable[[bytes], Sequence[Any] | None]
) -> Records:
    """Return the records of lines, without those that `record_of` returns None for."""
    rows: list[Sequence[Any]] = []
    places: list[int] = []
    bad = None
    for place, line in enumerate(lines):
        try:
            row = record_of(line)
        except InvalidRequestError as error:
            bad = place, error.message
            break
        if row is not None:
            rows.append(row)
            places.append(place)
    columns = {name: [row[number] for row in rows] for number, name in enumerate(names)}
    return Records(columns, places, bad)


def _shown_bytes(part: bytes) -> str:
    return _cut(quoted(part[:160].decode(errors="backslashreplace")), 42)


_TAKEN: Final = ("key", "value", "headers", "timestamp", "partition")
_IGNORED: Final = ("topic", "offset", "timestamp_type", "leader_epoch", "is_committed")


def parsed_json(lines: Sequence[bytes]) -> Records:
    return _read(lines, _TAKEN, _record)


def _record(line: bytes) -> Sequence[Any] | None:
    if not line.strip():
        return None
    try:
        row = json.loads(line, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise InvalidRequestError(
            f'is {_shown(row)}: give an object, such as {{"key": "a", "value": "b"}}'
        )
    for name in row:
        if name not in _TAKEN and name not in _IGNORED:
            raise InvalidRequestError(f"has an {unknown_name('field', name, [*_TAKEN])}")
    if "value" not in row:
        raise InvalidRequestError('has no "value": give one; null is a tombstone')
    when, partition = row.get("timestamp"), row.get("partition")
    if partition is not None and (type(partition) is not int or not 0 <= partition < 2**31):
        raise InvalidRequestError(
            f'has a "partition" that is {_shown(partition)}: give a number from 0 on, or null'
        )
    time_us = None if when is None else micros(str(when), 'has a "timestamp" that')
    content = [_content(name, row.get(name)) for name in ("key", "value")]
    return [*content, _headers(row.get("headers")) or None, time_us, partition]


def _content(name: str, given: object) -> bytes | None:
    with suppress(TypeError, ValueError):  # half a surrogate pair, or no base64
        if given is None or isinstance(given, str):
            return None if given is None else given.encode()
        if isinstance(given, dict) and given.keys() == {"base64"}:
            return b64decode(given["base64"], validate=True)
    raise InvalidRequestError(
        f'has a "{name}" that is {_shown(given)}: give a text, null or {{"base64": "…"}}; give an'
        " object as a text of JSON, as jq's tojson writes it"
    )


def _headers(given: object) -> list[dict[str, Any]]:
    if isinstance(given, dict):
        given = [{"key": name, "value": value} for name, value in given.items()]
    found = [] if given is None else given
    if not isinstance(found, list) or not all(
        isinstance(each, dict) and each.keys() == {"key", "value"} and isinstance(each["key"], str)
        for each in found
    ):
        raise InvalidRequestError(
            f'has "headers" that are {_shown(given)}: give {{"name": "value"}}, or'
            ' [{"key": "name", "value": "value"}] where names come twice'
        )
    return [{name: _content("headers", each[name]) for name in ("key", "value")} for each in found]


def _shown(given: object) -> str:
    return _cut(visible_json(given), 60)


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else f"{text[:length_max]}…"


# Lines out

Form = Callable[["ConsumerRecord"], bytes]
"""Returns what is written for a record, with what ends it."""

Piece = Callable[["ConsumerRecord", bytes, bytes], bytes]
"""Returns a part of a line, given also what stands between headers, and for null."""

_TIMESTAMP_TYPES: Final = (b"CreateTime", b"LogAppendTime")
_PIECES: Final[Mapping[str, Piece]] = {
    "print.timestamp": lambda record, *_: (
        b"%s:%d" % (_TIMESTAMP_TYPES[record.timestamp_type], record.timestamp_us // 1000)
    ),
    "print.partition": lambda record, *_: b"Partition:%d" % record.partition,
    "print.offset": lambda record, *_: b"Offset:%d" % record.offset,
    "print.epoch": lambda record, *_: b"Epoch:%d" % record.leader_epoch,
    "print.headers": lambda record, between, null: (
        between.join(
            name.encode() + b":" + (null if value is None else value)
            for name, value in record.headers
        )
        or b"NO_HEADERS"
    ),
    "print.key": lambda record, _, null: null if record.key is None else record.key,
    "print.value": lambda record, _, null: null if record.value is None else record.value,
}
"""What stands in a line, in this order."""

FLAGS: Final = tuple(_PIECES)
SEPARATORS: Final = {"key.separator": r"\t", "line.separator": r"\n", "headers.separator": ","}
NULL: Final = "null.literal"
Content = str | dict[str, str] | None
"""A key or value as JSON has it."""


def json_form(record: "ConsumerRecord") -> bytes:
    moment = EPOCH + timedelta(microseconds=record.timestamp_us)
    row = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0"),
        "key": content_as_json(record.key),
        "value": content_as_json(record.value),
        "headers": headers_as_json(record.headers),
    }
    return visible_json(row).encode() + b"\n"


def content_as_json(content: bytes | None) -> Content:
    """Return a key or value as a plain value, which determines its bytes."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(content).decode()}


def headers_as_json(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    """Return headers as plain values; a name may come twice."""
    return [{"key": name, "value": content_as_json(value)} for name, value in headers]


def form_of(properties: Mapping[str, str]) -> Form:
    separator, end, between = (unescaped(properties.get(*each)) for each in SEPARATORS.items())
    null = properties.get(NULL, "null").encode(errors="surrogateescape")
    shown = {"print.value": "true", **properties}
    chosen = [
        piece for name, piece in _PIECES.items() if parsed_flag(name, shown.get(name, "false"))
    ]
    if not chosen:
        return lambda record: b""
    return lambda record: separator.join([piece(record, between, null) for piece in chosen]) + end
