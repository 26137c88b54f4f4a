"""What Kafka's tools take: names of topics and partitions, and files of them.

Most files are JSON: an object with a list. Other keys, such as `version` and `log_dirs`, may be
left out. The offsets of consumer groups are CSV. "-" reads standard input.
"""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import TopicPartition, whole_number
from kafka_on_spark.base.text import visible, without_doubles
from kafka_on_spark.cli.options import numbers
from kafka_on_spark.controller.reassignment import assignment_as_dict
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration

Assignment = Mapping[TopicPartition, Sequence[int]]
GroupOffsets = dict[str, dict[TopicPartition, int]]
"""Offsets by group and partition."""


def named_topics(
    image: MetadataImage, names: str | None, include: str | None, *, if_exist: bool = False
) -> list[str]:
    """Return the topics of a list with commas, or those whose whole name `include` matches.

    Without either, all; sorted. With `if_exist`, what is not there is left out. A name is never
    taken for an expression: "." in a name would match another topic (KAFKA-5596). "," in an
    expression means "or". Source: IncludeList.
    """
    known = ", ".join(sorted(image.topic_ids)[:10]) or "none"
    if names is not None and include is not None:
        raise InvalidRequestError("give one of --topic, --include")
    if names is not None:
        given = {each.strip() for each in names.split(",")}
        unknown = sorted(given - image.topic_ids.keys())
        if unknown and not if_exist:
            raise UnknownTopicOrPartitionError(
                f"there is no topic {unknown[0]!r} (known: {known}); a regular expression"
                " of names goes with --include"
            )
        return sorted(given.difference(unknown))
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
        raise UnknownTopicOrPartitionError(f"no topic matches {include!r} (known: {known})")
    return found


def all_partitions(image: MetadataImage, topics: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of `topics`, in order."""
    return [
        TopicPartition(name, number)
        for name in topics
        for number in sorted(image.topic(name).partitions)
    ]


def named_partitions(image: MetadataImage, text: str) -> list[TopicPartition]:
    """Return the partitions of a list such as "flights:0,flights:2-4,copies:3-,rest"; a range
    excludes its end. Source: kafka-get-offsets --topic-partitions."""
    found: list[TopicPartition] = []
    for part in text.split(","):
        match = re.fullmatch(r"([^:]+):?(\d*)(-?)(\d*)", part.strip())
        if match is None:
            raise InvalidRequestError(
                f"{part!r} names no partitions: give TOPIC, TOPIC:0, TOPIC:0-3 or TOPIC:2-"
            )
        name, low, dash, high = match.groups()
        start, count = int(low or 0), len(image.topic(name).partitions)
        end = start + 1 if low and not dash else int(high or count)
        partition_key(image, name, max(start, end - 1))
        found.extend(TopicPartition(name, number) for number in range(start, end))
    return found


def named_partitions_of(image: MetadataImage, given: Iterable[str]) -> list[TopicPartition]:
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


def read_assignment(path: str) -> dict[TopicPartition, list[int]]:
    """Return the replicas of partitions, from a reassignment file or the proposal of a plan."""

    def is_list(value: object) -> bool:
        return isinstance(value, list) and all(map(_is_number, value))

    what = 'has no replicas: give broker ids, as in "replicas": [1, 2, 3]'
    return _by_partition(path, "replicas", is_list, what)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Return one offset a partition, from the file of kafka-delete-records; -1: all records."""
    what = 'has no offset: give a whole number, as in "offset": 42, or -1 for all committed records'
    return _by_partition(path, "offset", _is_number, what)


def read_partitions(path: str) -> list[TopicPartition]:
    """Return partitions, from the file of kafka-leader-election."""
    return list(_by_partition(path, "partition", _is_number, ""))


def _by_partition(
    path: str, key: str, is_fine: Callable[[object], bool], what: str
) -> dict[TopicPartition, Any]:
    """Return the values of `key` by partition; `what` is wrong with one that is not fine."""
    found: dict[TopicPartition, Any] = {}
    for number, entry in enumerate(_entries(path, "partitions")):
        where = f"partitions[{number}] of {path}"
        topic, partition, value = entry.get("topic"), entry.get("partition"), entry.get(key)
        if not isinstance(topic, str) or not _is_number(partition) or partition < 0:
            raise InvalidRequestError(
                f'{where} names no partition: give {{"topic": "flights", "partition": 0}}'
            )
        name = TopicPartition(topic, partition)
        if name in found:
            raise InvalidRequestError(f"{where} names {name} again: name each partition once")
        if not is_fine(value):
            raise InvalidRequestError(f"{name} in {path} {what}")
        found[name] = value
    return found


def read_topics(path: str) -> list[str]:
    """Return topics, from the file of kafka-reassign-partitions --generate."""
    names = [entry.get("topic") for entry in _entries(path, "topics")]
    if not all(isinstance(each, str) for each in names):
        raise InvalidRequestError(
            f'{path} has an entry without a topic: give {{"topic": "flights"}}'
        )
    return list(dict.fromkeys(map(str, names)))


def _entries(path: str, key: str) -> list[dict[str, Any]]:
    try:
        content = json.loads(_text(path), object_pairs_hook=without_doubles)
    except ValueError as error:
        raise InvalidRequestError(f"{path} is not JSON: {error}") from None
    if isinstance(content, dict):
        content = content.get("proposed", content)
    content = content if isinstance(content, dict) else {}
    version, entries = content.get("version", 1), content.get(key)
    if version != 1:
        raise InvalidRequestError(f"{path} has version {version!r}: only 1 is known")
    if isinstance(entries, list) and entries and all(isinstance(each, dict) for each in entries):
        return entries
    raise InvalidRequestError(
        f'{path} has no list "{key}" of objects: give one with at least one entry'
    )


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} can't be read: {error}") from None


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int


def assignment_text(assignment: Assignment) -> str:
    """Return a reassignment file, in one line as Kafka's tool prints it."""
    return json.dumps(assignment_as_dict(assignment), separators=(",", ":"))


def read_group_offsets(path: str, group: str | None) -> GroupOffsets:
    """Return offsets by group, from a file of kafka-consumer-groups --reset-offsets --export: lines
    group,topic,partition,offset; for one `group` also topic,partition,offset. Source: CsvUtils."""
    found: GroupOffsets = {}
    shorter = "" if group is None else "topic,partition,offset, or "
    try:
        lines = list(csv.reader(_text(path).splitlines(), strict=True))
    except csv.Error as error:
        raise InvalidRequestError(f"{path} is no CSV: {error}") from None
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        where = f"line {number} of {path}"
        try:
            of, topic, *rest = [group or "", *fields] if group and len(fields) == 3 else fields
            partition, offset = map(whole_number, rest)
            if min(partition, offset) < 0:
                raise ValueError("a number below 0")
        except ValueError:
            raise InvalidRequestError(
                f"{where} can't be {','.join(fields)!r}: give {shorter}group,topic,partition,offset"
            ) from None
        name, of_group = TopicPartition(topic, partition), found.setdefault(of, {})
        if name in of_group:
            raise InvalidRequestError(f"{where} names {name} again: name each partition once")
        of_group[name] = offset
    if not found:
        raise InvalidRequestError(f"{path} has no offsets: give at least one line")
    return found


def write_group_offsets(offsets: GroupOffsets, *, with_group: bool) -> None:
    """Write offsets to standard output as `read_group_offsets` reads them; a terminal gets control
    characters escaped."""
    shown = visible if sys.stdout.isatty() else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for group, of_group in offsets.items():
        for name, offset in of_group.items():
            writer.writerow([*([shown(group)] if with_group else []), *name, offset])
