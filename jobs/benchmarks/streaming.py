"""Structured Streaming: a topic read to its end, and one record on its way into a batch."""

import random
import shutil
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from statistics import median
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bare_stream import BareSource, write_rows
from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, percentile, row
from kafka_on_spark.consume.options import parse_source
from kafka_on_spark.spark.source import BatchReader

PARTITIONS = 8
WARM_UP = 15
PEER_BATCHES = 60
SHOWN = 100  # batches at either end of a run whose medians are compared
PAUSE_S = (0.1, 0.4)  # in which the query is idle again
WAIT_S = 120.0
VALUE = b"v" * 100


def stream(bench: Bench) -> list[Row]:
    """Measure a query that reads a topic to its end and stops, against a batch read of it.

    And against the same query of a source that does nothing, whose rows lie there as Arrow: what
    that takes more than a batch read is Spark's.
    """
    options = {"cluster": bench.cluster_url, "subscribe": bench.filled_topic()}
    batch = bench.spark.read.format("kafka_on_spark").options(**options).load()
    reader = bench.spark.readStream.format("kafka_on_spark").options(**options)
    streamed = reader.option("startingOffsets", "earliest").load()
    bare = _bare(bench, options, batch.schema)
    name = f"stream by format(…), AvailableNow, {bench.records:,} records"

    mine, theirs = bench.alternate(
        lambda run: _available_now(bench, streamed, f"ours-{run}"),
        lambda _: seconds(lambda: batch.write.format("noop").mode("overwrite").save()),
    )
    again, least = bench.alternate(
        lambda run: _available_now(bench, streamed, f"again-{run}"),
        lambda run: _available_now(bench, bare, f"bare-{run}"),
    )
    return [
        row(
            name,
            mine,
            "s",
            peer="the same topic by a batch read",
            peer_values=theirs,
            budget=Budget(bound=1.25, on="ratio"),
            recorded=kafka_recorded.STREAM,
        ),
        row(
            name,
            again,
            "s",
            peer="a source that yields the same rows from Arrow files, by such a stream",
            peer_values=least,
        ),
    ]


def _bare(bench: Bench, options: dict[str, str], schema: StructType) -> DataFrame:
    """Return a stream of the topic's rows from Arrow files, which are written here."""
    folder = bench.folder / "bare-rows"
    reader = BatchReader(parse_source(options, is_stream=False))
    write_rows(folder, [reader.read(part) for part in reader.partitions()])
    bench.spark.dataSource.register(BareSource)
    ddl = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
    return bench.spark.readStream.format("bare").options(folder=str(folder), ddl=ddl).load()


def _available_now(bench: Bench, streamed: DataFrame, name: str) -> float:
    checkpoint = bench.folder / f"stream-checkpoint-{name}"
    writer = streamed.writeStream.format("noop").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return seconds(lambda: _ended(writer.start(), bench.records))


def _ended(query: StreamingQuery, records: int) -> None:
    query.awaitTermination()
    read = sum(each["numInputRows"] for each in query.recentProgress)
    assert read == records, f"the query has read {read} of {records} records"


def micro_batch(bench: Bench) -> list[Row]:
    """Measure the time from an append's answer to its row in foreachBatch, the query idle before.

    The peer, a stream of a Delta table to which delta-rs appends, runs first and for itself: two
    queries at once would take each other's processor.
    """
    peer = _delta_rows(bench)
    bench.cluster.create_topic("micro", partitions=PARTITIONS, replication_factor=3)
    reader = bench.spark.readStream.format("kafka_on_spark")
    rows = reader.options(cluster=bench.cluster_url, subscribe="micro").load()

    def append(number: int) -> None:
        # Keys go round all partitions: each batch has another one's news.
        bench.cluster.append("micro", [(b"%d" % number, VALUE)], acks="all")

    mine = _latencies(bench, "micro", rows, append, bench.batches)
    shown = min(SHOWN, max(1, len(mine) // 2))
    first, last = median(mine[:shown]), median(mine[-shown:])
    name = f"a record from append to foreachBatch, {PARTITIONS} partitions, idle query"
    peer_name = "delta-rs appends a row, Spark streams the Delta table (1 copy, not flushed)"
    return [
        row(
            f"{name}: median of {len(mine):,} batches",
            mine,
            "ms",
            peer=peer_name,
            peer_values=peer,
            budget=Budget(bound=350, on="value"),
            recorded=kafka_recorded.MICRO_BATCH,
        ),
        row(
            f"{name}: 95 %",
            [percentile(mine, 0.95)],
            "ms",
            peer=peer_name,
            peer_values=[percentile(peer, 0.95)],
        ),
        row(
            f"{name}: median of the last {shown}",
            [last],
            "ms",
            peer=f"the first {shown} after the warm-up",
            peer_values=[first],
            budget=Budget(bound=1.2, on="ratio"),
        ),
    ]


def _delta_rows(bench: Bench) -> list[float]:
    folder = str(bench.folder / "micro-peer.delta")

    def append(number: int) -> None:
        keys = pa.table({"key": [b"%d" % number], "value": [VALUE]})
        write_deltalake(folder, keys, mode="append")

    append(0)  # a stream begins at a version that is there
    rows = bench.spark.readStream.format("delta").option("startingVersion", 0).load(folder)
    rows = rows.where("cast(key AS string) <> '0'")
    return _latencies(bench, "micro-peer", rows, append, min(PEER_BATCHES, bench.batches))


def _latencies(
    bench: Bench, name: str, rows: DataFrame, append: Callable[[int], None], count: int
) -> list[float]:
    """Return milliseconds from each append's answer until its row was collected in a batch."""
    seen: SimpleQueue[tuple[bytes, float]] = SimpleQueue()

    def record_times(batch: DataFrame, _: int) -> None:
        for each in batch.select("key").collect():
            seen.put((bytes(each.key), time.perf_counter()))

    checkpoint = bench.folder / f"{name}-checkpoint"
    query = (
        rows.writeStream.foreachBatch(record_times)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        _until_idle(query)
        taken = [_one(query, seen, append, number) for number in range(1, WARM_UP + count + 1)]
        say(f"  {name}, medians of each tenth: {_tenths(taken[WARM_UP:])} ms")
        say(f"  {name}, of a batch: {_durations(query)}")
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    return taken[WARM_UP:]


def _until_idle(query: StreamingQuery) -> None:
    """Wait until a query has looked for data: from then on it finds what is appended."""
    deadline = time.monotonic() + WAIT_S
    while query.lastProgress is None:
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"the query did not begin: {query.exception()}")
        time.sleep(0.05)  # Spark has no event for the first progress of a query


def _one(
    query: StreamingQuery,
    seen: "SimpleQueue[tuple[bytes, float]]",
    append: Callable[[int], None],
    number: int,
) -> float:
    append(number)
    answered = time.perf_counter()
    try:
        key, at = seen.get(timeout=WAIT_S)
    except Empty:
        raise RuntimeError(f"a record was not seen in {WAIT_S} s: {query.exception()}") from None
    assert key == b"%d" % number, "a record was skipped, or came twice"
    time.sleep(random.uniform(*PAUSE_S))  # the query is idle again, at any place in its pause
    return 1000 * (at - answered)


def _tenths(values: list[float]) -> str:
    size = max(1, len(values) // 10)
    starts = range(0, len(values) - size + 1, size)
    return " ".join(f"{median(values[start : start + size]):.0f}" for start in starts)


def _durations(query: StreamingQuery) -> str:
    """Return the medians of Spark's own parts of a batch, in milliseconds."""
    batches: list[dict[str, Any]] = [
        each["durationMs"] for each in query.recentProgress if each["numInputRows"]
    ]
    names = batches[-1] if batches else {}
    return ", ".join(
        f"{name} {median(each.get(name, 0) for each in batches):.0f}" for name in names
    )
