"""Rounds of upkeep on replicas in memory, whose orders do what a test says."""

from types import SimpleNamespace

from kafka_on_spark.controller.inspections import SecondInspections
from kafka_on_spark.controller.upkeep import Upkeep, clean_root_task
from kafka_on_spark.log.replica_upkeep import upkeep_task
from kafka_on_spark.log.upkeep_work import UpkeepResult, WorkDone
from kafka_on_spark.metadata.records import ConfigRecord
from kafka_on_spark.node.node import hint_roots
from tests.controller.rounds import Rounds
from tests.fakes import MemoryHintRoots, MemoryReplicaFolders
from tests.nodes import node_of

INTERVAL_MS = 60_000


class Worked(Rounds):
    """Rounds of upkeep on replicas in memory; `work` says what each order does, and for how long."""

    def __init__(self, partition_count=1, **options):
        super().__init__(partition_count, **options)
        self.done = []
        self.work = lambda order: WorkDone()
        self.took_ms = 1.0
        self.side_by_side = 1
        self.moved_bytes = 0
        self.passes = ()
        self.roots_took_ms = 0
        self.roots_cleaned = 0
        self.left_hints = MemoryHintRoots()
        self.upkeep = self.new_upkeep()

    def new_upkeep(self):
        self.process = node_of(
            self.metadata,
            self.clock,
            given={upkeep_task: self.run_orders, clean_root_task: self.clean_roots},
            parts={
                hint_roots: self.left_hints,
                SecondInspections: self.second_inspections,
            },
        )
        upkeep = Upkeep(self.process)
        upkeep.passes = self.passes
        return upkeep

    def run_orders(self, orders):
        self.done += orders
        self.clock.advance(int(self.took_ms * len(orders) / self.side_by_side))
        return [
            UpkeepResult(
                key=order.key,
                broker_id=order.address.broker_id,
                done=(("work", self.work(order)),),
                moved_bytes=self.moved_bytes,
            )
            for order in orders
        ]

    def clean_roots(self, orders):
        self.roots_cleaned += 1
        self.clock.advance(self.roots_took_ms)
        return [None] * len(orders)

    def share(self, after_ms=INTERVAL_MS, *, first=()):
        """Do a round `after_ms` after the last one; return the visited partitions."""
        self.clock.advance(after_ms)
        self.done = []
        self.report = self.upkeep.run_share(first=first)
        return sorted({order.key.partition for order in self.done})

    def maintain(self):
        return self.upkeep.run_all()

    def worker(self):
        return SimpleNamespace(
            replicas=self.replicas,
            segments=self.segments,
            folders=MemoryReplicaFolders(self.roots),
            compactor=None,
            clock=self.clock,
        )

    def configure(self, configs):
        self.submit(
            [
                ConfigRecord(topic_id=None, config_name=name, config_value=value)
                for name, value in configs.items()
            ]
        )


def begun(partition_count=1, *, cluster=None, **options):
    """Return a cluster whose first round was a moment ago; `cluster`: its settings."""
    worked = Worked(partition_count, **options)
    worked.configure(cluster or {})
    worked.share(0)
    return worked
