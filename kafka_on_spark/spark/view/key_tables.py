"""A topic as a table: the last value of each key, and the keys that changed in a range of the log.

Over a view, so that Spark itself scans the segments and aggregates. In a partition the offset says
which record of a key is the last. A key is in several if the topic was given more, or records name
their partitions: between these the timestamp decides.
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, max_by, struct


def last_values(view: DataFrame) -> DataFrame:
    """Return the last value of each key, without keys whose last record is a tombstone."""
    return _last(view).where(col("value").isNotNull())


def changed_keys(view: DataFrame) -> DataFrame:
    """Return the last record of each key in the view; `is_deleted`: it is a tombstone."""
    return _last(view).withColumn("is_deleted", col("value").isNull())


def _last(view: DataFrame) -> DataFrame:
    in_partition = max_by(struct("value", "offset", "timestamp"), "offset").alias("newest")
    record = struct("value", "partition", "offset", "timestamp")
    # Where timestamps are equal, a table must not change from one scan to the next.
    of_all = max_by(record, struct("timestamp", "partition")).alias("newest")
    keyed = view.where(col("key").isNotNull())
    return (
        keyed.groupBy("partition", "key")
        .agg(in_partition)
        .select("key", "newest.value", "partition", "newest.offset", "newest.timestamp")
        .groupBy("key")
        .agg(of_all)
        .select("key", "newest.*")
    )
