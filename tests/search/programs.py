"""What runs in the processes of the search: the production services, one try or one round a time.

`Append.run` and the loop around a `ReplicationRound` are unrolled: a try of an append, or a
round, is a program of its own, started with the image that its first `catch_up` finds. What one
try leaves to the next is in its `PartitionBatch` alone, and of that only what `Carried` names: each try
forgets the leader's log that the one before has seen, so that it can't acknowledge by it.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.controller.election import elect_by_inspections, elect_where_none
from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.inspections import (
    LostReplicaInspector,
    SecondInspections,
    UnreadableLeaders,
    inspect_replica,
    plan_inspections,
)
from kafka_on_spark.controller.replica_tables import create_replica_task
from kafka_on_spark.controller.replication_round import ReplicationRound
from kafka_on_spark.controller.upkeep import Upkeep
from kafka_on_spark.log.batch import Batch, ProducerStamp
from kafka_on_spark.log.fetch import FetchResult, fetch, fetch_task, inspect_partition_task
from kafka_on_spark.node.node import hint_roots
from kafka_on_spark.produce.append_rounds import AppendRounds, AppendThreads, check_min_isr
from kafka_on_spark.produce.leader_log import PartitionBatch
from tests.builders import KEY, address, staged
from tests.controller.rounds import NothingUnreadable
from tests.fakes import MemoryHintRoots
from tests.nodes import node_of
from tests.search.replaying import Process

LATE_MS = 1_000_000_000
"""A round comes long after all appends, so a replica that lacks a record then leaves the ISR."""


class _Here(AppendThreads):
    """A try runs where it is begun, and its fetches in lanes of the process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def pool(self, brokers: Any) -> Any:
        return self

    def at_roots(self, work: Callable[..., Any], addresses: Iterable[Any]) -> list[Any]:
        return self._process.map(work, addresses)

    @staticmethod
    def submit(work: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done


@dataclass(frozen=True, slots=True)
class Carried:
    """What a try of an append leaves to the next one; see `PartitionBatch`."""

    is_first: bool = True
    is_appended: bool = False
    may_be_appended: bool = False
    is_duplicate: bool = False
    puts: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class Acked:
    """An append was acknowledged. `base_offset`: None where it is unknown by now."""

    base_offset: int | None
    is_duplicate: bool
    after: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An append failed. `is_unknown`: whether it may be in the log all the same."""

    error: str
    is_unknown: bool


@dataclass(frozen=True, slots=True)
class Appending:
    """One try to append `value`.

    Attributes:
        value: The record, and the uuid of its file.
        after: The largest offset that was acknowledged before the append began.
        producer: The append's stamp.
        carried: What the try before has left.
    """

    value: str
    after: int = -1
    producer: ProducerStamp | None = None
    carried: Carried = Carried()

    def run(self, process: Process) -> "Acked | Refused | Appending":
        carried = self.carried
        batch = PartitionBatch(
            key=KEY,
            staged=staged(self.value, producer=self.producer),
            holders=(address(1),),
            is_appended=carried.is_appended,
            may_be_appended=carried.may_be_appended,
            is_duplicate=carried.is_duplicate,
            puts=list(carried.puts),
        )
        if carried.is_first:
            try:
                check_min_isr(process.metadata.image, KEY, is_appended=False)
            except KafkaOnSparkError as error:
                return Refused(type(error).__name__, is_unknown=False)
        if not self._round(process, batch):
            return replace(self, carried=_carried(batch))
        if batch.error is None:
            return Acked(batch.base_offset, batch.is_duplicate, self.after)
        is_unknown = batch.is_appended or batch.may_be_appended
        return Refused(type(batch.error).__name__, is_unknown=is_unknown)

    def _round(self, process: Process, batch: PartitionBatch) -> bool:
        node = node_of(
            process.metadata,
            process.clock,
            parts={
                AppendThreads: _Here(process),
                SecondInspections: _second_inspections(process),
            },
            timeout_ms=1,
            replicas=process.replicas,
            segments=process.segments,
        )
        AppendRounds(node, [batch], acks="all", timeout_ms=1)._round([batch])
        return batch.is_answered


def _carried(batch: PartitionBatch) -> Carried:
    return Carried(
        is_first=False,
        is_appended=batch.is_appended,
        may_be_appended=batch.may_be_appended,
        is_duplicate=batch.is_duplicate,
        puts=tuple(batch.puts),
    )


class _NoPace:
    """Lets all fetches go on, at once."""

    def plan(self, image: Any, orders: Any, overrides: Any, *, is_sweep: bool) -> tuple[Any, None]:
        return orders, None

    def record_results(self, *_: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Replicating:
    """Rounds of replication over every partition, without end."""

    def run(self, process: Process) -> "Replicating":
        fetches = _fetching(process)
        node = node_of(
            process.metadata,
            process.clock,
            given={
                fetch_task: lambda orders: process.map(fetches, orders),
                inspect_partition_task: lambda each: [
                    process.map(fetches, orders) for orders in each
                ],
                create_replica_task: lambda orders: process.map(
                    lambda order: create_replica_task(order, process), orders
                ),
            },
            parts={
                hint_roots: MemoryHintRoots(),
                FetchPace: _NoPace(),
                SecondInspections: _second_inspections(process),
                LostReplicaInspector: SimpleNamespace(inspect=lambda image: []),
                Upkeep: SimpleNamespace(compact_followers=lambda followers: False),
            },
            new_uuid=lambda: "renewed",
            timeout_ms=1,
        )
        ReplicationRound(node).run(is_sweep=True)
        return self


def _second_inspections(process: Process) -> SecondInspections:
    return SecondInspections(
        node_of(
            process.metadata,
            process.clock,
            given={fetch_task: lambda orders: process.map(_fetching(process), orders)},
            parts={UnreadableLeaders: NothingUnreadable()},
            timeout_ms=1,
        )
    )


def _fetching(process: Process) -> Callable[[Any], FetchResult]:
    def work(order: Any) -> FetchResult:
        result = fetch(order, process.replicas, process.segments, process.clock)
        # How much was moved is for people; without it, tasks that did the same are the same.
        return replace(result, copied_bytes=0, copied_records=0, truncated_records=0)

    return work


@dataclass(frozen=True, slots=True)
class Recovering:
    """One search of the controller for leaders where there are none (ControllerLoop)."""

    def run(self, process: Process) -> "Recovering":
        """Elect from the image, else from the logs."""
        orders = plan_inspections(process.metadata.image)
        inspections = process.map(lambda order: inspect_replica(order, process), orders)
        seen = [each for each in inspections if each is not None]
        process.metadata.submit(
            lambda image: elect_where_none(image, image.eligible_brokers(), "elected"),
            timeout_ms=1,
        )
        process.metadata.submit(lambda image: elect_by_inspections(image, seen), timeout_ms=1)
        return self


Program = Appending | Replicating | Recovering
