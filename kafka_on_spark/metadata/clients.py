"""Replays the records of clients: producers' runs and groups' positions."""

import re
from typing import Any, Final

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.metadata.partition import GroupOffset
from kafka_on_spark.metadata.records import (
    OffsetCommitRecord,
    ProducerRecord,
    RemoveProducerRecord,
)

_OF_ONE_RUN: Final = re.compile("producer-[0-9a-f]{32}")


def id_of_one_run(uuid: str) -> str:
    """Return the producer id of a run that nobody else takes over: it ends with its process."""
    return f"producer-{uuid}"


def may_come_back(producer_id: str) -> bool:
    """Return whether another run may use the id: a query, or somebody, has given it a meaning."""
    return _OF_ONE_RUN.fullmatch(producer_id) is None


def producer(draft: Any, record: ProducerRecord) -> None:
    """A run begins, or goes on."""
    if record.producer_id in draft.seen("expired_producers"):
        del draft.map("expired_producers")[record.producer_id]
    draft.map("producers")[record.producer_id] = record.producer_epoch
    if record.first_sequence is not None:
        draft.map("first_sequences")[record.producer_id] = record.first_sequence
    heard_at_ms = _heard_at_ms(draft, record.renewed_at_ms)
    draft.map("producer_times")[record.producer_id] = heard_at_ms


def remove_producer(draft: Any, record: RemoveProducerRecord) -> None:
    """An id has expired. One that comes back begins above every epoch that has, and nobody knows
    what stands of it, until somebody vouches: so it is remembered."""
    draft.map("producers").pop(record.producer_id, None)
    draft.map("producer_times").pop(record.producer_id, None)
    if record.producer_id in draft.seen("first_sequences"):
        del draft.map("first_sequences")[record.producer_id]
    if record.producer_id and may_come_back(record.producer_id):
        draft.map("expired_producers")[record.producer_id] = record.producer_epoch
    draft.expired_epoch = max(draft.expired_epoch, record.producer_epoch)


def offset_commit(draft: Any, record: OffsetCommitRecord) -> None:
    """A group saves a position, or loses it."""
    place = (record.group, PartitionKey(record.topic_id, record.partition))
    if record.offset is None:
        draft.map("groups").pop(place, None)
    elif record.topic_id in draft.seen("topics"):
        draft.map("groups")[place] = GroupOffset(
            offset=record.offset,
            leader_epoch=record.leader_epoch,
            unclean_generation=record.unclean_generation or 0,
            saved_at_ms=_heard_at_ms(draft, record.renewed_at_ms),
        )


def _heard_at_ms(draft: Any, given_ms: int | None) -> int:
    """Return from when on a client is silent that a batch tells of: the batch's time, which is not
    by the clock of its process alone (`stamp_ms`). `given_ms`: as a snapshot says, or a reset of
    the time.
    """
    return draft.time_ms if given_ms is None else given_ms
