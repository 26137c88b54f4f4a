"""What one process has open of a cluster: its metadata, the tasks that it runs, clock and counts.

Functions of a capability are given a node. State that a capability keeps in a process is a part of
the node: made once, when somebody first asks, and closed with it.
"""

import os
import random
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafka_on_spark.base.errors import ClusterNotFoundError
from kafka_on_spark.base.ids import IdSource, PartitionKey
from kafka_on_spark.base.process import Clock
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.hint_file import HintRoots
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.maintenance import Maintenance
from kafka_on_spark.node.opening import Awaits, metadata_log_of, open_metadata
from kafka_on_spark.node.tasks import Executors, Tasks
from kafka_on_spark.store.clock import ID_SOURCE, SystemClock, new_uuid
from kafka_on_spark.store.counts import BEGUN, CHECKPOINT, OPEN, Counts, charged, operating
from kafka_on_spark.store.deadlines import DaemonThreads
from kafka_on_spark.store.root_identity import check_obeys_once
from kafka_on_spark.store.storage_options import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.groups.liveness import HeartbeatFiles
    from kafka_on_spark.log.replicas import ReplicaStore
    from kafka_on_spark.log.segments import SegmentStore

T = TypeVar("T")

THREADS: Final = 8
"""Threads of a pool: commits wait for disks and stores, not for the processor."""


class Node:
    """One process of a cluster. Threads may share it. `parts` take the place of what would be made.

    Attributes:
        metadata: The image, and commits to it.
        clock: Says the time of what this process commits and appends.
        tasks: Runs tasks, here or on executors.
        options: Credentials of all roots.
        controller_id: A name for this process that no other process has.
        counts: What it has counted and timed.
        ids: Where its decisions take ids from.
        random: Returns [0, 1): jitter between tries.
        host: The name of its machine.
        caller: The process there, in words.
        maintenance: Does what is due, after answers were given.
    """

    def __init__(
        self,
        metadata: MetadataService,
        tasks: Tasks,
        *,
        options: StorageOptions,
        controller_id: str,
        counts: Counts,
        maintenance: Maintenance,
        ids: IdSource = ID_SOURCE,
        random: Callable[[], float] = random.random,
        host: str,
        caller: str,
        clock: Clock | None = None,
        parts: "Mapping[Callable[[Node], Any], Any] | None" = None,
    ) -> None:
        self.metadata = metadata
        self.clock: Clock = clock or metadata.clock
        self.tasks = tasks
        self.options = options
        self.controller_id = controller_id
        self.counts = counts
        self.ids = ids
        self.random = random
        self.host = host
        self.caller = caller
        self.maintenance = maintenance
        self._making = RLock()  # a part may make another one
        self._parts: dict[Callable[[Node], Any], Any] = dict(parts or {})

    def part(self, make: "Callable[[Node], T]") -> T:
        """Return what `make` returns for this node, a class as a rule: the first thread that asks
        makes it, for all."""
        found = self._parts.get(make)
        if found is None:
            with self._making:
                found = self._parts.get(make)
                if found is None:
                    found = self._parts[make] = make(self)
        made: T = found
        return made

    def made(self, make: "Callable[[Node], T]") -> T | None:
        """Return a part if somebody has asked for it before."""
        return self._parts.get(make)

    @property
    def replicas(self) -> "ReplicaStore":
        """The open tables of replicas."""
        return self.tasks.worker.replicas

    @property
    def segments(self) -> "SegmentStore":
        """Their files of records."""
        return self.tasks.worker.segments

    @property
    def timeout_ms(self) -> int:
        """How long an append or a command may take. Source: delivery.timeout.ms."""
        return self.metadata.image.settings().integer("delivery.timeout.ms")

    def commit_due(self) -> None:
        """Have the checkpoint and the snapshot of the metadata written that a commit made due."""
        self.maintenance.add({self.metadata: charged(self.metadata.maintain, CHECKPOINT)})

    def maintain(self, keys: Iterable[PartitionKey]) -> None:
        """Have due checkpoints of partitions' replicas written, after the answer was given."""
        image = self.metadata.image
        addresses = [
            address_of(image, key, partition, broker_id)
            for key in keys
            if (partition := image.partition(key)) is not None
            for broker_id in partition.isr
            if partition.is_created(broker_id)
        ]
        self.maintenance.add({address: partial(self._maintain, address) for address in addresses})

    def _maintain(self, address: ReplicaAddress) -> None:
        with operating(CHECKPOINT):
            self.replicas.open(address).maintain()

    def close(self) -> None:
        """Close the parts, finish what is due and end the threads; later calls are refused."""
        for part in reversed(list(self._parts.values())):
            close = getattr(part, "close", None)
            if close is not None:
                close()
        self.metadata.close()
        self.maintenance.close()
        self.tasks.threads.shutdown(wait=True)


def hint_roots(node: Node) -> HintRoots:
    """Return where hints for other processes lie: a part of a node."""
    return HintRoots(metadata_log_of(node.metadata).roots, node.options)


def heartbeats(node: Node) -> "HeartbeatFiles":
    """Return the heartbeats of groups' members: a part of a node."""
    # In the function: most processes have no member of a group.
    from kafka_on_spark.groups.liveness import HeartbeatFiles

    return HeartbeatFiles(node.part(hint_roots))


def open_node(
    metadata_root: str,
    options: StorageOptions,
    executors: Executors | None = None,
    awaits: Awaits = Awaits.NOTHING,
) -> Node:
    """Open the cluster at `metadata_root`. Tasks run on `executors`, or in threads without.

    Raises:
        ClusterNotFoundError: There is no cluster.
    """
    check_obeys_once.cache_clear()  # the roots may be a copy's
    counts = Counts(SystemClock().precise_ms, BEGUN)
    host = socket.gethostname()
    with operating(OPEN):
        metadata = open_metadata(
            metadata_root,
            options,
            application_id=None if executors is None else executors.application_id,
            after_commit=lambda: node.commit_due(),
            awaits=awaits,
            counts=counts,
        )
    node = Node(
        metadata,
        Tasks(Worker(options), DaemonThreads(THREADS, "task"), executors),
        options=options,
        controller_id=f"{host}-{os.getpid()}-{new_uuid()[:8]}",
        counts=counts,
        maintenance=Maintenance(),
        host=host,
        caller=f"process {os.getpid()} on {host}",
    )
    return node


def check_created(node: Node, metadata_root: str) -> None:
    """Check that the creation of a cluster was not cut off before its commit; close the node if it
    was.

    Raises:
        ClusterNotFoundError: It was.
    """
    if node.metadata.image.cluster_id is None:
        node.close()
        raise ClusterNotFoundError(
            f"the creation of a cluster at {metadata_root} was cut off: create it again, which goes"
            " on with what is there"
        )
