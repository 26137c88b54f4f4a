"""A partition of many appends after its segments were merged, against one written at once."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import pyarrow as pa

from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

APPENDS = 10_000
BATCH: Final = 1_000
VALUE_BYTES: Final = 100
LATER_APPENDS = 150
MERGED_AT_ONCE: Final = 32
FORGOTTEN_SECONDS = 361.0
"""ext4 without a journal looks, whenever it makes a file, at each inode beside it that was deleted
within so many seconds: what the file system takes for that is a row of its own."""
MANY, ONCE = "many", "once"
CONFIGS: Final = {"file.delete.delay.ms": "0"}


def merged(bench: Bench) -> list[Row]:
    """Measure reads of a merged topic and appends to it, and what merging has rewritten."""
    with bench.make_cluster("merged") as cluster:
        for topic in (MANY, ONCE):
            cluster.create_topic(topic, partitions=1, replication_factor=3, configs=CONFIGS)
        _append_many(cluster)
        # Bytes of one replica: each of the three merges for itself.
        plain_bytes = sum(each.stat().st_size for each in _data_files(bench.folder, MANY))
        upkeep = cluster.maintain()
        deleted_s = time.monotonic()
        rewritten = sum(each.size_bytes for each in upkeep.rows if each.kind == "merge") / 3
        cluster.append(ONCE, pa.concat_tables(_batches(APPENDS)), acks="all")
        files = len(_data_files(bench.folder, MANY))
        say(
            f"  {files} files after maintain(), before it {plain_bytes / 1e6:.0f} MB in {APPENDS:,}"
        )
        plain_reads = bench.alternate(
            lambda _: seconds(lambda: cluster.read(MANY)),
            lambda _: seconds(lambda: cluster.read(ONCE)),
        )
        spark_reads = bench.alternate(
            lambda _: _to_noop(bench, MANY), lambda _: _to_noop(bench, ONCE)
        )
        soon = _later_appends(cluster, "new")
        # For minutes the disk looks at inodes that were deleted, which slows what is measured.
        left_s = FORGOTTEN_SECONDS - (time.monotonic() - deleted_s)
        time.sleep(max(0.0, left_s))  # a disk tells nobody when it has forgotten them
        later = _later_appends(cluster, "newer")
    name = f"a partition of {APPENDS:,} appends of {BATCH:,} records, merged"
    tiers = math.log(2**30 / (plain_bytes / APPENDS), MERGED_AT_ONCE)
    return [
        _read_row(f"{name}: cluster.read", *plain_reads),
        _read_row(f"{name}: read by format(…)", *spark_reads),
        row(
            f"{name}: append of {BATCH:,} records",
            later[0],
            "ms",
            peer="to a new topic",
            peer_values=later[1],
            budget=Budget(bound=1.2, on="ratio"),
        ),
        row(
            f"the same, minutes after {3 * APPENDS:,} files beside it were deleted",
            soon[0],
            "ms",
            peer="to a new topic",
            peer_values=soon[1],
        ),
        row(
            f"{name}: bytes that a replica has rewritten, for each byte",
            [rewritten / plain_bytes],
            "×",
            peer="logarithm of segment.bytes / bytes of a batch, base 32",
            peer_values=[tiers],
            budget=Budget(bound=1.0, on="ratio"),
        ),
    ]


def _append_many(cluster: Cluster) -> None:
    times: list[float] = []
    for number, batch in enumerate(_batches(APPENDS), 1):
        times.append(seconds_of_append(cluster, MANY, batch))
        if number % 1000 == 0:
            say(f"  {number:,} appends, the last hundred {1000 * median(times[-100:]):.1f} ms each")


def _later_appends(cluster: Cluster, new: str) -> tuple[list[float], list[float]]:
    """Return milliseconds of appends to the merged topic and to a new one, in turn."""
    cluster.maintain()  # what earlier ones have left
    cluster.create_topic(new, partitions=1, replication_factor=3, configs=CONFIGS)
    times: dict[str, list[float]] = {MANY: [], new: []}
    for number, batch in enumerate(_batches(LATER_APPENDS)):
        for topic in (MANY, new) if number % 2 else (new, MANY):
            times[topic].append(1000 * seconds_of_append(cluster, topic, batch))
    warm_up = LATER_APPENDS // 10
    return times[MANY][warm_up:], times[new][warm_up:]


def _read_row(name: str, many: list[float], once: list[float]) -> Row:
    """Return a row of speeds, in million records a second."""
    total = APPENDS * BATCH / 1e6
    return row(
        name,
        [total / each for each in many],
        "M/s",
        peer="the same records written at once",
        peer_values=[total / each for each in once],
        budget=Budget(bound=0.9, on="ratio", is_most=False),
    )


def seconds_of_append(cluster: Cluster, topic: str, batch: pa.Table) -> float:
    """Return how long an append takes; nothing is flushed before it."""
    start = time.perf_counter()
    cluster.append(topic, batch, acks="all")
    return time.perf_counter() - start


def _batches(count: int) -> Iterator[pa.Table]:
    """Yield batches of keys and values of 100 bytes with 4 bits of entropy a byte."""
    rng = np.random.default_rng(1)
    letters = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    ends = pa.py_buffer(np.arange(0, VALUE_BYTES * (BATCH + 1), VALUE_BYTES, dtype=np.int32))
    for number in range(count):
        keys = [b"%08d" % (number * BATCH + each) for each in range(BATCH)]
        content = letters[rng.integers(0, 16, BATCH * VALUE_BYTES)].tobytes()
        values = pa.Array.from_buffers(pa.binary(), BATCH, [None, ends, pa.py_buffer(content)])
        yield pa.table({"key": pa.array(keys, pa.binary()), "value": values})


def _data_files(folder: Path, topic: str) -> list[Path]:
    """Return the files of the leader's, or any other one, replica: all three are alike."""
    return list(folder.glob(f"merged/broker-1/{topic}-*/*/*.parquet"))


def _to_noop(bench: Bench, topic: str) -> float:
    options = {"cluster": str(bench.folder / "merged" / "metadata"), "subscribe": topic}
    frame = bench.spark.read.format("kafka_on_spark").options(**options).load()
    return seconds(lambda: frame.write.format("noop").mode("overwrite").save())
