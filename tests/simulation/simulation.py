"""One seed: a cluster of processes, interleaved and ill-treated, then healed and read back.

Every decision (which task runs next, what goes wrong) is drawn from the seed, and noted.
"""

import hashlib
import random
import traceback
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate
from unittest.mock import patch

from kafka_on_spark.base import merge_tiers
from kafka_on_spark.groups import offsets
from kafka_on_spark.log import compactor
from kafka_on_spark.metadata import metadata_service
from tests.simulation.checks.checker import Checker
from tests.simulation.checks.orphans import orphans_go
from tests.simulation.checks.passes import Passes, append_without_a_disk
from tests.simulation.faults.faults import Faults
from tests.simulation.faults.healing import heal_and_read_back
from tests.simulation.plan import CALL_FAULTS, HEALING, NO_BOUND, Plan
from tests.simulation.programs.clients import Values
from tests.simulation.programs.cluster import make_cluster
from tests.simulation.programs.program import Stop
from tests.simulation.programs.roster import Maker, programs_of
from tests.simulation.world.disks import Disks
from tests.simulation.world.processes import Driver
from tests.simulation.world.scheduler import (
    STARTED_AT_MS,
    Node,
    Scheduler,
    Task,
    Violation,
    program_of,
)
from tests.simulation.world.workers import Workers
from tests.simulation.world.world import World

Decision = tuple[str, ...]
"""("run", task, fault or ""), or ("event", name, …)."""

STEPS_TO_END_MAX = 20_000
"""Turns of processes until every one has ended once the faults have: L1."""


DECISIONS_A_CALL_MAX = 10
"""Decisions for each port call that is planned: some only wake a sleeper."""

_HEALING_RATES = tuple((name, rate * 0.001) for name, rate in HEALING.items())


@dataclass(slots=True)
class Outcome:
    """What became of a seed."""

    plan: Plan
    script: list[Decision]
    violation: str | None
    message: str
    met: Counter[object]
    calls: int
    simulation: "Simulation"

    @property
    def trace_hash(self) -> str:
        """Of all decisions and of what stands on the disks in the end."""
        return self.simulation.trace_hash()


class Simulation:
    _ended_seen = 0

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.script: list[Decision] = []
        self.met: Counter[object] = Counter()
        self._rng = random.Random(f"run/{plan.seed}")
        self._rates = (*plan.events.items(), *_HEALING_RATES)
        self._call_faults = _met_by(plan)
        self._stop, self._values = Stop(), Values()
        self._nodes: dict[str, Node] = {}
        self._programs: dict[str, tuple[Maker, int]] = {}
        self._weights: dict[str, float] = {}
        disks = Disks()
        self.world = _world_of(plan, disks)
        self.checker = Checker(disks)
        self.workers = Workers(self.world, plan.seed, random.Random(f"skews/{plan.seed}"))
        self.faults = Faults(plan, self.world, self.checker.ledger, self._all_nodes)
        self.checker.true_now_ms = lambda: STARTED_AT_MS + self.world.scheduler.now_ms
        self.checker.ledger.are_tombstones_timed = plan.are_clocks_right
        self._create()
        disks.observer = self.checker
        self.passes = Passes(plan, self.world, self.checker.ledger, self._drivers)
        self.checker.passes = self.passes
        self._start_programs()

    def _all_nodes(self) -> list[Node]:
        self._nodes = {name: node for name, node in self._nodes.items() if node.is_alive}
        return [*self._nodes.values(), *(each.node for each in self.workers.alive)]

    def _drivers(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.is_alive]

    def _create(self) -> None:
        """Make the cluster and its topic, before anything goes wrong."""
        for number in range(1, self.plan.brokers + 1):
            self.world.disks.add(number)
        make_cluster(self.plan, self.world.disks, "first")
        for key, partition in self.world.disks.image.partitions():
            self.checker.ledger.log(key).leaders[partition.leader_epoch] = partition.leader

    def _start_programs(self) -> None:
        makers = programs_of(self.plan, self.checker, self._stop, self._values)
        self._programs = {name: (make, 0) for name, make in makers.items()}
        for name in self._programs:
            self._weights[name] = 0.1 + self._rng.random()
            self._start(name)

    def _start(self, name: str) -> None:
        """Start a program in a process of its own, under a name that nobody had."""
        make, count = self._programs[name]
        self._programs[name] = (make, count + 1)
        node_name = f"{name}-{count}"
        skews = random.Random(f"skew/{self.plan.seed}/{node_name}")
        skew_ms = skews.randint(-self.plan.skew_ms, self.plan.skew_ms)
        node = self._nodes[node_name] = Node(node_name, self.plan.seed, skew_ms)
        driver = Driver(self.world, node, self.workers, twin_chance=self.plan.twin_chance)
        self.world.scheduler.spawn(node_name, node, lambda: make(driver).run())

    # Decisions: drawn, and done

    def draw(self) -> Decision:
        rng = self._rng
        drawn = rng.random
        for name, rate in self._rates:
            if drawn() < rate:
                event = self.faults.draw(name, rng)
                if event is not None:
                    return ("event", *event)
        ready = self.world.scheduler.ready()
        if not ready:
            sleeper = self.world.scheduler.next_sleeper()
            if sleeper is None:
                return ("event", "thaw all")
            ready = [sleeper]
        task = self._pick(ready)
        return ("run", task.name, self._fault_of(task))

    def _pick(self, ready: list[Task]) -> Task:
        if len(ready) == 1:
            return ready[0]
        weights = self._weights
        sums = list(accumulate([weights.get(each.node.program, 1.0) for each in ready]))
        # As `Random.choices` does, which is made for many choices.
        return ready[bisect(sums, self._rng.random() * sums[-1], 0, len(ready) - 1)]

    def _fault_of(self, task: Task) -> str:
        for fault, rate in self._call_faults.get(task.operation, ()):
            if self._rng.random() < rate:
                return fault
        return ""

    def do(self, decision: Decision) -> None:
        """Take one decision; one that is impossible by now changes nothing."""
        kind, name, *about = decision
        self.passes.sample()
        self.world.land()
        if kind == "run":
            self._resume(name, about[0])
        elif name == "second driver":
            self._start_again(about[0])
        elif name == "thaw all":
            for node in self._all_nodes():
                node.is_frozen = False
        elif self.faults.do((name, *about)):
            self.met[name] += 1
        self._restart_ended()

    def _resume(self, name: str, fault: str) -> None:
        task = self.world.scheduler.tasks.get(name)
        if task is None or task.awaited or task.node.is_frozen:
            return
        met = fault if fault in CALL_FAULTS.get(task.operation, ()) else None
        if met:
            self.met.update([met, (task.operation, met)])
        self.world.scheduler.resume(task, met)

    def _start_again(self, node_name: str) -> None:
        """Start a program a second time, while its first process lives on as a zombie."""
        program = program_of(node_name)
        node = self._nodes.get(node_name)
        if node is not None and node.is_alive and program in self._programs:
            self.met["second driver"] += 1
            node.was_frozen = True
            self._start(program)

    def _restart_ended(self) -> None:
        if self._stop.is_on:
            return
        if self._ended_seen == self.world.scheduler.ended:
            return
        self._ended_seen = self.world.scheduler.ended
        running = {each.program for each in self.world.scheduler.tasks.values()}
        for name in self._programs:
            if name not in running:
                self._start(name)

    # The run

    def run(self) -> None:
        """Take all decisions, then heal; raise what is found."""
        for _ in range(DECISIONS_A_CALL_MAX * self.plan.steps):
            if self.world.scheduler.calls >= self.plan.steps:
                break
            decision = self.draw()
            self.script.append(decision)
            self.do(decision)
        self._heal()

    def _heal(self) -> None:
        """End the faults and let every process end; then heal and read back."""
        world, scheduler = self.world, self.world.scheduler
        self._stop.is_on = True
        self.faults.heal_all()
        world.land(is_all=True)
        rng = random.Random(f"heal/{self.plan.seed}")
        for _ in range(STEPS_TO_END_MAX):
            if not scheduler.tasks:
                break
            ready = scheduler.ready()
            task = rng.choice(ready) if ready else scheduler.next_sleeper()
            if task is None:
                raise Violation(
                    "L1 every append ends", f"nobody can go on: {list(scheduler.tasks)}"
                )
            self.passes.sample()
            scheduler.resume(task, None)
        else:
            raise Violation("L1 every append ends", f"still at work: {list(scheduler.tasks)}")
        is_filled = "nearly full" in self.plan.events
        if self.plan.is_uncontrolled or is_filled:
            self._alone(
                "survivor",
                lambda driver: append_without_a_disk(
                    driver, self.checker, self._values, self.plan, is_full=is_filled
                ),
            )
            self.faults.heal_all()
        self._alone("healer", lambda driver: heal_and_read_back(driver, self.checker))
        if self.plan.tidiers and self.plan.orphan_bytes < NO_BOUND:
            self._alone("last tidier", lambda driver: orphans_go(driver, self.checker.ledger))

    def _alone(self, name: str, work: Callable[[Driver], None]) -> None:
        """Have the only process that is left do something, to its end."""
        scheduler = self.world.scheduler
        node = self._nodes[name] = Node(name, self.plan.seed)
        driver = Driver(self.world, node, self.workers, twin_chance=0.0)
        scheduler.spawn(name, node, lambda: work(driver))
        while scheduler.tasks:
            self.passes.sample()
            ready = scheduler.ready()
            task = ready[0] if ready else scheduler.next_sleeper()
            assert task is not None
            scheduler.resume(task, None)

    def trace_hash(self) -> str:
        digest = hashlib.sha256()
        for decision in self.script:
            digest.update(repr(decision).encode())
        for batch in self.world.disks.batches:
            digest.update(repr(batch.base_offset).encode() + repr(batch.stamp).encode())
            digest.update("".join(str(each.cause) for each in batch.records).encode())
        for root in self.world.disks.roots.values():
            for place in sorted(root.tables):
                state = root.tables[place].state
                digest.update(f"{place} {state.version} {state.batches}".encode())
        return digest.hexdigest()


def _world_of(plan: Plan, disks: Disks) -> World:
    is_merged, is_compacted = plan.merge_fan_in is not None, plan.compaction is not None
    silent_ms = plan.expiring and min(3000, 3 * plan.expiring.producers_ms)
    return World(
        Scheduler(),
        disks,
        are_clocks_right=plan.are_clocks_right,
        deletes=plan.retention_ms is not None,
        is_restamped=plan.is_restamped,
        changes_retries=plan.changes_retries,
        silent_ms=silent_ms,
        works=("merge",) * is_merged + ("compact",) * is_compacted,
    )


def _met_by(plan: Plan) -> dict[str, list[tuple[str, float]]]:
    """Return what a port call may meet in a plan and how often, by operation."""
    rates = plan.call_faults
    return {
        operation: [(each, rates[each]) for each in faults if each in rates]
        for operation, faults in CALL_FAULTS.items()
    }


@contextmanager
def _sizes_of(plan: Plan) -> Iterator[None]:
    """Have intervals and groups as a plan says. offsets.retention.minutes count milliseconds, as all
    that happens here takes some."""
    compacting = plan.compaction
    sizes = {
        (metadata_service, "SNAPSHOT_RECORDS_MIN"): plan.snapshot_records,
        (merge_tiers, "FAN_IN"): plan.merge_fan_in,
        (offsets, "MINUTE_MS"): plan.expiring and 1,
        (compactor, "GROUP_BYTES_MAX"): compacting and compacting.group_bytes,
        (compactor, "BYTES_A_KEY"): compacting and 2**20 // compacting.keys_at_once,
    }
    with ExitStack() as stack:
        for (module, name), size in sizes.items():
            if size is not None:
                stack.enter_context(patch.object(module, name, size))
        yield


def simulate(plan: Plan) -> Outcome:
    with _sizes_of(plan):
        simulation = Simulation(plan)
        violation, message = None, ""
        try:
            simulation.run()
        except Violation as found:
            violation, message = found.invariant, str(found)
        except Exception as error:
            violation = f"crash: {type(error).__name__}"
            message = "".join(traceback.format_exception(error)[-6:])
    world = simulation.world
    world.scheduler.end()
    return Outcome(
        plan=plan,
        script=simulation.script,
        violation=violation,
        message=message,
        met=simulation.met,
        calls=world.scheduler.calls,
        simulation=simulation,
    )
