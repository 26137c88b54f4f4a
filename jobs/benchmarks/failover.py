"""A broker is lost: deciding and committing the failover of all its partitions."""

import shutil
import time

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.roots import StorageOptions

PARTITIONS = 10_000
TIMEOUT_MS = 600_000


def failover(bench: Bench) -> list[Row]:
    """Measure a broker that leads 10,000 partitions."""
    decides, commits, processor = [], [], []
    for run in range(bench.runs + 1):  # the first warms up
        decide, commit, busy = fence(bench, f"failover-{run}")
        say(f"  run {run}: decide {decide:.3f} s, commit {commit:.3f} s")
        decides.append(decide)
        commits.append(commit)
        processor.append(busy)
    totals = [sum(each) for each in zip(decides, commits, strict=True)]
    name = f"failover, a dead broker leads {PARTITIONS:,} partitions, one commit"
    return [
        row(
            f"{name}: decide and commit",
            totals[1:],
            "s",
            budget=Budget(bound=0.1, on="value"),
            recorded=kafka_recorded.FAILOVER,
        ),
        row(f"{name}: decide", decides[1:], "s"),
        row(f"{name}: commit and replay", commits[1:], "s"),
        row(f"{name}: processor time of both", processor[1:], "s"),
    ]


def fence(bench: Bench, name: str, voters: int = 1) -> tuple[float, float, float]:
    """Fence a broker of a new cluster that leads all there is; return seconds to decide, to
    commit, and of this process's processor for both: on a busy machine that says more."""
    orders = [[1, 2, 3], [1, 3, 2]]
    assignment = {number: orders[number % 2] for number in range(PARTITIONS)}
    with bench.make_cluster(name, voters=voters) as cluster:
        cluster.create_topic("many", replica_assignment=assignment)
    metadata = open_metadata(cluster.root, StorageOptions())
    before = metadata.image.offset
    decided_at = 0.0

    def decide(image: MetadataImage) -> ControllerResult[list[PartitionKey]]:
        nonlocal decided_at
        result = fence_broker(image, BrokerId(1), "broker 1: its disk is gone")
        decided_at = time.perf_counter()
        return result

    start, processor = time.perf_counter(), time.process_time()
    moved = metadata.submit(decide, timeout_ms=TIMEOUT_MS)
    end, busy = time.perf_counter(), time.process_time() - processor
    assert metadata.image.offset - before == 1 + PARTITIONS == 1 + len(moved)
    assert all(each.leader in (2, 3) for _, each in metadata.image.partitions())
    # Once two voters have the decision the third is still written to; what stays goes at the end.
    shutil.rmtree(bench.folder / name, ignore_errors=True)
    return decided_at - start, end - decided_at, busy
