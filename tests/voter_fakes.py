"""Voters' roots in memory, with faults that a test can order, and processes that share them.

They pass the same contract suite as the real adapter (tests/contract/). What a commit means is
`VoterTable.apply`, here as there; what is faked is the store under it and how it fails.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import count

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.quorum_log import QuorumLog
from kafka_on_spark.metadata.quorum.raft import QuorumSettings, begin_leadership, decide_vote, stand
from kafka_on_spark.metadata.quorum.voter_changes import VoterChanges
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    OffsetAndEpoch,
    RaftBatch,
    RaftLog,
    TableChange,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    has_write,
)
from kafka_on_spark.metadata.records import (
    ClusterRecord,
    ConfigRecord,
    LeaderChangeRecord,
    MetadataBatch,
    Stamp,
    log_end_at,
)
from tests.fakes import FakeClock

STAMP = Stamp(time_ms=1_700_000_000_123)
SETTINGS = QuorumSettings()


class VoterFault(Enum):
    """What happens to the next commit on a voter's table."""

    LOST_BEFORE = "the put never arrives, and nobody can say so"
    LOST_ANSWER = "the put arrives, its answer does not"
    LATE = "the put arrives when `land` is called, and nobody can say so"
    TORN = "the put arrives, is not flushed, and its process does not hear of it"
    REFUSED = "the store refuses before anything is put"
    DENIED = "the store refuses the caller, before anything is put"


def key_of(node: int) -> VoterKey:
    return VoterKey(node, f"d{node}")


def voter_of(node: int) -> Voter:
    return Voter(key_of(node), f"/meta/{node}")


def bootstrap(voters: VoterSet) -> tuple[RaftBatch, MetadataBatch]:
    """Return the first batch of every voter's log: its header, and its records."""
    header = RaftBatch(Offset(0), Offset(1), 0, "bootstrap", BatchKind.DECISION, voters)
    records = (ClusterRecord(cluster_id="a-cluster"),)
    return header, MetadataBatch(base_offset=Offset(0), stamp=STAMP, records=records)


@dataclass(slots=True)
class MemoryVoterRoot:
    """One metadata root, and what is about to go wrong with it.

    Attributes:
        key: Whose table it holds; another directory once it was emptied.
        versions: Every version of the table, by number.
        content: The records of each write that was copied or written here.
        flushed: So many versions outlive a power cut.
        is_offline: Every call is refused.
        is_read_only: Every commit is refused.
        is_full: The same, for want of room.
        denied: Processes that it takes no commits of.
        faults: What happens to the next commits, one a commit.
        before_commit: Called before each commit: a rival may be quicker.
        commits, looks, loads: How many were made here.
    """

    key: VoterKey
    versions: list[VoterTable]
    content: dict[str, MetadataBatch]
    snapshots: dict[OffsetAndEpoch, MetadataBatch] = field(default_factory=dict)
    flushed: int = 1
    is_offline: bool = False
    is_read_only: bool = False
    is_full: bool = False
    denied: set[str] = field(default_factory=set)
    faults: deque[VoterFault] = field(default_factory=deque)
    late: list[Callable[[], None]] = field(default_factory=list)
    before_commit: Callable[[TableChange], None] = lambda change: None
    commits: int = 0
    looks: int = 0
    loads: int = 0

    @property
    def table(self) -> VoterTable:
        return self.versions[-1]

    @property
    def writes(self) -> list[str]:
        return [each.write_id for each in self.table.log.batches]

    def check_answers(self) -> None:
        if self.is_offline:
            raise KafkaStorageError("the root does not answer")

    def put(
        self, table: VoterTable, change: TableChange, content: dict[str, MetadataBatch]
    ) -> bool:
        """Put a commit if its version is free; return whether it was."""
        if table.key != self.key or self.table.version != table.version or self.table != table:
            return False
        self.versions.append(table.apply(change))
        self.content |= content
        self.commits += 1
        return True

    def flush(self, version: int | None = None) -> None:
        """Have what is there, up to a version or all of it, outlive a power cut."""
        end = len(self.versions) if version is None else version + 1
        self.flushed = max(self.flushed, end)

    def cut_power(self) -> None:
        """Lose what was not flushed."""
        del self.versions[self.flushed :]

    def restore(self, version: int) -> None:
        del self.versions[version + 1 :]
        self.flushed = min(self.flushed, len(self.versions))

    def land(self) -> None:
        """Have the late puts arrive: each finds its version free, or not."""
        for put in self.late:
            put()
        self.late.clear()

    def empty(self) -> None:
        """Empty the root and make it anew: another directory, and a table without a batch."""
        self.key = self.key._replace(directory_id=f"{self.key.directory_id}-again")
        self.versions = [VoterTable(self.key)]
        self.content, self.flushed = {}, 1
        self.snapshots.clear()


class MemoryVoterLog:
    """A VoterLog in memory of a process. `may_reach`: whether that reaches the root."""

    uri = ""

    def __init__(
        self,
        root: MemoryVoterRoot,
        voter: Voter,
        may_reach: Callable[[], bool] = lambda: True,
        process: str = "p",
    ) -> None:
        self._root, self._process = root, process
        self._key = voter.key
        self._may_reach = may_reach
        self.seen: VoterTable | None = None

    def load(self) -> VoterTable:
        self._check()
        self._root.loads += 1
        self._root.flush()
        self.seen = self._root.table
        return self.seen

    def is_newest(self, table: VoterTable) -> bool:
        self._check()
        self._root.looks += 1
        return self._root.table.version == table.version

    def _check(self) -> None:
        self._check_answers()
        self._check_directory()
        seen, versions = self.seen, self._root.versions
        if seen is not None and (
            seen.version >= len(versions) or versions[seen.version] is not seen
        ):
            raise ReplicaLostError("the voter's table went back")

    def _check_answers(self) -> None:
        self._root.check_answers()
        if not self._may_reach():
            raise KafkaStorageError("this process does not reach the root")

    def _check_directory(self) -> None:
        if self._root.key != self._key:
            raise ReplicaLostError("the root has another directory")

    def commit(
        self,
        table: VoterTable,
        change: TableChange,
        source: "MemoryVoterLog | MetadataBatch | None" = None,
    ) -> VoterTable:
        self._check_answers()
        batches: list[MetadataBatch] = []
        if isinstance(source, MetadataBatch):
            (header,) = change.appended
            ends = source.base_offset, source.end_offset
            assert (header.base_offset, header.end_offset) == ends
            batches = [source]
        elif source is not None:
            batches = source.copy(change.appended)
        names = [each.write_id for each in change.appended]
        return self._put(table, change, dict(zip(names, batches, strict=True)))

    def copy(self, headers: Sequence[RaftBatch]) -> list[MetadataBatch]:
        self._check_answers()
        root = self._root
        lacking = [each.write_id for each in headers if not has_write(root.table.log, each)]
        if lacking:
            raise CorruptLogError(f"the source lacks {lacking}")
        return [root.content[each.write_id] for each in headers]

    def _put(
        self, table: VoterTable, change: TableChange, content: dict[str, MetadataBatch]
    ) -> VoterTable:
        root = self._root
        self._check_directory()
        root.before_commit(change)
        fault = root.faults.popleft() if root.faults else None
        self._check_room()
        if fault is VoterFault.REFUSED:
            raise KafkaStorageError("the store refuses")
        if fault is VoterFault.DENIED or self._process in root.denied:
            raise RootAccessDeniedError("the caller has no permission")
        if root.is_read_only or not self._may_reach() or fault is VoterFault.LOST_BEFORE:
            raise CommitOutcomeUnknownError("the store failed while committing")
        if fault is VoterFault.LATE:
            root.late.append(lambda: root.put(table, change, content) and root.flush())
            raise CommitOutcomeUnknownError("the store failed while committing")
        if not root.put(table, change, content):
            raise CommitConflictError("version is taken", version=table.version + 1)
        if fault is not VoterFault.TORN:
            root.flush()
        if fault is not None:
            raise CommitOutcomeUnknownError("the store failed while committing")
        self.seen = root.table
        return root.table

    def read(self, *, from_offset: Offset, to_offset: Offset) -> list[MetadataBatch]:
        self._check()
        log = self._root.table.log
        headers = [
            each
            for each in log.batches
            if from_offset <= each.base_offset and each.end_offset <= to_offset
        ]
        if to_offset > log.end_offset or log.border_before(from_offset) != from_offset:
            raise CorruptLogError(f"the log lacks some of [{from_offset}, {to_offset})")
        return [self._root.content[each.write_id] for each in headers]

    def root_ms(self) -> int:
        raise KafkaStorageError("the root tells no time")

    def offset_at(self, time_ms: int) -> Offset:
        self._check()
        log, content = self._root.table.log, self._root.content
        times = ((each.base_offset, content[each.write_id].stamp.time_ms) for each in log.batches)
        return log_end_at(times, log.end_offset, time_ms)

    def snapshots(self) -> list[OffsetAndEpoch]:
        self._check()
        return list(self._root.snapshots)

    def read_snapshot(self, end: OffsetAndEpoch) -> MetadataBatch:
        self._check()
        return self._root.snapshots[end]

    def write_snapshot(self, records: Sequence[object], stamp: Stamp, end: OffsetAndEpoch) -> None:
        self._check()
        if self._root.is_read_only:
            raise KafkaStorageError("the root takes no writes")
        base_offset = Offset(end.offset - len(records))
        batch = MetadataBatch(base_offset=base_offset, stamp=stamp, records=tuple(records))
        self._root.snapshots.setdefault(end, batch)

    def check_writable(self) -> None:
        self._check_answers()
        if self._root.is_read_only or self._process in self._root.denied:
            raise RootAccessDeniedError(f"root {self._key.node_id} takes no writes of this process")

    def try_write(self) -> None:
        self.check_writable()
        self._check_room()

    def _check_room(self) -> None:
        if self._root.is_full:
            raise RootFullError("no space left on device")

    def maintain(self, *, cleans: bool = True) -> bool:
        self._check_answers()
        return False

    def clean(self, now_ms: int) -> int:
        self._check_answers()
        return 0


class OneByOne:
    """Makes calls one after the other. `loses_rest`: the process ends with its answer, so that what a
    caller does not ask for is never done."""

    def __init__(self) -> None:
        self.loses_rest = False

    def run(self, calls: Sequence[Callable[[], object]], timeout_ms: int) -> Iterator[object]:
        left = deque(calls)
        try:
            while left:
                yield left.popleft()()
        finally:
            while left and not self.loses_rest:
                left.popleft()()


class Process(QuorumLog):
    """A process of a test: its log, and what it alone can't reach."""

    def __init__(self, quorum: "MemoryQuorum", name: str, settings: QuorumSettings) -> None:
        self.cut_off: set[int] = set()
        self.calls = OneByOne()
        ids = count(1)

        def open_log(voter: Voter) -> MemoryVoterLog:
            node = voter.key.node_id
            root = quorum.roots[node]
            return MemoryVoterLog(root, voter, lambda: node not in self.cut_off, name)

        super().__init__(
            quorum.voters,
            open_log,
            self.calls,
            quorum.clock,
            random=lambda: 0.5,
            new_id=lambda: f"{name}{next(ids)}",
            settings=settings,
        )

    @cached_property
    def changes(self) -> VoterChanges:
        return VoterChanges(self)

    def decide(self, *names: str, at: int | None = None) -> MetadataBatch:
        """Append a decision on all that is committed, or on the log as it ended at `at`."""
        if at is None:
            batches = self.read(from_offset=Offset(0))
            at = batches[-1].end_offset
        return self.append(settings_of(*names), STAMP, expected_offset=Offset(at))

    def names(self) -> list[str]:
        """Return the decisions that are committed, as a read says that is confirmed."""
        return [
            record.config_name
            for batch in self.read(from_offset=Offset(0))
            for record in batch.records
            if isinstance(record, ConfigRecord)
        ]


def settings_of(*names: str) -> tuple[ConfigRecord, ...]:
    return tuple(
        ConfigRecord(topic_id=None, config_name=name, config_value="1", cause="a test")
        for name in names
    )


class MemoryQuorum:
    """Voters' roots, a clock, and the processes that share them. Voter 0 leads epoch 1."""

    def __init__(self, voter_count: int = 3, *, is_led: bool = True) -> None:
        self.clock = FakeClock()
        self.voters = VoterSet.of(voter_of(node) for node in range(voter_count))
        header, batch = bootstrap(self.voters)
        self.roots = [
            MemoryVoterRoot(
                key, [VoterTable(key, log=RaftLog((header,)))], {header.write_id: batch}
            )
            for key in self.voters.keys
        ]
        if is_led:
            self.lead(0, epoch=1)

    def process(self, name: str = "p", **times: int) -> Process:
        return Process(self, name, replace(SETTINGS, **times))

    def lead(self, node: int, *, epoch: int, voters: Sequence[int] | None = None) -> None:
        """Have a voter elected in an epoch by `voters`, all by default; none has its no-op yet."""
        root = self.roots[node]
        assert root.put(root.table, stand(root.table, epoch), {})
        votes = {root.key}
        for each in self.roots:
            if each is not root and (voters is None or each.key.node_id in voters):
                decision = decide_vote(each.table, root.table)
                assert decision.change is not None
                assert each.put(each.table, decision.change, {})
                votes.add(each.key)
        change = begin_leadership(root.table, votes, f"no-op-{epoch}")
        record = LeaderChangeRecord(leader=node, directory_id=root.key.directory_id or "")
        end = root.table.log.end_offset
        no_op = MetadataBatch(base_offset=end, stamp=STAMP, records=(record,))
        assert root.put(root.table, change, {f"no-op-{epoch}": no_op})
        self.flush()

    def flush(self) -> None:
        for each in self.roots:
            each.flush()


def mismatch(log, other):
    """Return two batches of one epoch at one place in two logs that are not one, or are behind such
    as differ; None: what is of one epoch is the same, and so is all before it (Q7, Raft §5.3)."""
    has_parted = False
    for one, two in zip(log, other, strict=False):
        has_parted = has_parted or one != two
        if has_parted and one.epoch == two.epoch:
            return one, two
    return None
