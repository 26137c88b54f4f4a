"""Reads, checks and writes the files of Kafka's tools.

Most are JSON: an object with a list. Other keys, such as `version` and `log_dirs`, may be left out.
The offsets of consumer groups are CSV. "-" reads standard input.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition, whole_number
from kafka_on_spark.stored_json import without_doubles
from kafka_on_spark.visible import visible

V = TypeVar("V")

Assignment = Mapping[TopicPartition, Sequence[int]]
GroupOffsets = dict[str, dict[TopicPartition, int]]
"""Offsets by group and partition."""

Named = dict[tuple[str, int], V]
"""Values by topic and partition, as a cluster's methods take them."""


def read_assignment(path: str) -> dict[TopicPartition, list[int]]:
    """Return the replicas of partitions, from a reassignment file or the proposal of a plan.

    Raises:
        InvalidRequestError: The file can't be read, or has another form; the sentence says where.
    """

    def replicas(entry: Mapping[str, Any], where: str) -> list[int]:
        found = entry.get("replicas")
        if not isinstance(found, list) or not all(map(_is_number, found)):
            raise InvalidRequestError(
                f'{where} has no replicas: give broker ids, as in "replicas": [1, 2, 3]'
            )
        return found

    return _by_partition(path, replicas)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Return one offset a partition, from the file of kafka-delete-records; -1 means all records.

    Raises:
        InvalidRequestError: As in `read_assignment`.
    """

    def offset(entry: Mapping[str, Any], where: str) -> int:
        found = entry.get("offset")
        if not _is_number(found):
            raise InvalidRequestError(
                f'{where} has no offset: give a whole number, as in "offset": 42, or -1 for all'
                " committed records"
            )
        return found

    return _by_partition(path, offset)


def read_partitions(path: str) -> list[TopicPartition]:
    """Return partitions, from the file of kafka-leader-election.

    Raises:
        InvalidRequestError: As in `read_assignment`.
    """
    return list(_by_partition(path, lambda entry, where: None))


def read_topics(path: str) -> list[str]:
    """Return topics, from the file of kafka-reassign-partitions --generate.

    Raises:
        InvalidRequestError: As in `read_assignment`.
    """
    names = []
    for number, entry in enumerate(_entries(path, "topics")):
        name = entry.get("topic") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise InvalidRequestError(
                f'topics[{number}] of {path} names no topic: give {{"topic": "flights"}}'
            )
        names.append(name)
    return list(dict.fromkeys(names))


def read_group_offsets(path: str, group: str | None) -> GroupOffsets:
    """Return offsets by group, from a file of kafka-consumer-groups --reset-offsets --export.

    A line is group,topic,partition,offset. For one `group` a line may be topic,partition,offset.
    Source: CsvUtils.

    Raises:
        InvalidRequestError: The file can't be read, or has another form; the sentence says where.
    """
    found: GroupOffsets = {}
    try:
        lines = list(csv.reader(_text(path).splitlines(), strict=True))
    except csv.Error as error:
        raise InvalidRequestError(f"{path} is no CSV: {error}") from None
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        where = f"line {number} of {path}"
        if len(fields) == 3 and group is not None:
            fields = [group, *fields]
        name, offset = _group_offset(fields, where, is_of_one=group is not None)
        of_group = found.setdefault(fields[0], {})
        if name in of_group:
            raise InvalidRequestError(f"{where} names {name} again: name each partition once")
        of_group[name] = offset
    if not found:
        raise InvalidRequestError(f"{path} has no offsets: give at least one line")
    return found


def _group_offset(
    fields: Sequence[str], where: str, *, is_of_one: bool
) -> tuple[TopicPartition, int]:
    try:
        _, topic, partition, offset = fields
        name, position = TopicPartition(topic, whole_number(partition)), whole_number(offset)
        if name.partition < 0 or position < 0:
            raise ValueError("a number below 0")
    except ValueError:
        shorter = "topic,partition,offset, or " if is_of_one else ""
        raise InvalidRequestError(
            f"{where} can't be {','.join(fields)!r}: give {shorter}group,topic,partition,offset"
        ) from None
    return name, position


def write_group_offsets(offsets: GroupOffsets, *, with_group: bool) -> None:
    """Write offsets to standard output as `read_group_offsets` reads them.

    A terminal gets them with control characters escaped: no program reads them there.
    """
    shown = visible if sys.stdout.isatty() else str
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for group, of_group in offsets.items():
        for name, offset in of_group.items():
            writer.writerow([*([shown(group)] if with_group else []), *name, offset])


def assignment_as_dict(assignment: Assignment) -> dict[str, Any]:
    """Return a reassignment file's content."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": name.topic,
                "partition": name.partition,
                "replicas": list(replicas),
                "log_dirs": ["any"] * len(replicas),
            }
            for name, replicas in sorted(assignment.items())
        ],
    }


def assignment_text(assignment: Assignment) -> str:
    """Return a reassignment file, in one line as Kafka's tool prints it."""
    return json.dumps(assignment_as_dict(assignment), separators=(",", ":"))


def named(values: Mapping[TopicPartition, V]) -> Named[V]:
    """Return `values` with the keys that a cluster's methods take."""
    return {name: value for name, value in values.items()}


def _by_partition(
    path: str, value_of: Callable[[Mapping[str, Any], str], V]
) -> dict[TopicPartition, V]:
    found: dict[TopicPartition, V] = {}
    for number, entry in enumerate(_entries(path, "partitions")):
        where = f"partitions[{number}] of {path}"
        topic = entry.get("topic") if isinstance(entry, dict) else None
        partition = entry.get("partition") if isinstance(entry, dict) else None
        if not isinstance(topic, str) or not _is_number(partition) or partition < 0:
            raise InvalidRequestError(
                f'{where} names no partition: give {{"topic": "flights", "partition": 0}}'
            )
        name = TopicPartition(topic, partition)
        if name in found:
            raise InvalidRequestError(f"{where} names {name} again: name each partition once")
        found[name] = value_of(entry, where)
    return found


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _entries(path: str, key: str) -> Iterable[Any]:
    content = _content(path)
    if isinstance(content, dict):
        content = content.get("proposed", content)
    version = content.get("version", 1) if isinstance(content, dict) else 1
    if version != 1:
        raise InvalidRequestError(f"{path} has version {version!r}: only 1 is known")
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InvalidRequestError(f'{path} has no list "{key}": give one with at least one entry')
    return entries


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} can't be read: {error}") from None


def _content(path: str) -> Any:
    try:
        return json.loads(_text(path), object_pairs_hook=without_doubles)
    except ValueError as error:
        raise InvalidRequestError(f"{path} is not JSON: {error}") from None
