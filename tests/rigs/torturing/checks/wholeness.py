"""Whether a cluster is whole: every replica in sync, and its table has all that is committed.

The metadata alone do not say it: a root that was rolled back is in sync by them until it is
inspected. So the tables are opened again, and held against the registered chain digest (I23).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import ReplicaState, address_of
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.store.roots import StorageOptions
from tests.rigs.torturing.checks.facts import facts_of
from tests.rigs.torturing.folder import key_of, keys
from tests.rigs.torturing.history import read_history

T = TypeVar("T")

POLL_S: Final = 0.3
ANSWER_S_MAX: Final = 120.0
NEWEST_RECORDS: Final = 200
"""Of so many is the newest segment one."""


def what_is_missing(cluster: Cluster) -> list[str]:
    """Return what is not whole, in words; nothing if all is."""
    try:
        image = cluster.image
    except KafkaOnSparkError as error:
        return [f"the metadata can't be read: {error}"]
    missing = [
        f"broker {broker_id} is {broker.state.value}"
        for broker_id, broker in sorted(image.brokers.items())
        if broker.state is not BrokerState.ACTIVE
    ]
    for key, partition in image.partitions():
        if not any(partition.is_created(each) for each in partition.replicas):
            continue  # nothing was appended to it yet
        missing += _missing_of(image, key, partition)
    return missing


def _missing_of(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> Iterator[str]:
    name = image.name_of(key)
    if partition.leader is None:
        yield f"{name} has no leader"
    if partition.isr != frozenset(partition.replicas):
        yield f"{name} has {sorted(partition.isr)} in sync"
        return
    for broker_id in partition.replicas:
        try:
            state = _load(image, key, partition, broker_id)
        except KafkaOnSparkError as error:
            yield f"{name} on broker {broker_id}: {error}"
            continue
        if state.log_end_offset < partition.high_watermark:
            yield f"{name} on broker {broker_id} ends at {state.log_end_offset}"
        elif state.chain_at(partition.high_watermark) != partition.high_watermark_chain:
            yield f"{name} on broker {broker_id} has another log below the high watermark"


def _load(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> ReplicaState:
    address = address_of(image, key, partition, broker_id)
    return ReplicaLog(address, StorageOptions(None)).load()


def wait_until(is_true: Callable[[], bool], wait_s: float) -> bool:
    """Return whether it has become true within `wait_s`."""
    deadline = time.monotonic() + wait_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def patiently(ask: Callable[[], T], wait_s: float = ANSWER_S_MAX) -> T:
    """Return an answer that rests on the metadata. A majority of its voters may be away meanwhile:
    it is asked for again until there is one, or time is up, and then raise what it met.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except KafkaOnSparkError:
            if time.monotonic() > deadline:
                raise
        time.sleep(POLL_S)


def image_of(cluster: Cluster) -> MetadataImage:
    """Return a cluster's newest metadata."""
    return patiently(lambda: cluster.image)


def open_again(url: str, topic: str, partition: int) -> str:
    """Read a partition and inspect all replicas of its topic, as a process does that has seen none
    yet; return in words what the inspection met."""
    replica_store.cache_clear()
    with Cluster.open(url) as cluster:
        ends = {number: int(each.high_watermark) for number, each in cluster.offsets(topic).items()}
        ends[partition] = max(ends[partition] - NEWEST_RECORDS, 0)
        try:
            cluster.read(topic, start=ends)
            met = ""
        except KafkaOnSparkError as error:
            met = f"{error!r}; "
        report = cluster.replicate(topic, is_sweep=True)
    return f"{met}{report.not_looked_at} not inspected, failures {list(report.failures)}"


def acknowledged_since(
    history: Path, clients: Iterable[str], since_ns: int
) -> dict[str, int | None]:
    """Return for each partition how long after a moment the first append was acknowledged that was
    begun after it; None: none yet."""
    times: dict[str, int | None] = {key_of(*each): None for each in keys()}
    for client in clients:
        for batch in facts_of(read_history(history, client)).batches:
            if batch.acked_ns is not None and batch.invoked_ns > since_ns:
                earlier = times[batch.key]
                after_ns = batch.acked_ns - since_ns
                times[batch.key] = after_ns if earlier is None else min(earlier, after_ns)
    return times
