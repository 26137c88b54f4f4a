"""The queries of a soak: one reads what is committed and checks it, one copies it by a sink."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError, OffsetOutOfRangeError
from kafka_on_spark.spark.session import build_session, register_data_source
from tests.rigs.soaking.folder import COPIES, EVENTS, TABLE
from tests.rigs.soaking.notes import number_of, seen_in

if TYPE_CHECKING:
    from tests.rigs.soaking.clients import Client

TRIGGER: Final = "3 seconds"
TABLE_PAUSES_S: Final = (15.0, 105.0)
"""Between two looks at the table: soon, so that no tombstone between them is gone; then later: each
look leaves the tables of its views for a day."""
DELETED: Final = ("FILE_NOT_EXIST", "java.io.FileNotFound", "java.nio.file.NoSuchFile")
"""How Spark's error of a deleted file reads."""

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
            runs = [[each.name, *astuple(each.run)] for each in seen]
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


def is_of_deleted_file(error: Exception) -> bool:
    """Return whether Spark failed since a file was deleted that it was to read.

    Spark tells it by an error of its own, or by one of py4j, whose text has the errors of Java that
    were its cause: which of two, depends on whether the file was gone before Hadoop looked it up,
    or while it did.
    """
    text = str(error)
    return any(name in text for name in DELETED)


def shortened(error: str) -> str:
    """Return the beginning of an error of Spark, and the last of its causes."""
    _, cause, last = error.rpartition("Caused by: ")
    return error[:300] + (f" ... {cause}{last[:300]}" if cause else "")


class WatchedTable:
    """Looks at the compacted topic as a table, and at what has changed since it looked last."""

    def __init__(self, spark: SparkSession, client: "Client") -> None:
        self._spark = spark
        self._client = client
        self._then: int | None = None
        self._table: dict[bytes, bytes] = {}

    def look(self) -> None:
        """Check that a key stands once, and that what has changed leads from the last table to this
        one."""
        try:
            self._look()
        except (KafkaOnSparkError, PySparkException, Py4JError) as error:
            self._wrong(f"the table could not be read: {shortened(str(error))}")

    def _look(self) -> None:
        root, spark, notes = self._client.folder.metadata_root, self._spark, self._client.notes
        start = time.perf_counter()
        with Cluster.open(root, spark) as cluster:
            now = cluster.image.offset
            try:
                with Cluster.open(root, spark, as_of=now) as as_of:
                    rows = as_of.table(TABLE).select("key", "value").collect()
                changed = (
                    None
                    if self._then is None
                    else cluster.changes(TABLE, self._then, now).collect()
                )
            except (OffsetOutOfRangeError, PySparkException, Py4JError) as error:
                # Compacted between the two, or its files deleted before Spark came to them, within
                # file.delete.delay.ms of 10 s: this is said, as it must be.
                if not isinstance(error, OffsetOutOfRangeError) and not is_of_deleted_file(error):
                    raise
                notes.add("passed", took=time.perf_counter() - start)
                self._then = None
                return
        notes.add("table", took=time.perf_counter() - start)
        table = {bytes(row.key): bytes(row.value) for row in rows}
        if len(table) != len(rows):
            self._wrong(f"the table at {now} has {len(rows)} rows of {len(table)} keys")
        if changed is not None:
            expected = dict(self._table)
            for row in changed:
                expected.pop(bytes(row.key), None)
                if not row.is_deleted:
                    expected[bytes(row.key)] = bytes(row.value)
            differing = sorted(
                key for key in {*expected, *table} if expected.get(key) != table.get(key)
            )
            if differing:
                key = differing[0]
                self._wrong(
                    f"what changed from {self._then} to {now} leads to another table:"
                    f" {len(differing)} keys differ, {key!r} among them: {expected.get(key)!r}"
                    f" instead of {table.get(key)!r}"
                )
        self._then, self._table = now, table

    def _wrong(self, error: str) -> None:
        self._client.notes.add("wrong", error=error)


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
            _keep_running(queries, WatchedTable(spark, client), client)
        finally:
            queries.stop()
    finally:
        spark.stop()


def _keep_running(queries: Queries, table: WatchedTable, client: "Client") -> None:
    next_look, pauses = time.monotonic(), cycle(TABLE_PAUSES_S)
    while not client.is_stopped:
        if time.monotonic() > next_look:
            table.look()
            next_look = time.monotonic() + next(pauses)
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
