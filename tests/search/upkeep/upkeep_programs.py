"""What keeps a log small, as processes of the search: the production services, one pass a time.

What was staged, and what a task wrote, is no step; each load and each commit is one. Two neighbours
are enough for a merge, and each file is a group of compaction, so a commit.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from unittest.mock import patch

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.controller.cleanup_policy import (
    CompactionPass,
    RetentionPass,
    inspect_for_compaction,
    inspect_for_retention,
)
from kafka_on_spark.log import compactor
from kafka_on_spark.log.replica_upkeep import WORKS, plan_upkeep, run_upkeep, upkeep_task
from tests.builders import KEY
from tests.nodes import node_of
from tests.search.replaying import Process
from tests.search.upkeep.files import RECORD_BYTES, SearchedCompactor


@dataclass(frozen=True, slots=True)
class Tidying:
    """Upkeep of one replica, order after order (Upkeep).

    Attributes:
        broker_id: The replica.
        work: The one kind of work that is done.
    """

    broker_id: int
    work: str

    def run(self, process: Process) -> "Tidying":
        """Do one order, planned on the image."""
        orders = plan_upkeep(process.metadata.image, [KEY])
        order = next((each for each in orders if each.address.broker_id == self.broker_id), None)
        if order is not None:
            with _few_files():
                works = [each for each in WORKS if each[0] == self.work]
                run_upkeep(order, _tidying(process), works)
        return self


def _tidying(process: Process) -> SimpleNamespace:
    """Return where a task of upkeep runs."""
    return SimpleNamespace(
        replicas=process.replicas,
        segments=process.segments,
        folders=None,
        compactor=SearchedCompactor(process.segments),
        clock=process.clock,
    )


@contextmanager
def _few_files() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(merge_tiers, "FAN_IN", 2))
        stack.enter_context(patch.object(compactor, "GROUP_BYTES_MAX", RECORD_BYTES - 1))
        yield


@dataclass(frozen=True, slots=True)
class Retaining:
    """Passes of retention (RetentionPass); they come long after all appends."""

    def run(self, process: Process) -> "Retaining":
        """Look at the leader, decide where the log starts, and have the replicas in sync apply it."""
        retention = RetentionPass(
            node_of(
                process.metadata,
                process.clock,
                given={
                    inspect_for_retention: lambda orders: [
                        inspect_for_retention(each, _worker_of(process)) for each in orders
                    ],
                    upkeep_task: lambda orders: process.map(
                        lambda order: run_upkeep(order, _tidying(process)), orders
                    ),
                },
                timeout_ms=1,
            )
        )
        retention.run(is_all=True)
        return self


@dataclass(frozen=True, slots=True)
class Deciding:
    """Passes over what is compacted (CompactionPass): they decide, and replicas apply it."""

    def run(self, process: Process) -> "Deciding":
        """Look at all replicas, and decide how far the log is compacted."""
        passes = CompactionPass(
            node_of(
                process.metadata,
                process.clock,
                given={
                    inspect_for_compaction: lambda orders: [
                        inspect_for_compaction(each, _worker_of(process)) for each in orders
                    ]
                },
                timeout_ms=1,
            )
        )
        passes.run(is_all=True)
        return self


def _worker_of(process: Process) -> SimpleNamespace:
    """Return where a task runs: a root's clock says what the process's own does."""
    return SimpleNamespace(
        replicas=process.replicas, root_now_ms=lambda address: process.clock.now_ms()
    )
