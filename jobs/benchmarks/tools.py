"""Lines a second that `produce` appends from a file, how soon `consume` prints a record, and what a
consumer takes while there is none."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from jobs.benchmarks.bench import PARTITIONS, Bench, say
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

LINES = 2_000_000
LINE = b"%08d" + b"v" * 92 + b"\n"
APPENDS = 20
PAUSE_S = 0.5
"""Between two appends, so that the consumer waits as it does when nobody appends."""
IDLE_S = 20
COMMAND = [sys.executable, "-m", "kafka_on_spark.cli"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


def tools(bench: Bench) -> list[Row]:
    """Measure lines of 100 bytes, three replicas, flushed, each call a process of its own."""
    lines = bench.folder / "lines"
    with lines.open("wb") as file:
        file.writelines(LINE % number for number in range(LINES))
    starts: list[float] = []
    rates: list[float] = []
    delays_ms: list[float] = []
    shares: list[float] = []
    with bench.make_cluster("tools") as cluster:
        cluster.create_topic("lines", partitions=PARTITIONS, replication_factor=3)
        _produce(cluster, Path(os.devnull))
        for run in range(bench.runs):
            starts.append(_produce(cluster, Path(os.devnull)))
            took_s = _produce(cluster, lines) - median(starts)
            rates.append(LINES / took_s)
            delays_ms += _delays_ms(cluster, f"printed-{run}")
            idle = _idle_percent(cluster, f"idle-{run}")
            shares.append(idle)
            say(f"  run {run}: an idle member of a group takes {idle:.2f} % of a core")
            say(f"  run {run}: starts in {starts[-1]:.2f} s, then {rates[-1]:,.0f} lines a second")
    lines.unlink()
    name = "produce, lines of 100 bytes from a file, 3 replicas, flushed"
    return [
        row(
            f"{name}: without its start",
            rates,
            "lines/s",
            budget=Budget(bound=100_000, on="value", is_most=False),
        ),
        row(f"{name}: start", starts, "s", budget=Budget(bound=1.0, on="value")),
        row(
            "consume: from an append's answer to the printed record, slowest of all",
            [max(delays_ms)],
            "ms",
            budget=Budget(bound=150, on="value"),
        ),
        row(
            "consumer, a member of a group, nobody commits anything: of a core",
            shares,
            "%",
            budget=Budget(bound=1, on="value"),
        ),
    ]


def _idle_percent(cluster: Cluster, group: str) -> float:
    """Return which part of a core this process takes that waits for records. A new `group` begins
    at the end: one that was there before would read what has been appended since."""
    with cluster.consumer("lines", group=group) as consumer:
        consumer.poll(1000)
        began, processor = time.perf_counter(), time.process_time()
        while time.perf_counter() - began < IDLE_S:
            consumer.poll(5000)
        return 100 * (time.process_time() - processor) / (time.perf_counter() - began)


def _delays_ms(cluster: Cluster, topic: str) -> list[float]:
    """Return how long after an append's answer its record is printed, of several appends."""
    cluster.create_topic(topic, partitions=1, replication_factor=3)
    command = [*COMMAND, "consume", "--cluster", cluster.root, "--topic", topic, "--offset", "0"]
    delays = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout is not None, "it is a pipe"
        for number in range(APPENDS + 1):
            cluster.append(topic, [(None, b"%d" % number)])
            answered = time.perf_counter()
            process.stdout.readline()
            delays.append((time.perf_counter() - answered) * 1000)
            time.sleep(PAUSE_S)  # the next append finds the reader waiting again
        process.terminate()
    return delays[1:]  # the first one waited for the start


def _produce(cluster: Cluster, lines: Path) -> float:
    """Return the seconds that a call takes which appends the lines of a file."""
    start = time.perf_counter()
    with lines.open("rb") as file:
        subprocess.run(
            [*COMMAND, "produce", "--cluster", cluster.root, "--topic", "lines"],
            stdin=file,
            stdout=subprocess.DEVNULL,
            env=ENVIRONMENT,
            check=True,
        )
    return time.perf_counter() - start
