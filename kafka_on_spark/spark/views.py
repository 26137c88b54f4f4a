"""A topic as a DataFrame that the JVM scans, over the segments of its replicas.

The Python data source prunes no columns and takes every row through Python. Here Spark reads the
Parquet files itself, by Delta's reader. The reader gets a table made for the view
(log/view_table.py): a union over a thousand replica tables would take Spark minutes to
plan, and a list of Parquet files has no batch headers.
"""

import atexit
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import reduce
from typing import Final
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, lit, max_by, struct, timestamp_micros

from kafka_on_spark.base.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.consume.reads import Reads
from kafka_on_spark.log.read_order import ReadOrder
from kafka_on_spark.log.reading import Piece
from kafka_on_spark.log.segments import APPEND_TIME, CREATE_TIME
from kafka_on_spark.log.view_table import (
    Branch,
    TimeRange,
    branches_of,
    files_of,
    hadoop_url,
    time_range,
    url_of,
    whole_files,
    write_view_table,
)
from kafka_on_spark.metadata.cluster_roots import first_answering_root
from kafka_on_spark.metadata.temporaries import VIEWS
from kafka_on_spark.node.node import THREADS
from kafka_on_spark.spark.jvm import check_files, reader_settings
from kafka_on_spark.spark.spark_executors import check_session
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.roots import RootFiles, StorageOptions

_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_OPTIONS: Final = {
    # A segment's pages carry checksums, which Spark checks only with this option.
    "parquet.page.verify-checksum.enabled": "true",
}


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


def open_view(
    reads: Reads,
    session: object,
    metadata_root: str,
    topic: str,
    *,
    name: object = None,
    start: Mapping[int, int] | datetime | None = None,
    end: Mapping[int, int] | datetime | None = None,
    has_headers: bool = False,
    asks: Callable[[Iterable[ReadOrder]], list[ReadOrder]] = list,
) -> DataFrame:
    """Return a topic's view, planned and made, as `Cluster.view` describes it, and raise as that
    does. `asks`: what replicas must have, besides records; OffsetOutOfRangeError if compaction has
    removed it."""
    orders = asks(
        reads.plan(
            topic,
            None if isinstance(start, datetime) else start,
            None if isinstance(end, datetime) else end,
        )
    )
    spark = check_view_session(session, name)
    worker, times = reads.node.tasks.worker, time_range(start, end)
    is_whole = whole_files(worker.options)
    compacting, finish = threading.Lock(), reads.handling.get("finish_compaction")

    def finish_compaction(order: ReadOrder) -> None:
        with compacting:
            if finish is not None:
                finish(order)

    def plan(order: ReadOrder) -> list[Piece]:
        return files_of(order, worker.replicas, is_whole, times, finish_compaction)

    with DaemonThreads(THREADS, "view") as threads:
        files = [each for part in threads.map(plan, orders) for each in part]
    folder = _new_folder(spark, metadata_root, worker.options)
    roots = sorted({each.address.root for each in files})
    settings = reader_settings(spark, [*roots, folder], worker.options)
    log = write_view_table(folder, files, worker.options, now_ms=time.time_ns() // 1_000_000)
    check_files(spark, [log, *map(url_of, files)], settings, worker.options)
    reader = spark.read.format("delta").options(**_OPTIONS, **settings)
    table = reader.load(hadoop_url(folder))
    branches = branches_of(files)
    parts = (
        _rows(table, topic, each, is_alone=len(branches) == 1, has_headers=has_headers)
        for each in branches
    )
    view = reduce(
        lambda left, right: left.unionAll(right), (_in_time_range(each, times) for each in parts)
    )
    if name is not None:
        view.createOrReplaceTempView(str(name))
    return view


def check_view_session(spark: object, name: object) -> SparkSession:
    """Return the session `spark`, if it can scan a view, and `name` is allowed for one; otherwise
    raise InvalidRequestError."""
    if spark is None:
        raise InvalidRequestError(
            "a view is scanned by Spark: open the cluster with a session, as in Cluster.open(root,"
            " spark=build_session()), or use Cluster.read, which needs none"
        )
    check_session(spark)
    session: SparkSession = spark  # type: ignore[assignment]
    if _EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise InvalidRequestError(
            "the Spark session has no Delta Lake (its spark.sql.extensions lack"
            f" {_EXTENSION}): make it with kafka_on_spark.spark.session.build_session"
        )
    is_name = isinstance(name, str) and name.replace("_", "a").isalnum() and name.isascii()
    if name is not None and not is_name:
        raise InvalidRequestError(
            f"a view can't be named {name!r}: give letters, digits and underscores, as in 'flights'"
        )
    return session


def _rows(
    table: DataFrame, topic: str, branch: Branch, *, is_alone: bool, has_headers: bool
) -> DataFrame:
    if not is_alone:
        table = table.where(
            (col("has_append_time") == branch.has_append_time)
            & (col("append_time").isNotNull() == branch.has_common_time)
            & (col("is_cut") == branch.is_cut)
        )
    if branch.is_cut:
        delta = col("offset_delta")
        table = table.where((delta >= col("first_delta")) & (delta < col("end_delta")))
    kind = APPEND_TIME if branch.has_append_time else CREATE_TIME
    columns = [
        col("key"),
        col("value"),
        lit(topic).alias("topic"),
        col("partition"),
        (col("base_offset") + col("offset_delta")).alias("offset"),
        col("append_time" if branch.has_common_time else "timestamp").alias("timestamp"),
        lit(kind).alias("timestampType"),
    ]
    return table.select(*columns, *([col("headers")] if has_headers else []))


def _in_time_range(rows: DataFrame, times: TimeRange) -> DataFrame:
    """Return the rows of a time range; Delta skips files by their statistics."""
    if times.start_us is not None:
        rows = rows.where(col("timestamp") >= _moment(times.start_us))
    if times.end_us is not None:
        rows = rows.where(col("timestamp") < _moment(times.end_us))
    return rows


def _moment(time_us: int) -> Column:
    return timestamp_micros(lit(time_us))


def _new_folder(spark: SparkSession, metadata_root: str, options: StorageOptions) -> str:
    """Return a folder for a view's table: executors can read it, and this process removes it."""
    if str(spark.sparkContext.master).startswith("local"):
        folder = tempfile.mkdtemp(prefix="kafka_on_spark-view-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder
    root = first_answering_root(metadata_root, options)
    folder = f"{root}/{VIEWS}/{uuid4().hex}"
    atexit.register(_delete, RootFiles(root, options), folder)
    return folder


def _delete(files: RootFiles, folder: str) -> None:
    # The root may be gone; what stays is a few kilobytes that no reader reads.
    with suppress(KafkaOnSparkError):
        files.delete(folder)
