"""What a call of `consume` asks for, out of its options; and which of them exclude each other."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.cli.lines.line_format import check_known, parsed_flag, properties_of
from kafka_on_spark.cli.lines.printed import Form, form_of, format_string, json_form
from kafka_on_spark.errors import InvalidRequestError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

PROPERTIES: Final = ("auto.offset.reset", "client.rack", "enable.auto.commit", "group.id")
"""Kafka's settings of a consumer that are obeyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for.

    Attributes:
        topic: The topic, or None.
        pattern: A regular expression of topics, or None.
        partitions: Of the topic; none: all.
        start: EARLIEST or LATEST, an offset, so many records before the end if it is below 0; or
            None: as without --offset.
        default_start: Where to begin if nothing else says it: EARLIEST or LATEST.
        exits_at_end: End with the last record that was committed when the call began.
        records_max: End after so many records; None: go on.
        timeout_ms: End if there is no record for so long; None: go on.
        group: Whose offsets are gone on from, and committed; None: nobody's.
        commits: Whether the group's offsets are committed.
        client_rack: Replicas of this rack are read first.
        form: How a record is printed.
    """

    topic: str | None
    pattern: str | None
    partitions: tuple[int, ...]
    start: str | int | None
    default_start: str
    exits_at_end: bool
    records_max: int | None
    timeout_ms: int | None
    group: str | None
    commits: bool
    client_rack: str | None
    form: Form


def asked_for(given: Mapping[str, Any]) -> Asked:
    """Return what a call's parameters ask for.

    Raises:
        InvalidRequestError: Two of them exclude each other, or one has a value that is not allowed.
    """
    client = properties_of(given["consumer_property"], "--consumer-property")
    check_known(client, PROPERTIES, "a consumer")
    if (given["topic"] is None) == (given["include"] is None):
        raise InvalidRequestError("name the topics in one way: --topic, or --include EXPRESSION")
    if given["partition"] and given["topic"] is None:
        raise InvalidRequestError("--partition is one of a topic's: give --topic as well")
    start = _start(given["offset"])
    group = _one("--group", given["group"], client.get("group.id"))
    if group is not None and (given["partition"] or start is not None):
        raise InvalidRequestError(
            "the offsets of --group say where to begin in all partitions: leave --partition and"
            " --offset out, or set the offsets by consumer-groups --reset-offsets"
        )
    if start is not None and given["from_beginning"]:
        raise InvalidRequestError("--offset and --from-beginning both say where to begin: give one")
    commits = parsed_flag("enable.auto.commit", client.get("enable.auto.commit", "true"))
    return Asked(
        topic=given["topic"],
        pattern=given["include"],
        partitions=tuple(given["partition"] or ()),
        start=start,
        default_start=_default_start(given, client, has_group=group is not None),
        exits_at_end=given["exit"],
        records_max=given["max_messages"],
        timeout_ms=given["timeout_ms"],
        group=group,
        commits=commits and group is not None,
        client_rack=client.get("client.rack"),
        form=_form(given),
    )


def _one(option: str, first: str | None, second: str | None) -> str | None:
    if first is not None and second is not None and first != second:
        raise InvalidRequestError(f"{option} is given twice, as {first!r} and {second!r}: give one")
    return second if first is None else first


def _default_start(given: Mapping[str, Any], client: Mapping[str, str], *, has_group: bool) -> str:
    """Return where to begin where nothing else says it.

    Kafka's tool begins with what comes next. A call with --exit means the records that are there.
    """
    reset = client.get("auto.offset.reset")
    if reset not in (None, EARLIEST, LATEST):
        raise InvalidRequestError(
            f"auto.offset.reset can't be {reset!r}: give {EARLIEST} or {LATEST}"
        )
    if given["from_beginning"]:
        if reset == LATEST:
            raise InvalidRequestError(
                f"--from-beginning and auto.offset.reset={LATEST} say two places to begin at: give"
                " one of them"
            )
        return EARLIEST
    return reset or (EARLIEST if given["exit"] and not has_group else LATEST)


def _start(text: str | None) -> str | int | None:
    if text is None or text in (EARLIEST, LATEST):
        return text
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return int(text)
    raise InvalidRequestError(
        f"--offset can't be {text!r}: give an offset, -N for the last N records, earliest or latest"
    )


def start_offset(start: str | int, log_start: int, end: int) -> int:
    """Return where to begin in a partition.

    An offset that is not there yet is the log's end. One that is gone stays: the read tells of it.
    """
    if isinstance(start, str):
        return log_start if start == EARLIEST else end
    wanted = max(end + start, log_start) if start < 0 else start
    return min(wanted, end)


def _form(given: Mapping[str, Any]) -> Form:
    of_formatter = properties_of(given["formatter_property"], "--property")
    ways = {
        "--json": given["json"],
        "--format": given["format_"] is not None,
        "--property": bool(of_formatter),
    }
    asked = [option for option, is_given in ways.items() if is_given]
    if len(asked) > 1:
        raise InvalidRequestError(
            f"{' and '.join(asked)} both say how a record is printed: give one of them"
        )
    if given["json"]:
        return json_form
    if given["format_"] is not None:
        return format_string(given["format_"])
    return form_of(of_formatter)
