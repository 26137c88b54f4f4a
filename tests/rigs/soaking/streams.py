"""The queries of a soak: one reads what is committed and checks it, one copies it by a sink."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session, register_data_source
from tests.rigs.soaking.folder import COPIES, EVENTS
from tests.rigs.soaking.notes import number_of, seen_in

if TYPE_CHECKING:
    from tests.rigs.soaking.clients import Client

TRIGGER: Final = "3 seconds"
NOT_CONNECTED: Final = "Python worker failed to connect back"
"""How Spark's error reads of a query whose source has no process within ten seconds: it has read
nothing yet, and is to be started again (docs/get-started.md)."""

STARTS_AGAIN_MAX: Final = 5

# A heap of one size from the first moment: its growth says nothing of ours.
SETTINGS: Final = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-Xms1g -XX:+AlwaysPreTouch",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "10",
}


class Watched:
    """Where the reading query is in each partition; what it saw, and what it found wrong."""

    def __init__(self, client: "Client") -> None:
        self._notes = client.notes
        self._root = client.folder.metadata_root
        self._next: dict[int, int] = {}

    def take(self, batch: DataFrame, batch_id: int) -> None:
        """Note each record, and how old the newest is; check that offsets go on without gap."""
        rows = batch.selectExpr(
            "partition", "offset", "value", "unix_micros(timestamp) as us"
        ).collect()
        by_partition: dict[int, list[Row]] = {}
        for row in rows:
            by_partition.setdefault(row.partition, []).append(row)
        for partition, records in by_partition.items():
            records.sort(key=lambda row: row.offset)
            offsets = [row.offset for row in records]
            first, last = offsets[0], offsets[-1]
            expected = self._next.get(partition, first)
            for hole in holes(expected, offsets):
                self._note_gap(partition, *hole)
            if first < expected or len(set(offsets)) != len(offsets):
                self._wrong(
                    f"the stream's batch {batch_id} has {len(records)} records of partition"
                    f" {partition} from {first} to {last}, and {expected} was next"
                )
            self._next[partition] = last + 1
            seen = seen_in((partition, row.offset, *number_of(row.value)) for row in records)
            runs = [[name, *astuple(run)] for name, run in seen]
            self._notes.add("seen", runs=runs)
            age_s = max(time.time() - max(row.us for row in records) / 1e6, 0.0)
            self._notes.add("stream", took=age_s)

    def _note_gap(self, partition: int, expected: int, first: int) -> None:
        """A query that retention has overtaken, before a batch or in it, goes on at the log start,
        and nowhere above it."""
        with Cluster.open(self._root) as cluster:
            log_start = int(cluster.offsets(EVENTS)[partition].log_start_offset)
        self._notes.add("gap", partition=partition, first=expected, end=first)
        if log_start < first:
            self._wrong(
                f"the stream went on at {first} of partition {partition}, where {expected} was next"
                f" and the log starts at {log_start}"
            )

    def _wrong(self, error: str) -> None:
        self._notes.add("wrong", error=error)


def holes(expected: int, offsets: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield what is missing from `expected` on before and between offsets in their order, as
    [first, end)."""
    for offset in offsets:
        if offset > expected:
            yield expected, offset
        expected = max(expected, offset + 1)


class Queries:
    """Queries that run until they are stopped.

    `starts`: each starts one, which goes on from its checkpoint.
    """

    def __init__(self, starts: Sequence[Callable[[], StreamingQuery]]) -> None:
        self._starts = starts
        self._running = [start() for start in starts]
        self._starts_again = 0

    def why_ended(self) -> str | None:
        """Return why one has ended, which none should; None: they run. One that Spark did not wait
        for is started again."""
        for place, query in enumerate(self._running):
            if query.isActive:
                continue
            error = str(query.exception())
            if NOT_CONNECTED not in error or self._starts_again == STARTS_AGAIN_MAX:
                return error
            self._starts_again += 1
            self._running[place] = self._starts[place]()
        return None

    def stop(self) -> None:
        for query in self._running:
            query.stop()


def run_streams(client: "Client") -> None:
    """Run both queries until the client is told to stop; one that fails is noted and ends it."""
    spark = build_session("soak", **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    # On a busy machine Spark's own look-up by name may be cut off, and is not tried again.
    register_data_source(spark)
    try:
        queries = Queries([partial(_read, spark, client), partial(_copy, spark, client)])
        try:
            _keep_running(queries, client)
        finally:
            queries.stop()
    finally:
        spark.stop()


def _keep_running(queries: Queries, client: "Client") -> None:
    while not client.is_stopped:
        error = queries.why_ended()
        if error is not None:
            client.notes.add("wrong", error=f"a query has ended: {error}")
            return
        time.sleep(1.0)  # a query tells nobody of another process when it ends


def _records(spark: SparkSession, client: "Client") -> DataFrame:
    return (
        spark.readStream.format("kafka_on_spark")
        .option("cluster", str(client.folder.metadata_root))
        .option("subscribe", EVENTS)
        .option("startingOffsets", "earliest")
        # A query that retention has overtaken goes on with what is left.
        .option("failOnDataLoss", "false")
        .load()
    )


def _read(spark: SparkSession, client: "Client") -> StreamingQuery:
    return (
        _records(spark, client)
        .writeStream.foreachBatch(Watched(client).take)
        .option("checkpointLocation", str(client.folder.path / "checkpoint-read"))
        .trigger(processingTime=TRIGGER)
        .start()
    )


def _copy(spark: SparkSession, client: "Client") -> StreamingQuery:
    return (
        _records(spark, client)
        .selectExpr("key", "value")
        .writeStream.format("kafka_on_spark")
        .option("cluster", str(client.folder.metadata_root))
        .option("topic", COPIES)
        .option("checkpointLocation", str(client.folder.path / "checkpoint-copy"))
        .trigger(processingTime=TRIGGER)
        .start()
    )
