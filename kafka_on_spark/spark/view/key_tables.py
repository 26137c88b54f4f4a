"""A topic as a table: the last value of each key, and the keys that changed in a range of the log.

Over a view, so that Spark itself scans the segments and aggregates.
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
    newest = max_by(struct("value", "offset", "timestamp"), "offset").alias("newest")
    keyed = view.where(col("key").isNotNull())
    return (
        keyed.groupBy("partition", "key")
        .agg(newest)
        .select("key", "newest.value", "partition", "newest.offset", "newest.timestamp")
    )
