"""What a call of `produce` asks for, out of its options; and which of them exclude each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.cli.call.options import micros
from kafka_on_spark.cli.lines.columns import BadLine, Columns
from kafka_on_spark.cli.lines.json_lines import parsed_lines
from kafka_on_spark.cli.lines.line_format import check_known, line_format, properties_of
from kafka_on_spark.cli.produce.batches import Fixed
from kafka_on_spark.config import check_acks
from kafka_on_spark.errors import InvalidRequestError, InvalidRequiredAcksError
from kafka_on_spark.ids import whole_number
from kafka_on_spark.service.append.produce.settings import LINGER_MS
from kafka_on_spark.setting_values import INT_MAX

CHUNK_BYTES: Final = 8 * 2**20
"""Of input in one append: 80,000 lines of 100 bytes. An append's own cost is small beside theirs,
and they take a hundred megabytes of memory at most."""

PROPERTIES: Final = (
    "acks",
    "batch.size",
    "delivery.timeout.ms",
    "enable.idempotence",
    "linger.ms",
)
"""Kafka's settings of a producer that are obeyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for.

    Attributes:
        paths: What is read, one after the other; "-" is standard input.
        are_whole_files: Each of them is one value.
        is_json: Lines are JSON.
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
    if given["reader_property"] and given["json"]:
        raise InvalidRequestError("--property does not go with --json: leave one of them out")
    if given["reader_property"] and are_whole_files:
        raise InvalidRequestError(
            "--property is for lines, and each file is one value: give --lines as well, or leave"
            " --property out"
        )
    reader = properties_of(given["reader_property"], "--property")
    client = properties_of(given["producer_property"], "--producer-property")
    check_known(client, PROPERTIES, "a producer")
    if client.get("enable.idempotence", "true") != "true":
        raise InvalidRequestError("enable.idempotence can only be true: no append is doubled here")
    return Asked(
        paths=given["files"] or ["-"],
        are_whole_files=are_whole_files,
        is_json=given["json"],
        parse=parsed_lines if given["json"] else line_format(reader).records,
        fixed=Fixed(
            timestamp_us=(
                None if given["timestamp"] is None else micros(given["timestamp"], "--timestamp")
            ),
            partition=given["partition"],
        ),
        acks=_acks(given["acks"] or client.get("acks", "all")),
        linger_ms=_number(given["linger_ms"], client, "linger.ms", 0, LINGER_MS),
        chunk_bytes=_number(given["batch_size"], client, "batch.size", 1, CHUNK_BYTES),
        delivery_timeout_ms=_number(None, client, "delivery.timeout.ms", 1, 0) or None,
    )


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
