"""What the measurement of compaction does in processes of its own.

    python -m jobs.benchmarks.compaction_process WORK FOLDER KEYS

A cluster of one broker, without Spark: the task that compacts the log is a thread of the process.
The answer is one line of JSON on standard output.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.benchmarks.scale_process import Stopwatch
from kafka_on_spark import Cluster
from kafka_on_spark.log.compactor import BYTES_A_KEY

TOPIC: Final = "rows"
BATCH: Final = 100_000
AGAIN: Final = 10
"""One key of so many gets a second value, so that each segment loses records."""
VALUE_BYTES: Final = 100
CONFIGS: Final = {
    # Segments are compacted as they were appended: merging them has figures of its own.
    "merge.min.lag.batches": 2**31 - 1,
    "file.delete.delay.ms": 0,
}
TOPIC_CONFIGS: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}


def make(folder: Path, keys: int) -> dict[str, Any]:
    """Append each key once, then a part of them again."""
    clock = Stopwatch()
    for each in (folder / "metadata", folder / "broker-1"):
        each.mkdir(parents=True)
    with Cluster.create(
        folder / "metadata", brokers={1: folder / "broker-1"}, configs=CONFIGS
    ) as cluster:
        cluster.create_topic(TOPIC, partitions=1, replication_factor=1, configs=TOPIC_CONFIGS)
        for batch in _batches(np.arange(keys)):
            cluster.append(TOPIC, batch)
        for batch in _batches(np.arange(0, keys, AGAIN)):
            cluster.append(TOPIC, batch)
    files = folder.glob(f"broker-1/{TOPIC}-*/*/*.parquet")
    return clock.read() | {"log_bytes": sum(each.stat().st_size for each in files)}


def _batches(numbers: Any) -> Iterator[pa.Table]:
    """Yield batches of 8-byte keys and values of 100 bytes with 4 bits of entropy a byte."""
    rng = np.random.default_rng(1)
    letters = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
    for start in range(0, len(numbers), BATCH):
        part = numbers[start : start + BATCH]
        values = letters[rng.integers(0, 16, len(part) * VALUE_BYTES, dtype=np.uint8)]
        keys = pa.array([b"%08d" % each for each in part], pa.binary())
        yield pa.table({"key": keys, "value": _binary(values.tobytes(), len(part))})


def _binary(content: bytes, count: int) -> pa.Array:
    ends = np.arange(0, len(content) + 1, VALUE_BYTES, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


def in_rounds(folder: Path, keys: int) -> dict[str, Any]:
    """Compact the log with the default memory for keys."""
    with Cluster.open(folder / "metadata") as cluster:
        return _compact(cluster, keys)


def at_once(folder: Path, keys: int) -> dict[str, Any]:
    """Compact the log with memory for all of its records' keys."""
    with Cluster.open(folder / "metadata") as cluster:
        records = keys + keys // AGAIN
        size_bytes = max(records * BYTES_A_KEY, 2**20)
        cluster.alter_cluster_configs({"log.cleaner.dedupe.buffer.size": size_bytes})
        return _compact(cluster, keys)


def _compact(cluster: Cluster, keys: int) -> dict[str, Any]:
    clock = Stopwatch()
    rows = cluster.maintain(TOPIC).rows
    found = clock.read()
    if any(row.error for row in rows):
        raise AssertionError(f"it was not compacted: {rows}")
    [log] = cluster.describe_logs(TOPIC)
    [replica] = log.replicas
    if (replica.record_count, log.compaction.compacted_below) != (keys, keys + keys // AGAIN):
        raise AssertionError(f"not what compaction leaves: {log}")
    return found


def main(work: str, folder: str, keys: str) -> None:
    """Do it, and print the answer."""
    works = {"make": make, "rounds": in_rounds, "at-once": at_once}
    print(json.dumps(works[work](Path(folder), int(keys))))


if __name__ == "__main__":
    main(*sys.argv[1:])
