"""A builder of history entries, so that one is a line: "at 12 s, broker 2 leads, 2 and 3 in sync"."""

from datetime import UTC, datetime, timedelta

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from kafka_on_spark.observe.history import HistoryEntry
from tests.builders import brokers

BEGIN = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def entry(
    seconds: float,
    leader: int | None,
    epoch: int,
    isr: str,
    cause: str = "because",
    *,
    partition: int = 0,
    replicas: str = "1 2 3",
) -> HistoryEntry:
    return HistoryEntry(
        time=at(seconds),
        topic="orders",
        partition=partition,
        leader=None if leader is None else BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(0),
        isr=brokers(isr),
        replicas=brokers(replicas),
        high_watermark=Offset(0),
        cause=cause,
        metadata_offset=Offset(0),
    )


LOSS_AND_RETURN = [
    entry(0, 1, 0, "1 2 3", "created"),
    entry(10, 2, 1, "2 3", "broker 1: probe failed"),
    entry(20, 2, 1, "1 2 3", "broker 1: caught up"),
    entry(21, 1, 2, "1 2 3", "preferred leader"),
]
