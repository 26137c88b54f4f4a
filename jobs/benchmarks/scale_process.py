"""What the measurements of large clusters do in processes of their own.

    python -m jobs.benchmarks.scale_process WORK METADATA_ROOT [PARTITIONS]

A controller's time and memory are its own only in a process that has made nothing else: one
makes the cluster, another opens it and decides. The answer is one line of JSON on standard
output. The cluster's brokers have no disks here: what is measured touches the metadata alone.
"""

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

from kafka_on_spark.base.errors import NO_ERROR
from kafka_on_spark.base.ids import BrokerId, DirectoryId, Offset, PartitionKey
from kafka_on_spark.controller import lease
from kafka_on_spark.controller.brokers import drain_broker, fence_broker, register_broker
from kafka_on_spark.controller.controller_loop import ControllerLoop
from kafka_on_spark.controller.election import elect_preferred
from kafka_on_spark.controller.inspections import InspectionOrder
from kafka_on_spark.controller.probes import ProbeOrder, ProbeResult
from kafka_on_spark.controller.topics import create_topic
from kafka_on_spark.metadata.cluster_roots import create_metadata_log
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    HighWatermarkRecord,
    PartitionChangeRecord,
)
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.node.node import open_node
from kafka_on_spark.node.opening import open_metadata
from kafka_on_spark.store.roots import StorageOptions

BROKERS = 100
TOPIC_PARTITIONS = 100_000
TAIL_COMMITS = 100
TAIL_RECORDS = 100  # a commit: an append to as many partitions
TIMEOUT_MS = 600_000
DEAD = BrokerId(1)
OPTIONS = StorageOptions()


def make(root: str, partitions: int) -> dict[str, Any]:
    """Make a cluster whose partitions are all led by another than the preferred leader, with a
    snapshot, and a tail after it as appends leave it."""
    create_metadata_log(root, OPTIONS, "c")
    metadata = open_metadata(root, OPTIONS)
    submit(metadata, lambda image: ControllerResult([ClusterRecord(cluster_id="c")], None))
    for number in range(1, BROKERS + 1):
        submit(metadata, partial(register, number=number))
    start = time.perf_counter()
    for topic in range(max(partitions // TOPIC_PARTITIONS, 1)):
        count = min(partitions, TOPIC_PARTITIONS)
        submit(metadata, partial(create, topic=topic, count=count))
    created = time.perf_counter() - start
    submit(metadata, _move_leaders)
    metadata.maintain()
    if metadata.image.offset < 2 * partitions:
        raise AssertionError("a topic and its leaders' moves are two records a partition")
    keys = [key for key, _ in metadata.image.partitions()]
    for commit in range(TAIL_COMMITS):
        chosen = keys[commit::TAIL_COMMITS][:TAIL_RECORDS]
        submit(metadata, partial(append, keys=chosen))
    return {"created_s": created, "offset": metadata.image.offset}


def submit(
    metadata: MetadataService, decide: Callable[[MetadataImage], ControllerResult[Any]]
) -> Any:
    return metadata.submit(decide, timeout_ms=TIMEOUT_MS)


def register(image: MetadataImage, number: int) -> ControllerResult[Any]:
    return register_broker(
        image,
        BrokerId(number),
        f"/broker-{number}",
        rack=f"rack-{number % 3}",
        directory_id=DirectoryId(uuid4().hex),
        cause="registered for the benchmark",
    )


def create(image: MetadataImage, topic: int, count: int) -> ControllerResult[Any]:
    return create_topic(
        image,
        f"topic-{topic}",
        partition_count=count,
        replication_factor=3,
        replica_assignment=None,
        configs={},
        new_uuid=lambda: uuid4().hex,
        random_below=random.Random(topic).randrange,
        cause="created for the benchmark",
    )


def _move_leaders(image: MetadataImage) -> ControllerResult[None]:
    """Decide that each partition's second replica leads, as after a restart of all brokers."""
    changes = {broker_id: PartitionChange(leader=broker_id) for broker_id in image.brokers}
    records = []
    for key, partition in image.partitions():
        change = changes[partition.replicas[1]]
        leader_epoch, partition_epoch = partition.epochs_after(change)
        records.append(
            PartitionChangeRecord(
                topic=image.topics[key.topic_id].name,
                topic_id=key.topic_id,
                partition=key.partition,
                change=change,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                cause="the preferred leader was restarted",
            )
        )
    return ControllerResult(records, None)


def append(image: MetadataImage, keys: list[PartitionKey]) -> ControllerResult[None]:
    records = []
    for key in keys:
        partition = image.partition(key)
        assert partition is not None
        records.append(
            HighWatermarkRecord(
                topic_id=key.topic_id,
                partition=key.partition,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                high_watermark=Offset(partition.high_watermark + 1000),
                high_watermark_epoch=partition.leader_epoch,
                high_watermark_chain=partition.high_watermark_chain,
                log_end_offset=Offset(partition.log_end_offset + 1000),
            )
        )
    return ControllerResult(records, None)


def ready(root: str) -> dict[str, Any]:
    """Become the controller: read the newest snapshot and the tail, and claim."""
    clock = Stopwatch()
    metadata = open_metadata(root, OPTIONS)
    seen = metadata.image.controller
    epoch = submit(metadata, lambda image: lease.claim(image, "benchmark", "claimed", seen=seen))
    took = clock.read()
    assert epoch is not None
    return took | {"partitions": sum(1 for _ in metadata.image.partitions())}


def fence(root: str) -> dict[str, Any]:
    """Decide and commit the failover of one broker's share."""
    metadata = open_metadata(root, OPTIONS)
    before = metadata.image
    clock = Stopwatch()
    led = submit(metadata, lambda image: fence_broker(image, DEAD, "broker 1: its disk is gone"))
    took = clock.read()
    image = metadata.image
    held = sum(DEAD in each.isr for _, each in before.partitions())
    assert image.offset - before.offset == 1 + held, "a record of each partition, in one commit"
    assert all(each.leader not in (None, DEAD) for _, each in image.partitions())
    return took | {"moved": len(led), "changed": held}


def elect(root: str) -> dict[str, Any]:
    """Decide and commit that all preferred leaders lead again."""
    metadata = open_metadata(root, OPTIONS)
    clock = Stopwatch()
    moved = submit(metadata, lambda image: elect_preferred(image, "preferred leaders lead again"))
    took = clock.read()
    assert all(each.leader == each.replicas[0] for _, each in metadata.image.partitions())
    return took | {"moved": len(moved)}


def whole_pass(root: str) -> dict[str, Any]:
    """Make a controller's passes: one with all leaders to move, one with nothing to do, one that
    drains a broker, and one after it. Brokers answer; there are no disks to clean."""
    node = open_node(root, OPTIONS)
    metadata = node.metadata
    took: dict[str, Any] = {}
    for name in ("all leaders", "nothing", "draining", "drained"):
        if name == "draining":
            submit(metadata, lambda image: drain_broker(image, DEAD, "for the benchmark"))
        before = metadata.image.offset
        clock = Stopwatch()
        _Controller(node, dry_run=metadata).run(None)
        took[name] = clock.read() | {"records": metadata.image.offset - before}
    assert all(DEAD not in each.isr for _, each in metadata.image.partitions())
    return took


class _Controller(ControllerLoop):
    """A controller whose brokers all answer, and of which no replica can be inspected."""

    def _run_probes(self, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
        return [ProbeResult(each.broker_id, NO_ERROR) for each in orders]

    def _run_inspections(self, orders: Sequence[InspectionOrder]) -> list[ReplicaInspection | None]:
        return []


class Stopwatch:
    """Time since it was made: on the wall, and of this process's processor."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Return both in seconds, and the process's peak of memory so far in GiB."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "seconds": time.perf_counter() - self._wall,
            "processor_seconds": time.process_time() - self._processor,
            "peak_gib": peak / (2**30 if sys.platform == "darwin" else 2**20),
        }


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "make": make,
    "ready": ready,
    "fence": fence,
    "elect": elect,
    "pass": whole_pass,
}


if __name__ == "__main__":
    work, root, *counts = sys.argv[1:]
    print(json.dumps(WORKS[work](root, *map(int, counts))))
