"""What Kafka's tools take: names of topics and partitions, and JSON files of them.

A file is an object with a list. Other keys, such as `version` and `log_dirs`, may be left out. "-"
reads standard input.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import TopicPartition
from kafka_on_spark.base.text import without_doubles
from kafka_on_spark.cli.options import numbers
from kafka_on_spark.controller.reassignment import assignment_as_dict
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration


def named_topics(
    image: MetadataImage, names: str | None, include: str | None, *, if_exist: bool = False
) -> list[str]:
    """Return the topics of a list with commas, or those whose whole name `include` matches.

    Without either, all; sorted. With `if_exist`, what is not there is left out. A name is never
    taken for an expression: "." in a name would match another topic (KAFKA-5596). "," in an
    expression means "or". Source: IncludeList.
    """
    if names is not None and include is not None:
        raise InvalidRequestError("give one of --topic, --include")
    if names is not None:
        given = sorted({each.strip() for each in names.split(",")})
        return [image.topic(each).name for each in given if each in image.topic_ids or not if_exist]
    if include is None:
        return sorted(image.topic_ids)
    try:
        expression = re.compile("|".join(part.strip() for part in include.split(",")))
    except re.error as error:
        raise InvalidRequestError(
            f"--include can't be {include!r}, which is not a regular expression ({error}): give one"
            " such as 'flights.*'"
        ) from None
    found = sorted(name for name in image.topic_ids if expression.fullmatch(name))
    if not found and not if_exist:
        raise UnknownTopicOrPartitionError(f"no topic matches {include!r}: topics --list shows all")
    return found


def all_partitions(image: MetadataImage, topics: Iterable[str]) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name in topics
        for number in sorted(image.topic(name).partitions)
    ]


def named_partitions(image: MetadataImage, given: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of topics given as "flights" or "flights:0,1", each once, in order."""
    found = set()
    for text in given:
        name, colon, wanted = text.partition(":")
        chosen = numbers(wanted, "--topic") if colon else sorted(image.topic(name).partitions)
        for number in chosen:
            partition_key(image, name, number)
            found.add(TopicPartition(name, number))
    return sorted(found)


def registered(image: MetadataImage, name: TopicPartition) -> PartitionRegistration:
    return image.topics[partition_key(image, *name).topic_id].partitions[name.partition]


def read_partitions(path: str, key: str, example: object) -> dict[TopicPartition, Any]:
    """Return the values of `key` by partition, from a file of a list of them; each is like
    `example`."""
    found: dict[TopicPartition, Any] = {}
    for entry in _entries(path, "partitions", {"topic": "flights", "partition": 0, key: example}):
        name = TopicPartition(entry["topic"], entry["partition"])
        if name in found:
            raise InvalidRequestError(f"{path} names {name} again: name each partition once")
        found[name] = entry[key]
    return found


def read_topics(path: str) -> list[str]:
    """Return topics, from the file of kafka-reassign-partitions --generate."""
    entries = _entries(path, "topics", {"topic": "flights"})
    return list(dict.fromkeys(entry["topic"] for entry in entries))


def _entries(path: str, key: str, example: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a file's list, which have what the example has."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        content = json.loads(text, object_pairs_hook=without_doubles)
    except (OSError, ValueError) as error:
        raise InvalidRequestError(f"{path} can't be read as JSON: {error}") from None
    if isinstance(content, dict):
        content = content.get("proposed", content)
    is_known = isinstance(content, dict) and content.get("version", 1) == 1
    entries = content.get(key) if is_known else None
    if not isinstance(entries, list) or not entries:
        wanted = json.dumps({"version": 1, key: [example]})
        raise InvalidRequestError(f'{path} has no list "{key}" of version 1: give {wanted}')
    for number, entry in enumerate(entries):
        if not (
            isinstance(entry, dict)
            and all(_is_like(entry.get(name), each) for name, each in example.items())
        ):
            raise InvalidRequestError(
                f"{key}[{number}] of {path} can't be {json.dumps(entry)}: give an object such as"
                f" {json.dumps(example)}"
            )
    return entries


def _is_like(value: object, example: object) -> bool:
    """Return whether a value is of the example's type; a list may have other numbers."""
    if isinstance(value, list):
        return isinstance(example, list) and all(type(each) is int for each in value)
    return type(value) is type(example)


def assignment_text(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a reassignment file, in one line as Kafka's tool prints it."""
    return json.dumps(assignment_as_dict(assignment), separators=(",", ":"))
