"""Histories as tables: DataFrames of what was replayed, and SQL for any engine that reads Delta.

The SQL is on the table `Cluster.metadata_table`, called `metadata` here. A row is one record. Null
means unchanged, so a window carries the last value on; leader -1 means none. The first query
answers the same as `Cluster.history`, from the table alone.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.text import visible
from kafka_on_spark.observe.history import BrokerEvent, HistoryEntry

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
    try:  # in the function: the SQL below needs none
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "tables need pandas: install it with pip install 'kafka_on_spark[notebook]'"
        ) from error

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


ISR_HISTORY: Final = """
SELECT time, topic, partition,
       NULLIF(LAST_VALUE(leader) IGNORE NULLS OVER life, -1) AS leader,
       leader_epoch,
       LAST_VALUE(isr) IGNORE NULLS OVER life AS isr,
       LAST_VALUE(replicas) IGNORE NULLS OVER life AS replicas,
       cause,
       base_offset + offset_delta AS metadata_offset
FROM metadata
WHERE record_type = 'PartitionRecord' OR record_type = 'PartitionChangeRecord'
      AND (compacted_below IS NULL OR high_watermark IS NOT NULL)
WINDOW life AS (PARTITION BY topic_id, partition ORDER BY base_offset + offset_delta
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
ORDER BY metadata_offset
"""
"""Leader, ISR and cause: a row a change, oldest first."""

DECISIONS: Final = """
SELECT time, cause, COUNT(*) AS partitions, COUNT(DISTINCT topic_id) AS topics
FROM metadata
WHERE record_type = 'PartitionChangeRecord'
GROUP BY batch_base_offset, time, cause
ORDER BY batch_base_offset
"""
"""Decisions with their number of partitions: a broker's fencing is one row."""

COMMITTED: Final = """
WITH metadata_log AS (SELECT *, base_offset + offset_delta AS at FROM metadata),
newest AS (
  SELECT topic_id, partition, MAX_BY(record_type, at) AS record_type,
         MAX_BY(leader, at) FILTER (WHERE leader IS NOT NULL) AS leader,
         MAX_BY(isr, at) FILTER (WHERE isr IS NOT NULL) AS isr,
         MAX_BY(replicas, at) FILTER (WHERE replicas IS NOT NULL) AS replicas,
         MAX_BY(replica_uuids, at) FILTER (WHERE replica_uuids IS NOT NULL) AS uuids,
         MAX_BY(log_start_offset, at) FILTER (WHERE log_start_offset IS NOT NULL) AS log_start,
         MAX_BY(high_watermark, at) FILTER (WHERE high_watermark IS NOT NULL) AS high_watermark
  FROM metadata_log
  WHERE record_type IN ('PartitionRecord', 'PartitionChangeRecord', 'HighWatermarkRecord',
                        'RemovePartitionRecord')
  GROUP BY topic_id, partition),
topics AS (SELECT topic_id, topic FROM metadata_log WHERE record_type = 'TopicRecord' AND topic_id
           NOT IN (SELECT topic_id FROM metadata_log WHERE record_type = 'RemoveTopicRecord')),
brokers AS (SELECT broker_id, MAX_BY(root, at) AS root FROM metadata_log
            WHERE record_type = 'BrokerRecord' GROUP BY broker_id)
SELECT topic, partition, log_start, high_watermark,
       CONCAT(root, '/', topic, '-', topic_id, '/', partition, '-',
              ELEMENT_AT(uuids, CAST(ARRAY_POSITION(replicas, broker_id) AS INT))) AS table
FROM newest JOIN topics USING (topic_id)
     JOIN brokers ON broker_id = COALESCE(NULLIF(leader, -1), isr[0])
WHERE record_type <> 'RemovePartitionRecord' AND high_watermark > log_start
ORDER BY topic, partition
"""
"""For Spark SQL: the committed offsets of each partition, and the table of a replica that has them:
the leader's or, without a leader, one in sync."""
