"""What one process has open of a cluster: its metadata, its tasks, what is due, clock and counts.

Functions of a capability are given a node. State that a capability keeps in a process is a part of
the node: made once, when somebody first asks, and closed with it.
"""

import logging
import os
import random
import socket
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from uuid import uuid4

from kafka_on_spark.base.errors import ClusterNotFoundError, KafkaOnSparkError, KafkaStorageError
from kafka_on_spark.base.ids import Clock, IdSource
from kafka_on_spark.log.state import ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.cluster_roots import HintRoots
from kafka_on_spark.metadata.image import Decide
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.node.opening import Awaits, open_metadata
from kafka_on_spark.store.counts import BEGUN, CHECKPOINT, OPEN, Counts, operating
from kafka_on_spark.store.deadlines import DaemonThreads, SystemClock
from kafka_on_spark.store.root_identity import CHECKED
from kafka_on_spark.store.storage_options import StorageOptions

if TYPE_CHECKING:
    from kafka_on_spark.groups.liveness import HeartbeatFiles
    from kafka_on_spark.log.replicas import ReplicaStore
    from kafka_on_spark.log.segments import SegmentStore

log = logging.getLogger(__name__)

T = TypeVar("T")
Order = TypeVar("Order")
Result = TypeVar("Result")

Task = Callable[[Order, Worker], Result]


class Executors(Protocol):
    """Runs tasks in other processes, each with a worker of its own; or in none, if `are_local`."""

    application_id: str
    """Spark's name for the application, which commits name."""

    @property
    def are_local(self) -> bool:
        """Whether they are in this process: they reach what it reaches."""
        ...

    def run(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order. `task` may run twice for an order."""
        ...

    def run_on_each(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of every order on each of several executors, as a rule on all."""
        ...


@dataclass(eq=False)
class Tasks:
    """Runs tasks.

    Attributes:
        executors: Where tasks run; None: in `threads`.
    """

    worker: Worker
    threads: Executor
    executors: Executors | None = None

    def run(
        self, task: Task[Order, Result], orders: Sequence[Order], *, few: int = 0
    ) -> list[Result]:
        """Return one result an order, in order. Up to `few` orders are done here."""
        if self.executors is None or len(orders) <= few:
            return self.run_here(task, orders)
        return self.executors.run(task, orders)

    def run_here(self, task: Task[Order, Result], orders: Sequence[Order]) -> list[Result]:
        """Return the results of tasks in threads of this process."""
        return list(self.threads.map(lambda order: task(order, self.worker), orders))

    def run_or_lose(
        self, task: Task[Order, Result], orders: Sequence[Order], *, on_each: bool = False
    ) -> list[Result]:
        """Do as `run`; if Spark gives the job up, raise KafkaStorageError, as if a root were away:
        what was to be done is found again. `on_each`: do every order on each of several executors;
        on none that are in this process."""
        try:
            if not on_each:
                return self.run(task, orders)
            if self.executors is None or self.executors.are_local or not orders:
                return []
            return self.executors.run_on_each(task, orders)
        except KafkaOnSparkError:
            raise
        except Exception as error:  # whatever Spark calls the loss of an executor
            raise KafkaStorageError(f"the executors did not do it: {error}") from error


Work = Callable[[], None]


class Maintenance:
    """What a process does after its answers, in order by one thread: checkpoints, snapshots, second
    inspections.

    Each piece of work waits once at most, whatever asks for it how often; work that is asked for
    while it runs runs once more. In a queue without a bound, a process that appends without pause
    would queue more than one thread does, until memory is full.

    Skipping it costs time only, so a failure is a line in the log.
    """

    def __init__(self) -> None:
        self._threads = DaemonThreads(1, "maintenance")
        self._lock = Lock()
        self._waiting: dict[Hashable, Work] = {}

    def add(self, works: Mapping[Any, Work]) -> None:
        """Have these done; what waits already is not done twice."""
        with self._lock:
            is_idle = not self._waiting
            for key, work in works.items():
                self._waiting.setdefault(key, work)
            if not is_idle or not self._waiting:
                return
        try:
            self._threads.submit(self._run)
        except KafkaOnSparkError as error:  # the pool is closed, or has no more threads
            log.debug("no maintenance: %s", error)
            with self._lock:
                self._waiting.clear()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                work = self._waiting.pop(next(iter(self._waiting)))
            try:
                work()
            except Exception:  # no caller waits for it: without a line in the log it would be lost
                log.warning("maintenance failed", exc_info=True)

    def finish(self) -> None:
        """Wait until what is due by now is done."""
        self._threads.submit(lambda: None).result()

    def close(self) -> None:
        """Do what is due, and take nothing more."""
        self._threads.shutdown(wait=True)


ID_SOURCE: Final = IdSource(new_uuid=lambda: uuid4().hex, random_below=random.randrange)
"""Gives the ids and random numbers of this process's decisions."""

THREADS: Final = 8
"""Threads of a pool: commits wait for disks and stores, not for the processor."""


class Node:
    """One process of a cluster. Threads may share it. `parts` take the place of what would be made.

    Attributes:
        clock: Says the time of what this process commits and appends.
        options: Credentials of all roots.
        controller_id: A name for this process that no other process has.
        ids: Where its decisions take ids from.
        random: Returns [0, 1): jitter between tries.
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

    @cached_property
    def replicas(self) -> "ReplicaStore":
        """The open tables of replicas."""
        return self.tasks.worker.replicas

    @cached_property
    def segments(self) -> "SegmentStore":
        """Their files of records."""
        return self.tasks.worker.segments

    @property
    def timeout_ms(self) -> int:
        """How long an append or a command may take. Source: delivery.timeout.ms."""
        return self.metadata.image.settings().integer("delivery.timeout.ms")

    def submit(self, decide: Decide[T]) -> T:
        """Commit what `decide` says, within the time that a command may take; raise as
        `MetadataService.submit`."""
        return self.metadata.submit(decide, timeout_ms=self.timeout_ms)

    def commit_due(self) -> None:
        """Have the checkpoint and the snapshot of the metadata written that a commit made due."""
        if self.metadata.may_need_upkeep():  # after most commits no thread is woken
            self.maintenance.add({self.metadata: operating(CHECKPOINT)(self.metadata.maintain)})

    def maintain(self, addresses: Iterable[ReplicaAddress]) -> None:
        """Have due checkpoints of replicas written, after the answer was given."""
        for address in addresses:
            replica = self.replicas.open(address)
            if replica.may_need_checkpoint():
                self.maintenance.add({address: operating(CHECKPOINT)(replica.maintain)})

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
    return HintRoots(node.metadata.log.roots, node.options)


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
    *,
    is_new: bool = False,
) -> Node:
    """Open the cluster at `metadata_root`; `is_new`: it is about to be created.

    Tasks run on `executors`, or in threads if there are none.

    Raises:
        ClusterNotFoundError: There is no cluster, or its creation was cut off before its commit.
    """
    CHECKED.clear()  # the roots may be a copy's
    counts = Counts(SystemClock().precise_ms, BEGUN)
    host = socket.gethostname()
    with operating(OPEN):
        metadata = open_metadata(
            metadata_root,
            options,
            application_id=None if executors is None else executors.application_id,
            awaits=awaits,
            counts=counts,
        )
    node = Node(
        metadata,
        Tasks(Worker(options), DaemonThreads(THREADS, "task"), executors),
        options=options,
        controller_id=f"{host}-{os.getpid()}-{uuid4().hex[:8]}",
        counts=counts,
        maintenance=Maintenance(),
        host=host,
        caller=f"process {os.getpid()} on {host}",
    )
    metadata.after_commit = node.commit_due
    if metadata.image.cluster_id is None and not is_new:
        node.close()
        raise ClusterNotFoundError(
            f"the creation of a cluster at {metadata_root} was cut off: create it again, which goes"
            " on with what is there"
        )
    return node
