"""Histories as DataFrames: of a partition, a topic, a broker, or the whole cluster."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.draw.lanes import Lane, lanes_of
from kafka_on_spark.inspect.report import broker_list, event_name, text_table
from kafka_on_spark.service.describe.partition_history import BrokerEvent, HistoryEntry
from kafka_on_spark.service.describe.upkeep_history import UpkeepHistory
from kafka_on_spark.visible import visible

if TYPE_CHECKING:
    from pandas import DataFrame

ISR_COLUMNS: Final = (
    "time", "topic", "partition", "leader", "leader_epoch", "partition_epoch", "replicas", "isr",
    "in_sync", "high_watermark", "cause", "metadata_offset",
)  # fmt: skip
LEADER_COLUMNS: Final = (
    "topic", "partition", "leader", "leader_epoch", "start", "end", "seconds", "cause",
)  # fmt: skip
REPLICA_COLUMNS: Final = ("topic", "partition", "broker", "part", "start", "end", "seconds")
ROWS_PRINTED_MAX: Final = 1000
EVENT_COLUMNS: Final = ("time", "broker", "event", "cause", "metadata_offset")

UPKEEP_COUNTS: Final = (
    "files_before", "files_after", "bytes_before", "bytes_after", "records_before", "records_after",
)  # fmt: skip
UPKEEP_COLUMNS: Final = (
    "time", "topic", "partition", "broker", "work", "start_offset", "end_offset", *UPKEEP_COUNTS,
    "cause", "by",
)  # fmt: skip


def isr_history(entries: Iterable[HistoryEntry], *, broker: int | None = None) -> "DataFrame":
    """Return the changes of partitions, a row each, oldest first.

    `entries` is `Cluster.history(…)`. `broker`: only entries with a replica on it.
    `leader` is missing while there is none; `in_sync` is the size of the ISR.
    """
    rows = [
        {
            "time": entry.time,
            "topic": entry.topic,
            "partition": entry.partition,
            "leader": entry.leader,
            "leader_epoch": entry.leader_epoch,
            "partition_epoch": entry.partition_epoch,
            "replicas": entry.replicas,
            "isr": entry.isr,
            "in_sync": len(entry.isr),
            "high_watermark": entry.high_watermark,
            "cause": _visible(entry.cause),
            "metadata_offset": entry.metadata_offset,
        }
        for entry in entries
        if not (entry.is_deletion or entry.is_compaction)
        and (broker is None or broker in entry.replicas)
    ]
    return _frame(rows, ISR_COLUMNS)


def leader_timeline(
    entries: Sequence[HistoryEntry], *, end: datetime | None = None, broker: int | None = None
) -> "DataFrame":
    """Return leaderships, a row each, by partition and time; a time without a leader is a row, too.

    The last row of a partition ends at `end`, or at the newest entry. `broker`: only its rows.
    """
    end = end or max((entry.time for entry in entries), default=None)
    rows: list[dict[str, Any]] = []
    for own in _by_partition(entries).values():
        until = [*(entry.time for entry in own[1:]), end]
        for entry, stop in zip(own, until, strict=True):
            if not entry.replicas:
                continue
            last = rows[-1] if rows else None
            name = {"topic": entry.topic, "partition": entry.partition}
            is_same = (
                last is not None
                and (last["topic"], last["partition"]) == (entry.topic, entry.partition)
                and (last["leader"], last["leader_epoch"]) == (entry.leader, entry.leader_epoch)
            )
            if last is not None and is_same:
                last["end"] = stop
                continue
            rows.append(
                {
                    **name,
                    "leader": entry.leader,
                    "leader_epoch": entry.leader_epoch,
                    "start": entry.time,
                    "end": stop,
                    "cause": _visible(entry.cause),
                }
            )
    kept = [row for row in rows if broker is None or row["leader"] == broker]
    return _frame([{**row, "seconds": _seconds(row)} for row in kept], LEADER_COLUMNS)


def replica_timeline(
    entries: Sequence[HistoryEntry], *, end: datetime | None = None, broker: int | None = None
) -> "DataFrame":
    """Return each replica's part over time: "leader", "in sync" or "out of sync"."""
    end = end or max((entry.time for entry in entries), default=None)
    lanes = [] if end is None else lanes_of(entries, end)
    rows = [row for lane in lanes for row in _replica_rows(lane, broker)]
    return _frame(rows, REPLICA_COLUMNS)


def _replica_rows(lane: Lane, broker: int | None) -> Iterable[dict[str, Any]]:
    for broker_id, spans in lane.spans.items():
        for span in spans if broker in (None, broker_id) else ():
            part = "in sync" if span.is_in_sync else "out of sync"
            row = {
                "topic": lane.topic,
                "partition": lane.partition,
                "broker": broker_id,
                "part": "leader" if span.leader_epoch is not None else part,
                "start": span.start,
                "end": span.end,
            }
            yield {**row, "seconds": _seconds(row)}


def broker_timeline(events: Iterable[BrokerEvent], *, broker: int | None = None) -> "DataFrame":
    """Return the events of brokers, a row each, oldest first.

    `events` is `Cluster.broker_history()`.
    """
    rows = [
        {
            "time": event.time,
            "broker": event.broker_id,
            "event": event_name(event),
            "cause": _visible(event.cause),
            "metadata_offset": event.metadata_offset,
        }
        for event in events
        if broker in (None, event.broker_id)
    ]
    return _frame(rows, EVENT_COLUMNS)


def upkeep_timeline(history: UpkeepHistory) -> "DataFrame":
    """Return what upkeep was decided and done, a row each, oldest first.

    `history` is `Cluster.upkeep_history(…)`. `broker` is missing in a decision.
    """
    rows = [
        {
            "time": event.time,
            "topic": event.topic,
            "partition": event.partition,
            "broker": event.broker_id,
            "work": event.kind,
            "start_offset": event.start_offset,
            "end_offset": event.end_offset,
            **{name: getattr(event, name) for name in UPKEEP_COUNTS},
            "cause": _visible(event.cause),
            "by": _visible(event.by),
        }
        for event in history.events
    ]
    return _frame(rows, UPKEEP_COLUMNS)


def of_broker(entries: Iterable[HistoryEntry], broker: int) -> list[HistoryEntry]:
    """Return the entries of all partitions that had a replica on a broker, for its timeline."""
    entries = list(entries)
    names = {
        (entry.topic, entry.partition) for entry in entries if BrokerId(broker) in entry.replicas
    }
    return [entry for entry in entries if (entry.topic, entry.partition) in names]


def _by_partition(
    entries: Sequence[HistoryEntry],
) -> Mapping[tuple[str, int], list[HistoryEntry]]:
    found: dict[tuple[str, int], list[HistoryEntry]] = {}
    for entry in entries:
        found.setdefault((entry.topic, entry.partition), []).append(entry)
    return {name: found[name] for name in sorted(found)}


def _seconds(row: Mapping[str, Any]) -> float:
    return float((row["end"] - row["start"]).total_seconds())


class Table(pd.DataFrame):  # type: ignore[misc]
    """A DataFrame that prints whole causes, times in milliseconds, and one line a row.

    pandas cuts texts at 50 characters, and breaks the lines of a table at 80.
    """

    @property
    def _constructor(self) -> type["Table"]:
        return Table

    def __str__(self) -> str:
        is_numbered = self.index.name is None and pd.api.types.is_integer_dtype(self.index.dtype)
        if not (is_numbered and self.columns.is_unique):
            return str(
                pd.DataFrame(self)
            )  # the user made it from another, and its index has a meaning
        shown = self if len(self) <= ROWS_PRINTED_MAX else self.iloc[:ROWS_PRINTED_MAX]
        columns = [_printed(self[name], shown[name]) for name in self.columns]
        text = text_table(list(map(str, self.columns)), list(zip(*columns, strict=True)))
        if len(self) == len(shown):
            return text
        return f"{text}\n… and {len(self) - len(shown):,} rows more"

    __repr__ = __str__


def _printed(whole: "pd.Series[Any]", shown: "pd.Series[Any]") -> list[str]:
    """Return a column's cells; if all times are of one day, without the day."""
    if isinstance(whole.dtype, pd.DatetimeTZDtype):
        is_one_day = whole.dt.normalize().nunique() <= 1
        form = "%H:%M:%S.%f" if is_one_day else "%Y-%m-%d %H:%M:%S.%f"
        return ["none" if each is pd.NaT else each.strftime(form)[:-3] for each in shown]
    return [_cell(each) for each in shown]


def _cell(value: Any) -> str:
    if value is None or value is pd.NA:
        return "none"
    if isinstance(value, float):
        return f"{value:.3f}"
    return broker_list(value) if isinstance(value, tuple | list) else str(value)


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> "DataFrame":
    frame = Table(list(rows), columns=list(columns))
    # A leader may be missing, and stays an integer.
    integers = {"leader", "broker", "start_offset", "end_offset"} & set(columns)
    frame = frame.astype(dict.fromkeys(integers, "Int64"))
    times = {"time", "start", "end"} & set(columns)
    return frame.astype(dict.fromkeys(times, "datetime64[ms, UTC]"))


def _visible(cause: str | None) -> str | None:
    """Return a cause with control characters escaped: it may contain paths and racks."""
    return None if cause is None else visible(cause)
