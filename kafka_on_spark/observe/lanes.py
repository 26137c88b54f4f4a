"""A history as spans, for pictures: each replica's part over time."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch
from kafka_on_spark.observe.partition_history import HistoryEntry


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
    leader_epoch: LeaderEpoch | None = None
    is_in_sync: bool = False

    def is_alike(self, other: "Span") -> bool:
        """Return whether the replica's part is the same in both."""
        return (self.leader_epoch, self.is_in_sync) == (other.leader_epoch, other.is_in_sync)


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition: the spans of each of its replicas, and the times without a leader."""

    topic: str
    partition: int
    spans: dict[BrokerId, list[Span]] = field(default_factory=dict)
    leaderless: list[Span] = field(default_factory=list)


def lanes_of(entries: Iterable[HistoryEntry], end: datetime) -> list[Lane]:
    """Return the lanes that `entries`, oldest first, make until `end`."""
    by_partition: dict[tuple[str, int], list[HistoryEntry]] = {}
    for entry in entries:
        by_partition.setdefault((entry.topic, entry.partition), []).append(entry)
    lanes = []
    for name, own in sorted(by_partition.items()):
        brokers = sorted({broker_id for entry in own for broker_id in entry.replicas})
        lane = Lane(*name, {broker_id: [] for broker_id in brokers})
        for entry, until in zip(own, [*(each.time for each in own[1:]), end], strict=True):
            if entry.leader is None and entry.replicas:
                _extend(lane.leaderless, Span(entry.time, until))
            for broker_id in entry.replicas:
                epoch = entry.leader_epoch if entry.leader == broker_id else None
                span = Span(entry.time, until, epoch, broker_id in entry.isr)
                _extend(lane.spans[broker_id], span)
        lanes.append(lane)
    return lanes


def _extend(spans: list[Span], new: Span) -> None:
    """Add a span, joined with the one before if nothing changed."""
    last = spans[-1] if spans else None
    if last is not None and last.end == new.start and last.is_alike(new):
        spans[-1] = replace(last, end=new.end)
    else:
        spans.append(new)
