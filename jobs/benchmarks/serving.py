"""What `serve` takes of a processor while nobody appends: passes, rounds, the sweep, its lease."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from kafka_on_spark import Cluster

PARTITIONS = 10_000
AT_ONCE = 1000
HOME = Path(__file__).resolve().parents[2]
READ_S_MAX = 3600
REST_S_MAX = 3600
RESTS_PERCENT = 10
SAMPLE_S = 60


def serve(bench: Bench) -> list[Row]:
    """Measure an idle process of 10,000 partitions, once it has read all of them whole and been at
    all for upkeep."""
    count = max(8, min(PARTITIONS, bench.records // 100))
    with bench.make_cluster("serve") as cluster:
        took = seconds(lambda: _fill(cluster, count))
        say(f"  a record to each of {count:,} partitions: {took:.1f} s")
        root = cluster.root
    name = f"serve, idle, {count:,} partitions of 3 replicas"
    with _Served(root) as served:
        read_s = seconds(served.wait_until_all_are_read)
        say(f"  all are read after {read_s:.0f} s")
        rest_s = seconds(served.wait_until_it_rests)
        first_processor_s = served.processor_s()
        say(f"  it rests {rest_s:.0f} s later")
        shares = [served.share(SAMPLE_S) for _ in range(bench.runs)]
        resident = served.resident_gib()
    return [
        row(
            f"{name}: of a core, the sweep included",
            shares,
            "%",
            budget=Budget(bound=2, on="value"),
        ),
        row(f"{name}: its first look at all, processor time", [first_processor_s], "s"),
        row(f"{name}: resident memory", [resident], "GiB"),
    ]


def _fill(cluster: Cluster, count: int) -> None:
    cluster.create_topic("idle", partitions=count, replication_factor=3)
    for start in range(0, count, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, count))
        cluster.append("idle", [{"value": b"v" * 100, "partition": each} for each in numbers])


class _Served:
    """The process that serves a cluster."""

    def __init__(self, root: str) -> None:
        command = [sys.executable, "-m", "kafka_on_spark.cli", "serve", "--cluster", root]
        path = os.pathsep.join([str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [*command, "--health-port", "0"],
            env=os.environ | {"PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        self._address = ""

    def __enter__(self) -> "_Served":
        assert self._process.stderr is not None, "it is a pipe"
        for line in self._process.stderr:
            if "answers /healthz" in line:
                self._address = line.split()[-1]
                return self
        raise ChildProcessError(f"serve has ended with {self._process.wait()}")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def wait_until_all_are_read(self) -> None:
        """Wait until the sweep has come to all partitions."""
        until = time.monotonic() + READ_S_MAX
        while time.monotonic() < until:
            found = self._ready()["round"]
            if found["count"] and found["not_inspected_in_time"] == 0:
                return
            time.sleep(1)  # asked more often, it would not be idle
        raise TimeoutError(f"not all partitions were inspected within {READ_S_MAX} s")

    def _ready(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"{self._address}/readyz") as answer:
                said: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            said = json.load(error)
        return said

    def processor_s(self) -> float:
        """Return the processor time that the process has taken so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_until_it_rests(self) -> None:
        """Wait until upkeep has been at all partitions for the first time, which nothing but its
        processor time shows: a share of a core until then, and hardly any after it."""
        until = time.monotonic() + REST_S_MAX
        while self.share(SAMPLE_S / 6) > RESTS_PERCENT:
            if time.monotonic() > until:
                raise TimeoutError(f"it did not rest within {REST_S_MAX} s")

    def share(self, sample_s: float) -> float:
        """Return the part of a core that it takes for so long, in percent."""
        before, began = self.processor_s(), time.monotonic()
        time.sleep(sample_s)  # it is measured while it is left alone
        return 100 * (self.processor_s() - before) / (time.monotonic() - began)

    def resident_gib(self) -> float:
        """Return its memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**30
