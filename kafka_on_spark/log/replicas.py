"""Replicas: each is a Delta table, in which each operation on the log is one commit.

The table's partition columns are the batch header, its files are the segments, and its `txn`
counters are what Kafka keeps in checkpoint files: log start, log end, the fence, and which
producer-state file counts, with a digest of it. So a commit is atomic over data and counters, and
any Delta reader sees an ordinary table.

`operations.py` decides; here it is loaded, decided, committed, and again after a conflict.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final, NamedTuple

from kafka_on_spark.base.config import is_held
from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaOnSparkError,
    KafkaStorageError,
    OutOfOrderSequenceError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import NO_CHAIN, ChainDigest, Clock, LeaderEpoch, Offset
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.log.batch import Batch, Border, LogPart, MergedSegment, StagedBatch, WriterFence
from kafka_on_spark.log.compaction import COUNTERS as COMPACTION_COUNTERS
from kafka_on_spark.log.compaction import CompactionProgress
from kafka_on_spark.log.evidence import DIRECTORY, EVIDENCE, identity_flaw, inspect_root, table_flaw
from kafka_on_spark.log.producer_files import ReadFile, read_producers, write_producers
from kafka_on_spark.log.producer_state import (
    NO_FILE,
    ProducersFile,
    RegisteredProducers,
    find_put,
    not_above,
    producers_file_name,
    with_batches,
)
from kafka_on_spark.log.segments import (
    HEADER_SCHEMA,
    TABLE_SCHEMA,
    batches_of,
    check_no_link,
    files_of,
    in_offset_order,
)
from kafka_on_spark.log.state import (
    LastAppend,
    LogChange,
    ProducerEntries,
    ReplicaAddress,
    ReplicaIdentity,
    ReplicaState,
    check_complete,
    check_log,
    from_halves,
    halves,
)
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.store.deadlines import (
    Call,
    RootHangsError,
    SystemClock,
    begin,
    until_committed,
    within,
)
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.delta.delta_log import DeltaLog, tombstones_kept
from kafka_on_spark.store.error_translation import as_storage_errors, is_denied, parsing
from kafka_on_spark.store.local_files import PRODUCERS_BYTES_MAX
from kafka_on_spark.store.root_identity import CHECKED, CHECKED_MAX, check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions

log = logging.getLogger(__name__)

FORMAT_VERSION: Final = "2"
LOG_START_OFFSET: Final = "log-start-offset"
LOG_END_OFFSET: Final = "log-end-offset"
LEADER_EPOCH: Final = "leader-epoch"
CHAIN_HIGH: Final = "chain-high"  # the digest before the first remaining segment, in two
CHAIN_LOW: Final = "chain-low"  # halves; a new table has none: its chain begins at the start
PRODUCER_STATE: Final = "producer-state"  # number of the producer-state file; 0: there is none
PRODUCER_DIGEST: Final = "producer-digest"  # of what is in it


KNOWN_MS_MAX: Final = 60_000
"""For speed alone: a put onto a commit that was cleaned is unknown, and costs a load."""


class _Checked(NamedTuple):
    """A table as it was last read and checked."""

    files: Sequence[FileEntry]
    chain_before: ChainDigest
    batches: tuple[LogPart, ...]


class ReplicaLog:
    """One replica's log: the Delta table at `address`.

    `checks_disk`: the root must be the disk of the address before and after the first load.

    Attributes:
        address: The newest that it was opened at: what does not tell replicas apart may change.
    """

    clock: Clock = SystemClock()

    def __init__(
        self, address: ReplicaAddress, options: StorageOptions, *, checks_disk: bool = False
    ) -> None:
        self.address = address
        self._delta = DeltaLog(address.folder, options, is_flushed=address.is_flushed)
        self._state: ReplicaState | None = None
        self._seen_ms = 0.0
        self._was_opened_early = False
        self._early: Call[ReplicaState] | None = None
        self._checked: _Checked | None = None
        self._producers: tuple[ProducersFile, ProducerEntries] = (NO_FILE, {})
        self._files = RootFiles(address.root, options)
        self._written: tuple[ProducersFile, ProducerEntries] = (NO_FILE, {})
        self._options = options
        self._checks_disk = checks_disk

    @classmethod
    def create(
        cls,
        address: ReplicaAddress,
        options: StorageOptions,
        *,
        leader_epoch: LeaderEpoch | None = None,
    ) -> "ReplicaLog":
        """Create an empty table at `address`, fenced at `leader_epoch`, or use an earlier try's."""

        def create() -> "ReplicaLog":
            check_directory(address.root, address.directory_id, options, address.registered_voters)
            log = cls(address, options)
            try:
                log._delta = DeltaLog.create(
                    address.folder,
                    options,
                    schema=TABLE_SCHEMA,
                    partition_by=HEADER_SCHEMA.names,
                    configuration={
                        **configuration_of(address.identity),
                        **tombstones_kept(address.delete_delay_ms),
                    },
                    counters={} if leader_epoch is None else {LEADER_EPOCH: leader_epoch},
                    is_flushed=address.is_flushed,
                )
                log._note(ReplicaState(identity=address.identity, leader_epoch=leader_epoch))
            except (CommitConflictError, CommitOutcomeUnknownError) as error:
                try:
                    log.load()  # whoever created it: an earlier try, or this one
                except ReplicaLostError:
                    raise KafkaStorageError(f"can't create a table on {address.root}") from error
            # If the disk went away meanwhile, the table is below its mount point, and would look
            # sound until the disk is back.
            check_directory(address.root, address.directory_id, options)
            return log

        return within(address.root, create)

    @property
    def known(self) -> ReplicaState | None:
        """The state that was loaded or committed last; None: none was, or on a store a minute ago.
        What is decided on it is committed only if it is still the newest, so who only commits need
        not load."""
        is_old = self.clock.monotonic_ms() - self._seen_ms > KNOWN_MS_MAX
        return None if is_old and not self._delta.is_local else self._state

    def open_early(self) -> None:
        """Begin, once, to load a table of which nothing is known, and to look which disk its root
        is. Nobody need wait for it, and who needs what could not be read reads it again."""
        if self._state is None and not self._was_opened_early:
            self._was_opened_early = True
            with suppress(KafkaStorageError):  # the root takes no more calls
                begin(self.address.root, self.check_root)
                self._early = begin(self.address.root, self.load)

    def known_soon(self) -> ReplicaState | None:
        """Return what is known; a load that was begun early is waited for."""
        early, self._early = self._early, None
        if early is not None:
            with suppress(KafkaOnSparkError):  # `load` says why
                early.in_time()
        return self.known

    def load(self) -> ReplicaState:
        """Return the newest state; all records that it counts are durable.

        Raises:
            ReplicaLostError: There is no table, or it is not the replica of the address.
            InconsistentTopicIdError: It is another topic's.
            CorruptLogError: The table breaks an invariant of the log.
            KafkaStorageError: The root does not answer.
        """
        return within(self.address.root, self._loaded)

    def _loaded(self) -> ReplicaState:
        state, delta = self._state, self._delta
        if state is not None and delta.is_local and delta.is_still_at(state.version):
            return state  # without the lock, which guards the handle: it is not needed here
        with (
            self._delta.lock,
            as_storage_errors(f"read the table at {self._delta.uri}", self._options),
        ):
            try:
                if not self._checks_disk:
                    return self._load()
                with inspect_root(self.address.root, self.address.directory_id, self._options):
                    state = self._load()
                self._checks_disk = False
                return state
            except EVIDENCE as claim:
                raise self._flaw_or_failure(claim) from claim

    def _load(self) -> ReplicaState:
        check_no_link(self.address)
        is_opened_anew = self._delta.follow() is None
        if self._state is None or is_opened_anew:
            # The table may be another one by now, at the very version that is known.
            self._state, self._producers = None, (NO_FILE, {})
            self._written = (NO_FILE, {})
            self._check_identity()
        version = self._delta.version
        if self._state is None or self._state.version != version:
            self._state = None  # a read that fails leaves no state beside another state's producers
            self._state = self._read_state(version, self._read_file)
        self._note(self._state)
        return self._state

    def _note(self, state: ReplicaState) -> None:
        self._state, self._seen_ms = state, self.clock.monotonic_ms()

    def _read_file(self, name: str) -> bytes | None:
        return self._files.read(f"{self._delta.uri}/{name}", PRODUCERS_BYTES_MAX)

    def _flaw_or_failure(self, claim: KafkaOnSparkError) -> KafkaOnSparkError:
        """Return what an inspection finds wrong with the table, or that nothing is proved.

        What this process says of a table may come from an error of the system.
        """
        address = self.address
        folder = address.folder.removeprefix(f"{address.root}/")
        expected = configuration_of(address.identity)
        flaw: KafkaOnSparkError | None
        with inspect_root(address.root, address.directory_id, self._options) as inspection:
            flaw = table_flaw(
                inspection, folder, seen_version=self._delta.version, configuration=expected
            )
            if flaw is None:
                # Of its other files, too, only a listing shows that one is missing.
                read = partial(inspection.listed, folder, bytes_max=PRODUCERS_BYTES_MAX)
                flaw = self._flaw_on_second_read(read)
        if flaw is None:
            kind = RootAccessDeniedError if is_denied(claim) else KafkaStorageError
            flaw = kind(
                f"the table at {self._delta.uri} could not be read, and an inspection found"
                f" nothing wrong with it: {claim.message}"
            )
        self._delta.reopen_next_time()
        self._state, self._checked = None, None
        return flaw

    def _flaw_on_second_read(self, read: ReadFile) -> KafkaOnSparkError | None:
        """Return what a second read finds wrong with the log, whose commits can all be read."""
        log = ReplicaLog(self.address, self._options)
        try:
            version = log._delta.refresh()
            log._check_identity()
            log._read_state(version, read)
        except ReplicaLostError:
            return None  # the inspection has just read the table: the root was away for a moment
        except EVIDENCE as error:
            return error
        return None

    def _check_identity(self) -> None:
        found = self._delta.configuration
        expected = configuration_of(self.address.identity)
        version = found.get("kos.format.version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            advice = "use a newer kafka_on_spark" if version > FORMAT_VERSION else "create it again"
            raise KafkaStorageError(
                f"the table at {self._delta.uri} has format {version}, this version reads"
                f" {FORMAT_VERSION}: {advice}"
            )
        flaw = identity_flaw(found, expected, self._delta.uri)
        if flaw is not None:
            raise flaw
        if found.get(DIRECTORY) != self.address.directory_id:  # it was made before a fork, or:
            check_directory(self.address.root, self.address.directory_id, self._options)

    def _read_state(self, version: int, read: ReadFile) -> ReplicaState:
        start, end, fence, high, low = self._delta.counters_of(
            LOG_START_OFFSET, LOG_END_OFFSET, LEADER_EPOCH, CHAIN_HIGH, CHAIN_LOW
        )
        number, digest = self._delta.counters_of(PRODUCER_STATE, PRODUCER_DIGEST)
        producers = self._producers_of(ProducersFile(number or 0, digest or 0), read)
        counters = self._delta.counters_of(*COMPACTION_COUNTERS.values())
        progress = zip(COMPACTION_COUNTERS, (Offset(each or 0) for each in counters), strict=True)
        active = self._delta.active_files()
        with parsing(f"the table at {self._delta.uri}"):
            files = in_offset_order(active)
            before = from_halves(high, low)
            same, kept = self._unchanged(files, before)
            state = ReplicaState(
                identity=self.address.identity,
                version=version,
                log_start_offset=Offset(start or 0),
                log_end_offset=Offset(end or 0),
                leader_epoch=None if fence is None else LeaderEpoch(fence),
                batches=(*kept, *batches_of(files[same:])),
                producers=producers,
                chain_before=before,
                compaction=CompactionProgress(**dict(progress)),
            )
            check_log(state, checked=len(kept))
        self._checked = _Checked(files, before, state.batches)
        return state

    def _unchanged(
        self, files: Sequence[FileEntry], before: ChainDigest
    ) -> tuple[int, tuple[LogPart, ...]]:
        """Return how many of the first files are those of the last read, and their batches.

        Those were checked then, so a log that has grown costs only its new files.
        """
        known = self._checked
        if known is None or known.chain_before != before:
            return 0, ()
        pairs = enumerate(zip(files, known.files, strict=False))
        shared = min(len(files), len(known.files))
        same = next((place for place, (now, was) in pairs if now != was), shared)
        place = 0
        for count, batch in enumerate(known.batches):
            if place + len(batch.segments) > same:
                return place, known.batches[:count]
            place += len(batch.segments)
        return place, known.batches

    def _producers_of(self, file: ProducersFile, read: ReadFile) -> ProducerEntries:
        """Return the entries in a file, which is read once: files never change."""
        if self._producers[0] != file:
            uuid = self.address.replica_uuid
            self._producers = (file, read_producers(read, uuid, file) if file.number else {})
        return self._producers[1]

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        """Commit `change` at the version after `state`; return the state that it leads to.

        The producer entries of a change are a file of their own, which is durable before the
        commit that names it.

        Raises:
            CommitConflictError: The table had moved on, or was another at the version of `state`:
                its disk was restored. `change` is not in it.
            CommitOutcomeUnknownError: The store failed. `change` may be in the table.
            KafkaStorageError: The root refuses. `change` is not in the table.
        """
        try:
            return within(self.address.root, partial(self._commit, state, change))
        except RootHangsError as error:
            raise CommitOutcomeUnknownError(error.message, version=state.version + 1) from error

    def _commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        with self._delta.lock:
            if self._state is not state and self._state != state:
                # Not by the version alone: another thread may have opened the table anew, and it
                # may be another one by now, at the very version of `state`.
                raise CommitConflictError("decided on another state", version=state.version + 1)
            after, removed = state.apply(change), state.removed_by(change)
            self._check_obeys(state, change, is_removing=bool(removed))
            file = self._producers[0]  # as of the newest state that was read
            if change.producers is not None:
                file = self._write_producers(state.version, change.producers)
            adds = change.adds if change.merged is None else (change.merged,)
            # A merge moves records and changes none, so Delta's streams skip it.
            changes_data = change.merged is None or change.merged.record_count != sum(
                part.record_count for part in removed
            )
            self._delta.commit(
                state.version,
                operation=change.operation,
                adds=_entries(adds, changes_data),
                removes=_entries(removed, changes_data),
                counters=_counters(after, change, file),
            )
            self._note(after)
            self._producers = (file, after.producers)
            return after

    def _check_obeys(self, state: ReplicaState, change: LogChange, *, is_removing: bool) -> None:
        """Check that the root obeys the metadata log that decided `change`: each time if it adopts
        a leadership, raises the log start or removes files, and else once: see `CHECKED`."""
        only_adds = (
            change.leader_epoch == state.leader_epoch
            and change.log_start_offset == state.log_start_offset
            and not is_removing
        )
        self.check_root(is_once_enough=only_adds)

    def check_root(self, *, is_once_enough: bool = True) -> None:
        """Check that the root is the disk of the address, and obeys the metadata log."""
        root, directory_id = self.address.root, self.address.directory_id
        known = (root, directory_id, self._options.key, self.address.registered_voters)
        if is_once_enough and known in CHECKED:
            return
        check_directory(root, directory_id, self._options, self.address.registered_voters)
        if len(CHECKED) >= CHECKED_MAX:
            CHECKED.clear()
        CHECKED.add(known)

    def _write_producers(self, version: int, producers: ProducerEntries) -> ProducersFile:
        """Write the producer-state file of a change decided at `version`; it is durable then.

        The file of a try that has lost serves the next one: appends that win while a file is
        written change no entries. Otherwise each try of a merge would leave a file, and where
        writing one takes longer than an append no merge would get in. No cleaner takes a file above
        the counter, so it is there, unless a person has removed it.
        """
        if not self._delta.is_still_at(version):  # the commit would not count: no file
            raise CommitConflictError("decided on an old version", version=version + 1)
        written, entries = self._written
        folder, number = self._delta.uri, self.producers_number
        if (
            written.number <= number
            or entries != producers
            or self._files.size(f"{folder}/{producers_file_name(written.number)}") is None
        ):
            uuid = self.address.replica_uuid
            written = write_producers(self._files, folder, uuid, producers, above=number)
            self._written = (written, producers)
        return written

    @property
    def producers_number(self) -> int:
        """Number of the producer-state file of the state that was last loaded; 0: it has none."""
        return self._producers[0].number

    def may_need_checkpoint(self) -> bool:
        """Return whether `maintain` may have something to do: without a request, or a lock."""
        return self._delta.may_need_checkpoint()

    def maintain(self) -> None:
        """Write a checkpoint if one is due. Called after the answer; never fails the caller."""
        if self.may_need_checkpoint():
            cleans = not is_held(self.address.held_until_ms, self.clock.now_ms())
            checkpoint = partial(self._delta.checkpoint_if_due, cleans=cleans)
            within(self.address.root, checkpoint)


def configuration_of(identity: ReplicaIdentity) -> dict[str, str]:
    return {
        "kos.topic.id": identity.topic_id,
        "kos.partition": str(identity.partition),
        "kos.broker.id": str(identity.broker_id),
        DIRECTORY: identity.directory_id,
        "kos.replica.uuid": identity.replica_uuid,
        "kos.format.version": FORMAT_VERSION,
    }


def _entries(parts: Iterable[LogPart], changes_data: bool) -> list[FileEntry]:
    return [file for part in parts for file in files_of(part, changes_data=changes_data)]


def _counters(after: ReplicaState, change: LogChange, file: ProducersFile) -> dict[str, int]:
    """Return the counters that the commit carries: those of the whole log, so that a process that
    opens the table finds them in its newest commit.

    Delta lets a counter go back: a truncation lowers the log end on purpose, and the decision has
    compared the others.
    """
    high, low = halves(after.chain_before)
    counters: dict[str, int] = {
        LOG_START_OFFSET: after.log_start_offset,
        LOG_END_OFFSET: after.log_end_offset,
        CHAIN_HIGH: high,
        CHAIN_LOW: low,
        PRODUCER_STATE: file.number,
        PRODUCER_DIGEST: file.digest,
    }
    if after.leader_epoch is not None:
        counters[LEADER_EPOCH] = after.leader_epoch
    if change.compaction is not None:
        counters |= {
            name: getattr(change.compaction, field) for field, name in COMPACTION_COUNTERS.items()
        }
    return counters


HANDLES_MAX: Final = 4096
"""Tables that stay open; one of few files takes about 22 KB."""


class ReplicaStore:
    """The logs that this process has opened, so that tables stay open; the least recently used
    leaves first."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._open: OrderedDict[ReplicaAddress, ReplicaLog] = OrderedDict()
        self._lock = Lock()

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        with self._lock:
            log = self._open.get(address)
            if log is None:
                return self._remember(address, ReplicaLog(address, self._options))
            self._open.move_to_end(address)
            log.address = address  # its voters and its times may have changed since
            return log

    def open_uncached(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, opened without what this process knows of it.

        Its first `load` raises KafkaStorageError unless the root was the disk of the address before
        and after. It evicts no other log: a sweep over many replicas leaves those in use open.
        """
        log = ReplicaLog(address, self._options, checks_disk=True)
        with self._lock:
            is_room = address in self._open or len(self._open) < HANDLES_MAX
            return self._remember(address, log) if is_room else log

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Create an empty table fenced at `leader_epoch`, or open an earlier try's table.

        With the fence from the beginning the replica needs no commit to adopt that leadership. It
        stays open: what it holds is known, and the first append to it need not read it.
        """
        log = ReplicaLog.create(address, self._options, leader_epoch=leader_epoch)
        with self._lock:
            self._remember(address, log)

    def _remember(self, address: ReplicaAddress, log: ReplicaLog) -> ReplicaLog:
        self._open[address] = log
        self._open.move_to_end(address)
        if len(self._open) > HANDLES_MAX:
            self._open.popitem(last=False)
        return log


ReadBorders = Callable[[MergedSegment], tuple[Border, ...]]
"""Reads the borders in the file of a replica's merged segment."""

CheckState = Callable[[ReplicaState], None]
"""Refuses, by an error, to say of a log that was read that it has not an append."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append to one table, and the table after it; `batch` and `last` as in
    AppendedBefore."""

    state: ReplicaState
    batch: Batch | None
    is_duplicate: bool
    last: LastAppend | None = None


Decide = Callable[[ReplicaState], LogChange | None]
"""Says what to commit to a log, if anything."""


def commit_decided(
    replica: ReplicaLog, decide: Decide, state: ReplicaState | None = None
) -> ReplicaState:
    """Commit what `decide` says as `committed` does; return the state after it.

    A log that it calls lost is read once more: a stale listing shows an older, shorter one.
    """
    try:
        return committed(replica, decide, state)[0]
    except ReplicaLostError:
        return committed(replica, decide)[0]


def committed(
    replica: ReplicaLog, decide: Decide, state: ReplicaState | None = None
) -> tuple[ReplicaState, LogChange | None]:
    """Commit what `decide` says of a log last seen at `state` (None: it is read), and after a
    conflict of what is read then; return the state after it, and what was committed."""

    def commit(now: ReplicaState) -> tuple[ReplicaState, LogChange | None]:
        change = decide(now)
        return (now if change is None else replica.commit(now, change)), change

    return until_committed(replica.load, commit, state, clock=replica.clock)


def begin_leadership(
    replica: ReplicaLog, partition: PartitionRegistration, state: ReplicaState | None = None
) -> ReplicaState:
    """Fence a leader's table, last seen at `state` (None: it is read), at the partition's epoch, if
    its log has all committed records (I2).

    Raises:
        FencedLeaderEpochError: The table has adopted a later leadership: the image is old.
        NotLeaderOrFollowerError: The log start has moved on: the image is old.
        ReplicaLostError: The log lacks committed records; the replica is bad.
    """

    def decide(state: ReplicaState) -> LogChange | None:
        if partition.begins_empty and state.log_end_offset < partition.log_start_offset:
            return operations.truncate_fully_and_start_at(
                state,
                partition.log_start_offset,
                leader_epoch=partition.leader_epoch,
                # The log begins anew, with nothing: of what it had nobody knows whether it stands.
                producers=not_above(with_batches(state.producers, state.batches), Offset(0)),
                chain_before=NO_CHAIN,
            )
        change = operations.adopt(
            state,
            leader_epoch=partition.leader_epoch,
            truncate_to=None,
            floor=Offset(0),  # check_complete names what is missing
        )
        check_complete(state, partition)
        return change

    return commit_decided(replica, decide, state)


def fence_older_writers(
    replica: ReplicaLog,
    state: ReplicaState,
    writer: WriterFence,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """Write a writer's epoch to a leader's table, last seen at `state`, before it appends: one
    commit, the first time that a writer appends to a partition."""
    leader_epoch = state.leader_epoch
    assert leader_epoch is not None, "a leadership has begun"
    if producer_state.fence_writer(state, writer, leader_epoch=leader_epoch) is None:
        return state
    return commit_decided(
        replica,
        lambda now: producer_state.fence_writer(
            now, writer, leader_epoch=leader_epoch, registered=registered
        ),
    )


def with_borders_over(
    state: ReplicaState, puts: Sequence[Batch], read_borders: ReadBorders
) -> ReplicaState:
    """Return a log with the borders that tell whether commits that were put stand in it."""
    for each in puts:
        merged = state.merged_over(each.end_offset)
        if merged is not None and merged.borders is None:
            state = state.with_borders(merged, read_borders(merged))
    return state


def commit_staged(
    replica: ReplicaLog,
    staged: StagedBatch,
    state: ReplicaState,
    *,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    expected_offset: Offset | None = None,
    puts: list[Batch] | None = None,
    read_borders: ReadBorders = lambda merged: (),
    check_absent: CheckState = lambda state: None,
) -> Appended:
    """Append `staged` to a leader's table last seen at `state`, or find it there.

    After a conflict the same files get offsets from the new log end; no byte is written again.
    `puts`: the commits of this append that may stand; this call adds its own. An append is never
    put again while one of them may stand, also if the batch was merged since.
    `check_absent` is called with each state that has not the append, after that was read.
    """
    puts = [] if puts is None else puts
    first = state

    def commit(state: ReplicaState) -> Appended:
        if puts:
            state = with_borders_over(state, puts, read_borders)
            stands = find_put(state, puts)
            if stands is not None:
                return Appended(state, stands, is_duplicate=False)  # a commit of this append
        try:
            decided = operations.append(
                state,
                staged,
                leader_epoch=leader_epoch,
                now_ms=now_ms,
                expected_offset=expected_offset,
            )
        except KafkaOnSparkError as error:
            _check_newest(replica, state, first)
            if isinstance(error, OutOfOrderSequenceError):
                check_absent(state)
            raise
        if not isinstance(decided, LogChange):
            _check_newest(replica, state, first)
            return Appended(state, decided.batch, is_duplicate=True, last=decided.last)
        check_absent(state)
        [batch] = decided.adds
        assert isinstance(batch, Batch), "an append makes a batch"
        puts.append(batch)
        try:
            return Appended(replica.commit(state, decided), batch, is_duplicate=False)
        except (CommitConflictError, KafkaStorageError):
            puts.remove(batch)  # certainly not written
            raise

    return until_committed(replica.load, commit, state, clock=replica.clock)


def _check_newest(replica: ReplicaLog, state: ReplicaState, first: ReplicaState) -> None:
    """Check what is answered without a commit, which would prove it: the first state may be old."""
    if state is first and replica.load() != state:
        raise CommitConflictError("decided on an old state", version=state.version + 1)


def advance_to(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """Move a log's start to `offset`, if its end is not below; return the state after it."""

    def decide(state: ReplicaState) -> LogChange | None:
        is_there = offset <= state.log_end_offset
        return operations.advance_log_start(state, offset, registered) if is_there else None

    while True:  # a commit removes a bounded number of files
        state, change = committed(replica, decide, state)
        if change is None:
            return state


def try_to_advance(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """As `advance_to`, for whoever reads a log that needs no log start to be read.

    That a replica can't drop records yet says nothing against what it has: it must not cost a sound
    leader its leadership, nor a follower its place in the ISR. Upkeep tries it again, and reports.
    """
    if offset <= state.log_start_offset:
        return state
    try:
        return advance_to(replica, state, offset, registered)
    except KafkaOnSparkError as error:
        log.warning("a log start is left to upkeep: %s", error)
        return state
