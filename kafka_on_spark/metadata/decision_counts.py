"""Counts what a process commits to the metadata log, and what it replays of all decisions."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kafka_on_spark.base.errors import CommitConflictError, CommitOutcomeUnknownError
from kafka_on_spark.base.ids import KEEP, BrokerId, PartitionKey
from kafka_on_spark.base.metric import (
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    CONFLICT,
    ELECTIONS,
    FAILED,
    ISR_EXPANDS,
    ISR_SHRINKS,
    MESSAGES_IN,
    UNCLEAN_ELECTIONS,
    UNKNOWN,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
)
from kafka_on_spark.store.counts import Counts


@contextmanager
def counted_commit(counts: Counts) -> Iterator[None]:
    """Count and time the commit that the block makes, by its outcome."""
    outcome = UNKNOWN
    try:
        with counts.timed(COMMIT_MS):
            yield
        outcome = COMMITTED
    except Exception as error:
        outcome = _outcome_of(error)
        raise
    finally:
        counts.count(COMMITS, outcome=outcome)


def _outcome_of(error: Exception) -> str:
    if isinstance(error, CommitConflictError):
        return CONFLICT
    return UNKNOWN if isinstance(error, CommitOutcomeUnknownError) else FAILED


_Standing = tuple[frozenset[BrokerId], BrokerId | None]
"""A partition's ISR and its leader."""


def count_decisions(
    counts: Counts,
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    after: MetadataImage,
) -> None:
    """Count what batches decided of partitions, which lead from one image to another."""
    raised: set[PartitionKey] = set()
    standings: dict[PartitionKey, _Standing] = {}
    for batch in batches:
        for record in batch.records:
            if isinstance(record, HighWatermarkRecord):
                raised.add(record.key)
            elif isinstance(record, PartitionRecord):
                standings[record.key] = (record.registration.isr, record.registration.leader)
            elif isinstance(record, PartitionChangeRecord):
                _count_change(counts, before, standings, record)
    for key in raised:
        _count_committed(counts, key, before.partition(key), after)


def _count_committed(
    counts: Counts, key: PartitionKey, then: PartitionRegistration | None, after: MetadataImage
) -> None:
    now = after.partition(key)
    if now is None:
        return
    more = now.high_watermark - (0 if then is None else then.high_watermark)
    if more > 0:
        counts.count(MESSAGES_IN, more, topic=after.topics[key.topic_id].name)


def _count_change(
    counts: Counts,
    before: MetadataImage,
    standings: dict[PartitionKey, _Standing],
    record: PartitionChangeRecord,
) -> None:
    change = record.change
    if change.isr is KEEP and change.leader is KEEP:
        return
    standing = standings.get(record.key)
    if standing is None:
        known = before.partition(record.key)
        if known is None:
            return
        standing = (known.isr, known.leader)
    isr = standing[0] if change.isr is KEEP else change.isr
    leader = standing[1] if change.leader is KEEP else change.leader
    standings[record.key] = (isr, leader)
    if standing[0] - isr:
        counts.count(ISR_SHRINKS)
    if isr - standing[0]:
        counts.count(ISR_EXPANDS)
    if leader is not None and leader != standing[1]:
        counts.count(ELECTIONS)
        if change.unclean_generation is not KEEP:
            counts.count(UNCLEAN_ELECTIONS)
