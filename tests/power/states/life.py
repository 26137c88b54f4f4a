"""The life of a small cluster that is recorded: each kind of change to a root, some of them twice."""

from pathlib import Path
from typing import Final

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base import merge_tiers
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.quorum import voter_log
from kafka_on_spark.store.delta import delta_log, log_cleaning
from tests.power.states.changes import Promise
from tests.power.states.crashes import Record
from tests.power.states.recording import Killed, Recording, recorded, tree_of

TOPIC: Final = "t"
BROKERS: Final = [1, 2]
LATER_BROKER: Final = 3
CONFIGS: Final = {
    "broker.session.timeout.ms": "240",
    "controller.lease.ms": "300",
    "delivery.timeout.ms": "3000",
    "replica.verdict.delay.ms": "100",
}


INTERVALS: Final = (
    (delta_log, "CHECKPOINT_INTERVAL", 3),
    (log_cleaning, "COMMITS_KEPT", 2),
    (log_cleaning, "COMMITS_KEPT_MS", 0),
    (voter_log, "MERGE_INTERVAL", 4),
    (merge_tiers, "FAN_IN", 4),
)
"""So short that a dozen of appends have checkpoints, merges and deletions of commits."""


def metadata_root(base: Path) -> Path:
    """Return the metadata root: below folders that its creation makes."""
    return base / "data" / "cluster" / "meta"


def broker_root(base: Path, broker_id: int) -> Path:
    """Return a broker's root: on a disk of its own, below a folder that its registration makes."""
    return base / f"disk-{broker_id}" / "kafka" / f"broker-{broker_id}"


def create(base: Path) -> Cluster:
    replica_store.cache_clear()
    roots = {number: broker_root(base, number) for number in BROKERS}
    return Cluster.create(metadata_root(base), roots, configs=CONFIGS)


def create_topic(cluster: Cluster) -> None:
    if TOPIC not in cluster.image.topic_ids:
        configs = {"min.insync.replicas": "2"}
        cluster.create_topic(TOPIC, replica_assignment={0: BROKERS}, configs=configs)


class Life:
    """What is done to the cluster, and what its caller is promised."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._base = recording.base
        self._next = 0

    def create(self) -> Cluster:
        cluster = create(self._base)
        self._recording.promise("cluster")
        return cluster

    def create_topic(self, cluster: Cluster) -> None:
        create_topic(cluster)
        self._recording.promise("topic", name=TOPIC)

    def append(self, cluster: Cluster, times: int = 1) -> None:
        for _ in range(times):
            value = f"value {self._next}"
            self._next += 1
            done = cluster.append(TOPIC, [{"value": value.encode(), "partition": 0}])
            self._recording.promise("record", offset=done.partitions[0].base_offset, value=value)

    def register(self, cluster: Cluster) -> None:
        cluster.register_broker(LATER_BROKER, broker_root(self._base, LATER_BROKER))
        self._recording.promise("broker", broker_id=LATER_BROKER)

    def delete_records(self, cluster: Cluster, before: int) -> None:
        self._recording.promise("deletion", before=before)
        cluster.delete_records({(TOPIC, 0): before})
        cluster.run_controller()
        cluster.replicate()


def begin(life: Life) -> None:
    with life.create() as cluster:
        life.create_topic(cluster)
        life.append(cluster, 2)
        life.register(cluster)
        life.append(cluster)


def go_on(life: Life, base: Path, rounds: int) -> None:
    """Append, control, replicate and delete, by processes that end: that writes what is due."""
    replica_store.cache_clear()
    for number in range(rounds):
        for _ in range(3):
            with Cluster.open(metadata_root(base)) as cluster:
                life.append(cluster, 3)
        with Cluster.open(metadata_root(base)) as cluster:
            cluster.run_controller()
            cluster.replicate()
            life.delete_records(cluster, 3 + 9 * number)


def record_beginning(base: Path) -> Record:
    with recorded(base) as recording:
        begin(Life(recording))
    assert recording.disk.tree() == tree_of(base), "something was written elsewhere"
    return recording.record()


def record_upkeep(base: Path, rounds: int = 1) -> Record:
    """Return what appends do, with the checkpoints, merges and deletions that follow from them."""
    with recorded(base) as recording:
        life = Life(recording)
        begin(life)
        before = len(recording.changes)
        go_on(life, base, rounds)
    assert recording.disk.tree() == tree_of(base), "something was written elsewhere"
    return recording.record(begins_at=before, looks_from=before)


def record_death(base: Path, dies_at: str) -> Record:
    """Return what a beginning does that dies once a path has its name, and another process, which
    goes on with it; the power goes once its callers have been promised everything."""
    with recorded(base) as recording:
        recording.dies_at = dies_at
        life = Life(recording)
        with pytest.raises(Killed):
            begin(life)
        recording.revive()
        looks_from = _begin_again(life, base, recording)
    return recording.record(looks_from=looks_from)


def _begin_again(life: Life, base: Path, recording: Recording) -> int:
    """Do what was not done; return the number of changes until it is."""
    replica_store.cache_clear()
    done = {each.kind for each in recording.changes if isinstance(each, Promise)}
    cluster = Cluster.open(metadata_root(base)) if "cluster" in done else life.create()
    with cluster:
        if "topic" not in done:
            life.create_topic(cluster)
        life.append(cluster)
        if "broker" not in done:
            life.register(cluster)
        return len(recording.changes)
