"""What a call of `consume` asks for, out of its options; and which of them exclude each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.cli.consume.starts import EARLIEST, LATEST, Span, span_of
from kafka_on_spark.cli.kafka.properties import (
    PROPERTIES_OF_CONSUMERS,
    REFUSED_OF_CONSUMERS,
    check_known,
    properties,
)
from kafka_on_spark.cli.lines.line_format import parsed_flag
from kafka_on_spark.cli.lines.printed import Form, form_of, format_string, json_form, no_form
from kafka_on_spark.errors import InvalidRequestError

ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")
FORMATTERS: Final = ("DefaultMessageFormatter", "NoOpMessageFormatter")

_OF_FORMATTER: Final = {
    "--property": "formatter_property",
    "--formatter-config": "formatter_config",
    "--delimiter": "delimiter",
    "--key-delimiter": "key_delimiter",
}
"""Options that set properties of Kafka's formatter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a call asks for.

    Attributes:
        topic: The topic, or None.
        pattern: A regular expression of topics, or None.
        partitions: Of the topic; none: all.
        span: Where to begin and to end.
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
    span: Span
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
    client = properties(given["consumer_property"], "--consumer-property")
    check_known(client, PROPERTIES_OF_CONSUMERS, REFUSED_OF_CONSUMERS, "a consumer")
    level = given["isolation_level"] or client.get("isolation.level", "read_committed")
    if level not in ISOLATION_LEVELS:
        raise InvalidRequestError(
            f"--isolation-level can't be {level!r}: give {' or '.join(ISOLATION_LEVELS)}"
        )
    if (given["topic"] is None) == (given["include"] is None):
        raise InvalidRequestError("name the topics in one way: --topic, or --include EXPRESSION")
    if given["partition"] and given["topic"] is None:
        raise InvalidRequestError("--partition is one of a topic's: give --topic as well")
    group = _one("--group", given["group"], client.get("group.id"))
    if group is not None and (given["partition"] or given["offset"]):
        raise InvalidRequestError(
            "the offsets of --group say where to begin in all partitions: leave --partition and"
            " --offset out, or set the offsets by consumer-groups --reset-offsets"
        )
    span = span_of(given["offset"] or ())
    if span.has_start and given["from_beginning"]:
        raise InvalidRequestError("--offset and --from-beginning both say where to begin: give one")
    commits = parsed_flag("enable.auto.commit", client.get("enable.auto.commit", "true"))
    return Asked(
        topic=given["topic"],
        pattern=given["include"],
        partitions=tuple(given["partition"] or ()),
        span=span,
        default_start=_default_start(given, client, span, has_group=group is not None),
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


def _default_start(
    given: Mapping[str, Any], client: Mapping[str, str], span: Span, *, has_group: bool
) -> str:
    """Return where to begin where nothing else says it.

    Kafka's tool begins with what comes next. Who asks for records up to an end means those that are
    there.
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
    has_end = (given["exit"] or span.end_ms is not None) and not has_group
    return reset or (EARLIEST if has_end else LATEST)


def _form(given: Mapping[str, Any]) -> Form:
    of_formatter = properties(
        given["formatter_property"], "--property", given["formatter_config"], "--formatter-config"
    )
    if given["delimiter"] is not None:
        of_formatter["line.separator"] = given["delimiter"]
    if given["key_delimiter"] is not None:
        of_formatter |= {"print.key": "true", "key.separator": given["key_delimiter"]}
    formatter = (given["formatter"] or FORMATTERS[0]).rpartition(".")[2]
    if formatter not in FORMATTERS:
        raise InvalidRequestError(
            f"--formatter can't be {given['formatter']!r}, since no class of Java's runs here: give"
            f" {' or '.join(FORMATTERS)}, --format or --json"
        )
    of_lines = [
        option for option, name in _OF_FORMATTER.items() if given[name] not in (None, [], ())
    ]
    ways = [
        option
        for option, is_given in {
            "--json": given["json"],
            "--format": given["format_"] is not None,
            "--formatter": formatter != FORMATTERS[0],
            **{option: bool(of_formatter) for option in of_lines[:1]},
        }.items()
        if is_given
    ]
    if len(ways) > 1:
        raise InvalidRequestError(
            f"{' and '.join(ways)} both say how a record is printed: give one of them"
        )
    if given["json"]:
        return json_form
    if given["format_"] is not None:
        return format_string(given["format_"], b"NULL" if given["null"] else b"")
    if given["null"]:
        of_formatter = {"null.literal": "NULL", **of_formatter}
    return no_form if formatter == FORMATTERS[1] else form_of(of_formatter)
