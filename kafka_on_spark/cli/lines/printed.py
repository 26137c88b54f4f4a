"""A record as it is printed: by properties of Kafka's formatter, by a format string, or as JSON.

Keys and values are written as the bytes they are. Source: Kafka's DefaultMessageFormatter.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kafka_on_spark.cli.lines.json_lines import record_line
from kafka_on_spark.cli.lines.line_format import parsed_flag, unescaped
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
        else:
            raise InvalidRequestError(unknown_name("property", name, [*FLAGS, *SEPARATORS]))
    null = parts["null.literal"]
    separator, end = parts["key.separator"], parts["line.separator"]
    between = parts["headers.separator"]
    pieces: dict[str, Form] = {
        "print.timestamp": _timestamp,
        "print.partition": lambda record: b"Partition:%d" % record.partition,
        "print.offset": lambda record: b"Offset:%d" % record.offset,
        "print.epoch": lambda record: b"Epoch:%d" % record.leader_epoch,
        "print.headers": lambda record: _headers(record, b":", between, null) or b"NO_HEADERS",
        "print.key": lambda record: null if record.key is None else record.key,
        "print.value": lambda record: null if record.value is None else record.value,
    }
    chosen = [pieces[name] for name in FLAGS if shown[name]]
    if not chosen:
        return lambda record: b""
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


def format_string(text: str) -> Form:
    r"""Return the form that a format string describes, such as '%t [%p] %o: %k=%s\n'.

    Raises:
        InvalidRequestError: A letter behind % is unknown.
    """
    pieces: dict[str, Form] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % (record.timestamp_us // 1000),
        "k": lambda record: record.key or b"",
        "s": lambda record: record.value or b"",
        "h": lambda record: _headers(record, b"=", b",", b"NULL"),
        "%": lambda record: b"%",
    }
    chosen: list[Form] = []
    for number, part in enumerate(re.split("%(.?)", text, flags=re.DOTALL)):
        if number % 2 == 0:
            chosen.append(_literal(part))
        elif part in pieces:
            chosen.append(pieces[part])
        else:
            raise InvalidRequestError(
                f"%{part} in the format {text!r} is unknown: give one of"
                f" {', '.join(f'%{each}' for each in pieces)}"
            )
    return lambda record: b"".join([piece(record) for piece in chosen])


def _literal(text: str) -> Form:
    meant = unescaped(text)
    return lambda record: meant
