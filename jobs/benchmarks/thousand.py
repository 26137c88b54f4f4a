"""One append that touches 1,000 partitions: the first, which makes their tables, and the next."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import Bench, say, seconds
from jobs.benchmarks.report import Budget, Row, row
from jobs.benchmarks.throughput import flush
from kafka_on_spark import Cluster

PARTITIONS = 1000
REPLICAS = 3
THREADS = 8
VALUE = b"v" * 100


def thousand(bench: Bench) -> list[Row]:
    """Measure a record to each partition, against flushed writes of delta-rs to as many tables."""
    count = max(8, min(PARTITIONS, bench.records // 100))
    with bench.make_cluster("thousand") as cluster:
        topics = 0

        def first(_: int) -> float:
            nonlocal topics
            topics += 1
            cluster.create_topic(f"many-{topics}", partitions=count, replication_factor=REPLICAS)
            return _append(cluster, f"many-{topics}", count)

        def again(_: int) -> float:
            return _append(cluster, f"many-{topics}", count)

        peer = _Tables(bench.folder / "thousand-peer", count * REPLICAS)
        made, peer_made = [first(0)], [peer.make()]
        say(f"  first: {made[0]:.1f} s, peer {peer_made[0]:.1f} s")
        repeated, peer_repeated = bench.alternate(again, lambda _: peer.write())
    name = f"an append to {count:,} partitions, 3 replicas, acks=all, flushed"
    floor = f"delta-rs writes a row to {count * REPLICAS:,} tables in {THREADS} threads, flushed"
    return [
        row(
            f"{name}: the first, tables made",
            made,
            "s",
            peer=f"{floor}, new ones",
            peer_values=peer_made,
            budget=Budget(bound=6, on="value"),
            recorded=kafka_recorded.NEW_PARTITIONS,
        ),
        row(
            f"{name}: after it",
            repeated,
            "s",
            peer=floor,
            peer_values=peer_repeated,
            budget=Budget(bound=3, on="value"),
        ),
    ]


def _append(cluster: Cluster, topic: str, partitions: int) -> float:
    records = [{"value": VALUE, "partition": each} for each in range(partitions)]
    return seconds(lambda: cluster.append(topic, records, acks="all"))


class _Tables:
    """As many Delta tables as there are replicas, written to without any protocol."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count
        self._rows = pa.table({"value": [VALUE]})

    def make(self) -> float:
        """Return the seconds of the first write to each."""
        shutil.rmtree(self._folder, ignore_errors=True)
        return self.write()

    def write(self) -> float:
        """Return the seconds of a write to each, its files and folders flushed."""
        with ThreadPoolExecutor(THREADS) as threads:
            return seconds(lambda: list(threads.map(self._write, range(self._count))))

    def _write(self, number: int) -> None:
        folder = self._folder / str(number)
        before = _files(folder)
        write_deltalake(folder, self._rows, mode="append")
        for path in [*(_files(folder) - before), folder, folder / "_delta_log"]:
            flush(str(path))


def _files(folder: Path) -> set[Path]:
    return {file for file in folder.rglob("*") if file.is_file()}
