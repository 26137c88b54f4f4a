"""The JSON files of Kafka's tools, read and checked, and written.

Each is an object with a list; what else stands in it, such as `version` and `log_dirs`, may be left
out. "-" reads standard input.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import TopicPartition

V = TypeVar("V")

Assignment = Mapping[TopicPartition, Sequence[int]]
Named = dict[tuple[str, int], V]
"""By topic and number, as a cluster's methods take partitions."""


def read_assignment(path: str) -> dict[TopicPartition, list[int]]:
    """Return the replicas of partitions, from a reassignment file, or the proposal of a plan.

    Raises:
        InvalidRequestError: It can't be read, or is not such a file; the sentence says where.
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
    """Return an offset a partition, from the file of kafka-delete-records; -1 is all of it.

    Raises:
        InvalidRequestError: As in `read_assignment`.
    """

    def offset(entry: Mapping[str, Any], where: str) -> int:
        found = entry.get("offset")
        if not _is_number(found):
            raise InvalidRequestError(
                f'{where} has no offset: give a whole number, as in "offset": 42, or -1 for all'
                " that is committed"
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
    """Return `values` by what a cluster's methods take for a partition."""
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
        raise InvalidRequestError(f'{path} has no list "{key}": give one with an entry at least')
    return entries


def _content(path: str) -> Any:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path} can't be read: {error}") from None
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequestError(f"{path} is no JSON: {error}") from None
