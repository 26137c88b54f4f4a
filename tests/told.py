"""What clients were told before a machine stopped, and what of it does not hold afterwards (H1, I3).

Records are read from replicas' tables with json and pyarrow alone, by no reader of the product: a
fault of a decoder would hide itself.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Place = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(slots=True)
class Promises:
    """What clients were told.

    Attributes:
        is_created: The cluster was.
        topics: Topics that were created, and that nobody began to delete.
        brokers: Brokers that were registered.
        records: The values of acknowledged records, but of deleted ones.
    """

    is_created: bool = False
    topics: set[str] = field(default_factory=set)
    brokers: set[int] = field(default_factory=set)
    records: dict[Place, str] = field(default_factory=dict)

    def broken(self, topics: Collection[str], brokers: Collection[int]) -> Iterator[str]:
        """Yield the topics and brokers that are not there, in words."""
        for name in sorted(self.topics - set(topics)):
            yield f"I3: the topic {name} is lost"
        for broker_id in sorted(self.brokers - set(brokers)):
            yield f"I3: the broker {broker_id} is lost"

    def lost(self, found: Mapping[Place, str]) -> list[Place]:
        """Return the records that are not at their places, of those that a client read."""
        return sorted(at for at, value in self.records.items() if found.get(at) != value)

    def on_no_root(self, roots: Path, topic_ids: Mapping[str, str]) -> list[Place]:
        """Return the records that no replica's table has, of all below `roots`."""
        held = defaultdict[Place, set[str]](set)
        for topic, partition, _, records in replicas_below(roots, topic_ids):
            for offset, value in records.items():
                held[topic, partition, offset].add(value)
        return sorted(at for at, value in self.records.items() if value not in held[at])


def replicas_below(
    roots: Path, topic_ids: Mapping[str, str]
) -> Iterator[tuple[str, int, str, dict[int, str]]]:
    """Yield topic, partition, replica uuid and records by offset of each replica's table of some
    topics."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    for log in sorted(roots.glob("**/_delta_log")):
        configuration, records = read_table(log.parent)
        topic = names.get(configuration.get("kos.topic.id", ""))
        if topic is not None:
            number, uuid = int(configuration["kos.partition"]), configuration["kos.replica.uuid"]
            yield topic, number, uuid, records


def read_table(folder: Path) -> tuple[dict[str, str], dict[int, str]]:
    """Return the configuration of a replica's table, and its records by offset; none where a file
    can't be read, or if it is another table."""
    configuration: dict[str, str] = {}
    files: dict[str, int] = {}
    for action in actions(folder / "_delta_log"):
        if action.get("metaData"):
            configuration = dict(action["metaData"]["configuration"])
        if action.get("remove"):
            files.pop(action["remove"]["path"], None)
        if action.get("add"):
            values = dict(action["add"]["partitionValues"])
            files[action["add"]["path"]] = int(values.get("base_offset") or 0)
    records = dict[int, str]()
    for path, base in files.items() if "kos.topic.id" in configuration else ():
        with suppress(OSError, ValueError):
            columns = ["offset_delta", "value"]
            rows = pq.read_table(folder / path, columns=columns, partitioning=None).to_pylist()
            records |= {base + r["offset_delta"]: (r["value"] or b"").decode() for r in rows}
    return configuration, records


def actions(log: Path) -> Iterator[dict[str, Any]]:
    """Yield what the newest checkpoint that can be read says, and the commits after it."""
    first = 0
    for checkpoint in sorted(log.glob("*.checkpoint.parquet"), reverse=True):
        with suppress(OSError, ValueError):
            yield from pq.read_table(checkpoint).to_pylist()
            first = int(checkpoint.name[:20]) + 1
            break
    for commit in sorted(log.glob("*.json")):
        if commit.stem.isdecimal() and int(commit.stem) >= first:
            try:
                yield from map(json.loads, commit.read_text().splitlines())
            except ValueError:  # it has lost its bytes, and the log ends
                return
