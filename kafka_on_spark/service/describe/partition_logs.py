"""What was decided of partitions' logs (where they start, how far they are compacted, why and when)
beside what each replica's log is like: the two halves of a description of upkeep."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.compaction import Compaction
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.moments import EPOCH
from kafka_on_spark.service.describe.log_descriptions import DueUpkeep, LogDescription
from kafka_on_spark.service.describe.partition_history import HistoryEntry

APPLIED: Final = ("log start", "compact")
"""Kinds of work that apply a decision, so they are due since it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLogs:
    """One partition: what was decided of its logs, and each replica's log.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        log_start_offset: The first offset that is kept.
        log_start: What last moved it, with time, cause and by whom; None: nothing has.
        high_watermark: Where what is committed ends.
        compaction: How far its logs are to be compacted.
        compacted: What last changed that; None: nothing has.
        replicas: The logs of its replicas, by broker.
    """

    topic: str
    partition: int
    log_start_offset: Offset
    log_start: HistoryEntry | None
    high_watermark: Offset
    compaction: Compaction
    compacted: HistoryEntry | None
    replicas: tuple[LogDescription, ...]


def partition_logs(
    image: MetadataImage,
    keys: Iterable[PartitionKey],
    entries: Iterable[HistoryEntry],
    logs: Sequence[LogDescription],
) -> list[PartitionLogs]:
    """Return partitions with their replicas' `logs`. `entries`: the history of their topics, oldest
    first; of a topic that was deleted before, it may have another of the same name."""
    own = sorted((image.name_of(key), key) for key in keys)
    starts, decisions = _last_decisions(entries)
    found = []
    for name, key in own:
        partition = image.partition(key)
        if partition is None:
            continue
        log_start, compacted = starts.get(name), decisions.get(name)
        since = dict(zip(APPLIED, (log_start, compacted), strict=True))
        found.append(
            PartitionLogs(
                topic=name.topic,
                partition=name.partition,
                log_start_offset=partition.log_start_offset,
                log_start=log_start,
                high_watermark=partition.high_watermark,
                compaction=partition.compaction,
                compacted=compacted,
                replicas=tuple(
                    replace(log, due=tuple(_dated(each, since) for each in log.due))
                    for log in logs
                    if (log.topic, log.partition) == tuple(name)
                ),
            )
        )
    return found


_Last = dict[tuple[str, int], HistoryEntry]


def _last_decisions(entries: Iterable[HistoryEntry]) -> tuple[_Last, _Last]:
    """Return what last moved each partition's log start, and its compaction."""
    starts: _Last = {}
    decisions: _Last = {}
    before: _Last = {}
    for entry in entries:
        name = (entry.topic, entry.partition)
        was = before.get(name)
        if not entry.replicas:  # the partition is gone; one of this name is another
            for each in (before, starts, decisions):
                each.pop(name, None)
            continue
        if entry.log_start_offset != (0 if was is None else was.log_start_offset):
            starts[name] = entry
        if was is not None and entry.compaction != was.compaction:
            decisions[name] = entry
        before[name] = entry
    return starts, decisions


def _dated(due: DueUpkeep, since: Mapping[str, HistoryEntry | None]) -> DueUpkeep:
    """Return `due` with the time of the decision that it waits to apply."""
    entry = since.get(due.kind)
    if entry is None or due.since_ms is not None:
        return due
    return replace(due, since_ms=_ms(entry.time))


def _ms(time: datetime) -> int:
    return round((time - EPOCH).total_seconds() * 1000)
