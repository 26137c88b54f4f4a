"""Parts that measurements share: the session, the rows, a cluster, a clock, and the machine."""

import compileall
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import kafka_on_spark
from kafka_on_spark import Cluster
from kafka_on_spark.spark.session import build_session

BROKERS = 3
PARTITIONS = 8


class Bench:
    """One run of the benchmark.

    Attributes:
        folder: A folder on the measured disk; removed at the end.
        records: Records of the large appends.
        runs: Repetitions of each measurement, after one to warm up.
        batches: Micro-batches of the measurement of one record each.
        full_topic: A topic of the cluster with `records` records; None until one is filled.
    """

    def __init__(self, folder: Path, *, records: int, runs: int, batches: int) -> None:
        self.folder = folder
        self.records = records
        self.runs = runs
        self.batches = batches
        self.full_topic: str | None = None
        self._topics = 0
        self._is_spark_shared = False
        # An installed package is compiled. Where Python may not write bytecode, each call of the
        # command line, and each process that plans a stream, would compile a checkout's modules.
        compileall.compile_dir(Path(kafka_on_spark.__file__).parent, quiet=2)

    @cached_property
    def spark(self) -> SparkSession:
        """The session: the running one, or one that the first use makes."""
        self._is_spark_shared = SparkSession.getActiveSession() is not None
        spark = build_session("benchmark", **{"spark.ui.enabled": False})
        spark.sparkContext.setLogLevel("ERROR")
        return spark

    @cached_property
    def cluster(self) -> Cluster:
        """Three brokers on this disk, with Spark for tasks."""
        return self.make_cluster("throughput", self.spark)

    @property
    def cluster_url(self) -> str:
        """Where `cluster` is, for ``format("kafka_on_spark")``."""
        return str(self.folder / "throughput" / "metadata")

    def make_cluster(
        self, name: str, spark: SparkSession | None = None, voters: int = 1
    ) -> Cluster:
        """Return a new cluster of three brokers in a folder of its own."""
        root = self.folder / name
        brokers = {number: root / f"broker-{number}" for number in range(1, BROKERS + 1)}
        metadata = [root / "metadata"]
        if voters > 1:
            metadata = [root / f"metadata-{number}" for number in range(1, voters + 1)]
        for each in [*metadata, *brokers.values()]:
            each.mkdir(parents=True)
        return Cluster.create(metadata, brokers=brokers, spark=spark)

    def new_topic(self, replicas: int, partitions: int = PARTITIONS) -> str:
        """Create a topic of the large cluster under a name that was never used."""
        self._topics += 1
        name = f"topic-{self._topics}"
        self.cluster.create_topic(name, partitions=partitions, replication_factor=replicas)
        return name

    def drop_topic(self, name: str) -> None:
        """Delete a topic and its files: no controller runs here that would remove them."""
        self.cluster.delete_topic(name)
        for folder in self.folder.glob(f"throughput/broker-*/{name}-*"):
            shutil.rmtree(folder)

    def filled_topic(self) -> str:
        """Return a topic of three replicas that has `records` keyed records; made if need be."""
        if self.full_topic is None:
            topic = self.new_topic(replicas=3)
            self.cluster.append(topic, self.frame(self.records), acks="all")
            self.full_topic = topic
        return self.full_topic

    def frame(self, records: int) -> DataFrame:
        """Return rows of an 8-byte key and a value of 100 bytes, 4 bits of entropy a byte."""
        words = ",".join(f"lpad(hex(xxhash64(id, {word})), 16, '0')" for word in range(6))
        return self.spark.range(records).selectExpr(
            "lpad(cast(id as string), 8, '0') AS key",
            f"concat({words}, substr(lpad(hex(xxhash64(id, 6)), 16, '0'), 1, 4)) AS value",
        )

    def alternate(
        self,
        ours: Callable[[int], float],
        peers: Callable[[int], float],
        runs: int | None = None,
    ) -> tuple[list[float], list[float]]:
        """Measure ours and the peer alternately, and who begins, too: the first one meets the
        memory that was given back. Run 0 of each warms up and is dropped."""
        mine, theirs = [], []
        for run in range((runs or self.runs) + 1):
            if run % 2:
                theirs.append(peers(run))
            mine.append(ours(run))
            if not run % 2:
                theirs.append(peers(run))
            say(f"  run {run}: {mine[-1]:.3g} against {theirs[-1]:.3g}")
        return mine[1:], theirs[1:]

    def close(self) -> None:
        """Let cluster, session and files go."""
        if "cluster" in self.__dict__:
            self.cluster.close()
        if "spark" in self.__dict__ and not self._is_spark_shared:
            self.spark.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def seconds(work: Callable[[], Any]) -> float:
    """Return how long `work` takes; earlier writes are flushed before it begins."""
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work: Callable[[], Any]) -> float:
    """Return the processor time that `work` takes in this process and in those that it has started,
    Spark's included."""
    before = _processor_s()
    work()
    # By process: Spark ends Python workers that were idle for a minute, and nobody inherits their
    # time. What they took before must not be taken off the others'.
    return sum(took - before.get(pid, 0.0) for pid, took in _processor_s().items())


def _processor_s() -> dict[int, float]:
    # Spark's JVM is this process's parent where spark-submit has started it, else its child.
    first = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else os.getpid()
    found = {}
    for pid in (first, *descendants(first)):
        # It may end during the read.
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks = sum(map(int, fields[11:15]))  # its own, and that of children that ended
            found[pid] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    found = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def part_streams(*, is_result_alone: bool) -> None:
    """Separate standard error from standard output again: spark-submit joins a job's two streams.

    If the launcher's standard error can't be found, it is dropped where the result must be alone.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    for path in [f"/proc/{os.getppid()}/fd/2", os.devnull][: 1 + is_result_alone]:
        with suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.dup2(descriptor, sys.stderr.fileno())
            os.close(descriptor)
            return


def say(text: str) -> None:
    """Print progress to standard error: standard output is for the result."""
    print(text, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Return the machine and the versions of a measurement."""
    return {
        "cpu": _first_value("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("pyspark", "deltalake", "pyarrow")},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def _first_value(file: str, name: str) -> str | None:
    if not Path(file).is_file():
        return None
    lines: Sequence[str] = Path(file).read_text(encoding="utf-8").splitlines()
    return next((each.split(":", 1)[1].strip() for each in lines if each.startswith(name)), None)
