"""In-memory implementations of the ports, with faults that a test can order.

They pass the same contract suites as the real adapters (tests/contract/). What a commit means is
`ReplicaState.apply`, here as there; what is faked is the store under it and how it fails.
"""

import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from uuid import uuid4

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    InconsistentClusterError,
    InconsistentTopicIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import DirectoryId, LeaderEpoch, MemberId, Offset, ensure
from kafka_on_spark.log.batch import LogPart, MergedSegment, Segment
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.state import (
    LogChange,
    ProducerEntries,
    ReplicaAddress,
    ReplicaIdentity,
    ReplicaState,
    check_log,
)
from kafka_on_spark.log.unnamed_files import FoundFile, is_cleaned
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp, log_end_at
from tests.merged_files import Borders, rewritten


class Fault(Enum):
    """What happens to the next commit."""

    LOST_BEFORE = "the put never arrives, and nobody can say so"
    LOST_ANSWER = "the put arrives, its answer does not"
    CONFLICT = "somebody else's empty commit takes the version first"
    OFFLINE = "the store refuses, for this once"


class FakeClock:
    """A clock that moves only when somebody sleeps or `advance` is called."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._started_at_ms = now_ms
        self._elapsed_ms = 0.0
        self.slept_ms: list[float] = []
        self.on_sleep: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return self._started_at_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> int:
        return int(self._elapsed_ms)

    def sleep_ms(self, duration_ms: float) -> None:
        assert duration_ms >= 0, duration_ms
        self.slept_ms.append(duration_ms)
        self.advance(duration_ms)
        self.on_sleep()

    def advance(self, duration_ms: float) -> None:
        self._elapsed_ms += duration_ms


@dataclass(slots=True)
class _Table:
    """One replica: its identity and every change that was committed to it.

    `_applied`: the changes that it was last asked for the state of, and that state: a log of a thousand
    commits would be replayed a thousand times.
    """

    identity: ReplicaIdentity
    leader_epoch: LeaderEpoch | None = None
    changes: list[LogChange] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    written: dict[int, ProducerEntries] = field(default_factory=dict)
    is_damaged: bool = False
    _applied: tuple[list[LogChange], ReplicaState] | None = field(
        default=None, repr=False, compare=False
    )

    def state(self) -> ReplicaState:
        if self.is_damaged:
            raise CorruptLogError("the table can't be read")
        count, state = self._known()
        for change in self.changes[count:]:
            state = state.apply(change)
        self._applied = (self.changes.copy(), state)
        # What is known of producers is what stands in the file that the newest commit names.
        return replace(state, producers=self.written[self.number] if self.number else {})

    def _known(self) -> tuple[int, ReplicaState]:
        if self._applied is not None:
            applied, state = self._applied
            begins = self.changes[: len(applied)]
            if len(begins) == len(applied) and all(map(operator.is_, begins, applied)):
                return len(applied), state
        return 0, ReplicaState(identity=self.identity, leader_epoch=self.leader_epoch)

    def add(self, change: LogChange, number: int | None = None) -> None:
        self.changes.append(change)
        self.numbers.append(self.number if number is None else number)

    @property
    def number(self) -> int:
        """The number of the producer-state file that counts."""
        return self.numbers[-1] if self.numbers else 0


@dataclass(slots=True)
class MemoryRoot:
    """One broker's disk, and what is about to go wrong with it."""

    directory_id: DirectoryId | None
    is_offline: bool = False
    faults: deque[Fault] = field(default_factory=deque)
    tables: dict[str, _Table] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def check_answers(self) -> None:
        if self.is_offline:
            raise KafkaStorageError("the root does not answer")

    def check_directory(self, address: ReplicaAddress) -> None:
        self.check_answers()
        if self.directory_id != address.directory_id:
            raise KafkaStorageError("the root is not the disk it was")

    def wipe(self) -> None:
        """Lose everything on the disk, and its identity with it."""
        self.directory_id = None
        self.tables.clear()
        self.files.clear()

    def roll_back(self, commit_count: int) -> None:
        """Restore every table from an older copy: its last commits are gone."""
        for table in self.tables.values():
            kept = max(0, len(table.changes) - commit_count)
            del table.changes[kept:], table.numbers[kept:]


class MemoryRoots:
    """The disks of a cluster, by URL. A root that nobody added does not answer."""

    def __init__(self, directories: dict[str, DirectoryId] | None = None) -> None:
        self._roots = {url: MemoryRoot(each) for url, each in (directories or {}).items()}

    def __getitem__(self, url: str) -> MemoryRoot:
        return self._roots.setdefault(url, MemoryRoot(None, is_offline=True))

    def add(self, url: str, directory_id: DirectoryId) -> MemoryRoot:
        """Put a new, empty disk at `url`."""
        self._roots[url] = MemoryRoot(directory_id)
        return self._roots[url]


def folder(address: ReplicaAddress) -> str:
    """Return a replica's folder under its root: topic id and replica uuid are in it."""
    return f"{address.key.topic_id}/{address.key.partition}-{address.replica_uuid}"


class MemoryReplicaLog:
    """A ReplicaLog in memory.

    `checks_segments`: a commit may only name files that are there, as on a real disk.
    `is_checked`: a load asks the root whether it is the disk of the address.
    `clock`: a conflict takes a second.
    """

    def __init__(
        self,
        roots: MemoryRoots,
        address: ReplicaAddress,
        *,
        checks_segments: bool,
        is_checked: bool = False,
    ) -> None:
        self._is_checked = is_checked
        self.clock = FakeClock()
        self._roots = roots
        self._address = address
        self._checks_segments = checks_segments
        self.known: ReplicaState | None = None
        self._producers: tuple[int, ProducerEntries] = (0, {})  # with the number of their file
        self._is_opened_anew = False

    def known_soon(self) -> ReplicaState | None:
        return self.known  # no table is opened early

    def load(self) -> ReplicaState:
        try:
            return self._load()
        except KafkaOnSparkError:
            self._is_opened_anew = True
            raise

    def _load(self) -> ReplicaState:
        root = self._roots[self._address.root]
        root.check_answers()
        if self._is_checked:
            root.check_directory(self._address)
        table = root.tables.get(folder(self._address))
        if table is None:
            root.check_directory(self._address)  # lost only if its disk is there
            raise ReplicaLostError("there is no table")
        if table.identity != self._address.identity:
            root.check_directory(self._address)
        if table.identity.topic_id != self._address.identity.topic_id:
            raise InconsistentTopicIdError("the table is another topic's")
        if table.identity != self._address.identity:
            raise ReplicaLostError("the table is another replica's")
        state = table.state()
        check_log(state)
        if self._is_opened_anew:
            self._is_opened_anew = False
            self.known, self._producers = None, (0, {})
        if state != self.known:
            self.known = None
            self._read_producers(root, table)
            self.known = state
        return self.known

    def _read_producers(self, root: MemoryRoot, table: _Table) -> None:
        """Read the file that counts, once: files never change."""
        number = table.number
        if self._producers[0] == number:
            return
        files = root.files.get(folder(self._address), {})
        entries = table.written[number] if number else {}
        if number and files.get(producers_file_name(number)) != repr(entries).encode():
            raise CorruptLogError("the producer state is missing or damaged")
        self._producers = (number, entries)

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        root = self._roots[self._address.root]
        fault = root.faults.popleft() if root.faults else None
        if root.is_offline or fault in (Fault.LOST_BEFORE, Fault.OFFLINE):
            raise CommitOutcomeUnknownError("the store failed while committing")
        table = root.tables.get(folder(self._address))
        if table is None:
            raise ReplicaLostError("there is no table")
        number = self._write_producers(root, table, state, change)
        if fault is Fault.CONFLICT:
            self.clock.advance(1000)
            now = table.state()
            table.add(_nothing(now))
        if table.state() != state:
            raise CommitConflictError("version is taken", version=state.version + 1)
        if self._checks_segments:
            self._check_files(root, change)
        table.add(change, number)
        if fault is Fault.LOST_ANSWER:
            raise CommitOutcomeUnknownError("the store failed while committing")
        self.known = after = state.apply(change)
        self._producers = (number, after.producers)
        return after

    def _write_producers(
        self, root: MemoryRoot, table: _Table, state: ReplicaState, change: LogChange
    ) -> int:
        """Write the file of a change, if it has one; return the number that counts after it."""
        is_known = self.known is not None and self.known.version == state.version
        number = self._producers[0] if is_known else table.number
        if change.producers is None or table.state() != state:
            return number
        files = root.files.setdefault(folder(self._address), {})
        number += 1
        while producers_file_name(number) in files:
            number += 1
        files[producers_file_name(number)] = repr(change.producers).encode()
        table.written[number] = change.producers
        return number

    def _check_files(self, root: MemoryRoot, change: LogChange) -> None:
        present = root.files.get(folder(self._address), {})
        added = (*change.adds, *(() if change.merged is None else (change.merged,)))
        missing = [
            s.file_name for each in added for s in each.segments if s.file_name not in present
        ]
        assert not missing, f"a commit names files that are not there: {missing}"

    @property
    def producers_number(self) -> int:
        return self._producers[0]

    def may_need_checkpoint(self) -> bool:
        return False

    def maintain(self) -> None:
        """Nothing is due in memory."""


def _nothing(state: ReplicaState) -> LogChange:
    return LogChange(
        operation="nothing",
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        leader_epoch=state.leader_epoch,
    )


class MemoryReplicaStore:
    def __init__(self, roots: MemoryRoots, *, checks_segments: bool = False) -> None:
        self._roots = roots
        self._checks_segments = checks_segments

    def open(self, address: ReplicaAddress) -> MemoryReplicaLog:
        return MemoryReplicaLog(self._roots, address, checks_segments=self._checks_segments)

    def open_uncached(self, address: ReplicaAddress) -> MemoryReplicaLog:
        return MemoryReplicaLog(
            self._roots, address, checks_segments=self._checks_segments, is_checked=True
        )

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        root = self._roots[address.root]
        root.check_directory(address)
        made = root.tables.setdefault(folder(address), _Table(address.identity, leader_epoch))
        if made.identity != address.identity:
            raise ReplicaLostError("the table is another replica's")


class MemorySegmentStore:
    """A SegmentStore in memory. A file is `segment.size_bytes` of its digest's text. `too_large`
    has the names of files that are too large to be merged."""

    def __init__(self, roots: MemoryRoots) -> None:
        self._roots = roots
        self.copied: list[str] = []
        self.too_large: set[str] = set()
        self._borders: dict[str, Borders] = {}

    def put(self, address: ReplicaAddress, segment: Segment) -> None:
        """Write a new segment, as a staging task does."""
        root = self._roots[address.root]
        root.check_directory(address)
        root.files.setdefault(folder(address), {})[segment.file_name] = _content(segment)

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        named: Sequence[Segment] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        if not segments:
            return
        self._roots[target.root].check_directory(target)
        present = self._roots[target.root].files.setdefault(folder(target), {})
        for segment, own in zip(segments, named or segments, strict=True):
            name = own.file_name
            if present.get(name) == _content(segment):
                continue
            self._roots[source.root].check_answers()
            found = self._roots[source.root].files.get(folder(source), {}).get(segment.file_name)
            if found != _content(segment):
                raise CorruptLogError(
                    "a segment is missing or not what its name says", segment=segment.file_name
                )
            present[name] = found
            self.copied.append(name)

    def rewrite(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        end_offset: Offset,
    ) -> MergedSegment:
        try:
            for part in parts:
                for segment in part.segments:
                    self.check(source, segment)
        except KafkaStorageError as error:
            raise KafkaStorageError(error.message, broker_id=source.broker_id) from error
        merged, borders = rewritten(
            parts,
            lambda part: self.borders(source, part),
            name=uuid4().hex,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        self._borders[merged.segment.digest] = borders
        self.put(target, merged.segment)
        return merged

    def too_large_to_merge(
        self, address: ReplicaAddress, parts: Iterable[LogPart]
    ) -> frozenset[Segment]:
        self._roots[address.root].check_answers()
        segments = (segment for part in parts for segment in part.segments)
        return frozenset(each for each in segments if each.file_name in self.too_large)

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> Borders:
        self.check(address, merged.segment)
        return self._borders.get(merged.segment.digest, ())

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        root = self._roots[address.root]
        root.check_answers()
        root.check_directory(address)
        if root.files.get(folder(address), {}).get(segment.file_name) != _content(segment):
            raise CorruptLogError(
                "a segment is missing or not what its name says", segment=segment.file_name
            )


class MemoryReplicaFolders:
    """ReplicaFolders in memory. Files were written, and removed from tables, at 0 unless `written`
    and `removed` say when; `now` is the roots' clock."""

    def __init__(self, roots: MemoryRoots) -> None:
        self._roots = roots
        self.now = 10**9
        self.written: dict[str, int] = {}
        self.removed: dict[str, int] = {}
        self.deleted: list[str] = []
        self.on_names: Callable[[], None] = lambda: None

    def names(self, address: ReplicaAddress) -> list[str]:
        root = self._roots[address.root]
        root.check_answers()
        names = sorted(root.files.get(folder(address), {}))
        self.on_names()
        return names

    def sizes(self, address: ReplicaAddress) -> dict[str, int]:
        files = self._roots[address.root].files.get(folder(address), {})
        return {name: len(files[name]) for name in self.names(address)}

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        self._roots[address.root].check_answers()
        files = self._roots[address.root].files.get(folder(address), {})
        return [
            FoundFile(name, len(files[name]), self.written.get(name, 0))
            for name in names
            if name in files
        ]

    def removed_at_ms(self, address: ReplicaAddress) -> dict[str, int]:
        self._roots[address.root].check_answers()
        table = self._roots[address.root].tables[folder(address)]
        state = ReplicaState(identity=table.identity, leader_epoch=table.leader_epoch)
        removed: dict[str, int] = {}
        for change in table.changes:
            for part in state.removed_by(change):
                for segment in part.segments:
                    removed[segment.file_name] = self.removed.get(segment.file_name, 0)
            state = state.apply(change)
        return removed

    def now_ms(self, address: ReplicaAddress) -> int:
        self._roots[address.root].check_directory(address)
        return self.now

    def clean_log(self, address: ReplicaAddress) -> int:
        self._roots[address.root].check_answers()
        return 0

    def delete(self, address: ReplicaAddress, names: Sequence[str]) -> None:
        self._roots[address.root].check_answers()
        files = self._roots[address.root].files.get(folder(address), {})
        for name in names:
            ensure(is_cleaned(name), name)
            files.pop(name, None)
            self.deleted.append(name)


def _content(segment: Segment) -> bytes:
    return (segment.digest.encode() * segment.size_bytes)[: segment.size_bytes]


class MemoryHintRoots:
    """HintRoots in memory: the last hint that was written, or what a test puts in its place."""

    def __init__(self) -> None:
        self.hint: bytes | None = None
        self.is_offline = False
        self.writes = 0

    def contents(self, name: str) -> Iterator[bytes]:
        self._check_answers()
        return iter(() if self.hint is None else (self.hint,))

    def write(self, name: str, content: bytes) -> None:
        self._check_answers()
        self.hint = content
        self.writes += 1

    def _check_answers(self) -> None:
        if self.is_offline:
            raise KafkaStorageError("the metadata root does not answer")


class MemoryHeartbeats:
    """Heartbeats in memory, on one root."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}
        self.is_offline = False

    def beat(self, group: str, member_id: MemberId, count: int) -> None:
        self._check_answers()
        self.counts[group, member_id] = count

    def contents(
        self, group: str, member_ids: Sequence[MemberId]
    ) -> list[Mapping[str, bytes | None]]:
        self._check_answers()
        counts = [self.counts.get((group, each)) for each in member_ids]
        return [
            {"memory": None if count is None else f"{name} {count}".encode()}
            for name, count in zip(member_ids, counts, strict=True)
        ]

    def stop(self, group: str, member_id: MemberId) -> None:
        self.counts.pop((group, member_id), None)

    def _check_answers(self) -> None:
        if self.is_offline:
            raise KafkaStorageError("the metadata root does not answer")


class MemoryMetadataLog:
    """A metadata log in memory, with the same kinds of faults. Several services may share it.

    With `cluster_id` it passes over the snapshots of other clusters.
    """

    def __init__(self, cluster_id: str | None = None) -> None:
        self.cluster_id = cluster_id
        self.batches: list[MetadataBatch] = []
        self.snapshots: dict[Offset, MetadataBatch] = {}
        self.faults: deque[Fault] = deque()
        self.is_offline = False
        self.ask_root_ms: Callable[[], int | None] = lambda: None
        self.leader_uri = "/metadata"

    def clean(self, now_ms: int) -> int:
        """Nothing is left over in memory."""
        return 0

    def root_ms(self) -> int | None:
        return self.ask_root_ms()

    @property
    def end_offset(self) -> Offset:
        """The log's end, exclusive."""
        return self.batches[-1].end_offset if self.batches else Offset(0)

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        self._check_answers()
        if from_offset > self.end_offset:
            raise InconsistentClusterError("the metadata log went back")
        end = self.end_offset if to_offset is None else to_offset
        return [
            batch
            for batch in self.batches
            if batch.base_offset >= from_offset and batch.end_offset <= end
        ]

    def has_successor(self, offset: Offset) -> bool:
        self._check_answers()
        return True  # a reader of this log keeps nothing of its own

    def offset_at(self, time_ms: int) -> Offset:
        self._check_answers()
        times = ((batch.base_offset, batch.stamp.time_ms) for batch in self.batches)
        return log_end_at(times, self.end_offset, time_ms)

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        assert records, "an empty batch would be a version without a decision"
        fault = self.faults.popleft() if self.faults else None
        self._check_answers()
        if fault is Fault.OFFLINE:
            raise KafkaStorageError("the metadata root does not answer")
        if fault is Fault.LOST_BEFORE:
            raise CommitOutcomeUnknownError("the store failed while committing")
        if fault is Fault.CONFLICT or self.end_offset != expected_offset:
            raise CommitConflictError("the metadata log has moved on")
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        self.batches.append(batch)
        if fault is Fault.LOST_ANSWER:
            raise CommitOutcomeUnknownError("the store failed while committing")
        return batch

    def _check_answers(self) -> None:
        if self.is_offline:
            raise KafkaStorageError("the metadata root does not answer")

    def maintain(self, *, cleans: bool = True) -> None:
        """Nothing is due in memory."""

    def roll_back(self, commit_count: int) -> None:
        """Restore the log from an older copy."""
        del self.batches[max(0, len(self.batches) - commit_count) :]

    def check_writable(self) -> None:
        """A reader may write here."""

    def read_from_snapshot(self) -> tuple[MetadataBatch | None, list[MetadataBatch]]:
        snapshot = self.newest_snapshot()
        start = Offset(0) if snapshot is None else snapshot.end_offset
        return snapshot, self.read(from_offset=start)

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        self._check_answers()
        bound = self.end_offset if to_offset is None else min(to_offset, self.end_offset)
        ends = [
            end
            for end, found in self.snapshots.items()
            if end <= bound
            and self.cluster_id in (None, getattr(found.records[0], "cluster_id", None))
        ]
        return self.snapshots[max(ends)] if ends else None

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        self._check_answers()
        base_offset = Offset(end_offset - len(records))
        batch = MetadataBatch(base_offset=base_offset, stamp=stamp, records=tuple(records))
        self.snapshots.setdefault(end_offset, batch)
