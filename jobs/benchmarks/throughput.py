"""Append, replicate and read of many records, against what Spark and a plain copy take."""

import os
import shutil
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import PARTITIONS, Bench, processor_seconds, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark.spark.spark_executors import task_count


def append(bench: Bench) -> list[Row]:
    """Measure keyed appends, against writing the same rows once as Parquet."""
    return [
        _append(bench, "append, keyed, 3 replicas, acks=all, flushed", ["key", "value"], 1.0),
    ]


def append_keyless(bench: Bench) -> list[Row]:
    """Measure the same without keys."""
    return [_append(bench, "append, keyless, 3 replicas, acks=all, flushed", ["value"], 0.9)]


def processor(bench: Bench) -> list[Row]:
    """Measure the processor time of a keyed append, against writing the rows to a Delta table."""
    topics: list[str] = []

    def ours(run: int) -> float:
        if topics:
            bench.drop_topic(topics.pop())
        topics.append(bench.new_topic(replicas=3))
        frame = bench.frame(_count(bench, run))
        return processor_seconds(lambda: bench.cluster.append(topics[-1], frame, acks="all"))

    def delta(run: int) -> float:
        folder = bench.folder / "peer.delta"
        shutil.rmtree(folder, ignore_errors=True)
        writer = bench.frame(_count(bench, run)).write.format("delta")
        return processor_seconds(lambda: writer.save(str(folder)))

    mine, theirs = bench.alternate(ours, delta)
    bench.drop_topic(topics.pop())
    return [
        row(
            f"processor time of an append, keyed, 3 replicas, flushed, {bench.records:,} records",
            mine,
            "s",
            peer="delta-spark writes the rows once (1 copy, not flushed)",
            peer_values=theirs,
        )
    ]


def _append(bench: Bench, name: str, columns: list[str], ratio_max: float) -> Row:
    is_keyed = "key" in columns
    topics: list[str] = []

    def ours(run: int) -> float:
        if topics:
            bench.drop_topic(topics.pop())
        topics.append(bench.new_topic(replicas=3))
        frame = bench.frame(_count(bench, run)).select(columns)
        return seconds(lambda: bench.cluster.append(topics[-1], frame, acks="all"))

    def parquet(run: int) -> float:
        folder = bench.folder / "peer.parquet"
        shutil.rmtree(folder, ignore_errors=True)
        writer = bench.frame(_count(bench, run)).select(columns).write
        return seconds(lambda: writer.option("compression", "zstd").parquet(str(folder)))

    mine, theirs = bench.alternate(ours, parquet)
    if is_keyed:
        bench.full_topic = topics.pop()
    return row(
        f"{name}, {bench.records:,} records",
        mine,
        "s",
        peer="Spark writes the rows once as Parquet (zstd, not flushed)",
        peer_values=theirs,
        budget=Budget(bound=ratio_max, on="ratio"),
        recorded=kafka_recorded.APPEND if is_keyed else None,
    )


def _count(bench: Bench, run: int) -> int:
    """Return how many records a run takes: the one that warms up, fewer."""
    return bench.records if run else max(bench.records // 5, 1)


def replicate(bench: Bench) -> list[Row]:
    """Measure a follower that copies a whole topic, against tasks that copy the same files."""
    sources: list[tuple[int, str]] = []

    def megabytes() -> float:
        return sum(os.path.getsize(path) for _, path in sources) / 1e6

    def ours(run: int) -> float:
        topic = bench.new_topic(replicas=2)
        bench.cluster.append(topic, bench.frame(_count(bench, run)), acks="1")
        sources[:] = _segments(bench.folder, topic)
        return megabytes() / seconds(lambda: bench.cluster.replicate([topic]))

    def copies(run: int) -> float:
        """Copy the files of our last run: where the peer begins, those of the run before."""
        target = bench.folder / f"copies-{run}"
        orders = [
            (str(target / str(task)), [path for _, path in paths])
            for task, paths in groupby(sources, key=lambda each: each[0])
        ]
        context = bench.spark.sparkContext
        count = task_count(len(orders), context.defaultParallelism)
        tasks = context.parallelize(orders, count)
        took = seconds(lambda: tasks.foreach(copy_flushed))
        shutil.rmtree(target)
        return megabytes() / took

    mine, theirs = bench.alternate(ours, copies)
    return [
        row(
            f"replicate one follower, {PARTITIONS} partitions, {megabytes():.0f} MB",
            mine,
            "MB/s",
            peer="as many tasks copy the same files and flush them",
            peer_values=theirs,
            budget=Budget(bound=0.9, on="ratio", is_most=False),
        )
    ]


def _segments(folder: Path, topic: str) -> list[tuple[int, str]]:
    """Return the files that the leaders have: partition and path, sorted."""
    files = folder.glob(f"throughput/broker-*/{topic}-*/*/*.parquet")
    return sorted((int(file.parent.name.split("-")[0]), str(file)) for file in files)


def copy_flushed(order: tuple[str, Iterable[str]]) -> None:
    """Copy files into a new folder; flush them, and the folder."""
    folder, paths = order
    os.makedirs(folder)
    for path in paths:
        copy = os.path.join(folder, os.path.basename(path))
        shutil.copyfile(path, copy)
        flush(copy)
    flush(folder)


def flush(path: str) -> None:
    """Make a file or a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def read(bench: Bench) -> list[Row]:
    """Measure a batch read of all columns, against Spark's read of them from a Delta table."""
    options = {"cluster": bench.cluster_url, "subscribe": bench.filled_topic()}
    topic = bench.spark.read.format("kafka_on_spark").options(**options).load()
    folder = str(bench.folder / "peer.delta")
    topic.write.format("delta").option("compression", "zstd").save(folder)
    delta = bench.spark.read.format("delta").load(folder)

    mine, theirs = bench.alternate(lambda _: _to_noop(topic), lambda _: _to_noop(delta))
    return [
        row(
            f"read by format(…), 7 columns, {bench.records:,} records",
            mine,
            "s",
            peer="Spark reads the same columns from Delta (zstd)",
            peer_values=theirs,
            budget=Budget(bound=1.15, on="ratio"),
            recorded=kafka_recorded.READ,
        )
    ]


def _to_noop(frame: DataFrame) -> float:
    return seconds(lambda: frame.write.format("noop").mode("overwrite").save())
