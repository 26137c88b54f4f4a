"""Voters' roots and the processes' ports to them, each call a switch of the scheduler.

A commit is visible first and durable later: a process may be killed in between, and the power may
fail. A put may land long after its process was told that nobody knows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.metadata.quorum.voter_table import RaftLog, TableChange, VoterSet, VoterTable
from tests.simulation.quorum.quorum_checks import QuorumChecker
from tests.simulation.world.scheduler import HANG_MS, Node, Scheduler
from tests.voter_fakes import MemoryVoterLog, MemoryVoterRoot, bootstrap, voter_of

POLL_MS = 6


class SimulatedRoot(MemoryVoterRoot):
    """A voter's root that tells the checker what is put, and what is durable."""

    def __init__(self, url, key, versions, content, checker):
        super().__init__(key, versions, content)
        self.url, self.checker, self.is_frozen = url, checker, False
        self.went_back = False
        checker.roots.append(self)

    def put(self, table, change, content):
        before = self.table
        if not MemoryVoterRoot.put(self, table, change, content):
            return False
        self.checker.put(self, before, change)
        return True

    def flush(self, version=None):
        flushed = self.flushed
        MemoryVoterRoot.flush(self, version)
        self.checker.flushed(self, self.versions[flushed : self.flushed])

    def empty(self):
        MemoryVoterRoot.empty(self)
        self.went_back = False

    @property
    def durable(self):
        """The newest version that outlives a power cut."""
        return self.versions[self.flushed - 1]

    @property
    def is_well(self):
        return not (self.is_offline or self.is_read_only or self.is_frozen)


@dataclass
class QuorumWorld:
    scheduler: Scheduler
    voters: VoterSet
    checker: QuorumChecker
    roots: dict = field(default_factory=dict)
    pending: list[tuple[int, Callable[[], object], TableChange]] = field(default_factory=list)

    def later(self, steps: int, put: Callable[[], object], change: TableChange) -> None:
        """Have `put` land after so many calls."""
        self.pending.append((self.scheduler.calls + steps, put, change))

    @property
    def changes_pending(self) -> bool:
        return any(each.voters for *_, change in self.pending for each in change.appended)

    def land(self, *, is_all: bool = False) -> None:
        due = [each for each in self.pending if is_all or each[0] <= self.scheduler.calls]
        self.pending = [each for each in self.pending if each not in due]
        for _, put, _ in due:
            put()


def make_world(voter_count: int, spare_count: int = 0) -> QuorumWorld:
    """Return roots as `create` leaves them: the same bootstrap batch, and nobody leads. Besides,
    some roots that are no voters as yet."""
    voters = VoterSet.of(voter_of(node) for node in range(voter_count))
    world = QuorumWorld(Scheduler(), voters, QuorumChecker(voters))
    header, batch = bootstrap(voters)
    for each in voters.voters:
        first = VoterTable(each.key, log=RaftLog((header,)))
        content = {header.write_id: batch}
        world.roots[each.key.node_id] = SimulatedRoot(
            each.root, each.key, [first], content, world.checker
        )
    for node in range(voter_count, voter_count + spare_count):
        spare = voter_of(node)
        world.roots[node] = SimulatedRoot(
            spare.root, spare.key, [VoterTable(spare.key)], {}, world.checker
        )
    return world


class SimulatedVoterLog(MemoryVoterLog):
    """A VoterLog of one simulated process."""

    def __init__(self, world, node, root, voter):
        super().__init__(root, voter, process=node.name)
        self._world, self._node = world, node

    def _meets(self, operation, root=None):
        """Stand before a call; return the fault that it meets."""
        root = root or self._root
        fault = self._world.scheduler.call(operation, root)
        if root.is_frozen:
            self._world.scheduler.sleep(HANG_MS)
            fault = "hung"
        if fault == "failed" or (fault == "hung" and operation not in ("put", "flush")):
            raise KafkaStorageError("EIO")
        return fault

    def load(self):
        self._meets("load")
        return super().load()

    def is_newest(self, table):
        self._meets("look")
        return super().is_newest(table)

    def read(self, *, from_offset, to_offset):
        self._meets("read")
        return super().read(from_offset=from_offset, to_offset=to_offset)

    def copy(self, headers):
        self._meets("copy")
        return super().copy(headers)

    def _put(self, table, change, content):
        root = self._root
        fault = self._meets("put")
        self._check_answers()
        self._check_directory()
        if self._process in root.denied:
            raise RootAccessDeniedError("the caller has no permission")
        if root.is_read_only or fault in ("lost", "delayed", "hung"):
            self._leave_behind(fault, lambda: self._lands(table, change, content), change)
            raise CommitOutcomeUnknownError("the store failed while committing")
        if not root.put(table, change, content):
            raise CommitConflictError("version is taken")
        mine = root.table
        self._flush(mine)
        if fault == "unsaid":
            raise CommitOutcomeUnknownError("the store failed while committing")
        self.seen = mine
        return mine

    def _leave_behind(self, fault, put, change):
        if fault == "delayed" or (fault == "hung" and self._node.rng.random() < 0.5):
            self._world.later(1 + self._node.rng.randrange(300), put, change)

    def _lands(self, table, change, content):
        root = self._root
        if not root.is_read_only and root.put(table, change, content):
            self._world.checker.seen["landed late"] += 1
            root.flush(table.version + 1)

    def _flush(self, mine):
        """Make a commit durable: it is visible already."""
        try:
            fault = self._meets("flush")
        except KafkaStorageError as error:
            raise CommitOutcomeUnknownError("the store failed while committing") from error
        stands = self._root.versions[mine.version : mine.version + 1]
        if fault or not stands or stands[0] is not mine:  # another's may say the same
            raise CommitOutcomeUnknownError("the store failed while committing")
        self._root.flush(mine.version)


class Greenlets:
    """A SideBySide: each call a greenlet of the process."""

    def __init__(self, scheduler: Scheduler, node: Node) -> None:
        self._scheduler, self._node = scheduler, node

    def run(self, calls, timeout_ms):
        scheduler = self._scheduler
        until_ms = scheduler.now_ms + timeout_ms
        left = [self._begun(call) for call in calls]
        while left and scheduler.now_ms < until_ms:
            done = [task for task in left if task.is_done]
            for task in done:
                left.remove(task)
                if task.error is not None:
                    raise task.error
                yield task.result
            if left and not done:
                scheduler.sleep(POLL_MS)

    def _begun(self, call):
        return self._scheduler.spawn(
            self._node.child_name("voter"), self._node, lambda: without_bug(call())
        )


def without_bug(outcome):
    """Return what became of a call, of which its caller may never ask."""
    error = getattr(outcome, "error", None)
    if error is not None and not isinstance(error, KafkaOnSparkError):
        raise error
    return outcome
