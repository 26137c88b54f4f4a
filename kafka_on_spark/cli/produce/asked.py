"""What a call of `produce` asks for, out of its options; and which of them exclude each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.cli.call.options import micros
from kafka_on_spark.cli.kafka.properties import (
    PROPERTIES_OF_PRODUCERS,
    REFUSED_OF_PRODUCERS,
    check_known,
    properties,
)
from kafka_on_spark.cli.lines.columns import BadLine, Columns
from kafka_on_spark.cli.lines.escapes import unescaped
from kafka_on_spark.cli.lines.json_lines import parsed_lines
from kafka_on_spark.cli.lines.line_format import line_format
from kafka_on_spark.cli.produce.batches import Fixed
from kafka_on_spark.config import check_acks
from kafka_on_spark.errors import InvalidRequestError, InvalidRequiredAcksError
from kafka_on_spark.ids import whole_number
from kafka_on_spark.service.append.produce.settings import LINGER_MS
from kafka_on_spark.setting_values import INT_MAX

CHUNK_BYTES: Final = 8 * 2**20
"""Of input in one append: 80,000 lines of 100 bytes. An append's own cost is small beside theirs,
and they take a hundred megabytes of memory at most."""

_OF_LINES: Final = {
    "--property": "reader_property",
    "--reader-config": "reader_config",
    "--key-delimiter": "key_delimiter",
    "--null": "empty_is_null",
}
"""Options that say how a line is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for.

    Attributes:
        paths: What is read, one after the other; "-" is standard input.
        are_whole_files: Each of them is one value.
        is_json: Lines are JSON.
        delimiter: Ends a line; None: as in a text file.
        parse: Makes records of lines, or of whole files.
        fixed: What all records get.
        acks: "all" or "1".
        linger_ms: How long records gather.
        chunk_bytes: Bytes of input in one append.
        delivery_timeout_ms: For an append and all its tries; None: the cluster's.
    """

    paths: Sequence[str]
    are_whole_files: bool
    is_json: bool
    delimiter: bytes | None
    parse: Callable[[list[bytes]], tuple[Columns, BadLine | None]]
    fixed: Fixed
    acks: str
    linger_ms: int
    chunk_bytes: int
    delivery_timeout_ms: int | None


def asked_for(given: Mapping[str, Any]) -> Asked:
    """Return what a call's parameters ask for.

    Raises:
        InvalidRequestError: Two of them exclude each other, or one has a value that is not allowed.
        InvalidRequiredAcksError: `acks` is none of Kafka's.
    """
    are_whole_files = bool(given["files"]) and not (given["lines"] or given["json"])
    for option, name in _OF_LINES.items():
        if given[name] and given["json"]:
            raise InvalidRequestError(f"{option} does not go with --json: leave one of them out")
    for option, name in {**_OF_LINES, "--delimiter": "delimiter"}.items():
        if are_whole_files and given[name] not in (None, False, [], ()):
            raise InvalidRequestError(
                f"{option} is for lines, and each file is one value: give --lines as well, or leave"
                f" {option} out"
            )
    client = properties(given["producer_property"], "--producer-property")
    check_known(client, PROPERTIES_OF_PRODUCERS, REFUSED_OF_PRODUCERS, "a producer")
    if client.get("enable.idempotence", "true") != "true":
        raise InvalidRequestError("enable.idempotence can only be true: no append is doubled here")
    return Asked(
        paths=given["files"] or ["-"],
        are_whole_files=are_whole_files,
        is_json=given["json"],
        delimiter=None if given["delimiter"] is None else unescaped(given["delimiter"]),
        parse=parsed_lines if given["json"] else line_format(_reader_properties(given)).records,
        fixed=_fixed(given),
        acks=_acks(given["acks"] or client.get("acks", "all")),
        linger_ms=_number(given["linger_ms"], client, "linger.ms", 0, LINGER_MS),
        chunk_bytes=_number(given["batch_size"], client, "batch.size", 1, CHUNK_BYTES),
        delivery_timeout_ms=_number(None, client, "delivery.timeout.ms", 1, 0) or None,
    )


def _reader_properties(given: Mapping[str, Any]) -> dict[str, str]:
    found = properties(
        given["reader_property"], "--property", given["reader_config"], "--reader-config"
    )
    short: dict[str, str] = {}
    if given["key_delimiter"] is not None:
        short |= {"parse.key": "true", "key.separator": given["key_delimiter"]}
        short |= {"ignore.error": "true"}
    if given["empty_is_null"]:
        short |= {"null.marker": ""}
    twice = [name for name in short if found.get(name, short[name]) != short[name]]
    if twice:
        raise InvalidRequestError(
            f"{twice[0]} is given twice, by --property and by a short option: leave one of them out"
        )
    return {**found, **short}


def _fixed(given: Mapping[str, Any]) -> Fixed:
    headers = [each.partition("=") for each in given["header"] or ()]
    if not all(name for name, _, _ in headers):
        raise InvalidRequestError("--header has no name: give NAME=VALUE, or NAME for a null value")
    return Fixed(
        key=None if given["key"] is None else _bytes(given["key"]),
        headers=[
            (_header_name(name), _bytes(value) if equals else None)
            for name, equals, value in headers
        ],
        timestamp_us=(
            None if given["timestamp"] is None else micros(given["timestamp"], "--timestamp")
        ),
        partition=given["partition"],
    )


def _header_name(argument: str) -> str:
    try:
        return _bytes(argument).decode()
    except UnicodeDecodeError:
        raise InvalidRequestError(
            f"--header has a name that is not UTF-8: {argument!r}; only a header's value may be"
            " any bytes"
        ) from None


def _bytes(argument: str) -> bytes:
    """Return an argument's own bytes, which need not be UTF-8."""
    return argument.encode(errors="surrogateescape")


def _acks(given: str) -> str:
    acks = check_acks(given)
    if acks == "0":
        raise InvalidRequiredAcksError(
            "acks can't be 0, which waits for no answer, and produce says what was acknowledged:"
            " give all or 1"
        )
    return acks


def _number(
    option: int | None, client: Mapping[str, str], name: str, least: int, default: int
) -> int:
    if option is not None:
        return option
    text = client.get(name, str(default))
    try:
        number = whole_number(text)
    except ValueError:
        number = -1
    if name in client and not least <= number <= INT_MAX:
        raise InvalidRequestError(
            f"property {name} can't be {text!r}: give a number from {least} to {INT_MAX}"
        )
    return number
