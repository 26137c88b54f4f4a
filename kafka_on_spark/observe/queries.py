"""SQL queries on the metadata table, for any engine that reads Delta.

The table is `Cluster.metadata_table`, called `metadata` here. A row is one record. Null means
unchanged, so a window carries the last value on; leader -1 means none. The first query answers the
same as `Cluster.history`, from the table alone.
"""

from typing import Final

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
