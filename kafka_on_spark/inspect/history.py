"""Histories as text: time, leader, leader epoch, ISR and cause of partitions; events of brokers.

Broker events come from the metadata table as any Delta reader sees it, because a partition's own
history does not say when a broker was fenced or came back.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc
from deltalake import DeltaTable

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.report import broker_list, text_table
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.service.describe.partition_history import BrokerEvent, HistoryEntry
from kafka_on_spark.storage.calls.deadlines import long_call_seconds, within
from kafka_on_spark.storage.roots.roots import StorageOptions

EVENT_COLUMNS: Final = (
    "base_offset", "record_type", "time", "broker_id", "broker_state", "cause",
)  # fmt: skip
COLUMNS: Final = ("time", "leader", "leader epoch", "ISR", "cause")


def history_rows(entries: Sequence[HistoryEntry]) -> list[tuple[str, ...]]:
    """Return entries as cells under COLUMNS; with several partitions, the partition comes first."""
    is_one = len({(entry.topic, entry.partition) for entry in entries}) <= 1
    return [
        (
            *(() if is_one else (f"{entry.topic}-{entry.partition}",)),
            f"{entry.time:%H:%M:%S}.{entry.time.microsecond // 1000:03d}",
            "none" if entry.leader is None else str(entry.leader),
            str(entry.leader_epoch),
            broker_list(entry.isr),
            entry.cause or "",
        )
        for entry in entries
    ]


def history_text(entries: Sequence[HistoryEntry]) -> str:
    """Return entries as a table, oldest first; times are UTC."""
    rows = history_rows(entries)
    is_one = not rows or len(rows[0]) == len(COLUMNS)
    return text_table(COLUMNS if is_one else ("partition", *COLUMNS), rows)


def broker_events(
    metadata_table: str, storage_options: Mapping[str, Any] | None = None
) -> list[BrokerEvent]:
    """Return the events of brokers after their registration, oldest first.

    `metadata_table` is `Cluster.metadata_table`.

    Raises:
        KafkaStorageError: Its root does not answer.
    """
    given = StorageOptions(storage_options).for_url(metadata_table)
    opened = partial(DeltaTable, metadata_table, storage_options=given)
    delta_table = within(metadata_table, opened, long_call_seconds(metadata_table))
    sizes = delta_table.get_add_actions().column("size_bytes").to_pylist()
    table = within(
        metadata_table,
        partial(delta_table.to_pyarrow_table, columns=list(EVENT_COLUMNS)),
        long_call_seconds(metadata_table, sum(sizes)),
    )
    changes = table.filter(pc.equal(table.column("record_type"), "BrokerChangeRecord"))
    return [
        BrokerEvent(
            time=row["time"],
            broker_id=BrokerId(row["broker_id"]),
            state=BrokerState(row["broker_state"]),
            cause=row["cause"],
        )
        for row in changes.sort_by("base_offset").to_pylist()
    ]
