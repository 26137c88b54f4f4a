"""What replication touches, in counts: partitions of a round, commits of an append."""

from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

PARTITIONS = 1000
WITH_WORK = 5
APPENDS = 20
TABLES_OF_AN_APPEND = 4  # the leader's, two followers', and the metadata log


def fetch_round(bench: Bench) -> list[Row]:
    """Measure a round over 1,000 partitions, all with records, of which 5 have work.

    All are inspected once before, so that the rounds only owe the share of their own time.
    """
    with bench.make_cluster("round") as cluster:
        cluster.create_topic("many", partitions=PARTITIONS, replication_factor=3)
        took = seconds(lambda: _append(cluster, range(PARTITIONS), acks="all"))
        say(f"  first append to {PARTITIONS} partitions: {took:.1f} s")
        swept = seconds(lambda: cluster.replicate(is_sweep=True))
        times, reports, committed = [], [], []
        for _ in range(bench.runs + 1):
            _append(cluster, range(0, PARTITIONS, PARTITIONS // WITH_WORK), acks="1")
            before = _versions(bench, "round")
            times.append(seconds(lambda: reports.append(cluster.replicate())))
            committed.append(_commits(before, _versions(bench, "round")))
    name = f"a round over {PARTITIONS:,} partitions, {WITH_WORK} of them with work"
    return [
        row(
            f"{name}: partitions visited",
            [each.partition_count for each in reports[1:]],
            "",
            budget=Budget(bound=WITH_WORK, on="value"),
        ),
        row(
            f"{name}: other partitions inspected, as a slice",
            [each.slice_count for each in reports[1:]],
            "",
        ),
        row(
            f"{name}: commits",
            committed[1:],
            "",
            # Two followers each, and the high watermarks.
            budget=Budget(bound=2 * WITH_WORK + 1, on="value"),
        ),
        row(f"{name}: time", times[1:], "s"),
        row(
            f"an inspection of a partition of 3 replicas, in a sweep over {PARTITIONS:,}",
            [1000 * swept / PARTITIONS],
            "ms",
        ),
    ]


def append_commits(bench: Bench) -> list[Row]:
    """Count an append's commits in the steady state: fences and verification add none."""
    with bench.make_cluster("commits") as cluster:
        cluster.create_topic("many", partitions=1, replication_factor=3)
        counts = []
        for _ in range(APPENDS):
            before = _versions(bench, "commits")
            _append(cluster, [0], acks="all")
            counts.append(_commits(before, _versions(bench, "commits")))
    return [
        row(
            "commits of an append to one partition, 3 replicas, acks=all, steady state",
            counts[1:],
            "",
            budget=Budget(bound=TABLES_OF_AN_APPEND, on="value"),
        )
    ]


def _append(cluster: Cluster, partitions: range | list[int], *, acks: str) -> None:
    records = [{"value": b"v" * 100, "partition": each} for each in partitions]
    cluster.append("many", records, acks=acks)


def _versions(bench: Bench, cluster: str) -> set[str]:
    """Return the commit files of all tables of a cluster."""
    return {str(file) for file in (bench.folder / cluster).rglob("_delta_log/*.json")}


def _commits(before: set[str], after: set[str]) -> int:
    return len(after - before)
