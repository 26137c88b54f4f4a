"""Processes that write to a cluster while its disk is cut off, and note what they were promised.

    python -m tests.rigs.cutting.clients ROLE NAME METADATA_ROOT NOTES SECONDS

Their notes lie on another disk: a note is written after the answer, so what is in it before a cut
must be there after it.
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.store.delta import delta_log, log_cleaning
from tests.rigs.notes import Notes

TOPIC: Final = "t"
PARTITIONS: Final = 4
BROKERS: Final = (1, 2, 3)
APPEND_MS: Final = 20_000
LEASE_MS: Final = 1500

CHECKPOINT_INTERVAL: Final = 10
COMMITS_KEPT: Final = 40
"""Far fewer than a cluster has, so that a run of half a minute has many checkpoints, and deletes
commits."""

RECORDS_MAX: Final = 20
TOPICS_KEPT: Final = 2
PAUSE_S: Final = 0.3


def hurry() -> None:
    """Have this process write checkpoints and clean logs more often."""
    for module, name, count in (
        (delta_log, "CHECKPOINT_INTERVAL", CHECKPOINT_INTERVAL),
        (log_cleaning, "COMMITS_KEPT", COMMITS_KEPT),
        (log_cleaning, "COMMITS_KEPT_MS", 0),
    ):
        setattr(module, name, count)


@contextmanager
def refusals(notes: Notes, what: str) -> Iterator[None]:
    """Note an error in place of raising it: nothing was promised."""
    try:
        yield
    except KafkaOnSparkError as error:
        notes.add("error", what=what, error=f"{type(error).__name__}: {error}")


def create(metadata_root: Path, roots: Path) -> None:
    """Create the cluster, its topic, and a record in each partition."""
    brokers = {each: roots / f"broker-{each}" for each in BROKERS}
    # A controller that died with its machine keeps another one waiting for its lease's time.
    configs = {"controller.lease.ms": LEASE_MS}
    with Cluster.create(metadata_root, brokers, configs=configs) as cluster:
        create_topic(cluster)


def create_topic(cluster: Cluster) -> None:
    """Create the topic that appenders use, unless it is there."""
    if TOPIC not in {each.name for each in cluster.image.topics.values()}:
        cluster.create_topic(
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=len(BROKERS),
            configs={"min.insync.replicas": "2"},
        )


def append(cluster: Cluster, notes: Notes, topic: str, partition: int, values: list[str]) -> None:
    records = [{"value": each.encode(), "partition": partition} for each in values]
    with refusals(notes, "append"):
        done = cluster.append(topic, records, timeout_ms=APPEND_MS)
        offset = done.partitions[partition].base_offset
        notes.add("acked", topic=topic, partition=partition, offset=offset, values=values)


def run_appender(cluster: Cluster, notes: Notes, name: str, ends_at: float) -> None:
    rng, number = random.Random(name), 0
    while time.time() < ends_at:
        values = [f"{name}-{number}-{each}" for each in range(rng.randint(1, RECORDS_MAX))]
        append(cluster, notes, TOPIC, rng.randrange(PARTITIONS), values)
        number += 1


def run_clerk(cluster: Cluster, notes: Notes, name: str, ends_at: float) -> None:
    number = 0
    while time.time() < ends_at:
        topic = f"{name}-{number}"
        with refusals(notes, "create a topic"):
            cluster.create_topic(topic, partitions=1, replication_factor=3)
            notes.add("created", topic=topic)
        append(cluster, notes, topic, 0, [topic])
        if number >= TOPICS_KEPT:
            deleted = f"{name}-{number - TOPICS_KEPT}"
            notes.add("deletes", topic=deleted)
            with refusals(notes, "delete a topic"):
                cluster.delete_topic(deleted)
        if number % 8 == 7:
            with refusals(notes, "register a broker"):
                broker_id = 10 + number
                root = Path(cluster.root).with_name(f"broker-{broker_id}")
                cluster.register_broker(broker_id, root)
                notes.add("registered", broker_id=broker_id)
        with refusals(notes, "control"):
            cluster.run_controller()
            cluster.replicate()
        number += 1
        time.sleep(PAUSE_S)


ROLES: Final[dict[str, Callable[[Cluster, Notes, str, float], None]]] = {
    "appender": run_appender,
    "clerk": run_clerk,
}


def main(arguments: list[str]) -> None:
    """Write until the time is over."""
    role, name, metadata_root, folder, seconds = arguments
    hurry()
    if role == "creator":
        create(Path(metadata_root), Path(metadata_root).parent)
        Notes(Path(folder), name).add("cluster")
        return
    with Cluster.open(metadata_root) as cluster:
        notes = Notes(Path(folder), name)
        notes.add("begins")
        ROLES[role](cluster, notes, name, time.time() + float(seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
