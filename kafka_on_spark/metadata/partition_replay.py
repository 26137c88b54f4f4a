"""Replays the records of partitions: registrations, changes of them, and high watermarks.

Apart from `image`, which replays the rest: a partition is replayed in its topic's map, the changes
of many at once, and an inspection's high watermark only while nothing has changed since.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    PartitionRecord,
    RemovePartitionRecord,
)


def put_partition(draft: Any, record: PartitionRecord) -> None:
    """A partition is created, unless its topic is gone."""
    partitions = draft.partitions(record.topic_id)
    if partitions is not None:
        partitions.put(record.partition, record.registration)


def change_partitions(draft: Any, run: Iterable[Any]) -> None:
    """Partitions change: records in a row, those of one topic together."""
    for topic_id, records in groupby(run, attrgetter("topic_id")):
        if (partitions := draft.partitions(topic_id)) is not None:
            partitions.merge([(each.partition, each.change) for each in records])


def remove_partition(draft: Any, record: RemovePartitionRecord) -> None:
    """A partition goes, and with it the positions that groups have saved in it."""
    partitions = draft.partitions(record.topic_id)
    if partitions is None or partitions.remove(record.partition) is None:
        return
    topics = draft.map("topics")
    topics[record.topic_id] = replace(topics[record.topic_id], first_partition_count=0)
    groups = draft.map("groups")
    for place in [each for each in groups if each[1] == record.key]:
        del groups[place]


def raise_high_watermark(draft: Any, record: HighWatermarkRecord) -> None:
    """An inspection says how far a partition is committed, and how long its log is."""
    partitions = draft.partitions(record.topic_id)
    partition = None if partitions is None else partitions.get(record.partition)
    if partitions is None or partition is None or not is_current(record, partition):
        return
    changed: dict[str, Any] = {"log_end_offset": record.log_end_offset}
    if record.high_watermark is not None and record.high_watermark > partition.high_watermark:
        changed["high_watermark"] = record.high_watermark
        changed["high_watermark_epoch"] = record.high_watermark_epoch
        changed["high_watermark_chain"] = record.high_watermark_chain
    if record.log_start_offset is not None:
        changed["log_start_offset"] = max(record.log_start_offset, partition.log_start_offset)
    partitions.put(record.partition, replace(partition, **changed))


def is_current(record: HighWatermarkRecord, partition: PartitionRegistration) -> bool:
    """Return whether nothing changed in `partition` since the record's author inspected it."""
    return (
        record.leader_epoch == partition.leader_epoch
        and record.partition_epoch == partition.partition_epoch
    )
