"""Opens a disk after a power cut, as processes do that remember nothing, and says what is wrong."""

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from kafka_on_spark import Cluster, KafkaOnSparkError
from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import address_of
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.store.storage_options import StorageOptions
from tests.power.states.changes import Change, Promise
from tests.power.states.crashes import Tree
from tests.power.states.life import BROKERS, TOPIC, create, create_topic, metadata_root
from tests.power.states.quick import at_once
from tests.told import Promises

ROUNDS_MAX: Final = 4
OPTIONS: Final = StorageOptions()


class Bench:
    """Puts states on a disk, one after the other; files are links to one copy of their bytes.

    Our code never changes a file that has its name, so a copy serves all states.
    """

    def __init__(self, base: Path, copies: Path) -> None:
        """`base`: where the cluster was when it was recorded; `copies`: on the same file system."""
        self.base = base
        self._copies = copies
        self._known: dict[bytes, str] = {}

    def clear(self) -> None:
        shutil.rmtree(self.base)
        self.base.mkdir()

    def put(self, tree: Tree) -> None:
        """Have nothing but a state on the disk."""
        self.clear()
        for path, content in tree.items():
            if content is None:
                os.mkdir(f"{self.base}/{path}")
            else:
                os.link(self._copy(content), f"{self.base}/{path}")

    def _copy(self, content: bytes) -> str:
        if content not in self._known:
            path = self._copies / str(len(self._known))
            path.write_bytes(content)
            self._known[content] = str(path)
        return self._known[content]


def promises_at(changes: Sequence[Change], at: int) -> Promises:
    found = Promises()
    for each in changes[:at]:
        if isinstance(each, Promise):
            _take(found, each.kind, each.what)
    return found


def _take(found: Promises, kind: str, what: dict[str, Any]) -> None:
    if kind == "cluster":
        found.is_created = True
        found.brokers |= set(BROKERS)
    elif kind == "topic":
        found.topics.add(what["name"])
    elif kind == "broker":
        found.brokers.add(what["broker_id"])
    elif kind == "record":
        found.records[TOPIC, 0, what["offset"]] = what["value"]
    else:
        assert kind == "deletion", kind
        kept = found.records.items()
        found.records = {at: value for at, value in kept if at[2] >= what["before"]}


def what_is_wrong(bench: Bench, tree: Tree, promises: Promises, *, goes_on: bool) -> list[str]:
    """Return what must not be, in words; `goes_on`: also whether the cluster takes up its work."""
    bench.put(tree)
    only_looks = promises.is_created and not goes_on
    try:
        with at_once() if only_looks else nullcontext(), _opened(bench.base, promises) as cluster:
            with at_once():
                found = [
                    *_of_replicas(cluster),
                    *_of_promises(cluster, bench.base, promises),
                    *_of_audit(cluster),
                ]
            if goes_on:
                _go_on(cluster)
        if goes_on:
            with _opened(bench.base, promises) as cluster, at_once():
                found += [*_of_promises(cluster, bench.base, promises), *_of_audit(cluster)]
    except KafkaOnSparkError as error:
        return [f"{type(error).__name__}: {error}"]
    return found


def _opened(base: Path, promises: Promises) -> Cluster:
    replica_store.cache_clear()
    if not promises.is_created:
        # The same call goes on with what was cut off, or finds that it was done.
        with suppress(InvalidRequestError):
            create(base).close()
            replica_store.cache_clear()
    return Cluster.open(metadata_root(base))


def _of_replicas(cluster: Cluster) -> Iterable[str]:
    """Open every replica that was made: none may be bad."""
    image = cluster.image
    for key, partition in image.partitions():
        for broker_id in partition.replicas:
            if partition.directory_of(broker_id) is None:
                continue
            address = address_of(image, key, partition, broker_id)
            try:
                ReplicaLog(address, OPTIONS, checks_disk=True).load()
            except KafkaOnSparkError as error:
                yield f"I22: broker {broker_id} has a bad replica: {error}"


def _of_promises(cluster: Cluster, base: Path, promises: Promises) -> Iterable[str]:
    image = cluster.image
    yield from promises.broken(image.topic_ids.keys(), image.brokers.keys())
    rows = cluster.read(TOPIC).to_pylist() if TOPIC in image.topic_ids else []
    found = {(TOPIC, row["partition"], row["offset"]): row["value"].decode() for row in rows}
    if lost := promises.lost(found):
        yield f"I3: the records {lost} are lost"
    if lost := promises.on_no_root(base, image.topic_ids):
        yield f"I3: no table has the records {lost}"


def _of_audit(cluster: Cluster) -> Iterable[str]:
    for each in cluster.fsck().findings:
        yield f"{each.invariant}: {each.place} {each.sentence}"


def _go_on(cluster: Cluster) -> None:
    create_topic(cluster)
    cluster.append(TOPIC, [{"value": b"after", "partition": 0}])
    for _ in range(ROUNDS_MAX):
        cluster.run_controller()
        cluster.replicate(is_sweep=True)
        [partition] = cluster.describe_topic(TOPIC).partitions
        if len(partition.isr) == len(partition.replicas):
            break
    else:
        raise KafkaOnSparkError(f"replicas stay out of sync: {partition}")
    fenced = [
        each.broker_id
        for each in cluster.image.brokers.values()
        if each.state is not BrokerState.ACTIVE
    ]
    if fenced:
        raise KafkaOnSparkError(f"brokers are fenced: {fenced}")
    cluster.append(TOPIC, [{"value": b"after", "partition": 0}])
