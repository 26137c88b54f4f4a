"""The queries of a soak: one reads what is committed and checks it, one copies it by a sink."""

import time
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming.query import StreamingQuery

from jobs.soaking.folder import COPIES, EVENTS
from kafka_on_spark.spark.session import build_session

if TYPE_CHECKING:
    from jobs.soaking.clients import Client

TRIGGER: Final = "3 seconds"
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
    """Where the reading query is in each partition, and what it found wrong."""

    def __init__(self, client: "Client") -> None:
        self._notes = client.notes
        self._next: dict[int, int] = {}

    def take(self, batch: DataFrame, batch_id: int) -> None:
        """Check that offsets go on without gap; note how old the newest record is."""
        ranges = batch.selectExpr("partition", "offset", "timestamp").groupBy("partition")
        rows = ranges.agg(
            expr("min(offset)"),
            expr("max(offset)"),
            expr("count(*)"),
            expr("unix_micros(max(timestamp))"),
        ).collect()
        for partition, first, last, count, newest_us in rows:
            expected = self._next.get(partition, first)
            # Retention may have removed what was next; nothing comes twice, and nothing is skipped.
            if first < expected or count != last - first + 1:
                self._notes.write(
                    kind="wrong",
                    at=time.time(),
                    error=f"the stream's batch {batch_id} has {count} records of partition"
                    f" {partition} from {first} to {last}, and {expected} was next",
                )
            self._next[partition] = last + 1
            age_s = max(time.time() - newest_us / 1e6, 0.0)
            self._notes.write(kind="stream", at=time.time(), took=age_s)


def run_streams(client: "Client") -> None:
    """Run both queries until the client is told to stop; one that fails is noted and ends it."""
    spark = build_session("soak", **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    queries = []
    try:
        queries = [_read(spark, client), _copy(spark, client)]
        while not client.is_stopped:
            for query in queries:
                if not query.isActive:
                    client.notes.write(
                        kind="wrong",
                        at=time.time(),
                        error=f"a query has ended: {query.exception()}",
                    )
                    return
            time.sleep(1.0)
    finally:
        for query in queries:
            query.stop()
        spark.stop()


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
