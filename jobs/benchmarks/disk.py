"""Bytes that three replicas of a topic take, against one copy of its rows as Parquet."""

from pathlib import Path

from jobs.benchmarks import kafka_recorded
from jobs.benchmarks.bench import Bench
from jobs.benchmarks.report import Budget, Row, row


def disk(bench: Bench) -> list[Row]:
    """Measure all files of a topic's replicas: segments, commits and orphans."""
    topic = bench.filled_topic()
    ours = sum(_bytes_in(each) for each in bench.folder.glob(f"throughput/broker-*/{topic}-*"))
    peer = bench.folder / "disk.parquet"
    bench.frame(bench.records).write.option("compression", "zstd").parquet(str(peer))
    return [
        row(
            f"bytes on disk, keyed, 3 replicas, {bench.records:,} records",
            [ours / 1e6],
            "MB",
            peer="Spark writes the rows once as Parquet (zstd)",
            peer_values=[_bytes_in(peer) / 1e6],
            budget=Budget(bound=3.0, on="ratio"),
            recorded=kafka_recorded.DISK,
        )
    ]


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
