"""Options of the data source, in the words of Spark's Kafka source and sink.

Pure: texts in, values out. Keys come lower-cased, as Spark hands them to a Python source.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_on_spark.config import check_acks, unknown_name
from kafka_on_spark.errors import InvalidRequestError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_WIRE: Final = {-2: EARLIEST, -1: LATEST}
STORAGE_PREFIX: Final = "storage."

Position = int | str
"""An offset, EARLIEST or LATEST."""

Positions = str | Mapping[str, Mapping[int, Position]]
"""EARLIEST or LATEST for all partitions, or positions by topic and partition."""

_SOURCE: Final = {
    "cluster": "cluster",
    "subscribe": "subscribe",
    "startingoffsets": "startingOffsets",
    "endingoffsets": "endingOffsets",
    "failondataloss": "failOnDataLoss",
    "includeheaders": "includeHeaders",
    "client.rack": "client.rack",
}
_SINK: Final = {
    "cluster": "cluster",
    "topic": "topic",
    "acks": "acks",
    "producer_id": "producer_id",
    "sequence": "sequence",
    "includeheaders": "includeHeaders",
    "checkpointlocation": "checkpointLocation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read.

    Attributes:
        cluster: The metadata root.
        topics: Names, sorted.
        starting: Where a new query, or a batch, begins.
        ending: Where a batch ends; not for streams.
        is_data_loss_failed: Missing offsets fail the query, else they are passed over.
        has_headers: Rows have the column `headers`.
        client_rack: Read from this rack's replicas first, or None.
        storage: Storage options.
    """

    cluster: str
    topics: tuple[str, ...]
    starting: Positions
    ending: Positions
    is_data_loss_failed: bool
    has_headers: bool
    client_rack: str | None
    storage: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where to write.

    Attributes:
        cluster: The metadata root.
        topic: The topic's name.
        acks: "all", "1" or "0".
        producer_id: For an idempotent batch write, or None.
        sequence: Its number, or None.
        storage: Storage options.
    """

    cluster: str
    topic: str
    acks: str
    producer_id: str | None
    sequence: int | None
    storage: Mapping[str, str] = field(repr=False)


def parse_source(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Return the checked options of a read.

    Raises:
        InvalidRequestError: One is missing, unknown or not allowed.
    """
    given = _known(options, _SOURCE)
    if is_stream and "endingoffsets" in given:
        raise InvalidRequestError("ending offset not valid in streaming queries")
    starting = parse_positions("startingOffsets", given.get("startingoffsets"))
    ending = parse_positions("endingOffsets", given.get("endingoffsets"))
    if not is_stream:
        _check_batch(starting, ending)
    return SourceOptions(
        cluster=_cluster(given),
        topics=_topics(given),
        starting=starting or (LATEST if is_stream else EARLIEST),
        ending=ending or LATEST,
        is_data_loss_failed=_flag(given, "failondataloss", default=True),
        has_headers=_flag(given, "includeheaders", default=False),
        client_rack=given.get("client.rack"),
        storage=_storage(options),
    )


def parse_sink(options: Mapping[str, str], *, is_stream: bool, has_topic: bool) -> SinkOptions:
    """Return the checked options of a write; `has_topic`: the rows have a topic column.

    Raises:
        InvalidRequestError: One is missing, unknown or not allowed.
    """
    given = _known(options, _SINK)
    if "topic" not in given:
        raise InvalidRequestError(
            "rows with a topic of their own can't be written in this version: use the topic"
            " option for setting a topic."
            if has_topic
            else "topic option required when no 'topic' attribute is present. Use the topic"
            " option for setting a topic."
        )
    if is_stream and {"producer_id", "sequence"} & given.keys():
        raise InvalidRequestError(
            "producer_id and sequence can't be set for a stream: its query id and batch number"
            " are used"
        )
    return SinkOptions(
        cluster=_cluster(given),
        topic=given["topic"],
        acks=check_acks(given.get("acks", "all")),
        producer_id=given.get("producer_id"),
        sequence=_whole_number(given, "sequence"),
        storage=_storage(options),
    )


def _known(options: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    given = {}
    for name, text in options.items():
        if name.lower().startswith(STORAGE_PREFIX):
            continue
        if name.lower() not in known:
            raise InvalidRequestError(unknown_name("option", name, list(known.values())))
        given[name.lower()] = text
    return given


def _storage(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name.lower().removeprefix(STORAGE_PREFIX): text
        for name, text in options.items()
        if name.lower().startswith(STORAGE_PREFIX)
    }


def _cluster(given: Mapping[str, str]) -> str:
    if not given.get("cluster"):
        raise InvalidRequestError(
            "Option 'cluster' must be specified: give the cluster's metadata root"
        )
    return given["cluster"]


def _topics(given: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" not in given:
        raise InvalidRequestError(
            "One of the following options must be specified for the source: subscribe. Give the"
            " topics' names, separated by commas."
        )
    topics = sorted({name.strip() for name in given["subscribe"].split(",")} - {""})
    if not topics:
        raise InvalidRequestError(
            "No topics to subscribe to as specified value for option 'subscribe' is"
            f" '{given['subscribe']}'"
        )
    return tuple(topics)


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidRequestError(f"option {_SOURCE[name]!r} can't be {text!r}: true or false")
    return text.lower() == "true"


def _whole_number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return int(given[name])
    except ValueError:
        raise InvalidRequestError(
            f"option {name!r} can't be {given[name]!r}: give a whole number from 0 on"
        ) from None


def parse_positions(option: str, text: str | None) -> Positions | None:
    """Return the positions of an option; None if it was not given.

    Raises:
        InvalidRequestError: It is neither earliest, latest nor positions as JSON.
    """
    if text is None:
        return None
    if text.strip().lower() in (EARLIEST, LATEST):
        return text.strip().lower()
    try:
        parsed = json.loads(text)
        return {
            topic: {int(number): _position(offset) for number, offset in partitions.items()}
            for topic, partitions in parsed.items()
            if not topic.startswith("$")
        }
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequestError(
            f'option {option!r}: Expected e.g. {{"topicA":{{"0":23,"1":-1}},'
            f'"topicB":{{"0":-2}}}}, got {text}'
        ) from None


def _position(offset: Any) -> Position:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
        raise ValueError(offset)
    return _WIRE.get(offset, offset)


def _check_batch(starting: Positions | None, ending: Positions | None) -> None:
    if starting == LATEST:
        raise InvalidRequestError("starting offset can't be latest for batch queries on Kafka")
    if ending == EARLIEST:
        raise InvalidRequestError("ending offset can't be earliest for batch queries on Kafka")
    for option, positions, wrong in (
        ("startingOffsets", starting, LATEST),
        ("endingOffsets", ending, EARLIEST),
    ):
        if positions is None or isinstance(positions, str):
            continue
        for topic, partitions in positions.items():
            for number, position in partitions.items():
                if position == wrong:
                    raise InvalidRequestError(
                        f"{option} for {topic}-{number} can't be {wrong} for batch queries on Kafka"
                    )
