"""What all processes of a simulation share: the disks, the scheduler, and what has happened so far."""

from collections.abc import Callable
from dataclasses import dataclass, field

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, check_log
from tests.simulation.world.disks import Disks
from tests.simulation.world.scheduler import STARTED_AT_MS, Scheduler

FAILED = ("failed", "hung")
"""What an inspection can meet, and then has seen nothing."""


@dataclass(slots=True)
class World:
    """What all processes share.

    Attributes:
        pending: Puts under way that nobody waits for: they land later, or find their place
            taken.
        inspected_at_ms: When the newest inspection of a replica that was read began, or before the
            first one, when a round found it created.
        are_clocks_right: All wall clocks say the same.
        deletes: Records are deleted for their age and size, which needs timestamps.
        works: What replicas' upkeep does besides cleaning: "merge", "compact".
        is_restamped: The administrator changes message.timestamp.type.
        changes_retries: Producers now and then retry with other records.
        silent_ms: Producer ids and groups' offsets expire, and clients fall silent for up to so
            long, also when they are started; None: nothing expires. Then old producers files are
            cleaned, too.
        mistaken: Replicas that an inspection was mistaken about: no second one is, nor is one
            stale.
        checked: Logs that somebody has read and checked, by their ids: they never change.
        stale: Replicas of which an inspection did not show the newest: none is mistaken about them,
            since a stale inspection and a mistaken one are two wrong ones, and two are what a verdict asks.
    """

    scheduler: Scheduler
    disks: Disks
    pending: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    inspected_at_ms: dict[tuple[PartitionKey, BrokerId], float] = field(default_factory=dict)
    are_clocks_right: bool = True
    deletes: bool = False
    works: tuple[str, ...] = ()
    is_restamped: bool = False
    changes_retries: bool = False
    silent_ms: int | None = None
    mistaken: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    checked: dict[int, ReplicaState] = field(default_factory=dict)

    @property
    def true_ms(self) -> int:
        """What right wall clocks say."""
        return STARTED_AT_MS + int(self.scheduler.now_ms)

    def check(self, state: ReplicaState) -> None:
        """Check a log that was read, the first time that anybody reads it.

        Raises:
            CorruptLogError: It is not dense, or its chain does not compute.
        """
        if self.checked.get(id(state)) is not state:
            check_log(state)
            self.checked[id(state)] = state

    def later(self, steps: int, put: Callable[[], None]) -> None:
        """Have `put` land after so many steps of the simulation."""
        self.pending.append((self.scheduler.calls + steps, put))

    def land(self, *, is_all: bool = False) -> None:
        if not self.pending:
            return
        due = [each for each in self.pending if is_all or each[0] <= self.scheduler.calls]
        if due:
            self.pending = [each for each in self.pending if each not in due]
            for _, put in due:
                put()

    def root_now_ms(self, address: ReplicaAddress) -> int:
        """Return the time by the clock of a replica's root, which must take a write for it.

        Raises:
            KafkaStorageError: It does not answer.
        """
        root = self.disks.roots[address.root]
        if self.scheduler.call("probe", root) in FAILED:
            raise KafkaStorageError("the root does not answer")
        root.check_reads()
        root.check_writes()
        return STARTED_AT_MS + int(self.scheduler.now_ms) + root.clock_ahead_ms
