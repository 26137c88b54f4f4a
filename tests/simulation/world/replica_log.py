"""The logs of replicas as one simulated process has them: each call stands before the scheduler, then
takes effect.

They answer as `log/` does, Delta's outcomes included: a commit whose reply is lost is
resolved where it can be, and unknown where it can't; a handle never goes back to a version older than
the one it has seen.
"""

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.state import LogChange, ReplicaAddress, ReplicaState
from tests.simulation.world.commits import commit
from tests.simulation.world.disks import Root, Table, folder
from tests.simulation.world.scheduler import Clock, Node
from tests.simulation.world.world import FAILED, World


class SimulatedReplicaLog:
    """A ReplicaLog; a handle that one process keeps."""

    def __init__(
        self, world: World, node: Node, address: ReplicaAddress, *, is_checked: bool = False
    ) -> None:
        self.clock = Clock(world.scheduler, node)
        self._world = world
        self._node = node
        self._address = address
        self._identity, self._place = address.identity, folder(address)
        self._is_checked = is_checked
        self._seen_version = -1
        self._was_stale = False
        self.known: ReplicaState | None = None
        self.producers_number = 0  # no file has producers here

    def known_soon(self) -> ReplicaState | None:
        return self.known  # no table is opened early

    def load(self) -> ReplicaState:
        self.known = None
        self.known = self._load()
        return self.known

    def _load(self) -> ReplicaState:
        root = self._world.disks.roots[self._address.root]
        fault = self._world.scheduler.call("load", root)
        if fault in FAILED:
            raise KafkaStorageError("EIO")
        root.check_reads()
        if fault == "mistaken":
            self._be_mistaken()
        if self._is_checked:
            root.check_directory(self._address)
        table = self._table(root)
        if table.is_emptied:
            raise CorruptLogError("a commit is gone or empty")
        state = table.state
        # A listing may miss what is new, but not for ever: the next listing shows it.
        is_stale = fault == "stale" and self._place not in self._world.mistaken
        if is_stale and not self._was_stale:
            state = self._older(table)
        self._was_stale = state is not table.state
        if state.version < self._seen_version:
            raise ReplicaLostError("the table is gone or went back")
        self._seen_version = state.version
        self._world.check(state)
        return state

    def _be_mistaken(self) -> None:
        """Say of a table that it is wrong, which it is not: once, of any replica."""
        place = self._place
        if place not in self._world.mistaken | self._world.stale:
            self._world.mistaken.add(place)
            raise CorruptLogError("a commit is gone, it seems")

    def _older(self, table: Table) -> ReplicaState:
        """Return a version that this handle has not passed yet: a stale listing."""
        newest = table.state.version
        oldest = max(self._seen_version, newest - 3, 0)
        if oldest < newest:
            self._world.stale.add(self._place)
        return table.states[self._node.rng.randint(min(oldest, newest), newest)]

    def _table(self, root: Root) -> Table:
        table = root.tables.get(self._place)
        if table is None:
            root.check_directory(self._address)  # lost only if its disk is there
            raise ReplicaLostError("there is no table")
        if table.identity != self._identity:
            raise ReplicaLostError("the table is another replica's")
        return table

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        root = self._world.disks.roots[self._address.root]
        fault = self._world.scheduler.call("commit", root)
        if fault == "refused":
            raise CommitConflictError("not seen before the commit")
        if not root.can_read:
            raise CommitOutcomeUnknownError("the store failed while committing")
        root.check_writes()
        version = state.version + 1
        if not self._stands(state):
            raise CommitConflictError("the table was removed")

        def put() -> bool:
            if not root.can_write or root.directory_id != self._address.directory_id:
                return False
            return self._world.disks.commit(self._address, version, change)

        commit(self._world, self._node, fault, put, lambda: root.can_read)
        after = state.apply(change)
        self._seen_version = after.version
        self.known = after
        return after

    def _stands(self, state: ReplicaState) -> bool:
        """Return whether the table still has at a version what was read there."""
        table = self._world.disks.table(self._address)
        if table is None or table.is_emptied or state.version >= len(table.states):
            return False
        return table.states[state.version] == state

    def may_need_checkpoint(self) -> bool:
        return False

    def maintain(self) -> None:
        """Nothing is due in memory."""


class SimulatedReplicaStore:
    """A ReplicaStore of one process, with its kept handles."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        self._open: dict[ReplicaAddress, SimulatedReplicaLog] = {}

    def open(self, address: ReplicaAddress) -> SimulatedReplicaLog:
        log = self._open.get(address)
        if log is None:
            log = self._open[address] = SimulatedReplicaLog(self._world, self._node, address)
        return log

    def open_uncached(self, address: ReplicaAddress) -> SimulatedReplicaLog:
        log = SimulatedReplicaLog(self._world, self._node, address, is_checked=True)
        self._open[address] = log
        return log

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        root = self._world.disks.roots[address.root]
        fault = self._world.scheduler.call("make", root)
        root.check_reads()
        root.check_writes()
        root.check_directory(address)
        made = root.tables.setdefault(folder(address), Table(address.identity, leader_epoch))
        if folder(address) in root.lost:
            # A task that was planned before the loss: the table stands for the lost one.
            made.is_suspect, made.forgotten = True, [root.lost[folder(address)]]
        if fault in ("lost", "unsaid", "delayed", "refused", "hung"):
            raise KafkaStorageError("can't make a table")
        if made.identity != address.identity:
            raise ReplicaLostError("the table is another replica's")
