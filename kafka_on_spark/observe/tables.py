"""Histories as DataFrames: of a partition, a topic, a broker, or the whole cluster."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from kafka_on_spark.base.visible import visible
from kafka_on_spark.observe.partition_history import BrokerEvent, HistoryEntry

if TYPE_CHECKING:
    from pandas import DataFrame

ISR_COLUMNS: Final = (
    "time", "topic", "partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr",
    "high_watermark", "cause", "metadata_offset",
)  # fmt: skip
LEADER_COLUMNS: Final = ("topic", "partition", "leader", "leader_epoch", "start", "end", "cause")
EVENT_COLUMNS: Final = ("time", "broker", "event", "cause", "metadata_offset")


def isr_history(entries: Iterable[HistoryEntry], *, broker: int | None = None) -> "DataFrame":
    """Return the changes of partitions (`Cluster.history(…)`), a row each, oldest first.

    `broker`: only entries with a replica on it. `leader` is missing while there is none.
    """
    changes = (each for each in entries if not (each.is_deletion or each.is_compaction))
    rows = (each for each in changes if broker is None or broker in each.replicas)
    return _frame(map(attrgetter(*ISR_COLUMNS), rows), ISR_COLUMNS)


def leader_timeline(
    entries: Iterable[HistoryEntry], *, end: datetime | None = None, broker: int | None = None
) -> "DataFrame":
    """Return leaderships, a row each, by partition and time; a time without a leader is a row, too.

    The last row of a partition ends at `end`, or at the newest entry. `broker`: only its rows.
    """
    entries = list(entries)
    end = end or max((entry.time for entry in entries), default=None)
    rows = []
    name_of = attrgetter("topic", "partition")
    for name, own in groupby(sorted(entries, key=name_of), name_of):
        terms = groupby(own, lambda each: (each.leader, each.leader_epoch, bool(each.replicas)))
        firsts = [next(term) for _, term in terms]
        for first, after in zip_longest(firsts, firsts[1:]):
            stop = end if after is None else after.time
            if first.replicas and broker in (None, first.leader):
                leader = (first.leader, first.leader_epoch)
                rows.append((*name, *leader, first.time, stop, first.cause))
    frame = _frame(rows, LEADER_COLUMNS)
    frame["seconds"] = (frame["end"] - frame["start"]).dt.total_seconds()
    return frame


def broker_timeline(events: Iterable[BrokerEvent], *, broker: int | None = None) -> "DataFrame":
    """Return the events of brokers (`Cluster.broker_history()`), a row each, oldest first."""
    rows = (
        (event.time, event.broker_id, event.name, event.cause, event.metadata_offset)
        for event in events
        if broker in (None, event.broker_id)
    )
    return _frame(rows, EVENT_COLUMNS)


def _frame(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> "DataFrame":
    frame = pd.DataFrame(list(rows), columns=list(columns))
    # A leader may be missing, and stays an integer.
    integers = {"leader", "broker"} & set(columns)
    times = {"time", "start", "end"} & set(columns)
    types = dict.fromkeys(integers, "Int64") | dict.fromkeys(times, "datetime64[ms, UTC]")
    frame = frame.astype(types)
    # Causes may contain paths and racks: control characters are escaped.
    for name in {"cause"} & set(columns):
        frame[name] = frame[name].map(visible, na_action="ignore")
    return frame
