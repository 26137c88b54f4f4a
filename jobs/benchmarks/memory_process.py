"""Appends and reads on `local-cluster[2,1,1024]` with a driver of 1 GiB, and watches the memory.

Executors and their Python workers are processes of their own there. Each process's peak is the
kernel's own figure, read several times a second, so that only the last moment of
a process is missed. Linux only. See `memory`.
"""

import json
import os
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark
from pyspark.sql import SparkSession

from jobs.benchmarks.bench import PARTITIONS, Bench, descendants, seconds
from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session

MASTER: Final = "local-cluster[2,1,1024]"
WORKER, PLANNER, DRIVER = "a Python worker", "a Python planner", "the driver's Python"
DRIVER_JVM, EXECUTOR_JVM = "the driver's JVM", "an executor's JVM"
ORDER: Final = (WORKER, PLANNER, DRIVER, DRIVER_JVM, EXECUTOR_JVM)
LOOK_S: Final = 0.1


class Peaks:
    """The largest peak of each kind of process below this one, in bytes, while it is entered."""

    def __init__(self) -> None:
        self.largest: dict[str, int] = dict.fromkeys(ORDER, 0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self._read_memory()
        self._read_memory()

    def _read_memory(self) -> None:
        for pid in [os.getpid(), *descendants(os.getpid())]:
            # It may end during the read.
            with suppress(FileNotFoundError, ProcessLookupError, StopIteration):
                kind, peak = kind_of(pid), peak_of(pid)
                self.largest[kind] = max(self.largest[kind], peak)


def peak_of(pid: int) -> int:
    """Return the most that a process ever had in memory, in bytes (VmHWM)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def kind_of(pid: int) -> str:
    """Return which of the kinds a process is, by its command line."""
    if pid == os.getpid():
        return DRIVER
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    if "CoarseGrainedExecutorBackend" in command:
        return EXECUTOR_JVM
    if "pyspark.daemon pyspark.worker" in command:
        return WORKER
    return PLANNER if "pyspark." in command and "python" in command.split()[0] else DRIVER_JVM


def run(folder: Path, records: int) -> dict[str, object]:
    """Append and read `records` records; return seconds and peaks in GiB."""
    spark = _session()
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    work = Path(home, "work", str(spark.sparkContext.applicationId))
    bench = Bench(folder, records=records, runs=1, batches=1)
    try:
        with bench.make_cluster("throughput", spark) as cluster, Peaks() as peaks:
            cluster.create_topic("rows", partitions=PARTITIONS, replication_factor=3)
            frame = bench.frame(records)
            append_s = seconds(lambda: cluster.append("rows", frame, acks="all"))
            read_s = seconds(lambda: _read(spark, cluster, records))
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
    gib = {kind: peak / 2**30 for kind, peak in peaks.largest.items()}
    return {"append_s": append_s, "read_s": read_s, "peak_gib": gib}


def _session() -> SparkSession:
    settings = {"spark.master": MASTER, "spark.driver.memory": "1g", "spark.ui.enabled": False}
    spark = build_session("memory", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _read(spark: SparkSession, cluster: Cluster, records: int) -> None:
    """Read all rows, and all columns of each."""
    rows = (
        spark.read.format("kafka_on_spark")
        .option("cluster", cluster.root)
        .option("subscribe", "rows")
        .load()
    )
    columns = [f"max({name})" for name in rows.columns]
    found = rows.selectExpr("count(*) AS count", *columns).first()
    assert found is not None
    assert found["count"] == records


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), int(sys.argv[2]))))
