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
CHECKOUT: Final = Path(__file__).resolve().parents[3]

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


class TortureError(Exception):
    """The run can't begin or go on; the text says why and what to do, in a sentence."""


@dataclass(frozen=True, slots=True)
class TortureFolder:
    """Where everything of a run is."""

    path: Path

    @classmethod
    def begin(cls, path: Path) -> "TortureFolder":
        """Return a new run's folder.

        Raises:
            TortureError: There is something in it, or it can't be made.
        """
        folder = cls(path.absolute())
        try:
            folder.path.mkdir(parents=True, exist_ok=True)
            if any(folder.path.iterdir()):
                raise TortureError(
                    f"--dir {path} holds something: name a new or an empty folder, since a run's"
                    " history is of one run"
                )
            for each in (folder.history, folder.logs):
                each.mkdir()
        except OSError as error:
            raise TortureError(
                f"--dir {path} can't be used ({error.strerror}): name a folder that can be made"
            ) from None
        return folder

    @property
    def metadata_root(self) -> Path:
        """Where the cluster's metadata log is; no fault hits it: it has one copy."""
        return self.path / "metadata"

    def disk(self, broker_id: int) -> Path:
        """Return where a broker's disk is mounted."""
        return self.path / f"disk-{broker_id}"

    def root(self, broker_id: int) -> Path:
        """Return a broker's root: a folder on its disk, so that it can be renamed there."""
        return self.disk(broker_id) / "root"

    @property
    def history(self) -> Path:
        """What the clients did and saw, a file a process."""
        return self.path / "history"

    @property
    def logs(self) -> Path:
        """What the processes print."""
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

    @property
    def report(self) -> Path:
        """The run's result."""
        return self.path / "report.json"


def keys() -> Iterator[tuple[str, int]]:
    """Yield all partitions."""
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
