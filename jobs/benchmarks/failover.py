"""A broker is lost: deciding and committing the failover of all its partitions."""

import resource
import shutil
import sys
import time

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import BrokerId, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.spark.services import open_metadata
from kafka_on_spark.storage.roots import StorageOptions

TIMEOUT_MS = 600_000


def failover(bench: Bench) -> list[Row]:
    """Measure 10,000 partitions."""
    return _failover(bench, partitions=10_000, runs=bench.runs + 1, seconds_max=0.1)


def failover_1m(bench: Bench) -> list[Row]:
    """Measure 1,000,000 partitions, and the memory that it takes."""
    rows = _failover(bench, partitions=1_000_000, runs=1, seconds_max=20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    gib = peak / (2**30 if sys.platform == "darwin" else 2**20)
    memory = row(
        "failover, 1,000,000 partitions: peak memory of the process",
        [gib],
        "GiB",
        budget=Budget(bound=4, on="value"),
    )
    return [*rows, memory]


def _failover(bench: Bench, *, partitions: int, runs: int, seconds_max: float) -> list[Row]:
    decides, commits = [], []
    for run in range(runs):
        decide, commit, moved = _fence(bench, f"failover-{partitions}-{run}", partitions)
        say(f"  run {run}: decide {decide:.3f} s, commit {commit:.3f} s, {moved} leaders moved")
        decides.append(decide)
        commits.append(commit)
    if runs > 1:  # the first warms up
        decides, commits = decides[1:], commits[1:]
    totals = [sum(each) for each in zip(decides, commits, strict=True)]
    name = f"failover, {partitions:,} partitions, one commit"
    return [
        row(
            f"{name}: decide and commit", totals, "s", budget=Budget(bound=seconds_max, on="value")
        ),
        row(f"{name}: decide", decides, "s"),
        row(f"{name}: commit and replay", commits, "s"),
    ]


def _fence(bench: Bench, name: str, partitions: int) -> tuple[float, float, int]:
    """Fence a broker of a new cluster; return seconds to decide, to commit, and what moved."""
    with bench.make_cluster(name) as cluster:
        cluster.create_topic("many", partitions=partitions, replication_factor=3)
    metadata = open_metadata(str(bench.folder / name / "metadata"), StorageOptions())
    before = metadata.image.offset
    decided_at = 0.0

    def decide(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
        nonlocal decided_at
        result = fence_broker(image, BrokerId(1), "broker 1: its disk is gone")
        decided_at = time.perf_counter()
        return result

    start = time.perf_counter()
    moved = metadata.submit(decide, timeout_ms=TIMEOUT_MS)
    end = time.perf_counter()
    assert metadata.image.offset - before == 1 + partitions, "every partition had it in its ISR"
    assert all(each.leader != 1 for _, each in metadata.image.partitions())
    shutil.rmtree(bench.folder / name)
    return decided_at - start, end - decided_at, len(moved)
