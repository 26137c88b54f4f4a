"""One seed of a quorum: processes that decide and read over voters' tables, ill-treated, then healed.

Every choice is drawn from the seed: the same seed does the same. In the end everybody is well but an
emptied voter, and decisions go on.
"""

import random
from collections import Counter, deque
from dataclasses import dataclass

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
    QuorumUnavailableError,
    RootAccessDeniedError,
)
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.voter_changes import VoterChanges
from kafka_on_spark.metadata.quorum.voter_table import Voter, VoterSet, VoterTable
from tests.simulation.quorum.quorum_plan import CALL_FAULTS, PROCESS_EVENTS, QUICK, QuorumPlan
from tests.simulation.quorum.quorum_world import Greenlets, SimulatedVoterLog, make_world
from tests.simulation.world.scheduler import Clock, Node, Violation
from tests.voter_fakes import STAMP, settings_of

STEPS_TO_END_MAX = 12000
"""Calls until every process has decided once more, after all is well."""

LAST_DECISIONS = 20
"""Where processes are denied in the end, each has so many answers."""

TOLD_MAX = 60


@dataclass(slots=True)
class QuorumOutcome:
    """What became of a seed."""

    violation: str | None
    message: str
    seen: dict[str, int]
    trace: int


class QuorumSimulation:
    def __init__(self, plan: QuorumPlan) -> None:
        self.plan = plan
        self.rng = random.Random(f"quorum/run/{plan.seed}")
        self.world = make_world(plan.voters, plan.spares)
        self.checker = self.world.checker
        self.scheduler = self.world.scheduler
        self.nodes: list[Node] = []
        self.started = 0
        self.values = 0
        self.is_ending = False
        self.ended: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.told: deque[str] = deque(maxlen=TOLD_MAX)
        self.trace = 0
        self.changing: set[str] = set()

    # Processes.

    def start(self) -> None:
        """Start a process, which knows nothing."""
        self.started += 1
        node = Node(f"p{self.started}", self.plan.seed)
        self.nodes.append(node)

        def open_log(voter):
            return SimulatedVoterLog(self.world, node, self.world.roots[voter.key.node_id], voter)

        log = QuorumLog(
            self.listed(node),
            open_log,
            Greenlets(self.scheduler, node),
            Clock(self.scheduler, node),
            random=node.rng.random,
            new_id=node.new_uuid,
            settings=QUICK,
        )
        self.scheduler.spawn(node.name, node, lambda: self.live(node, log))

    def listed(self, node: Node) -> VoterSet:
        """Return the voters that a new process is told of: those of the beginning, who may be none
        any more, and one of now that is well."""
        listed = {each.key.node_id: each for each in self.world.voters.voters}
        well = [each for each in self.checker.voters.voters if not self.is_lost(each)]
        if well:
            one = node.rng.choice(well)
            listed[one.key.node_id] = one
        return VoterSet.of(listed.values())

    def live(self, node: Node, log: QuorumLog) -> None:
        """Decide and read until the end, and once more after it."""
        offset = 0
        while node.name not in self.ended:
            is_last = self.is_ending
            self.scheduler.sleep(node.rng.randrange(40))
            try:
                offset = self.read(log, offset)
                offset = self.act(node, log, offset, is_last=is_last)
            except InconsistentClusterError as error:
                raise Violation("Q2", f"a log contradicts another: {error}") from error
            except KafkaOnSparkError as error:
                self.checker.seen[type(error).__name__] += 1
                if is_last and self.is_denial(node, error):
                    self.answered(node)

    def act(self, node: Node, log: QuorumLog, offset: int, *, is_last: bool) -> int:
        if self.plan.changes and node.rng.random() < self.plan.changes and not is_last:
            self.change(node, log)
        if node.rng.random() < 0.6 or is_last:
            if self.plan.denials and node.rng.random() < 0.5:
                log.check_writable()
            offset = self.decide(node, log, offset)
            log.maintain()
            if is_last:
                self.answered(node)
        return offset

    def is_denial(self, node: Node, error: KafkaOnSparkError) -> bool:
        """Return whether a process that is denied by a root is told so: by name, or that it has no
        majority, where it has none to write to."""
        voters = self.checker.voters
        able = [
            each.key
            for each in voters.voters
            if not self.is_lost(each) and node.name not in self.root_of(each).denied
        ]
        has_none = not voters.is_majority(able) and isinstance(error, QuorumUnavailableError)
        return has_none or isinstance(error, RootAccessDeniedError)

    def answered(self, node: Node) -> None:
        self.answers[node.name] += 1
        if self.answers[node.name] >= (LAST_DECISIONS if self.plan.denials else 1):
            self.ended.add(node.name)

    def read(self, log: QuorumLog, offset: int) -> int:
        began = self.checker.end
        batches = log.read(from_offset=offset)
        self.checker.read(began, offset, batches)
        return batches[-1].end_offset if batches else offset

    def decide(self, node: Node, log: QuorumLog, offset: int) -> int:
        self.values += 1
        value = f"v{self.values}"
        try:
            batch = log.append(settings_of(value), STAMP, expected_offset=offset)
        except CommitConflictError:
            self.checker.refused(value)
            raise
        except CommitOutcomeUnknownError:
            self.checker.seen["unknown outcomes"] += 1
            raise
        self.checker.acknowledged(batch)
        return batch.end_offset

    def change(self, node: Node, log: QuorumLog) -> None:
        self.changing.add(node.name)
        try:
            self.change_once(node, log)
        finally:
            self.changing.discard(node.name)

    def change_once(self, node: Node, log: QuorumLog) -> None:
        voters = log.tables.voters
        others = [root for root in self.world.roots.values() if root.key not in voters.keys]
        kind = node.rng.choice(["add", "add", "remove", "elect"])
        if kind == "add" and others:
            root = node.rng.choice(others)
            if root.went_back:  # people empty it before
                root.empty()
            self.checker.changed(VoterChanges(log).add(Voter(root.key, root.url), STAMP))
        elif kind == "remove":
            lost = [each.key for each in voters.voters if self.is_lost(each)]
            lost = [] if self.plan.removes_any else lost
            self.checker.changed(
                VoterChanges(log).remove(node.rng.choice(lost or voters.keys), STAMP)
            )
        elif kind == "elect":
            to = node.rng.choice([None, *voters.keys])
            VoterChanges(log).elect(to)
            self.checker.seen["transfers"] += 1

    # Steps.

    def run(self) -> QuorumOutcome:
        for _ in range(self.plan.processes):
            self.start()
        try:
            self.suffer()
            self.heal()
        except Violation as violation:
            return self.outcome(violation.invariant, f"{violation}")
        finally:
            self.scheduler.end()
        return self.outcome(None, "")

    def outcome(self, violation: str | None, message: str) -> QuorumOutcome:
        told = "\n".join(self.told)
        words = f"seed={self.plan.seed} {message}\n{told}" if violation else ""
        return QuorumOutcome(violation, words, dict(self.checker.seen), self.trace)

    def suffer(self) -> None:
        while self.scheduler.calls < self.plan.steps:
            for name, rate in self.plan.events.items():
                if self.rng.random() < rate:
                    self.happen(name)
            if self.rng.random() < 0.03:
                self.recover_one()
            self.step()

    def step(self) -> None:
        """Let one task go on, up to its next call."""
        self.world.land()
        ready = self.scheduler.ready()
        task = self.rng.choice(ready) if ready else self.scheduler.next_sleeper()
        if task is None:
            self.recover_one()
            return
        fault = self.fault_of(task.operation)
        place = "" if task.root is None else f" {task.root.url}"
        self.tell(f"{self.scheduler.now_ms:.0f} {task.name}: {task.operation}{place} {fault or ''}")
        self.scheduler.resume(task, fault)

    def fault_of(self, operation: str) -> str | None:
        if self.is_ending:
            return None
        for fault in CALL_FAULTS.get(operation, ()):
            if self.rng.random() < self.plan.call_faults.get(fault, 0.0):
                self.checker.seen[fault] += 1
                return fault
        return None

    def tell(self, words: str) -> None:
        self.told.append(words)
        self.trace = hash((self.trace, len(words), self.scheduler.calls)) & 0xFFFFFFFF

    # Events.

    def happen(self, name: str) -> None:
        """Do an event, if it can be done now."""
        roots = list(self.world.roots.values())
        if name in PROCESS_EVENTS:
            is_done = self.happen_to_process(name, self.rng.choice(self.nodes))
        else:
            is_done = self.happen_to_root(name, self.rng.choice(roots))
        if is_done:
            self.checker.seen[name] += 1

    def happen_to_process(self, name: str, node: Node) -> bool:
        self.tell(f"{node.name} {name}")
        if name == "kill":
            self.scheduler.kill(node)
            self.nodes.remove(node)
            self.changing.discard(node.name)
            self.start()
        elif name == "freeze":
            node.is_frozen = node.was_frozen = True
        elif name == "denied":
            self.rng.choice(list(self.world.roots.values())).denied.add(node.name)
        else:
            root = self.rng.choice(list(self.world.roots.values()))
            node.cut_off[root.url] = KafkaStorageError
        return True

    def happen_to_root(self, name: str, root) -> bool:
        self.tell(f"{root.url} {name}")
        if name == "away":
            root.is_offline = True
        elif name == "read-only":
            root.is_read_only = True
        elif name == "frozen":
            root.is_frozen = True
        elif name == "power cut":
            was_lost = root.flushed < len(root.versions)
            root.cut_power()
            return was_lost
        elif name == "emptied":
            return self.empty(root)
        elif name == "restored":
            return self.restore(root)
        return True

    def root_of(self, voter):
        return self.world.roots[voter.key.node_id]

    def is_lost(self, voter) -> bool:
        """Return whether a voter was emptied, or lost to some process since it went back."""
        root = self.root_of(voter)
        return root.key != voter.key or root.went_back

    def may_lose_one(self) -> bool:
        """Return whether the others are a majority, were one voter more lost to some process, and
        nobody is about to change who votes."""
        voters = self.checker.voters
        if self.changing or self.world.changes_pending or not self.checker.is_settled:
            return False
        lost = sum(map(self.is_lost, voters.voters))
        return len(voters.voters) - lost - 1 >= voters.majority

    def empty(self, root) -> bool:
        is_voter = root.key in self.checker.voters.keys
        if not self.may_lose_one() or (self.plan.changes and not is_voter):
            return False
        root.empty()
        return True

    def restore(self, root) -> bool:
        """Restore a voter from a copy that lacks nothing that others count on: it has given no vote
        and adopted no leader since, leads nothing, and what it loses is on all other voters."""
        now = root.table
        voters = self.checker.voters
        if root.key not in voters.keys:
            return False
        others = [
            each.durable
            for each in self.world.roots.values()
            if each is not root and each.key in voters.keys
        ]
        is_elsewhere = all(_has_all(each, now) for each in others)
        if not self.may_lose_one() or now.leads or now.leader is None or not is_elsewhere:
            return False
        for version, old in enumerate(root.versions[:-1]):
            if _term(old) == _term(now):
                root.went_back = True
                root.restore(version)
                return True
        return False

    def recover_one(self) -> None:
        """Let one root or process be well again."""
        ill = [each for each in self.world.roots.values() if not each.is_well or each.denied]
        ill += [each for each in self.nodes if each.is_frozen or each.cut_off]
        if ill:
            self.recover(self.rng.choice(ill))

    def recover(self, ill) -> None:
        if isinstance(ill, Node):
            ill.is_frozen = False
            ill.cut_off.clear()
        else:
            ill.is_offline = ill.is_read_only = ill.is_frozen = False
            ill.denied.clear()

    def heal(self) -> None:
        """Have all be well, and each process decide once more."""
        self.is_ending = True
        for each in (*self.world.roots.values(), *self.nodes):
            self.recover(each)
        self.world.land(is_all=True)
        voters = self.checker.voters.keys
        for node, key in zip(self.nodes[: self.plan.denials], voters, strict=False):
            self.world.roots[key.node_id].denied.add(node.name)
        leaderships = self.checker.seen["leaderships"]
        last = self.scheduler.calls + STEPS_TO_END_MAX
        while any(node.name not in self.ended for node in self.nodes):
            if self.scheduler.calls > last:
                late = [node.name for node in self.nodes if node.name not in self.ended]
                raise Violation("L1", f"{late} decide nothing, though all is well")
            self.step()
        elected = self.checker.seen["leaderships"] - leaderships
        if self.plan.denials and elected > 2 * len(voters):
            raise Violation("L2", f"{elected} elections in turns, though any other voter would do")
        self.checker.seen["committed"] = len(self.checker.committed)


def _term(table: VoterTable) -> tuple[object, ...]:
    return table.quorum_epoch, table.votes, table.leaders


def _has_all(other: VoterTable, table: VoterTable) -> bool:
    """Return whether another voter has, under the same leader, all of a voter's log."""
    is_same_term = (other.quorum_epoch, other.leader) == (table.quorum_epoch, table.leader)
    count = len(table.log.batches)
    return is_same_term and other.log.batches[:count] == table.log.batches


def simulate_quorum(plan: QuorumPlan) -> QuorumOutcome:
    return QuorumSimulation(plan).run()
