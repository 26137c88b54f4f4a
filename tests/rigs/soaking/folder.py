"""The folder of one run: what lies where, its cluster, and the names that all processes share."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kafka_on_spark import Cluster

BROKERS: Final = (1, 2, 3, 4)
PARTITIONS: Final = 4
EVENTS, COPIES, TABLE = "events", "copies", "table"
"""Appended to; what a stream's sink makes of it; a compacted topic."""

RETENTION_MS: Final = 60_000
CLUSTER_CONFIGS: Final = {"min.insync.replicas": 2, "file.delete.delay.ms": 10_000}
DELETED: Final = {"retention.ms": RETENTION_MS}
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.3,
    "delete.retention.ms": RETENTION_MS,
}
TOPICS: Final[Mapping[str, Mapping[str, object]]] = {
    EVENTS: DELETED,
    COPIES: DELETED,
    TABLE: COMPACTED,
}


@dataclass(frozen=True, slots=True)
class SoakFolder:
    path: Path

    @classmethod
    def begin(cls, path: Path) -> "SoakFolder":
        """Return a run's folder, in an empty one."""
        folder = cls(path)
        for each in (folder.notes, folder.logs, folder.metadata_root, *folder.roots):
            each.mkdir(parents=True)
        return folder

    @property
    def metadata_root(self) -> Path:
        return self.path / "roots" / "metadata"

    @property
    def roots(self) -> list[Path]:
        return [self.path / "roots" / f"broker-{number}" for number in BROKERS]

    @property
    def notes(self) -> Path:
        """What the clients did, a file a client."""
        return self.path / "notes"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        lines = self.log_of(name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next(
            (line.strip()[:300] for line in reversed(lines) if line.strip()), "it is silent"
        )

    def make_cluster(self) -> None:
        brokers = dict(zip(BROKERS, self.roots, strict=True))
        with Cluster.create(self.metadata_root, brokers, configs=CLUSTER_CONFIGS) as cluster:
            for topic, configs in TOPICS.items():
                cluster.create_topic(
                    topic, partitions=PARTITIONS, replication_factor=3, configs=configs
                )

    def sizes(self) -> "Sizes":
        """Return what is on all roots, but for the bytes of the metadata log's rows."""
        size = count = data_size = data_count = commits_max = 0
        for folder, _, files in os.walk(self.path / "roots"):
            is_rows = Path(folder).name.startswith("__cluster_metadata-")
            is_log = folder.endswith("_delta_log")
            commits_max = max(commits_max, sum(name.endswith(".json") for name in files) * is_log)
            for name in files:
                try:
                    bytes_of_file = os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # cleaned meanwhile
                    continue
                if is_rows and name.endswith(".parquet"):
                    bytes_of_file = 0
                size, count = size + bytes_of_file, count + 1
                if not is_log:
                    data_size, data_count = data_size + bytes_of_file, data_count + 1
        return Sizes(size, count, data_size, data_count, commits_max)


class Sizes(NamedTuple):
    """What is on all roots, but for the bytes of the metadata log's rows: they are kept."""

    size_bytes: int
    files: int
    data_bytes: int
    data_files: int
    commits_max: int
