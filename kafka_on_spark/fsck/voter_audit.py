"""I10, I15: the voters of the metadata log are read side by side, and held against each other.

One of them, the leader, is replayed in full (`cluster_audit`): as far as a majority holds its log.
The others are read before it and again after it, so that the audit is sound while others write:
what the leader proves committed must then be on a majority, and nobody has more than the leader.

The commits of a voter's table continue each other and lose no row: each either appends files, the
first where the log ended or where the commit cuts it, or merges files into one with the same rows;
then the counter of the log's end stays (I10, I15).
"""

import re
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError, ProtocolError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.findings import Coverage, Finding, FindingList, Place
from kafka_on_spark.fsck.metadata_archive import MetadataArchive
from kafka_on_spark.fsck.metadata_checks import MetadataRows
from kafka_on_spark.fsck.voter_trace import (
    VoterFlaw,
    VoterTrace,
    committed_flaws,
    content_flaws,
    following_flaws,
    voter_flaws,
)
from kafka_on_spark.metadata.quorum.raft import counted_end
from kafka_on_spark.metadata.quorum.voter_table import RaftBatch, RaftLog, Voter
from kafka_on_spark.store.delta.delta_files import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)

LOG_END_OFFSET: Final = "log-end-offset"
MERGE: Final = "merge"
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")


class MetadataTableReplay:
    """Replays the steps of the metadata table's log in order; holds its files."""

    def __init__(self, findings: FindingList) -> None:
        self._findings = findings
        self._files: dict[str, FileEntry] = {}
        self._end: int | None = None
        self._is_sure = True
        self.first_version = 0
        self.version = -1

    def add(self, invariant: str, sentence: str, **where: int | str) -> None:
        self._findings.add(invariant, sentence, **where)

    def take(self, step: TableStep) -> None:
        if isinstance(step, TableDamage):
            self._findings.add("I15", step.sentence, version=step.version)
            self._is_sure = self._is_sure and step.is_checkpoint
        elif isinstance(step, TableCheckpoint):
            self._checkpoint(step)
        else:
            self._commit(step)

    @property
    def files(self) -> list[FileEntry]:
        return sorted(self._files.values(), key=lambda file: (_base(file) or 0, file.path))

    def first_but(self, read: Container[str]) -> FileEntry | None:
        """Return the first file of the newest version but for those that were read."""
        return next((file for file in self.files if file.path not in read), None)

    def _checkpoint(self, step: TableCheckpoint) -> None:
        files = {file.path: file for file in step.files}
        end = step.counters.get(LOG_END_OFFSET, 0)
        is_first = self.version < 0
        if is_first:
            self.first_version = step.version
        elif self._is_sure and (files.keys(), end) != (self._files.keys(), self._end or 0):
            sentence = (
                f"the checkpoint of version {step.version} says another state than the commits"
                " up to it"
            )
            self._findings.add("I15", sentence, version=step.version)
            return
        elif self._is_sure:
            return
        self._files, self._end, self.version, self._is_sure = files, end, step.version, True

    def _commit(self, step: TableCommit) -> None:
        self.version = step.version
        removed = [self._files.pop(path) for path in step.removes if path in self._files]
        self._files |= {file.path: file for file in step.adds}
        end = step.counters.get(LOG_END_OFFSET, self._end)
        expected = self._end if step.operation == MERGE else self._end_after(step, removed)
        if self._is_sure and (end or 0) != (expected or 0):
            sentence = f"the log says that it ends at {end}, its commits end at {expected}"
            self._findings.add("I10", sentence, version=step.version)
        self._end = end

    def _end_after(self, step: TableCommit, cut: Iterable[FileEntry]) -> int | None:
        """Return where the log ends after a commit: it may cut what a later leader does not have,
        and appends after that."""
        end = min((base for base in map(_base, cut) if base is not None), default=self._end)
        for file in step.adds:
            base = _base(file)
            if base != (end or 0) and self._is_sure:
                sentence = f"the file {file.path} begins at {base}, the log ended at {end or 0}"
                self._findings.add("I10", sentence, version=step.version)
            end = None if base is None else base + (file.record_count or 0)
        return end


def _base(file: FileEntry) -> int | None:
    text = file.values.get("base_offset")
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None


class VoterReader:
    """Reads one voter's root, and replays its table. `is_compared`: with others, record by record.

    Attributes:
        archive: What is read.
        trace: Its history.
        table: Its table, commit by commit.
        digests: Digests of its batches' records, by where they begin, as far as they were read.
        problem: Why it could not be read; None: it could.
    """

    def __init__(
        self,
        archive: MetadataArchive,
        *,
        is_deep: bool,
        is_compared: bool,
        findings: FindingList | None = None,
    ) -> None:
        self.archive = archive
        self._is_compared = is_compared
        self.trace = VoterTrace(archive.voter)
        self.table = MetadataTableReplay(findings or self.trace.findings)
        self.digests: dict[int, str] = {}
        self.problem: str | None = None
        self._is_deep = is_deep
        self._read_files: dict[str, int] = {}

    @property
    def voter_id(self) -> int:
        return self.archive.voter.key.node_id

    def catch_up(self) -> None:
        """Replay the commits since the last call.

        Raises:
            ClusterNotFoundError, CorruptLogError, KafkaStorageError, ReplicaLostError: The table
                can't be read at all.
        """
        is_first = self.table.version < 0
        steps = self.archive.steps(
            is_deep=self._is_deep and is_first, from_version=self.table.version + 1
        )
        for step in steps:
            if is_first or step.version > self.table.version:
                self.table.take(step)
                self._trace(step)

    def _trace(self, step: TableStep) -> None:
        if isinstance(step, TableDamage):
            if not step.is_checkpoint:
                self.trace.skip()
            return
        try:
            commit = self.archive.voter_commit(step)
        except CorruptLogError as error:
            self.trace.findings.add("I15", error.message, version=step.version)
            self.trace.skip()
            return
        self.trace.take(commit)

    def snapshots(self) -> Iterator[tuple[int, str]]:
        """Yield where the root's snapshots end, and their names: of all if deep, or the newest."""
        names = self.archive.snapshot_names()
        for name in names if self._is_deep else names[-1:]:
            end = name.split("-")[0]
            if end.isdecimal():
                yield int(end), name
            else:
                self.add_snapshot_flaw(name, "its name has no end offset")

    def add_snapshot_flaw(self, name: str, flaw: str) -> None:
        """Add the finding that a snapshot is not what it should be, unless it was deleted since it
        was listed: of older ones only a few stay."""
        if name in self.archive.snapshot_names():
            self.table.add("I15", f"the snapshot {name} is damaged: {flaw}", path=name)

    def rows(self, file: FileEntry, end: int) -> Iterator[MetadataRows]:
        """Yield the batches of a file, and note what those up to `end` hold.

        Raises:
            CorruptLogError: It is missing or damaged, perhaps after some batches.
        """
        for batch in self.archive.rows(file.path):
            self._read_files[file.path] = file.size_bytes
            is_compared = self._is_compared and not batch.is_expired  # on others it may be there
            if is_compared and batch.end_offset <= end:
                self.digests[batch.base_offset] = _digest(batch)
            yield batch

    def read_rows(self, end: int) -> None:
        """Read the files of the newest version, of the batches up to `end`."""
        read: set[str] = set()
        while (file := self.table.first_but(read)) is not None:
            read.add(file.path)
            try:
                deque(self.rows(file, end), maxlen=0)
            except CorruptLogError as error:
                if not self.has_replaced(file):
                    self.table.add("I15", error.message, path=file.path)

    def has_replaced(self, file: FileEntry) -> bool:
        """Return whether the table has put the rows of a file into another one meanwhile: then the
        file may be deleted."""
        self.catch_up()
        return file not in self.table.files

    def coverage(self, place: Place) -> Coverage:
        return Coverage(
            table=place,
            first_version=self.table.first_version,
            last_version=self.table.version,
            read_files=len(self._read_files),
            read_bytes=sum(self._read_files.values()),
        )


def _digest(batch: MetadataRows) -> str:
    """Return a digest of a batch's records. Where they stand in a file is not theirs."""
    rows = [[value for name, value in row.items() if name != "offset_delta"] for row in batch.rows]
    return blake2b(repr(rows).encode(), digest_size=16).hexdigest()


class VoterAudit:
    """One check of the voters.

    Attributes:
        main: The voter that is replayed: the leader, or who has the best log.
        others: Those that are held against it.
    """

    def __init__(
        self,
        archives: Sequence[MetadataArchive],
        unread: Mapping[Voter, str],
        findings: FindingList,
        *,
        is_deep: bool,
    ) -> None:
        first, *others = archives
        is_compared = is_deep and bool(others)
        self.main = VoterReader(first, is_deep=is_deep, is_compared=is_compared, findings=findings)
        self.others = [
            VoterReader(each, is_deep=is_deep, is_compared=is_compared) for each in others
        ]
        self._unread = unread
        self._is_deep = is_deep
        self._proved: tuple[RaftLog, RaftBatch] | None = None

    def catch_up(self) -> int:
        """Read what was committed since the last call, the others' first; return up to where the
        log is committed.

        Raises: as VoterReader.catch_up, of the main voter.
        """
        for each in self.others:
            if each.problem is None:
                self._catch_up(each)
        self.main.catch_up()
        log = self.main.trace.log
        proved = log.batch_before(log.proved_end)
        if self._proved is None and proved is not None:
            self._proved = (log, proved)
        return self._committed_end(log)

    def _catch_up(self, reader: VoterReader) -> None:
        try:
            reader.catch_up()
        except ProtocolError as error:
            reader.problem = error.message

    @property
    def _read(self) -> list[VoterTrace]:
        """The other voters that could be read."""
        return [each.trace for each in self.others if each.problem is None]

    def _committed_end(self, log: RaftLog) -> Offset:
        main = self.main.trace
        if main.leader != main.key:
            return log.proved_end
        held = {main.key: log.end_offset}
        for each in self._read:
            if (each.epoch, each.leader) == (main.epoch, main.key):
                held[each.key] = Offset(min(each.log.end_offset, log.end_offset))
        return Offset(max(counted_end(log, main.epoch, held) or 0, log.proved_end))

    def check_leader(self) -> None:
        """Check that nobody else was elected while the voters were read: what the main voter says
        is old then.

        Raises:
            KafkaStorageError: Somebody was.
        """
        main = self.main.trace
        if any(each.leader is not None and each.epoch > main.epoch for each in self._read):
            raise KafkaStorageError(
                "the metadata quorum elected another leader while it was checked: try again"
            )

    def findings(self) -> Iterator[Finding]:
        """Yield what was found, after the last call of `catch_up`."""
        unread = {int(voter.key.node_id): why for voter, why in self._unread.items()}
        unread |= {each.voter_id: each.problem for each in self.others if each.problem is not None}
        for voter in self._not_looked_for():
            unread[int(voter.key.node_id)] = (
                f"{voter.root} was not looked for, since the table that names it is damaged: give"
                " fsck this root, too"
            )
        for voter_id, why in sorted(unread.items()):
            sentence = f"the voter could not be checked: {why}"
            yield Finding(invariant=None, place=Place(voter_id=voter_id), sentence=sentence)
        found = {each.trace.key: each.trace.findings for each in (self.main, *self.others)}
        of_all = FindingList(Place())
        for flaw in self._flaws(len(unread)):
            place = of_all if flaw.key is None else found[flaw.key]
            place.add(flaw.invariant, flaw.sentence)
        for each in (of_all, *found.values()):
            yield from each.all()

    def _not_looked_for(self) -> list[Voter]:
        """Return the voters that only the replay of the main voter's table has named."""
        voters = self.main.trace.log.voters
        read = {self.main.trace.key, *(each.trace.key for each in self.others)}
        known = read | {each.key for each in self._unread}
        return [each for each in (voters.voters if voters else ()) if each.key not in known]

    def _flaws(self, unread: int) -> Iterator[VoterFlaw]:
        main, others = self.main.trace, self._read
        yield from voter_flaws([main, *others])
        yield from following_flaws(main, others)
        if self._proved is not None:
            log, proved = self._proved
            yield from committed_flaws(log.voters, proved, [main, *others], unread)
        if main.leader != main.key:
            sentence = (
                f"the leader of the metadata quorum could not be read: its log is checked as voter"
                f" {main.key} has it, up to {main.log.proved_end}"
            )
            yield VoterFlaw(None, None, sentence)
        if self._is_deep:
            yield from self._content_flaws()

    def _content_flaws(self) -> Iterator[VoterFlaw]:
        end = self._committed_end(self.main.trace.log)
        for reader in self.others:
            if reader.problem is None:
                reader.read_rows(end)
                yield from content_flaws(
                    reader.digests, self.main.digests, reader.trace.key, self.main.trace.key
                )

    def coverage(self) -> list[Coverage]:
        main = Place(voter_id=self.main.voter_id if self.others else None)
        return [
            self.main.coverage(main),
            *(
                each.coverage(Place(voter_id=each.voter_id))
                for each in self.others
                if each.problem is None
            ),
        ]

    def not_checked(self) -> list[str]:
        if self._is_deep or not self.others:
            return []
        names = ", ".join(str(each.voter_id) for each in self.others)
        return [
            f"the bytes of the metadata log on voters {names}: only their headers were held against"
            f" those of voter {self.main.voter_id} (Q7 in part)"
        ]
