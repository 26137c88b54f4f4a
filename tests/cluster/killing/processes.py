"""Processes of the stories: one that is killed, and one that comes after it and knows nothing."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

from kafka_on_spark import Cluster
from kafka_on_spark.audit.findings import FsckReport
from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.replicas.replica_log import DeltaReplicaLog
from kafka_on_spark.storage.replicas.segments import read_segment
from tests.cluster.disks import partition_of
from tests.cluster.killing.reaper import Reaper, watch
from tests.cluster.killing.stories import PRODUCER, SEQUENCE, STORIES, TOPIC, Row, produced

ROUNDS_MAX: Final = 8
AUDITS_MAX: Final = 10
OPTIONS: Final = StorageOptions()

PRELOADED: Final = ["tests.cluster.killing.stories", "tests.storage.committers"]
"""What any process runs that a test starts so. A process of tests has one server, which has imported
what the first test asked for: all else, each process that it starts would import anew."""


def processes_that_start() -> ForkServerContext:
    """Return where processes come from that have imported delta-rs and not used it.

    A fork of a process that used it panics, and a new interpreter takes a second.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def act(base: Path, name: str, at: int | None, is_after: bool, told: Connection) -> None:
    """Do a story's upkeep, and be killed; tell the change of the kill, or else all of them."""
    story = STORIES[name]
    story.set_up()
    reaper = Reaper(base, at, is_after=is_after, last_words=told.send)
    watch(reaper)
    with Cluster.open(base / "meta") as cluster:
        story.act(cluster)
    told.send(reaper.changes)


def look(base: Path, name: str, told: Connection) -> None:
    """Read, go on and finish the upkeep; tell (what is wrong, rows at first, rows at last)."""
    STORIES[name].set_up()
    found: list[list[Row]] = []
    wrong: list[str] = []
    try:
        with Cluster.open(base / "meta") as cluster:
            wrong.extend(_go_on(cluster, found.append))
    except Exception:
        wrong.append(traceback.format_exc())
    told.send((wrong, found))


def _go_on(cluster: Cluster, read: Callable[[list[Row]], object]) -> Iterable[str]:
    read(rows_of(cluster))
    yield from _of_audit(cluster, "at once")
    again = cluster.append(TOPIC, produced(SEQUENCE), producer_id=PRODUCER, sequence=SEQUENCE)
    if not again.partitions[0].is_duplicate:
        yield "I11: the retry of an append is no duplicate"
    end = partition_of(cluster, TOPIC).high_watermark
    later = cluster.append(
        TOPIC, produced(SEQUENCE + 1), producer_id=PRODUCER, sequence=SEQUENCE + 1
    )
    if later.partitions[0].base_offset != end:
        yield f"the next append is at {later.partitions[0].base_offset}, and not at {end}"
    cluster.run_controller()
    cluster.replicate(is_sweep=True)
    yield from finish(cluster)
    read(rows_of(cluster))
    yield from _of_audit(cluster, "at last")
    yield from replicas_differ(cluster)


def finish(cluster: Cluster) -> Iterable[str]:
    """Maintain until nothing is due; yield what is wrong."""
    for _ in range(ROUNDS_MAX):
        before = cluster.image.offset
        rows = cluster.maintain().rows
        yield from (f"upkeep fails: {row}" for row in rows if row.error)
        if not rows and cluster.image.offset == before:
            return
    yield f"upkeep comes to no end: {rows}"


def rows_of(cluster: Cluster) -> list[Row]:
    """Return what is read."""
    table = cluster.read(TOPIC).to_pylist()
    return [(row["offset"], row["key"], row["value"]) for row in table]


def _of_audit(cluster: Cluster, when: str) -> Iterable[str]:
    for each in _audited(cluster).findings:
        yield f"{when}, {each.invariant}: {each.place} {each.sentence}"


def _audited(cluster: Cluster) -> FsckReport:
    """Check the cluster. What this process's own threads clean after an answer, the check may be
    about to read: then it says that it is to be tried again."""
    for _ in range(AUDITS_MAX):
        try:
            return cluster.fsck(deep=True)
        except KafkaStorageError as error:
            if "try again" not in error.message:
                raise
            again = error
    raise again


def replicas_differ(cluster: Cluster) -> Iterable[str]:
    """Yield the replicas that are not in sync or hold other records than the first."""
    partition = partition_of(cluster, TOPIC)
    if partition.isr != frozenset(partition.replicas):
        yield f"only {sorted(partition.isr)} are in sync"
    held = {each: contents(cluster, each) for each in partition.replicas}
    first = held[partition.replicas[0]]
    for broker_id, records in held.items():
        if records != first:
            yield f"I4: broker {broker_id} holds {records}, and not {first}"


def contents(cluster: Cluster, broker_id: int) -> list[Row]:
    """Return what a replica's files hold from the log start on, committed or not."""
    image = cluster.image
    [(key, partition)] = image.partitions()
    address = address_of(image, key, partition, broker_id)
    state = DeltaReplicaLog(address, OPTIONS, checks_disk=True).load()
    return [
        (base + row["offset_delta"], row["key"], row["value"])
        for part in state.batches
        for segment, base, _ in part.ranges()
        for row in read_segment(address, segment, OPTIONS).to_pylist()
        if base + row["offset_delta"] >= partition.log_start_offset
    ]
