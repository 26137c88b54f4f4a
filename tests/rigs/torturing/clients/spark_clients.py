"""What the clients do on Spark: append DataFrames, read batches, and read by a streaming query."""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_on_spark import Cluster
from kafka_on_spark.produce.append import AppendResult
from kafka_on_spark.spark.session import build_session
from tests.rigs.torturing.folder import TOPICS, TortureFolder, key_of
from tests.rigs.torturing.history import OK, POLL, HistoryWriter

log = logging.getLogger("kafka_on_spark.torture")

COLUMNS: Final = ("topic", "partition", "offset", "CAST(value AS STRING) AS value")


def quiet_session(name: str) -> SparkSession:
    spark = build_session(name)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class SparkAppends:
    """A cluster whose tasks run on executors."""

    def __init__(self, folder: TortureFolder) -> None:
        self._spark = quiet_session("torture-appender")
        self.cluster = Cluster.open(folder.cluster_url, self._spark)

    def append(self, topic: str, rows: Sequence[tuple[str, int]], **options: Any) -> AppendResult:
        frame = self._spark.createDataFrame(list(rows), "value string, partition int")
        return self.cluster.append(topic, frame.coalesce(1), **options)

    def close(self) -> None:
        self.cluster.close()
        self._spark.stop()


class SparkReads:
    """A streaming query over all topics, and batch reads, by the data source."""

    def __init__(self, folder: TortureFolder, writer: HistoryWriter) -> None:
        self._spark = quiet_session("torture-reader")
        self._folder = folder
        self._writer = writer
        self._query: StreamingQuery | None = None

    def keep_streaming(self) -> None:
        """Start the query, if it does not run."""
        if self._query is not None and self._query.isActive:
            return
        if self._query is not None:
            log.warning("the stream failed: %s", self._query.exception())
        records = (
            self._spark.readStream.format("kafka_on_spark")
            .option("cluster", self._folder.cluster_url)
            .option("subscribe", ",".join(TOPICS))
            .option("startingOffsets", "earliest")
            .load()
        )
        self._query = (
            records.writeStream.foreachBatch(self._write_down)
            .option("checkpointLocation", str(self._folder.checkpoint))
            .trigger(processingTime="3 seconds")
            .start()
        )

    def _write_down(self, batch: DataFrame, batch_id: int) -> None:
        index = self._writer.invoke(POLL, stream_batch=batch_id)
        records = records_of(batch.selectExpr(*COLUMNS).collect())
        self._writer.complete(
            index,
            POLL,
            OK,
            # A batch that is run again begins from the start; from one to the next, its number leads.
            assign=index,
            starts={key: rows[0][0] for key, rows in records.items()},
            records=records,
            stream_batch=batch_id,
            is_fresh=False,
        )

    def read(self, topic: str, starts: Mapping[int, int]) -> list[tuple[int, int, str]]:
        """Return a topic's records from offsets on, read as a batch."""
        offsets = {topic: {str(number): start for number, start in starts.items()}}
        rows = (
            self._spark.read.format("kafka_on_spark")
            .option("cluster", self._folder.cluster_url)
            .option("subscribe", topic)
            .option("startingOffsets", json.dumps(offsets))
            .load()
            .selectExpr(*COLUMNS)
            .collect()
        )
        return [(row.partition, row.offset, row.value) for row in rows]

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()
        self._spark.stop()


def records_of(rows: Sequence[Row]) -> dict[str, list[list[Any]]]:
    records: dict[str, list[list[Any]]] = defaultdict(list)
    for row in rows:
        records[key_of(row.topic, row.partition)].append([row.offset, row.value])
    return dict(records)
