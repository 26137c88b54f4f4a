"""The quickstart's stream: a query that stores the records that it sees, in their order.

A batch is stored under its number, so a batch that Spark repeats after a failure replaces its first
run.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.query import StreamingQuery

from jobs.quickstart_run.run_folder import QuickstartError, RunFolder

log = logging.getLogger("kafka_on_spark.quickstart")

SEEN_COLUMNS: Final = ("partition", "offset", "key", "value", "timestamp_us")
_EMPTY: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp_us", pa.int64()),
    ]
)
_WAIT_S_MAX: Final = 120.0
_RESTARTS_MAX: Final = 3


class Stream:
    """The query; a failed one is started again from its checkpoint."""

    def __init__(self, spark: SparkSession, folder: RunFolder, topic: str) -> None:
        self._spark = spark
        self._folder = folder
        self._topic = topic
        self._restarts = 0
        self._query = self._start()

    def _start(self) -> StreamingQuery:
        records = (
            self._spark.readStream.format("kafka_on_spark")
            .option("cluster", self._folder.cluster_url)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .load()
        )
        return (
            records.writeStream.foreachBatch(partial(_store_batch, seen=self._folder.seen))
            .option("checkpointLocation", str(self._folder.checkpoint))
            .trigger(processingTime="1 second")
            .queryName("quickstart")
            .start()
        )

    def stop(self) -> None:
        """Stop the query; the records that it saw are stored."""
        self._query.stop()

    def wait(self, count: int, on_progress: Callable[[int], None]) -> None:
        """Wait until the stream has seen `count` records.

        Raises:
            QuickstartError: The query fails repeatedly, or makes no progress for two minutes.
        """
        last_count, last_time = -1, time.monotonic()
        while (now_count := seen_count(self._folder.seen)) < count:
            if now_count != last_count:
                last_count, last_time = now_count, time.monotonic()
                on_progress(now_count)
            if time.monotonic() - last_time > _WAIT_S_MAX:
                raise QuickstartError(
                    f"the stream has seen {now_count} of {count} records, and no more for"
                    f" {_WAIT_S_MAX:.0f} s"
                )
            self._keep_running()
            time.sleep(0.2)  # what the query has seen tells nobody when it grows
        on_progress(now_count)

    def _keep_running(self) -> None:
        if self._query.isActive:
            return
        reason = last_error_line(str(self._query.exception() or "it was stopped"))
        log.warning("the stream failed: %s", reason)
        if self._restarts == _RESTARTS_MAX:
            raise QuickstartError(f"the stream failed {self._restarts + 1} times, last: {reason}")
        self._restarts += 1
        self._query = self._start()


def _store_batch(batch: DataFrame, batch_id: int, *, seen: Path) -> None:
    rows = batch.select(
        "partition",
        "offset",
        "key",
        "value",
        functions.unix_micros("timestamp").alias("timestamp_us"),
        functions.monotonically_increasing_id().alias("position"),
    )
    rows.write.mode("overwrite").parquet(str(seen / f"{batch_id:06d}"))


def seen_records(seen: Path) -> pa.Table:
    """Return the records that the stream has seen, in its order."""
    batches = [
        pa.concat_tables(pq.read_table(file) for file in _files(folder))
        .sort_by("position")
        .select(list(SEEN_COLUMNS))
        .cast(_EMPTY)
        for folder in _batches(seen)
        if _files(folder)
    ]
    return pa.concat_tables(batches) if batches else _EMPTY.empty_table()


def seen_count(seen: Path) -> int:
    """Return the number of records that the stream has seen."""
    files = [file for folder in _batches(seen) for file in _files(folder)]
    return sum(int(pq.read_metadata(file).num_rows) for file in files)


def _batches(seen: Path) -> list[Path]:
    """Return the folders of whole batches, in order."""
    return sorted(mark.parent for mark in seen.glob("*/_SUCCESS"))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def last_error_line(text: str) -> str:
    """Return the last line of a Spark error that is not part of a stack trace."""
    said = text.split("=== Streaming Query ===")[0]
    lines = [line.strip() for line in said.splitlines()]
    useful = [line for line in lines if line and not line.startswith(("at ", "File ", "JVM "))]
    return useful[-1] if useful else text
