"""I15: the audit of the metadata log: reads its voters, and holds them against each other.

One of them, the leader, is replayed in full: as far as a majority holds its log. The others are
read before it and again after it, so that the audit is sound while others write: what the leader
proves committed must then be on a majority, and nobody has more than the leader.

Every read is of the files as they are, and nothing is cached: what a process remembers of a table
does not count here. Never writes.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from hashlib import blake2b

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.fsck.findings import Coverage, Finding, FindingList, Place
from kafka_on_spark.fsck.metadata_checks import MetadataReplay, MetadataRows, snapshot_flaw
from kafka_on_spark.fsck.voter_trace import (
    VoterCommit,
    VoterFlaw,
    VoterTrace,
    committed_flaws,
    content_flaws,
    following_flaws,
    voter_flaws,
)
from kafka_on_spark.metadata.cluster_roots import check_place, given_roots
from kafka_on_spark.metadata.metadata_files import (
    FILE_NAME,
    LEADER,
    LOG_END_OFFSET,
    QUORUM_EPOCH,
    VOTE,
    decode_rows,
    log_file,
    marks_in,
)
from kafka_on_spark.metadata.metadata_root import (
    MetadataIdentity,
    check_replaced,
    identity_of_voter,
    table_gone,
)
from kafka_on_spark.metadata.quorum.raft import counted_end
from kafka_on_spark.metadata.quorum.voter_log import MERGE
from kafka_on_spark.metadata.quorum.voter_table import (
    EMPTY_LOG,
    UNREADABLE,
    RaftBatch,
    RaftLog,
    Voter,
    VoterKey,
)
from kafka_on_spark.store.delta.delta_files import (
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors, parsing
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.root_urls import roots_in
from kafka_on_spark.store.roots import RootFiles, StorageOptions


class VoterReader:
    """Reads one voter's root, and replays its table commit by commit.

    Attributes:
        digests: Of its batches' records, by where they begin, as far as they were read; if not
            deep, none.
        problem: Why it could not be read; None: it could.
    """

    def __init__(
        self, root: str, identity: MetadataIdentity, options: StorageOptions, *, is_deep: bool
    ) -> None:
        self._root, self._identity, self._options = root, identity, options
        self._files = RootFiles(root, options)
        self._uri = identity.table_at(root)
        self._is_deep = is_deep
        self.trace = VoterTrace(VoterKey(identity.node_id, identity.directory_id))
        self.findings = self.trace.findings
        self.digests: dict[int, str] = {}
        self.problem: str | None = None
        self._first_version = 0
        self._read_files: dict[str, int] = {}

    @property
    def key(self) -> VoterKey:
        return self.trace.key

    @property
    def is_whole(self) -> bool:
        """Whether its table could be read, and nothing that its newest version says is lost."""
        return self.problem is None and not self.trace.is_damaged

    def try_to_catch_up(self) -> None:
        """Do as `catch_up`, unless it failed before; note why it fails."""
        if self.problem is None:
            try:
                self.catch_up()
                if self.trace.version < 0:  # what it has, and how it voted, is not known
                    self.problem = "no version of its table can be read"
            except ProtocolError as error:
                self.problem = error.message

    def catch_up(self) -> None:
        """Replay the commits since the last call; raise a ProtocolError if the table can't be read
        at all."""
        first = self.trace.version + 1
        for step in self._steps(is_deep=self._is_deep and not first, from_version=first):
            if not first or step.version > self.trace.version:
                self._take(step)

    def _steps(self, *, is_deep: bool, from_version: int) -> Iterator[TableStep]:
        try:
            with as_storage_errors(f"read the table at {self._uri}", self._options):
                yield from table_steps(
                    self._files, self._uri, has_all_checkpoints=is_deep, from_version=from_version
                )
        except ReplicaLostError as error:
            check_replaced(self._root, self._identity, self._options)
            raise table_gone(self._uri) from error

    def _take(self, step: TableStep) -> None:
        if isinstance(step, TableDamage):
            self.findings.add("I15", step.sentence, version=step.version)
            self.trace.is_damaged |= not step.is_checkpoint
            return
        if self.trace.version < 0:
            self._first_version = step.version
        try:
            self.trace.take(_voter_commit(step))
        except CorruptLogError as error:
            self.findings.add("I15", error.message, version=step.version)
            self.trace.version, self.trace.is_damaged = step.version, True

    def batches(
        self, end: int, read: set[str], damaged: Callable[..., None]
    ) -> Iterator[MetadataRows]:
        """Yield the batches up to `end` of the newest version's files but those in `read`. Add to
        `read` each file that was read to its end. Call `damaged` for a damaged file, unless the
        table has put its rows into another one meanwhile: then it may be deleted."""
        taken = {*read}
        while left := self.trace.files.keys() - taken:
            path = min(left)  # names begin with the base offset
            taken.add(path)
            try:
                for batch in self.rows(path):
                    if batch.end_offset > end:
                        break
                    # Of an expired one the records may be there on others.
                    if self._is_deep and not batch.is_expired:
                        self.digests[batch.base_offset] = _digest(batch)
                    yield batch
                else:
                    read.add(path)
            except CorruptLogError as error:
                self.catch_up()
                if path in self.trace.files:
                    read.add(path)
                    damaged(error.message, path=path)

    def rows(self, name: str) -> Iterator[MetadataRows]:
        """Yield the batches of a file; raise CorruptLogError, perhaps after some of them, if it is
        missing or damaged."""
        if not FILE_NAME.fullmatch(name):
            raise CorruptLogError(f"{name} is no file of the metadata log by its name")
        path = f"{self._uri}/{name}"
        with as_storage_errors(f"read {path}", self._options):
            content = self._files.read(path, METADATA_FILE_BYTES_MAX)
        for rows in decode_rows(content, path):
            self._read_files[name] = len(content or b"")
            yield MetadataRows(rows[0]["batch_base_offset"], tuple(rows))

    def read_digests(self, end: int) -> None:
        """Read the newest version's files up to `end`."""
        add = partial(self.findings.add, "I15")
        deque(self.batches(end, set(), add), maxlen=0)

    def snapshot_names(self) -> list[str]:
        names = self._files.names(f"{self._root}/snapshots")
        return [name for name in names if name.endswith(".parquet")]

    def snapshots(self) -> Iterator[tuple[int, str]]:
        """Yield where the root's snapshots end, and their names: of all if deep, or the newest."""
        names = self.snapshot_names()
        for name in names if self._is_deep else names[-1:]:
            end = name.split("-")[0]
            if end.isdecimal():
                yield int(end), name
            else:
                self.add_snapshot_flaw(name, "its name has no end offset")

    def snapshot(self, name: str) -> MetadataRows:
        """Return a snapshot's rows, as a commit that ends at the offset in its name."""
        path = f"{self._root}/snapshots/{name}"
        with as_storage_errors(f"read {path}", self._options):
            batches = [*decode_rows(self._files.read(path, METADATA_FILE_BYTES_MAX), path)]
        rows = tuple(row for batch in batches for row in batch)
        end, found = name.split("-")[0], MetadataRows(rows[0]["batch_base_offset"], rows)
        if len(batches) != 1 or not end.isdecimal() or found.end_offset != int(end):
            raise CorruptLogError("a snapshot is not what its name says", path=path)
        return found

    def add_snapshot_flaw(self, name: str, flaw: str) -> None:
        """Add the finding that a snapshot is not what it should be, unless it was deleted since it
        was listed: of older ones only a few stay."""
        if name in self.snapshot_names():
            self.findings.add("I15", f"the snapshot {name} is damaged: {flaw}", path=name)

    def coverage(self, place: Place) -> Coverage:
        return Coverage(
            table=place,
            first_version=self._first_version,
            last_version=self.trace.version,
            read_files=len(self._read_files),
            read_bytes=sum(self._read_files.values()),
        )


def _digest(batch: MetadataRows) -> str:
    """Return a digest of a batch's records. Where they stand in a file is not theirs."""
    rows = [[value for name, value in row.items() if name != "offset_delta"] for row in batch.rows]
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()


def _voter_commit(step: TableCommit | TableCheckpoint) -> VoterCommit:
    is_checkpoint = isinstance(step, TableCheckpoint)
    files = step.files if isinstance(step, TableCheckpoint) else step.adds
    with parsing(f"version {step.version} of the metadata table"):
        epoch = step.counters.get(QUORUM_EPOCH)
        return VoterCommit(
            version=step.version,
            is_checkpoint=is_checkpoint,
            is_merge=isinstance(step, TableCommit) and step.operation == MERGE,
            quorum_epoch=None if epoch is None else QuorumEpoch(epoch),
            log_end=step.counters.get(LOG_END_OFFSET),
            votes=marks_in(step.counters, VOTE),
            leaders=marks_in(step.counters, LEADER),
            added={each.path: log_file(each).batches for each in files},
            removed=step.removes if isinstance(step, TableCommit) else (),
        )


def _voter_readers(
    url: str, options: StorageOptions, *, is_deep: bool
) -> tuple[list[VoterReader], Mapping[Voter, str]]:
    """Return the newest voters that any root names, the leader first, then by their logs, damaged
    tables last; and why others of them can't be read. `url`: some of their roots."""
    given = given_roots(roots_in(url), options)
    cluster_id = next(iter(given.values())).cluster_id
    readers: dict[VoterKey, VoterReader] = {}
    unread: dict[Voter, str] = {}

    def read(root: str, identity: MetadataIdentity) -> VoterReader:
        reader = readers[identity.key] = VoterReader(root, identity, options, is_deep=is_deep)
        reader.try_to_catch_up()
        return reader

    for root, identity in given.items():
        reader = read(root, identity)
        # One of several may not be a voter: the others lead to the voters.
        with suppress(ClusterNotFoundError) if len(given) > 1 else nullcontext():
            if reader.is_whole:
                check_place(root, reader.key, reader.trace.log)
    voters = _newest_voters(readers.values())
    while unasked := [v for v in voters if v.key not in readers and v not in unread]:
        for voter in unasked:
            try:
                identity = identity_of_voter(voter.root, options)
            except UNREADABLE as error:
                unread[voter] = error.message
                continue
            if (identity.key, identity.cluster_id) == (voter.key, cluster_id):
                read(voter.root, identity)
            else:
                unread[voter] = f"{voter.root} is not voter {voter.key} any more"
        voters = _newest_voters(readers.values())
    found = [readers[each.key] for each in voters if each.key in readers]
    left = {voter: why for voter, why in unread.items() if voter in voters}
    return _leader_first(found or [*readers.values()]), left


def _leader_first(readers: Sequence[VoterReader]) -> list[VoterReader]:
    marks = [(e, k) for r in readers for e, k in r.trace.leaders.items()]
    leaders = max(marks, key=lambda mark: mark[0])[1] if marks else ()

    def rank(reader: VoterReader) -> tuple[bool, bool, int, int]:
        end = reader.trace.log.end
        return (not reader.is_whole, reader.key not in leaders, -end.epoch, -end.offset)

    return sorted(readers, key=rank)


def _newest_voters(readers: Iterable[VoterReader]) -> Sequence[Voter]:
    """Return the voters by the best log: another may end with a change that came to nothing."""
    logs = (each.trace.log for each in readers)
    named = (each for each in logs if each.voters is not None)
    best = max(named, key=lambda log: (log.end.epoch, log.end_offset), default=EMPTY_LOG)
    return () if best.voters is None else best.voters.voters


_Snapshots = dict[int, list[tuple[VoterReader, str]]]
"""Names of snapshots, and on whose root they lie, by where they end."""


class MetadataAudit:
    """One check of the metadata log and its voters; `replay` has its records, as far as a majority
    of them holds it. `url`: some of its roots."""

    def __init__(self, url: str, options: StorageOptions, *, is_deep: bool) -> None:
        (self._main, *self._others), self._unread = _voter_readers(url, options, is_deep=is_deep)
        self.replay = MetadataReplay()
        self._main.findings = self.replay.findings
        self._is_deep = is_deep
        self._proved: tuple[RaftLog, RaftBatch] | None = None
        self._replayed: set[str] = set()
        # Listed before the rest is read: a snapshot is made of what is committed.
        self._snapshots = self._listed()

    @property
    def _read(self) -> list[VoterReader]:
        return [each for each in self._others if each.problem is None]

    def catch_up(self) -> None:
        """Replay what was committed since the last call; the first also checks the snapshots.
        Raises as a reader's."""
        committed_end = self._read_commits()
        for batch in self._main.batches(committed_end, self._replayed, self.replay.damage):
            if batch.end_offset > self.replay.end_offset:  # else seen before its file was merged
                self._take(batch)
        if not self.replay.is_begun:
            self._begin()
        if not self.replay.is_begun:
            self.replay.damage(
                "the oldest records of the log are expired, and no snapshot after them can be read"
            )
        left, self._snapshots = self._snapshots, {}
        for end, found in left.items():
            # It is of a cluster that was at this root before, or the log was rolled back.
            above = "it ends above the log's end, and no process reads it"
            within = "it ends where no commit of the log ends"
            for reader, name in found:
                reader.add_snapshot_flaw(name, above if end > self.replay.end_offset else within)

    def _listed(self) -> _Snapshots:
        found: _Snapshots = defaultdict(list)
        for reader in (self._main, *self._others):
            for end, name in reader.snapshots():
                found[end].append((reader, name))
        return found

    def _read_commits(self) -> Offset:
        """Read what the tables have since the last call, the others' first; return up to where the
        log is committed."""
        for each in self._others:
            each.try_to_catch_up()
        self._main.catch_up()
        log = self._main.trace.log
        proved = log.batch_before(log.proved_end)
        if self._proved is None and proved is not None:
            self._proved = (log, proved)
        return self._committed_end(log)

    def _committed_end(self, log: RaftLog) -> Offset:
        main = self._main.trace
        if main.leader != main.key:
            return log.proved_end
        held = {main.key: log.end_offset}
        for each in (reader.trace for reader in self._read):
            if (each.epoch, each.leader) == (main.epoch, main.key):
                held[each.key] = Offset(min(each.log.end_offset, log.end_offset))
        return Offset(max(counted_end(log, main.epoch, held) or 0, log.proved_end))

    def _take(self, batch: MetadataRows) -> None:
        """Replay a commit, and check the snapshots that end with it. Where the oldest records are
        gone, the replay begins with the first snapshot after them that can be read."""
        found = self._snapshots.pop(batch.end_offset, [])
        if not batch.is_expired and not self.replay.is_begun:
            self._begin()
        if batch.is_expired or not self.replay.is_begun:
            self.replay.pass_over(batch)
            return
        self.replay.take(batch)
        for reader, name in found:
            self._check_snapshot(reader, name)

    def _begin(self) -> None:
        """Begin the replay with a snapshot that ends where it has come to, if there is one."""
        for reader in (self._main, *self._others):
            for name in reader.snapshot_names():
                if name.startswith(f"{self.replay.end_offset:020d}-"):
                    try:
                        self.replay.begin_at(reader.snapshot(name))
                    except CorruptLogError as error:
                        reader.add_snapshot_flaw(name, error.message)
                    else:
                        return

    def _check_snapshot(self, reader: VoterReader, name: str) -> None:
        epoch = self._main.trace.log.epoch_before(Offset(self.replay.end_offset))
        said = name.removesuffix(".parquet").rpartition("-")[2]
        if not said.isdecimal() or int(said) != epoch:
            flaw: str | None = f"its name says epoch {said}, the log has epoch {epoch} there"
        else:
            try:
                flaw = snapshot_flaw(self.replay, reader.snapshot(name).rows)
            except CorruptLogError as error:
                flaw = error.message
        if flaw is not None:
            reader.add_snapshot_flaw(name, flaw)

    def finish(self, now_ms: int) -> Iterator[Finding]:
        """Yield what was found, after the last call of `catch_up`; raise KafkaStorageError if
        somebody else was elected while the voters were read: what the main voter says is old
        then."""
        others = [each.trace for each in self._read]
        if any(each.leader and each.epoch > self._main.trace.epoch for each in others):
            raise KafkaStorageError(
                "the metadata quorum elected another leader while it was checked: try again"
            )
        unread = {int(voter.key.node_id): why for voter, why in self._unread.items()}
        unread |= {int(r.key.node_id): r.problem for r in self._others if r.problem is not None}
        for voter_id, why in sorted(unread.items()):
            sentence = f"the voter could not be checked: {why}"
            yield Finding(invariant=None, place=Place(voter_id=voter_id), sentence=sentence)
        found = {each.key: each.trace.findings for each in (self._main, *self._others)}
        of_all = FindingList(Place())
        for flaw in self._flaws():
            place = of_all if flaw.key is None else found[flaw.key]
            place.add(flaw.invariant, flaw.sentence)
        self.replay.check_time(now_ms)
        for each in (of_all, *found.values(), self.replay.findings):
            yield from each.all()

    def _flaws(self) -> Iterator[VoterFlaw]:
        main, others = self._main.trace, [each.trace for each in self._read]
        yield from voter_flaws([main, *others])
        yield from following_flaws(main, others)
        if self._proved is not None:
            log, proved = self._proved
            yield from committed_flaws(log.voters, proved, [main, *others])
        if main.leader != main.key:
            sentence = (
                f"the leader of the metadata quorum could not be read: its log is checked as voter"
                f" {main.key} has it, up to {main.log.proved_end}"
            )
            yield VoterFlaw(None, None, sentence)
        end = self._committed_end(main.log)
        for reader in self._read if self._is_deep else ():
            reader.read_digests(end)
            yield from content_flaws(reader.digests, self._main.digests, reader.key, main.key)

    def coverage(self) -> list[Coverage]:
        return [
            each.coverage(Place(voter_id=each.key.node_id if self._others else None))
            for each in (self._main, *self._read)
        ]

    def not_checked(self) -> list[str]:
        if self._is_deep or not self._others:
            return self.replay.not_checked()
        names = ", ".join(str(each.key.node_id) for each in self._others)
        return [
            f"the bytes of the metadata log on voters {names}: only their headers were held against"
            f" those of voter {self._main.key.node_id} (Q7 in part)",
            *self.replay.not_checked(),
        ]
