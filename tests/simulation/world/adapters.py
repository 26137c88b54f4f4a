"""The ports of one simulated process: each call stands before the scheduler, then takes effect.

They answer as the adapters of storage/ do, Delta's outcomes included: a commit whose reply is
lost is resolved where it can be, and unknown where it can't; a handle never goes back to a
version older than the one it has seen.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafka_on_spark.controller.pace.sweep import SweepPosition
from kafka_on_spark.errors import (
    ClusterNotFoundError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.ids import BrokerId, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment, segment_name
from kafka_on_spark.log.merged_segment import LogPart, MergedSegment
from kafka_on_spark.log.producers import ProducerEntries
from kafka_on_spark.log.state import LogChange, ReplicaState, check_log
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from tests.merged_files import Borders, rewritten
from tests.simulation.world.commits import Place, commit, is_kept, opened_anew
from tests.simulation.world.disks import (
    Disks,
    Root,
    Table,
    digest_of,
    folder,
    rows_of,
)
from tests.simulation.world.scheduler import Node, Scheduler

FAILED = ("failed", "hung")
"""What an inspection can meet, and then has seen nothing."""

RECORD_BYTES = 100
"""Of each record."""


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A thing that equals nothing but itself."""

    thing: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


SeenTable = tuple[object, ...]
"""What tells a table's newest commit from any other, as a commit file's stamp does."""


def seen_table(table: Table) -> SeenTable:
    """Return what the newest commit of a table is now."""
    return _Same(table), _Same(table.state), table.is_emptied


@dataclass(slots=True)
class World:
    """What all processes share.

    Attributes:
        pending: Puts under way that nobody waits for: they land later, or find their place
            taken.
        seen: How often what happened (the "sometimes" counters).
        inspected_at_ms: When the newest inspection of a replica that was read began, or before the
            first one, when a round found it created.
        are_clocks_right: All wall clocks say the same.
        deletes: Records are deleted for their age and size, which needs timestamps.
        works: What replicas' upkeep does besides cleaning: "merge", "compact".
        is_restamped: The administrator changes message.timestamp.type.
        silent_ms: Producer ids and groups' offsets expire, and clients fall silent for up to so
            long, also when they are started; None: nothing expires. Then old producers files are
            cleaned, too.
        mistaken: Replicas that an inspection was mistaken about: no second one is, nor is one
            stale.
        commits_kept: So many commits below the newest one stay; None: nothing is cleaned.
        sweeps_quietly: Sweeps look at idle replicas by their newest commits alone.
        read_tables: Of a replica, which table an inspection has read last, and its newest state.
        checked: Logs that somebody has read and checked, by their ids: they never change.
        stale: Replicas of which an inspection did not show the newest: none is mistaken about them,
            since a stale inspection and a mistaken one are two wrong ones, and two are what a verdict asks.
    """

    scheduler: Scheduler
    disks: Disks
    pending: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    inspected_at_ms: dict[tuple[PartitionKey, BrokerId], float] = field(default_factory=dict)
    are_clocks_right: bool = True
    deletes: bool = False
    sweeps_quietly: bool = False
    read_tables: dict[tuple[PartitionKey, BrokerId], "SeenTable"] = field(default_factory=dict)
    works: tuple[str, ...] = ()
    is_restamped: bool = False
    silent_ms: int | None = None
    mistaken: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    commits_kept: int | None = None
    checked: dict[int, ReplicaState] = field(default_factory=dict)

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
        """Let the puts land that are due."""
        if not self.pending:
            return
        due = [each for each in self.pending if is_all or each[0] <= self.scheduler.calls]
        if due:
            self.pending = [each for each in self.pending if each not in due]
            for _, put in due:
                put()


class SimulatedReplicaLog:
    """A ReplicaLog; a handle that one process keeps."""

    def __init__(
        self, world: World, node: Node, address: ReplicaAddress, *, is_checked: bool = False
    ) -> None:
        self._world = world
        self._node = node
        self._address = address
        self._identity, self._place = address.identity, folder(address)
        self._is_checked = is_checked
        self._seen_version = -1
        self._was_stale = False
        self._is_anew = False
        self._last: ReplicaState | None = None
        self._producers: tuple[int, ProducerEntries] = (0, {})  # with the number of their file

    def load(self) -> ReplicaState:
        try:
            return self._load()
        except KafkaOnSparkError:
            self._is_anew = True
            raise

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
        state = self._followed(table)
        # A listing may miss what is new, but not for ever: the next listing shows it.
        is_stale = fault == "stale" and self._place not in self._world.mistaken
        if is_stale and not self._was_stale:
            state = self._older(table)
        self._was_stale = state is not table.state
        if state.version < self._seen_version:
            raise ReplicaLostError("the table is gone or went back")
        state = self._with_producers(root, table, state)
        self._seen_version = state.version
        self._world.check(state)
        return state

    def _with_producers(self, root: Root, table: Table, state: ReplicaState) -> ReplicaState:
        """Return a state with its producers, whose file is read once: files never change.

        A table that is opened anew may be another one by now, at the very version that is known.
        """
        last = self._last
        is_other = last is not None and last.version == state.version and last is not state
        if self._is_anew or is_other:
            self._is_anew = False
            self._forget()
        if self._last is None or self._last.version != state.version:
            self._last = None
            number = table.number_at(state.version)
            if self._producers[0] != number:
                files = root.files.get(self._place, {})
                self._producers = (number, read_producers(files, table, number))
            self._last = state
            entries = self._producers[1]
            return state if entries == state.producers else replace(state, producers=entries)
        return state

    def _forget(self) -> None:
        """Open the table anew."""
        self._last, self._producers = None, (0, {})

    def _followed(self, table: Table) -> ReplicaState:
        """Return the newest state: followed from the commit that this handle knows, or opened."""
        newest, seen = table.state.version, self._seen_version
        if seen < 0 or is_kept(self._world.commits_kept, newest, seen):
            return table.state
        self._world.seen["cleaned log opened anew"] += 1
        self._is_anew = True
        return opened_anew(table.states, seen)

    def _be_mistaken(self) -> None:
        """Say of a table that it is wrong, which it is not: once, of any replica."""
        place = self._place
        if place not in self._world.mistaken | self._world.stale:
            self._world.mistaken.add(place)
            self._world.seen["mistaken inspection"] += 1
            raise CorruptLogError("a commit is gone, it seems")

    def _older(self, table: Table) -> ReplicaState:
        """Return a version that this handle has not passed yet: a stale listing."""
        newest = table.state.version
        oldest = max(self._seen_version, newest - 3, 0)
        if oldest < newest:
            self._world.seen["stale inspection"] += 1
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
        if not (root.can_read and root.can_write) or root.is_full:
            raise CommitOutcomeUnknownError("the store failed while committing")
        version = state.version + 1
        number = self._write_producers(state, change)

        def put() -> bool:
            if not root.can_write or root.directory_id != self._address.directory_id:
                return False
            return self._world.disks.commit(self._address, version, change, number)

        if fault == "torn":  # the power went between the file's name and its bytes
            self._world.disks.commit_nothing(self._address, version)
        if fault == "torn" or self._world.disks.table(self._address) is None:
            raise CommitOutcomeUnknownError("the store failed while committing")
        place = Place(
            version,
            lambda: self._newest(state.version),
            self._world.commits_kept,
            lambda: root.can_read,
        )
        commit(self._world, self._node, fault, put, place)
        after = state.apply(change)
        self._seen_version = after.version
        self._note_committed(after, number)
        return after

    def _write_producers(self, state: ReplicaState, change: LogChange) -> int | None:
        """Write the producers file of a change, if it has one, before the commit that names it;
        return the number that counts after it. None: there is a newer version, so that this commit
        will not count."""
        table = self._world.disks.table(self._address)
        if table is None or self._last is None or self._last.version != state.version:
            return None
        number = self._producers[0]
        if change.producers is None:
            return number
        if table.state.version != state.version:
            return None
        return self._world.disks.write_producers(
            self._address, table, change.producers, above=number
        )

    def _note_committed(self, after: ReplicaState, number: int | None) -> None:
        table = self._world.disks.table(self._address)
        if table is None or number is None or len(table.states) <= after.version:
            self._last = None
            return
        self._last = table.states[after.version]
        self._producers = (number, after.producers)

    def _newest(self, known: int) -> int:
        table = self._world.disks.table(self._address)
        return known if table is None else table.state.version

    @property
    def producers_number(self) -> int:
        """Of the file of the state that was last loaded."""
        return self._producers[0]

    def maintain(self) -> None:
        """Nothing is due in memory."""


def read_producers(files: Mapping[str, str], table: Table, number: int) -> ProducerEntries:
    """Return what is in a producers file; one that is missing or damaged is never an empty one.

    Source: storage/replicas/producer_files.py.
    """
    if not number:
        return {}
    if not table.has_producers(files, number):
        raise CorruptLogError("the producer state is missing or damaged")
    return table.written[number][1]


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
            self._world.seen["lost table made by a late task"] += 1
        if fault in ("lost", "unsaid", "delayed", "refused", "hung"):
            raise KafkaStorageError("can't make a table")
        if made.identity != address.identity:
            raise ReplicaLostError("the table is another replica's")


class SimulatedSegmentStore:
    """A SegmentStore of one process."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def put(self, address: ReplicaAddress, segment: Segment) -> None:
        """Write a new segment, as a staging task does."""
        root = self._world.disks.roots[address.root]
        fault = self._world.scheduler.call("put", root)
        root.check_writes()
        root.check_directory(address)
        if fault in FAILED:
            raise KafkaStorageError("EIO")
        root.files.setdefault(folder(address), {})[segment.file_name] = segment.digest

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        origin, root = (self._world.disks.roots[each.root] for each in (source, target))
        for segment, name in zip(segments, names or [e.file_name for e in segments], strict=True):
            fault = self._world.scheduler.call("copy", root)
            root.check_reads()
            root.check_directory(target)
            present = root.files.setdefault(folder(target), {})
            if len(present.get(name, "")) == len(segment.digest):
                continue
            origin.check_reads()
            content = origin.files.get(folder(source), {}).get(segment.file_name)
            if content != segment.digest:
                self._world.seen["damaged source refused"] += 1
                raise CorruptLogError("a segment is missing or not what its name says")
            root.check_writes()
            if fault in FAILED:
                raise KafkaStorageError("EIO")
            present[name] = content

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
        """Write a range of a log as one file, and read it back."""
        for part in parts:
            for segment in part.segments:
                self._read_of(source, segment)
        known = self._world.disks.borders
        made, borders = rewritten(
            parts,
            lambda part: known.get(part.segment.uuid, ()),
            name=f"merged{self._node.new_uuid()}",
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        rows = [
            row for part in parts for row in rows_of(part) if start_offset <= row[0] < end_offset
        ]
        made = replace(made, segment=merged_file(made, rows))
        known[made.segment.uuid] = borders
        self.put(target, made.segment)
        try:
            self.read(target, made.segment)
        except CorruptLogError as error:
            raise KafkaStorageError("a file just written is damaged") from error
        self._world.seen["part of a merged segment fetched"] += source != target
        return made

    def _read_of(self, source: ReplicaAddress, segment: Segment) -> None:
        try:
            self.read(source, segment)
        except KafkaStorageError as error:
            raise KafkaStorageError(error.message, broker_id=source.broker_id) from error

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> Borders:
        """Return the borders in a merged segment's file."""
        self.read(address, merged.segment)
        self._world.seen["borders read"] += 1
        return self._world.disks.borders.get(merged.segment.uuid, ())

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Check a segment's bytes."""
        self.read(address, segment)

    def read(self, address: ReplicaAddress, segment: Segment) -> str:
        """Return a segment's bytes, verified."""
        root = self._world.disks.roots[address.root]
        fault = self._world.scheduler.call("read", root)
        if fault in FAILED:
            raise KafkaStorageError("the root does not answer")
        root.check_reads()
        content = root.files.get(folder(address), {}).get(segment.file_name)
        if content != segment.digest:
            self._world.seen["damage found by a reader"] += 1
            raise CorruptLogError("a segment is missing or damaged", segment=segment.file_name)
        return content


def merged_file(merged: MergedSegment, rows: Sequence[tuple[int, int]]) -> Segment:
    """Return the file of a merged segment that has these records."""
    segment = merged.segment
    digest = digest_of(rows, merged.base_offset)
    return replace(
        segment,
        file_name=segment_name(segment.epoch_in_name, segment.uuid, digest),
        size_bytes=RECORD_BYTES * len(rows),
        record_count=len(rows),
    )


class SimulatedMetadataLog:
    """A MetadataLog of one process: of the cluster that stood at the path when it was opened."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node
        node.made = world.disks.made

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        fault = self._world.scheduler.call("metadata read")
        disks = self._world.disks
        self._check_answers(fault)
        if from_offset > disks.image.offset:
            raise InconsistentClusterError("the metadata log went back")
        place = bisect_left(disks.batches, from_offset, key=lambda batch: batch.base_offset)
        batches = disks.batches[place:]
        return [each for each in batches if to_offset is None or each.end_offset <= to_offset]

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        assert records, "an empty batch would be a version without a decision"
        fault = self._world.scheduler.call("metadata append")
        self._check_answers(None)
        disks = self._world.disks
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))

        def put() -> bool:
            if self.is_replaced():
                return False
            return disks.append_metadata(records, stamp, expected_offset) is not None

        if fault == "refused":
            raise KafkaStorageError("the metadata root does not answer")
        version = self._version_at(expected_offset)
        place = Place(
            version,
            lambda: len(disks.batches) - 1,
            self._world.commits_kept,
            lambda: not disks.is_metadata_away,
        )
        commit(self._world, self._node, fault, put, place)
        return batch

    def _version_at(self, offset: Offset) -> int:
        """Return the version of the batch that begins at `offset`, or will."""
        return bisect_left(self._world.disks.batches, offset, key=lambda batch: batch.base_offset)

    def _check_answers(self, fault: str | None) -> None:
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")
        if self.is_replaced():
            raise ClusterNotFoundError("another cluster was made at this path: open it anew")

    def is_replaced(self) -> bool:
        """Return whether another cluster stands at the path: its table is another one."""
        return self._node.made != self._world.disks.made

    def maintain(self) -> None:
        """Nothing is due in memory."""

    def offset_at(self, time_ms: int) -> Offset:
        self._check_answers(self._world.scheduler.call("metadata read"))
        disks = self._world.disks
        later = (each.base_offset for each in disks.batches if each.stamp.time_ms > time_ms)
        return next(later, disks.image.offset)

    def check_writable(self) -> None:
        """A reader may write here."""

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        self._check_answers(self._world.scheduler.call("metadata read"))
        snapshots = [
            each
            for each in self._world.disks.snapshots
            if to_offset is None or each.end_offset <= to_offset
        ]
        return max(snapshots, key=lambda each: each.end_offset, default=None)

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        self._check_answers(self._world.scheduler.call("metadata append"))
        base_offset = Offset(end_offset - len(records))
        batch = MetadataBatch(base_offset=base_offset, stamp=stamp, records=tuple(records))
        self._world.disks.snapshots.append(batch)
        self._world.seen["snapshot written"] += 1


class SimulatedSweepHints:
    """SweepHints on the metadata root, which may be away, lose one, or keep the one before."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, cluster_id: str) -> SweepPosition | None:
        fault = self._world.scheduler.call("hint read")
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")
        if fault == "lost":
            self._world.seen["hint of the sweep lost"] += 1
            self._world.disks.sweep_hint = None
        return self._world.disks.sweep_hint

    def write(self, cluster_id: str, position: SweepPosition) -> None:
        fault = self._world.scheduler.call("hint write")
        if self._world.disks.is_metadata_away or fault in FAILED:
            raise KafkaStorageError("the metadata root does not answer")
        if fault != "lost":
            self._world.disks.sweep_hint = position
