"""A record as it is printed: by properties of Kafka's formatter, or by kcat's format string.

Keys and values are written as the bytes they are. Source: Kafka's DefaultMessageFormatter; kcat's
fmt_msg_output_str.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafka_on_spark.cli.lines.escapes import unescaped
from kafka_on_spark.cli.lines.json_lines import record_line
from kafka_on_spark.cli.lines.line_format import parsed_flag
from kafka_on_spark.config import unknown_name
from kafka_on_spark.errors import InvalidRequestError

if TYPE_CHECKING:
    from kafka_on_spark.cluster.consuming.consumed import ConsumerRecord


Form = Callable[["ConsumerRecord"], bytes]
"""Returns what is written for a record, with what ends it."""

FLAGS: Final = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.delivery",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
)
"""What stands in a line, in this order."""

SEPARATORS: Final = {
    "key.separator": b"\t",
    "line.separator": b"\n",
    "headers.separator": b",",
    "null.literal": b"null",
}
_TIMESTAMP_TYPES: Final = (b"CreateTime", b"LogAppendTime")


def json_form(record: "ConsumerRecord") -> bytes:
    """Return a record as a line of JSON."""
    return (
        record_line(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_us,
            record.key,
            record.value,
            record.headers,
        )
        + b"\n"
    )


def no_form(record: "ConsumerRecord") -> bytes:
    """Return nothing: who times a read wants no output. Source: NoOpMessageFormatter."""
    return b""


def form_of(properties: Mapping[str, str]) -> Form:
    """Return the form that properties of Kafka's formatter describe.

    Raises:
        InvalidRequestError: One is unknown, or has a value that is not allowed.
    """
    shown = {name: name == "print.value" for name in FLAGS}
    parts = dict(SEPARATORS)
    for name, text in properties.items():
        if name in shown:
            shown[name] = parsed_flag(name, text)
        elif name in parts:
            parts[name] = unescaped(text, keeps_unknown=name == "null.literal")
        elif "deserializer" in name:
            raise InvalidRequestError(
                f"property {name!r} means nothing here: no class of Java's runs here; --json shows"
                " what is no text"
            )
        else:
            raise InvalidRequestError(unknown_name("property", name, [*FLAGS, *SEPARATORS]))
    null = parts["null.literal"]
    separator, end = parts["key.separator"], parts["line.separator"]
    between = parts["headers.separator"]
    pieces: dict[str, Form] = {
        "print.timestamp": _timestamp,
        "print.partition": lambda record: b"Partition:%d" % record.partition,
        "print.offset": lambda record: b"Offset:%d" % record.offset,
        # Deliveries are counted in share groups, which do not exist here; Kafka's consumers outside
        # of one print the same.
        "print.delivery": lambda record: b"Delivery:NOT_PRESENT",
        "print.epoch": lambda record: b"Epoch:%d" % record.leader_epoch,
        "print.headers": lambda record: _headers(record, b":", between, null) or b"NO_HEADERS",
        "print.key": lambda record: null if record.key is None else record.key,
        "print.value": lambda record: null if record.value is None else record.value,
    }
    chosen = [pieces[name] for name in FLAGS if shown[name]]
    if not chosen:
        return no_form
    return lambda record: separator.join([piece(record) for piece in chosen]) + end


def _timestamp(record: "ConsumerRecord") -> bytes:
    return b"%s:%d" % (_TIMESTAMP_TYPES[record.timestamp_type], record.timestamp_us // 1000)


def _headers(record: "ConsumerRecord", equals: bytes, between: bytes, null: bytes) -> bytes:
    return between.join(
        [
            name.encode() + equals + (null if value is None else value)
            for name, value in record.headers
        ]
    )


def format_string(text: str, null: bytes = b"") -> Form:
    r"""Return the form that a format string of kcat's describes, such as '%t [%p] %o: %k=%s\n'.

    `null`: what is written for a key or value that is null.

    Raises:
        InvalidRequestError: A letter behind % is unknown.
    """
    pieces: dict[str, Form] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % (record.timestamp_us // 1000),
        "k": lambda record: null if record.key is None else record.key,
        "s": lambda record: null if record.value is None else record.value,
        "K": lambda record: b"%d" % _length(record.key),
        "S": lambda record: b"%d" % _length(record.value),
        "R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
        "h": lambda record: _headers(record, b"=", b",", b"NULL"),
    }
    chosen: list[Form] = []
    literal, end = "", 0
    for match in re.finditer("%(.?)", text, re.DOTALL):
        literal += text[end : match.start()]
        letter, end = match[1], match.end()
        if letter == "%":
            literal += "%"
        elif letter in pieces:
            chosen += [_literal(literal), pieces[letter]]
            literal = ""
        else:
            raise InvalidRequestError(
                f"%{letter} in the format {text!r} is unknown: give one of"
                f" {', '.join(f'%{each}' for each in pieces)}, or %% for a percent sign"
            )
    chosen.append(_literal(literal + text[end:]))
    return lambda record: b"".join([piece(record) for piece in chosen])


def _literal(text: str) -> Form:
    meant = unescaped(text)
    return lambda record: meant


def _length(content: bytes | None) -> int:
    return -1 if content is None else len(content)
