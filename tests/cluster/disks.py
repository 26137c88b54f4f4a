"""Brokers' disks as folders that can be taken away, given back, wiped and rolled back."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from errno import ENOTEMPTY
from pathlib import Path
from typing import Any
from unittest.mock import patch

from deltalake import DeltaTable

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import ClusterClosedError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller import preparing_roots, probes
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.produce.append_rounds import AppendRounds
from kafka_on_spark.store import new_roots
from kafka_on_spark.store.root_identity import META_PROPERTIES
from kafka_on_spark.store.storage_options import is_local
from tests.cluster.folders import quick_folder

FAST = {
    # One pass of the controller fences a broker whose root is away.
    "broker.session.timeout.ms": "240",
    # A test waits for what it expects, not for a default of minutes.
    "delivery.timeout.ms": "5000",
    # Nothing that goes away here comes back within moments.
    "replica.verdict.delay.ms": "100",
    # Leaders move back when a test asks for it.
    "leader.imbalance.per.broker.percentage": "100",
    # Records have timestamps of their own, which may be long ago.
    "retention.ms": "-1",
}

PATIENCE_MS = 60_000
"""For an append that must wait for something and then succeed: a leader's broker is fenced, a replica
inspected twice, a voter elected. A busy machine may need more than delivery.timeout.ms above."""

JUDGED_MS_MAX = 120_000
"""How long a pass of a controller may take to judge brokers that fail: no test expects one to give up."""

RENAMES_MAX = 100

_raced: set[int] = set()


@contextmanager
def one_race_a_device() -> Iterator[None]:
    """Have this process race once on a file system, and not for each root of each cluster.

    The races take three quarters of a creation. That they are run, and what they find, is tested in
    tests/store.
    """
    race = new_roots.check_conditional_puts

    def race_once(root, options):
        device = os.stat(root).st_dev if is_local(root) else None
        if device not in _raced:
            race(root, options)
        if device is not None:
            _raced.add(device)

    with (
        patch.object(new_roots, "check_conditional_puts", race_once),
        patch.object(preparing_roots, "check_conditional_puts", race_once),
    ):
        yield


@contextmanager
def patient_passes() -> Iterator[None]:
    """Have a pass of a controller judge each broker, though this process is paused for seconds.

    It would go on without a judgement then, and leave it to the next pass. A test does one pass, and
    expects what it decides.
    """
    with patch.object(probes, "UNJUDGED_MS_MIN", JUDGED_MS_MAX):
        yield


@dataclass
class Disks:
    """A cluster's folders."""

    base: Path
    opened: list[Cluster] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        return self.opened[0]

    @property
    def image(self) -> MetadataImage:
        return self.cluster.image

    @property
    def metadata_root(self) -> Path:
        return self.base / "meta"

    def root(self, broker_id: int) -> Path:
        return self.base / f"broker-{broker_id}"

    def create(self, brokers: int = 3, **arguments) -> Cluster:
        configs = {**FAST, **arguments.pop("configs", {})}
        roots = {number: self.root(number) for number in range(1, brokers + 1)}
        with one_race_a_device():
            made = Cluster.create(self.metadata_root, roots, configs=configs, **arguments)
        self.opened.append(made)
        return self.cluster

    def open(self) -> Cluster:
        """Open the cluster as another process would: nothing kept."""
        replica_store.cache_clear()
        self.opened.append(Cluster.open(self.metadata_root))
        return self.opened[-1]

    def close(self) -> None:
        for each in self.opened:
            each.close()

    def take_away(self, *broker_ids: int) -> None:
        for each in broker_ids:
            self.root(each).rename(self.base / f"away-{each}")

    def take_down(self, *broker_ids: int) -> None:
        """Take roots away, and have a controller fence all their brokers: on a machine under load a pass
        may probe a root too seldom to say, and the next one says it."""
        self.take_away(*broker_ids)
        for _ in range(10):
            self.cluster.run_controller()
            brokers = self.cluster.image.brokers
            if all(brokers[each].state is BrokerState.FENCED for each in broker_ids):
                return
        raise AssertionError(f"the brokers {broker_ids} are not fenced: {brokers}")

    def give_back(self, *broker_ids: int) -> None:
        """Give roots back.

        A checkpoint on its way makes the folders anew that it writes to (delta-rs does). What it
        leaves is in the way of a rename, as it would not be of a mount.
        """
        for each in broker_ids:
            away, root = self.base / f"away-{each}", self.root(each)
            for _ in range(RENAMES_MAX):
                try:
                    away.rename(root)
                    break
                except OSError as error:
                    if error.errno != ENOTEMPTY or (root / META_PROPERTIES).exists():
                        raise
                    shutil.rmtree(root, ignore_errors=True)
            else:
                raise AssertionError(f"{root} is written to again and again while it is away")

    def folder(self, broker_id: int, topic: str, partition: int = 0) -> Path:
        """Return the folder of a replica as the metadata names it now."""
        image = self.image
        topic_id = image.topic(topic).topic_id
        registration = image.partition(PartitionKey(topic_id, partition))
        uuid = registration.uuid_of(broker_id)
        return self.root(broker_id) / f"{topic}-{topic_id}" / f"{partition}-{uuid}"

    def values_on(self, broker_id: int, topic: str, partition: int = 0) -> list[bytes]:
        """Return what a replica holds, committed or not, as any Delta reader sees it."""
        table = DeltaTable(str(self.folder(broker_id, topic, partition))).to_pyarrow_table()
        rows = table.select(["base_offset", "offset_delta", "value"]).to_pylist()
        ordered = sorted(rows, key=lambda row: row["base_offset"] + row["offset_delta"])
        return [row["value"] for row in ordered]

    def settle(self) -> None:
        """Wait until what was due after an answer is done. Checkpoints are: files come and go, and
        who copies or deletes their folder meanwhile misses one."""
        for each in self.opened:
            with suppress(ClusterClosedError):
                each._node.maintenance.finish()

    def leave_unreadable(self, folder: Path) -> Path:
        """Copy a folder as it is now; return the copy."""
        self.settle()
        copy = self.base / f"copy-of-{folder.name}"
        shutil.copytree(folder, copy)
        return copy

    def restore(self, copy: Path, folder: Path) -> None:
        """Put an older copy in a folder's place."""
        self.settle()
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)


@contextmanager
def new_disks(brokers: int = 3, **arguments) -> Iterator[Disks]:
    with quick_folder() as folder, patient_passes():
        disks = Disks(folder)
        disks.create(brokers, **arguments)
        try:
            yield disks
        finally:
            disks.close()


@contextmanager
def kept_disks(prepare: Callable[[Disks], object], brokers: int = 3, **arguments) -> Iterator[Path]:
    """Give the folder of a closed cluster that was prepared, with a copy beside it for `restored`: a
    cluster is copied in a tenth of the time in which it is made."""
    with quick_folder() as folder, patient_passes():
        disks = Disks(folder / "now")
        try:
            disks.create(brokers, **arguments)
            prepare(disks)
            disks.settle()
        finally:
            disks.close()
        shutil.copytree(disks.base, folder / "before")
        yield disks.base


@contextmanager
def restored(base: Path) -> Iterator[Disks]:
    """Give a cluster of `kept_disks` as it was, opened as another process would."""
    shutil.rmtree(base)
    shutil.copytree(base.with_name("before"), base)
    disks = Disks(base)
    try:
        disks.open()
        yield disks
    finally:
        disks.close()


def partition_of(cluster: Cluster, topic: str, partition: int = 0):
    return cluster.image.topic(topic).partitions[partition]


def isr_of(cluster: Cluster, topic: str, partition: int = 0) -> list[int]:
    return sorted(partition_of(cluster, topic, partition).isr)


def values_of(cluster: Cluster, topic: str) -> list[bytes]:
    """Return the committed values, by partition and offset."""
    return cluster.read(topic).column("value").to_pylist()


def records(*values: bytes, key: bytes = b"key") -> list[tuple[bytes, bytes]]:
    return [(key, value) for value in values]


def files_below(*folders: Path) -> dict[str, int]:
    """Return every file and its size: whether anything was written."""
    return {
        str(path): path.stat().st_size
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


class DiedError(Exception):
    """The process of an append has died."""


def die_after_one(cluster: Cluster, topic: str, given: Any, partition: int, **choices: Any) -> None:
    """Append, and die once one partition is committed."""
    whole = AppendRounds.run

    def die(append: AppendRounds, *given: Any) -> None:
        append.batches = [each for each in append.batches if each.key.partition == partition]
        whole(append, *given)
        raise DiedError

    with patch.object(AppendRounds, "run", die), suppress(DiedError):
        cluster.append(topic, given, **choices)
