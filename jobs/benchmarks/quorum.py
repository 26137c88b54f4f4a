"""What a metadata log on three voters costs, against one on one voter, side by side in one run.

All roots lie on one disk, so three voters share what one has for itself: on disks of their own they
would cost less. On S3 every request takes 50 ms, and there the voters are asked at once.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from jobs.benchmarks.bench import BROKERS, Bench, say
from jobs.benchmarks.failover import PARTITIONS, fence
from jobs.benchmarks.processes import PROCESSES, flattened, make_topics, run_together
from jobs.benchmarks.report import Budget, Row, row
from jobs.benchmarks.scale import work_in_process
from jobs.benchmarks.small_append import VALUE
from kafka_on_spark import Cluster
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.roots import StorageOptions

VOTERS = 3
APPENDS = 200
STORE_APPENDS = 20
LOOKS = 300
WARM_UP = 20
SECONDS = 10
OPENED_SHARE = 5
"""One partition to so many records of the large appends: a million, unless less is asked for."""

REQUEST_S = 0.05
ONE = "one voter"


def quorum(bench: Bench) -> list[Row]:
    """Measure appends, looks, a decision and opening with three voters and with one."""
    with (
        bench.make_cluster("quorum-3", voters=VOTERS) as three,
        bench.make_cluster("quorum-1") as one,
    ):
        rows = [_small_append(three, one), _look(three, one)]
    return [*rows, _eight_writers(bench), _decision(bench), _opening(bench), _on_a_store()]


def _row(name: str, mine: list[float], theirs: list[float], unit: str, budget: Budget) -> Row:
    return row(f"three voters: {name}", mine, unit, peer=ONE, peer_values=theirs, budget=budget)


def _most(ratio: float) -> Budget:
    return Budget(bound=ratio, on="ratio")


def _alternated(
    three: Callable[[], object], one: Callable[[], object], count: int
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of both, who take turns to begin; the first few warm up."""
    mine: list[float] = []
    theirs: list[float] = []
    for number in range(WARM_UP + count):
        order = [(three, mine), (one, theirs)]
        for work, times in order if number % 2 else reversed(order):
            start = time.perf_counter()
            work()
            times.append(1000 * (time.perf_counter() - start))
    say(f"  medians {median(mine[WARM_UP:]):.2f} against {median(theirs[WARM_UP:]):.2f} ms")
    return mine[WARM_UP:], theirs[WARM_UP:]


def _small_append(three: Cluster, one: Cluster) -> Row:
    for each in (three, one):
        each.create_topic("small", partitions=1, replication_factor=BROKERS)
    times = _alternated(_appending(three), _appending(one), APPENDS)
    return _row("append of 1 record, 3 replicas, acks=all, flushed", *times, "ms", _most(1.6))


def _appending(cluster: Cluster) -> Callable[[], object]:
    return lambda: cluster.append("small", [(b"key", VALUE)], acks="all")


def _look(three: Cluster, one: Cluster) -> Row:
    mine, theirs = (open_metadata(each.root, StorageOptions()) for each in (three, one))
    times = _alternated(mine.catch_up, theirs.catch_up, LOOKS)
    return _row("an idle stream's look at the metadata log", *times, "ms", _most(1.5))


def _eight_writers(bench: Bench) -> Row:
    urls = {}
    for name, voters in (("writers-3", VOTERS), ("writers-1", 1)):
        with bench.make_cluster(name, voters=voters) as cluster:
            make_topics(cluster)
            urls[voters] = cluster.root
    span = max(1, min(SECONDS, 3 * bench.runs))

    def rate(voters: int) -> float:
        return len(flattened(run_together("append", urls[voters], span))) / span

    mine, theirs = bench.alternate(lambda _: rate(VOTERS), lambda _: rate(1))
    name = f"{PROCESSES} processes append 1 record to topics of their own, in all"
    least = Budget(bound=0.5, on="ratio", is_most=False)
    return _row(name, mine, theirs, "appends/s", least)


def _decision(bench: Bench) -> Row:
    def took(voters: int, run: int) -> float:
        decide, commit, _ = fence(bench, f"fence-{voters}-{run}", voters)
        return decide + commit

    mine, theirs = bench.alternate(lambda run: took(VOTERS, run), lambda run: took(1, run))
    name = f"a dead broker leads {PARTITIONS:,} partitions: decide and commit"
    return _row(name, mine, theirs, "s", _most(1.5))


def _opening(bench: Bench) -> Row:
    partitions = max(bench.records // OPENED_SHARE, 1)
    urls = {
        voters: _made(bench.folder / f"opened-{voters}", voters, partitions)
        for voters in (VOTERS, 1)
    }

    def ready(voters: int) -> float:
        return float(work_in_process(_SCALE, "ready", urls[voters])["seconds"])

    mine, theirs = bench.alternate(lambda _: ready(VOTERS), lambda _: ready(1))
    return _row(f"a new controller, {partitions:,} partitions", mine, theirs, "s", _most(1.1))


_SCALE = "jobs.benchmarks.scale_process"


def _made(folder: Path, voters: int, partitions: int) -> str:
    roots = [folder / f"metadata-{number}" for number in range(1, voters + 1)]
    for each in roots:
        each.mkdir(parents=True)
    url = ",".join(map(str, roots))
    say(f"  {voters} voters: {work_in_process(_SCALE, 'make', url, partitions)}")
    return url


def _on_a_store() -> Row:
    """Measure small appends where every request takes its time; the brokers are there, too."""
    with _on_slow_store(VOTERS) as three, _on_slow_store(1) as one:
        for each in (three, one):
            each.create_topic("small", partitions=1, replication_factor=BROKERS)
        times = _alternated(_appending(three), _appending(one), STORE_APPENDS)
    name = f"append of 1 record on S3, {1000 * REQUEST_S:.0f} ms a request"
    return row(f"three voters: {name}", times[0], "ms", peer=ONE, peer_values=times[1])


@contextmanager
def _on_slow_store(voters: int) -> Iterator[Cluster]:
    from tests.store.s3.faulty_s3 import faulty_s3  # no other measurement needs a store

    with faulty_s3(bucket=f"voters-{voters}") as store:
        base = f"s3://{store.bucket}"
        roots = [f"{base}/metadata-{number}" for number in range(1, voters + 1)]
        brokers = {number: f"{base}/broker-{number}" for number in range(1, BROKERS + 1)}
        options = store.options(timeout="30s", connect_timeout="30s")
        with Cluster.create(roots, brokers, storage_options=options) as cluster:
            store.latency_s = REQUEST_S
            yield cluster
