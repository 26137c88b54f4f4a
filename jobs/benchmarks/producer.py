"""Records a second that one thread, and eight, send through a producer, until all are answered."""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import PARTITIONS, Bench, say
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

RECORDS = 200_000
WARM_UP = 1_000
THREADS = 8
LINGER_MS = 50
VALUE = b"v" * 100


def producer(bench: Bench) -> list[Row]:
    """Measure keyed records of 100 bytes, three replicas, flushed."""
    with bench.make_cluster("producer") as cluster:
        _records_a_second(cluster, "warm-up", 1, WARM_UP)
        one: list[float] = []
        many: list[float] = []
        for run in range(bench.runs):
            one.append(_records_a_second(cluster, f"one-{run}", 1, RECORDS))
            many.append(_records_a_second(cluster, f"many-{run}", THREADS, RECORDS))
            say(f"  run {run}: {one[-1]:,.0f} a second of one thread, {many[-1]:,.0f} of {THREADS}")
    name = f"producer, records of 100 bytes, 3 replicas, linger_ms={LINGER_MS}, flushed"
    return [
        row(
            f"{name}: one thread",
            one,
            "records/s",
            budget=Budget(bound=50_000, on="value", is_most=False),
            recorded=kafka_recorded.PRODUCER,
        ),
        row(
            f"{name}: {THREADS} threads",
            many,
            "records/s",
            peer="one thread",
            peer_values=[median(one)],
            budget=Budget(bound=1, on="ratio", is_most=False),
        ),
    ]


def _records_a_second(cluster: Cluster, topic: str, threads: int, records: int) -> float:
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    keys = [b"%08d" % number for number in range(records // threads)]
    with cluster.producer(linger_ms=LINGER_MS) as sending, ThreadPoolExecutor(threads) as pool:

        def send_all() -> None:
            for key in keys:
                sending.send(topic, key, VALUE)

        start = time.perf_counter()
        for each in [pool.submit(send_all) for _ in range(threads)]:
            each.result()
        sending.flush()
        return len(keys) * threads / (time.perf_counter() - start)
