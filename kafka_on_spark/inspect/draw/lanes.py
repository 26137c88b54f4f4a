"""A history as spans, for pictures: each replica's part over time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafka_on_spark.ids import BrokerId, LeaderEpoch
from kafka_on_spark.service.describe.partition_history import HistoryEntry


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a replica's part did not change.

    Attributes:
        start: The first moment.
        end: The moment after it.
        leader_epoch: The replica's leader epoch, if it led; None for a follower.
        is_in_sync: The replica was in the ISR.
    """

    start: datetime
    end: datetime
    leader_epoch: LeaderEpoch | None
    is_in_sync: bool


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition.

    Attributes:
        topic: Its topic.
        partition: Its number.
        spans: Of each of its replicas, brokers in ascending order.
        leaderless: Times without a leader.
    """

    topic: str
    partition: int
    spans: dict[BrokerId, list[Span]]
    leaderless: tuple[tuple[datetime, datetime], ...] = ()

    def of_broker(self, broker_id: BrokerId) -> "Lane":
        """Return the lane with one broker's spans only."""
        return replace(self, spans={broker_id: self.spans[broker_id]})


def lanes_of(entries: Iterable[HistoryEntry], end: datetime) -> list[Lane]:
    """Return the lanes that `entries`, oldest first, make until `end`."""
    by_partition: dict[tuple[str, int], list[HistoryEntry]] = {}
    for entry in entries:
        by_partition.setdefault((entry.topic, entry.partition), []).append(entry)
    return [
        Lane(*name, _spans(by_partition[name], end), _leaderless(by_partition[name], end))
        for name in sorted(by_partition)
    ]


def _leaderless(
    entries: Sequence[HistoryEntry], end: datetime
) -> tuple[tuple[datetime, datetime], ...]:
    found: list[tuple[datetime, datetime]] = []
    ends = [*(entry.time for entry in entries[1:]), end]
    for entry, until in zip(entries, ends, strict=True):
        if entry.leader is not None or not entry.replicas:
            continue
        if found and found[-1][1] == entry.time:
            found[-1] = (found[-1][0], until)
        else:
            found.append((entry.time, until))
    return tuple(found)


def _spans(entries: Sequence[HistoryEntry], end: datetime) -> dict[BrokerId, list[Span]]:
    brokers = sorted({broker_id for entry in entries for broker_id in entry.replicas})
    spans: dict[BrokerId, list[Span]] = {broker_id: [] for broker_id in brokers}
    ends = [*(entry.time for entry in entries[1:]), end]
    for entry, until in zip(entries, ends, strict=True):
        for broker_id in entry.replicas:
            epoch = entry.leader_epoch if entry.leader == broker_id else None
            _extend(spans[broker_id], Span(entry.time, until, epoch, broker_id in entry.isr))
    return spans


def _extend(spans: list[Span], new: Span) -> None:
    """Add a span, joined with the one before if nothing changed."""
    if spans:
        last = spans[-1]
        if last.end == new.start and replace(last, start=new.start, end=new.end) == new:
            spans[-1] = replace(last, end=new.end)
            return
    spans.append(new)
