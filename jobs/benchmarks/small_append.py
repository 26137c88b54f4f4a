"""An append of one record from plain Python, against delta-rs writing one row."""

import time
from collections.abc import Callable
from statistics import median

import pyarrow as pa
from deltalake import write_deltalake

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.report import Budget, Row, percentile, row

APPENDS = 300
WARM_UP = 30
LONG_APPENDS = 5_000
VALUE = b"v" * 100


def small_append(bench: Bench) -> list[Row]:
    """Measure appends of one record, over many checkpoints; the slowest ones are rows, too."""
    folder = bench.folder / "peer-rows.delta"
    rows = pa.table({"key": [b"key"], "value": [VALUE]})
    with bench.make_cluster("small") as cluster:
        cluster.create_topic("small", partitions=1, replication_factor=3)
        mine, processor, theirs = [], [], []
        for _ in range(WARM_UP + APPENDS):
            before = time.process_time()
            mine.append(_ms(lambda: cluster.append("small", [(b"key", VALUE)], acks="all")))
            processor.append(1000 * (time.process_time() - before))
            theirs.append(_ms(lambda: write_deltalake(folder, rows, mode="append")))
    mine, processor, theirs = mine[WARM_UP:], processor[WARM_UP:], theirs[WARM_UP:]
    say(f"  {APPENDS} appends, medians of each tenth: {_tenths(mine)} ms")
    name = "append of 1 record, 3 replicas, acks=all, flushed"
    peer = "delta-rs appends one row (1 copy, not flushed)"
    return [
        row(
            f"{name}: median",
            mine,
            "ms",
            peer=peer,
            peer_values=theirs,
            budget=Budget(bound=10, on="value"),
            recorded=kafka_recorded.SMALL_PLAIN,
        ),
        row(
            f"{name}: median, as a share of the peer's",
            [median(mine) / median(theirs)],
            "×",
            budget=Budget(bound=0.4, on="value"),
        ),
        # The median has no checkpoint in it.
        row(f"{name}: processor", processor, "ms", budget=Budget(bound=8, on="value")),
        *(
            row(
                f"{name}: {label}",
                [percentile(mine, share)],
                "ms",
                peer=peer,
                peer_values=[percentile(theirs, share)],
            )
            for label, share in (("99 %", 0.99), ("slowest", 1.0))
        ),
        row(
            f"{name}: slowest, in medians",
            [max(mine) / median(mine)],
            "×",
            peer=peer,
            peer_values=[max(theirs) / median(theirs)],
            budget=Budget(bound=10, on="value"),
        ),
    ]


def long_partition(bench: Bench) -> list[Row]:
    """Measure single appends to a partition that has had 5,000 of them, and no merging."""
    with bench.make_cluster("long") as cluster:
        cluster.create_topic("long", partitions=1, replication_factor=3)
        times: list[float] = []
        for count in range(1, WARM_UP + LONG_APPENDS + 1):
            times.append(_ms(lambda: cluster.append("long", [(b"key", VALUE)], acks="all")))
            if count % 1000 == 0:
                say(f"  {count} appends, the last hundred {median(times[-100:]):.1f} ms each")
    first, last = median(times[WARM_UP : WARM_UP + 100]), median(times[-100:])
    return [
        row(
            f"append of 1 record to a partition after {LONG_APPENDS:,} of them",
            [last],
            "ms",
            peer="the first hundred to that partition",
            peer_values=[first],
            budget=Budget(bound=1.5, on="ratio"),
        )
    ]


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def _tenths(values: list[float]) -> str:
    size = len(values) // 10
    return " ".join(
        f"{percentile(values[start : start + size], 0.5):.0f}"
        for start in range(0, size * 10, size)
    )
