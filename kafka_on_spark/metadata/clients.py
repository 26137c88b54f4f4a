"""Replays the records of clients: producers' runs and groups' positions."""

from typing import Any

from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.partition import GroupOffset
from kafka_on_spark.metadata.records import (
    OffsetCommitRecord,
    ProducerRecord,
    RemoveProducerRecord,
)


def producer(draft: Any, record: ProducerRecord) -> None:
    """A run begins, or goes on."""
    draft.map("producers")[record.producer_id] = record.producer_epoch
    at_ms = draft.time_ms if record.renewed_at_ms is None else record.renewed_at_ms
    draft.map("producer_times")[record.producer_id] = at_ms


def remove_producer(draft: Any, record: RemoveProducerRecord) -> None:
    """An id has expired. One that comes back begins above every epoch that has."""
    draft.map("producers").pop(record.producer_id, None)
    draft.map("producer_times").pop(record.producer_id, None)
    draft.expired_epoch = max(draft.expired_epoch, record.producer_epoch)


def offset_commit(draft: Any, record: OffsetCommitRecord) -> None:
    """A group saves a position, or loses it."""
    place = (record.group, PartitionKey(record.topic_id, record.partition))
    if record.offset is None:
        draft.map("groups").pop(place, None)
    elif record.topic_id in draft.map("topics"):
        draft.map("groups")[place] = GroupOffset(
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            unclean_generation=record.unclean_generation or 0,
            saved_at_ms=draft.time_ms if record.renewed_at_ms is None else record.renewed_at_ms,
        )
