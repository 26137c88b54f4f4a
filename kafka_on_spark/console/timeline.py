"""The timeline as plain values: decisions, what each replica was over time, moments to go back to.

The history of a cluster is extended by what was committed since, and never made anew: it is as long
as the log.
"""

import threading
from array import array
from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from kafka_on_spark.base.ids import time_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.observe.history import (
    BrokerEvent,
    HistoryEntry,
    Lane,
    broker_history,
    lanes_of,
    partition_history,
)
from kafka_on_spark.observe.metadata_as_of import kept_history

DECISIONS_MAX: Final = 1000
MOMENTS_MAX: Final = 5000
LANES_MAX: Final = 40

View = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What has happened up to a metadata offset, oldest first, and the image that it has led to;
    `ends` are the metadata offsets behind each decision."""

    entries: list[HistoryEntry]
    events: list[BrokerEvent]
    ends: "array[int]"
    image: MetadataImage

    def end_behind(self, change: HistoryEntry | BrokerEvent) -> int:
        """Return the metadata offset behind the decision that a change is a part of."""
        return self.ends[bisect_right(self.ends, change.metadata_offset)]


class Histories:
    """The history of all partitions and brokers, up to the newest image. Threads may share it."""

    def __init__(self, metadata: MetadataService) -> None:
        self._metadata = metadata
        self._lock = threading.Lock()
        self._known = History(entries=[], events=[], ends=array("q"), image=MetadataImage())

    def read(self) -> History:
        """Return the history up to the newest image that this process knows."""
        with self._lock:
            known, end = self._known, self._metadata.image.offset
            if known.image.offset == 0:
                before, batches = kept_history(self._metadata)
                known = replace(known, image=before)
            else:
                batches = self._metadata.log.read(from_offset=known.image.offset, to_offset=end)
            if batches:
                self._known = History(
                    entries=known.entries + partition_history(batches, after=known.image),
                    events=known.events + broker_history(batches),
                    ends=known.ends + array("q", (each.end_offset for each in batches)),
                    image=known.image.replay(*batches),
                )
            return self._known


def timeline_view(
    history: History,
    *,
    topic: str | None,
    partition: int | None,
    now_ms: int,
) -> View:
    """Return the newest decisions on some partitions (None: on all), and the lanes of the
    partitions that they were on; `now_ms` is where those end."""
    chosen = [
        each
        for each in history.entries
        if (topic is None or each.topic == topic)
        and (partition is None or each.partition == partition)
        and not (each.is_compaction or each.is_deletion)
    ]
    newest = chosen[-DECISIONS_MAX:]
    # The partitions that changed last; a lane needs the whole history of its partition.
    names = list(dict.fromkeys((each.topic, each.partition) for each in reversed(newest)))
    drawn = set(names[:LANES_MAX])
    lanes = lanes_of((e for e in chosen if (e.topic, e.partition) in drawn), time_of(now_ms))
    return {
        "endMs": now_ms,
        "lanes": [_lane(each) for each in lanes],
        "laneCount": len({(each.topic, each.partition) for each in chosen}),
        "decisions": [_decision(history, each) for each in reversed(newest)],
        "decisionCount": len(chosen),
        "brokers": [_event(history, each) for each in reversed(history.events[-DECISIONS_MAX:])],
    }


def _decision(history: History, entry: HistoryEntry) -> list[Any]:
    return [
        _ms(entry.time),
        f"{entry.topic}-{entry.partition}",
        entry.leader,
        entry.leader_epoch,
        entry.isr,
        entry.cause,
        entry.by,
        history.end_behind(entry),
    ]


def _event(history: History, event: BrokerEvent) -> list[Any]:
    return [
        _ms(event.time),
        event.broker_id,
        event.name,
        event.cause,
        history.end_behind(event),
    ]


def _lane(lane: Lane) -> View:
    return {
        "name": f"{lane.topic}-{lane.partition}",
        "replicas": [
            [
                broker_id,
                [
                    [_ms(span.start), _ms(span.end), span.leader_epoch, span.is_in_sync]
                    for span in spans
                ],
            ]
            for broker_id, spans in lane.spans.items()
        ],
        "leaderless": [[_ms(each.start), _ms(each.end)] for each in lane.leaderless],
    }


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def moments_view(history: History) -> View:
    """Return the newest moments after which something was different: the offset behind the
    decision, its time, and why it was made; and how many older ones are left out.

    Compaction and the deletion of records are none: they are many, and change nobody's role.
    """
    told: dict[int, tuple[int, str | None]] = {}
    changes: list[HistoryEntry | BrokerEvent] = [
        each for each in history.entries if not (each.is_compaction or each.is_deletion)
    ]
    changes += history.events
    for each in sorted(changes, key=lambda each: each.metadata_offset):
        told.setdefault(history.end_behind(each), (_ms(each.time), each.cause))
    moments = [[end, *rest] for end, rest in told.items()]
    kept = moments[-MOMENTS_MAX:]
    return {"moments": kept, "olderCount": len(moments) - len(kept)}
