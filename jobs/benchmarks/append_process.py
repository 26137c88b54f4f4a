"""A process of `processes`: it warms up, waits for a line, and appends for a while.

    python -m jobs.benchmarks.append_process append|delta ROOT NUMBER SECONDS

Prints "ready", then the seconds of each append as JSON.
"""

import json
import sys
import time
from collections.abc import Callable

import pyarrow as pa
from deltalake import write_deltalake

from kafka_on_spark import Cluster

WARM_UP = 5
VALUE = b"v" * 100


def appending(root: str, number: int) -> Callable[[], object]:
    """Return what appends a record to the topic of this process."""
    cluster = Cluster.open(root)
    return lambda: cluster.append(f"own-{number}", [(b"key", VALUE)], acks="all")


def writing(root: str, number: int) -> Callable[[], object]:
    """Return what appends a row to the Delta table of this process."""
    rows = pa.table({"key": [b"key"], "value": [VALUE]})
    return lambda: write_deltalake(f"{root}/own-{number}", rows, mode="append")


WORKS: dict[str, Callable[[str, int], Callable[[], object]]] = {
    "append": appending,
    "delta": writing,
}


def main(work: str, root: str, number: str, seconds: str) -> None:
    """Measure and print."""
    one = WORKS[work](root, int(number))
    for _ in range(WARM_UP):
        one()
    print("ready", flush=True)
    sys.stdin.readline()
    taken = []
    end = time.perf_counter() + float(seconds)
    while (start := time.perf_counter()) < end:
        one()
        taken.append(time.perf_counter() - start)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(*sys.argv[1:])
