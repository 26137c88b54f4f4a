"""What the measurements of long metadata logs do in processes of their own.

    python -m jobs.benchmarks.old_log_process WORK METADATA_ROOT [RECORDS]

The answer is one line of JSON on standard output. The cluster's brokers have no disks here: what is
measured touches the metadata alone.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from jobs.benchmarks.scale_process import OPTIONS, Stopwatch, append, create, register, submit
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import ClusterRecord
from kafka_on_spark.node.opening import open_metadata

BROKERS = 3
PARTITIONS = 64
COMMIT_RECORDS = 32  # an append to as many partitions
TAIL_RECORDS = 500
DECISIONS = 200


def make(root: str, records: int) -> dict[str, Any]:
    """Make a metadata log of so many records, as appends leave it: with merges, checkpoints and
    snapshots. Nothing is flushed, to make it soon."""
    os.fsync = lambda fd: None
    create_metadata_log(root, OPTIONS, "c")
    metadata = open_metadata(root, OPTIONS)
    submit(metadata, lambda image: ControllerResult([ClusterRecord(cluster_id="c")], None))
    for number in range(1, BROKERS + 1):
        submit(metadata, partial(register, number=number))
    submit(metadata, partial(create, topic=0, count=PARTITIONS))
    keys = [key for key, _ in metadata.image.partitions()]
    clock = Stopwatch()
    while metadata.image.offset < records or not _has_tail(root, metadata.image.offset):
        keys = keys[COMMIT_RECORDS:] + keys[:COMMIT_RECORDS]
        submit(metadata, partial(append, keys=keys[:COMMIT_RECORDS]))
        metadata.maintain()
    return clock.read() | {"records": metadata.image.offset}


def _has_tail(root: str, offset: int) -> bool:
    """Return whether the log goes on after its newest snapshot for as long as in each of these
    logs: it is read and replayed by each opening."""
    ends = [int(each.name[:20]) for each in Path(root, "snapshots").glob("*.parquet")]
    return TAIL_RECORDS <= offset - max(ends, default=0) < TAIL_RECORDS + COMMIT_RECORDS


def opened(root: str) -> dict[str, Any]:
    """Open the cluster's metadata."""
    clock = Stopwatch()
    metadata = open_metadata(root, OPTIONS)
    return clock.read() | {"records": metadata.image.offset}


def decide(root: str) -> dict[str, Any]:
    """Decide, with another process's image that follows: each commit, and each look at it, on the
    wall and of the processor."""
    writer, follower = open_metadata(root, OPTIONS), open_metadata(root, OPTIONS)
    key, _ = next(iter(writer.image.partitions()))
    commits, looks = [], []
    for _ in range(DECISIONS):
        commits.append(_taken(partial(submit, writer, partial(append, keys=[key]))))
        looks.append(_taken(follower.catch_up))
        writer.maintain()
    assert follower.image.offset == writer.image.offset
    commit, follow = (list(map(median, zip(*each, strict=True))) for each in (commits, looks))
    return {
        "commit_ms": commit[0],
        "commit_processor_ms": commit[1],
        "follow_ms": follow[0],
        "follow_processor_ms": follow[1],
    }


def _taken(work: Callable[[], Any]) -> tuple[float, float]:
    start, processor = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - start), 1000 * (time.process_time() - processor)


def history(root: str) -> dict[str, Any]:
    """Read all that was ever decided."""
    metadata = open_metadata(root, OPTIONS)
    clock = Stopwatch()
    batches = metadata.history()
    return clock.read() | {"decisions": len(batches)}


def files(root: str) -> dict[str, Any]:
    """Count the files of the log's rows that its table names."""
    table = next(Path(root).glob("__cluster_metadata-*"))
    from deltalake import DeltaTable

    return {"files": len(DeltaTable(str(table)).file_uris())}


def main(work: str, root: str, *counts: str) -> None:
    """Do it, and print the answer."""
    works: dict[str, Callable[..., dict[str, Any]]] = {
        "make": make,
        "open": opened,
        "decide": decide,
        "history": history,
        "files": files,
    }
    print(json.dumps(works[work](root, *map(int, counts))))


if __name__ == "__main__":
    main(*sys.argv[1:])
