"""The folder of one torture run: what lies where, and the names that all its processes share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafka_on_spark.metadata.image import MetadataImage

BROKERS: Final = (1, 2, 3)
TOPICS: Final = ("orders", "payments")
PARTITIONS: Final = 2

CLUSTER_CONFIGS: Final = {
    "min.insync.replicas": 2,
    # So short that faults of seconds are noticed: a fault shall do more than be waited for.
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 500,
    "controller.lease.ms": 3000,
    "replica.lag.time.max.ms": 4000,
    "delivery.timeout.ms": 15000,
    # Leaderships go back as soon as they may, so that every root leads when it is hit.
    "leader.imbalance.per.broker.percentage": 0,
}


DiskName = int | str
"""A broker's id, or the name of a voter's disk."""


@dataclass(frozen=True, slots=True)
class TortureFolder:
    """Where everything of a run is."""

    path: Path
    voters: int = 1

    @classmethod
    def begin(cls, path: Path, voters: int = 1) -> "TortureFolder":
        """Return a run's folder, in an empty one."""
        folder = cls(path, voters)
        for each in (folder.history, folder.logs):
            each.mkdir()
        return folder

    @property
    def voter_disks(self) -> tuple[str, ...]:
        """The names of the disks of a quorum's voters, in the order of their ids; none, where the
        metadata log has one copy: no fault hits that."""
        if self.voters == 1:
            return ()
        return tuple(f"voter-{number}" for number in range(1, self.voters + 1))

    @property
    def metadata_roots(self) -> tuple[Path, ...]:
        if self.voters == 1:
            return (self.path / "metadata",)
        return tuple(self.root(each) for each in self.voter_disks)

    @property
    def cluster_url(self) -> str:
        """What opens the cluster: its metadata roots, with commas between."""
        return ",".join(map(str, self.metadata_roots))

    def disk(self, name: DiskName) -> Path:
        return self.path / f"disk-{name}"

    def root(self, name: DiskName) -> Path:
        """Return a disk's root: a folder on it, so that it can be renamed there."""
        return self.disk(name) / "root"

    @property
    def history(self) -> Path:
        """What the clients did and saw, a file a process."""
        return self.path / "history"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def checkpoint(self) -> Path:
        """The streaming query's."""
        return self.path / "stream-checkpoint"

    @property
    def nobody_controls(self) -> Path:
        """While this file is there, no process begins to control the cluster."""
        return self.path / "nobody-controls"

    @contextmanager
    def controlling(self, what: str) -> Iterator[bool]:
        """Tell others that this process decides; yield whether it may.

        The mark is set before the file is searched: a process that puts the file there and then finds no
        mark knows that nobody decides.
        """
        mark = self.path / f"controls-{os.getpid()}-{what}"
        mark.touch()
        try:
            yield not self.nobody_controls.exists()
        finally:
            mark.unlink()

    def controlling_pids(self) -> set[int]:
        """Return the processes that decide, and those that were killed while they did."""
        return {int(mark.name.split("-")[1]) for mark in self.path.glob("controls-*")}


def keys() -> Iterator[tuple[str, int]]:
    return ((topic, number) for topic in TOPICS for number in range(PARTITIONS))


def key_of(topic: str, number: int) -> str:
    """Return a partition's name in a history."""
    return f"{topic}/{number}"


def controller_pid(image: MetadataImage) -> int | None:
    """Return the process that holds the controllership, as its id says: host-pid-random."""
    lease = image.controller
    if lease is None or lease.controller_id is None:
        return None
    return int(lease.controller_id.split("-")[-2])


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what a launcher has put into it for itself."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
