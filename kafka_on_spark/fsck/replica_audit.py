"""I1, I15, I27: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.
Every read is of the files as they are, and nothing is cached: what a process remembers of a table
does not count here. Never writes.

Segments take long to read, and meanwhile some may be merged into others and deleted. So a segment
that is missing is damage only if the log, read on, names it still; else the audit goes on with
those that it names by then.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.findings import Finding, FindingList
from kafka_on_spark.fsck.replica import ReplicaReplay
from kafka_on_spark.fsck.segment_checks import (
    CheckedSegment,
    bytes_flaw,
    check_content,
    compaction_flaws,
    is_merged,
)
from kafka_on_spark.fsck.trace import ContentSum, ReplicaTrace
from kafka_on_spark.log.batch import is_segment_name
from kafka_on_spark.log.producer_files import read_producers
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.replicas import PRODUCER_STATE
from kafka_on_spark.log.segments import check_no_link
from kafka_on_spark.log.state import ProducerEntries, ReplicaAddress
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.store.delta.delta_files import FileEntry, TableCommit, TableDamage, TableStep
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.error_translation import as_storage_errors
from kafka_on_spark.store.local_files import PRODUCERS_BYTES_MAX, SEGMENT_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.root_identity import check_directory
from kafka_on_spark.store.roots import RootFiles, StorageOptions

READS_MAX: Final = 20
"""How often the log is read on for files that are gone, at most: they stay there for
`file.delete.delay.ms`, and most are read by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """Which replica to audit.

    Attributes:
        is_in_sync: It is in the ISR, so it must have all that is committed.
        is_deep: The audit also reads its segments and all of its checkpoints.
        borders: Offsets between which the records in its segments are added up.
        expired_epochs: With which epochs producer ids have expired that came back since.
    """

    address: ReplicaAddress
    is_in_sync: bool
    is_deep: bool
    borders: tuple[int, ...]
    expired_epochs: Mapping[str, Sequence[int]] = field(default_factory=dict)


def audit_task(order: AuditOrder, worker: Worker) -> ReplicaTrace:
    """Check one replica's history; read only. A task."""
    return ReplicaAudit(order, worker.options).run()


class ReplicaAudit:
    """Reads one replica: the steps of its log, the producer state, each segment once."""

    def __init__(self, order: AuditOrder, options: StorageOptions) -> None:
        self._order = order
        self._address = order.address
        self._options = options
        self._replay = ReplicaReplay(order.address, order.expired_epochs)
        self._version = -1
        self._sums: dict[str, tuple[ContentSum, ...] | None] = {}  # by path; None: it has a flaw
        self._size_bytes = 0
        self._uncompacted: tuple[Finding, ...] = ()

    def run(self) -> ReplicaTrace:
        findings, contents = self._replay.findings, None
        forgotten: tuple[tuple[str, int], ...] = ()
        try:
            self._catch_up()
            forgotten = self._compare_producers()
            if self._order.is_deep:
                contents = self._read_segments()
        except ReplicaLostError as error:
            # Its disk is there, and its table is not.
            invariant = "I1" if self._order.is_in_sync else None
            findings.add(invariant, f"the replica is lost: {error.message}")
        except KafkaOnSparkError as error:
            findings.add(None, f"the replica could not be checked: {error.message}")
            return replace(self._replay.trace(), is_read=False)
        trace = self._replay.trace()
        return replace(
            trace,
            findings=(*trace.findings, *self._uncompacted),
            forgotten_producers=forgotten,
            contents=contents,
            read_files=len(self._sums),
            read_bytes=self._size_bytes,
        )

    def _catch_up(self) -> None:
        """Replay the steps that have come since the last time.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root does not answer, or some of them are deleted already.
        """
        known = self._version
        for step in self._steps(is_deep=self._order.is_deep):
            if step.version <= known:
                continue
            # Damage that no commit has may say whatever version.
            is_of_checkpoint = isinstance(step, TableDamage) and step.is_checkpoint
            is_next = isinstance(step, TableCommit | TableDamage) and step.version == known + 1
            if self._version == known >= 0 and not (is_next or is_of_checkpoint):
                raise KafkaStorageError(
                    f"commits after version {known} were deleted before they were read: try again"
                )
            self._replay.take(step)
            if not is_of_checkpoint:
                self._version = step.version

    def _steps(self, *, is_deep: bool) -> Iterator[TableStep]:
        """Yield the steps of the replica's table, oldest first; deep: with every checkpoint.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root is not the disk of the address, or does not answer.
        """
        address = self._address
        check_directory(address.root, address.directory_id, self._options)
        check_no_link(address)
        files, folder = RootFiles(address.root, self._options), address.folder
        try:
            with as_storage_errors(f"read the table at {folder}", self._options):
                yield from table_steps(files, folder, has_all_checkpoints=is_deep)
        except ReplicaLostError:
            check_directory(address.root, address.directory_id, self._options)
            raise
        # What was missing while the disk was away is not missing.
        check_directory(address.root, address.directory_id, self._options)

    def _compare_producers(self) -> tuple[tuple[str, int], ...]:
        """Compare the producer state with the log's history; return the producers that it lacks."""
        file, folder = self._replay.counters.producers, self._address.folder
        files = RootFiles(self._address.root, self._options)
        entries: ProducerEntries = {}
        try:
            if file.number:
                with as_storage_errors(f"read the producer state at {folder}", self._options):
                    entries = read_producers(
                        lambda name: files.read(f"{folder}/{name}", PRODUCERS_BYTES_MAX),
                        self._address.replica_uuid,
                        file,
                    )
        except CorruptLogError as error:
            later = (
                0 if isinstance(step, TableDamage) else step.counters.get(PRODUCER_STATE, 0)
                for step in self._steps(is_deep=False)
            )
            if max(later, default=0) <= file.number:  # else it may be cleaned by now
                path = producers_file_name(file.number)
                self._replay.findings.add("I15", error.message, path=path)
            return ()
        return self._replay.producers.compare(entries)

    def _read_segments(self) -> tuple[ContentSum, ...] | None:
        """Read every segment that the log names, and check what they hold together; return their
        records between each two borders; None: they are damaged.

        Raises:
            KafkaStorageError: The root does not answer, or segments were deleted faster than they
                were read.
        """
        for _ in range(READS_MAX):
            entries = list(self._replay.log.entries.values())
            if not self._read_on(entries):
                continue
            contents = self._contents_of(entries)
            if contents is None or self._check_compaction(entries):
                return contents
        raise KafkaStorageError(
            f"segments were merged and deleted while they were read, {READS_MAX} times: try again"
        )

    def _read_on(self, entries: Sequence[FileEntry]) -> bool:
        """Read the segments that were not read yet; return False if the log is further than it was,
        since it has removed one that is gone."""
        for entry in entries:
            if entry.path in self._sums:
                continue
            content = self._content(entry)
            if isinstance(content, CheckedSegment):
                checked = content
            else:
                checked = check_content(content, entry, self._order.borders)
            if checked.is_missing and not self._still_names({entry.path}):
                return False
            self._take(entry, checked)
        return True

    def _still_names(self, paths: Set[str]) -> bool:
        self._catch_up()
        return paths <= self._replay.log.entries.keys()

    def _take(self, entry: FileEntry, checked: CheckedSegment) -> None:
        self._size_bytes += entry.size_bytes
        if checked.flaw is None:
            self._sums[entry.path] = checked.sums
            if is_merged(entry):
                compacted_below = self._replay.compaction.compacted_below
                self._replay.log.check_borders(entry.path, checked.ends, compacted_below)
            return
        self._sums[entry.path] = None
        base = entry.values.get("base_offset")
        is_offset = base is not None and base.isdecimal() and len(base) < 20
        offset = int(base) if base is not None and is_offset else None
        self._replay.findings.add("I15", checked.flaw, path=entry.path, offset=offset)

    def _contents_of(self, entries: Sequence[FileEntry]) -> tuple[ContentSum, ...] | None:
        contents = [ContentSum()] * (len(self._order.borders) - 1)
        for entry in entries:
            sums = self._sums[entry.path]
            if sums is None:
                return None
            contents = [each.plus(more) for each, more in zip(contents, sums, strict=True)]
        return tuple(contents)

    def _check_compaction(self, entries: Sequence[FileEntry]) -> bool:
        """Check that what the replica has finished shows in its records (I27); return False as
        above."""
        progress = self._replay.compaction
        if not progress.finished_below:
            return True
        flaws = compaction_flaws(
            entries,
            self._sound_content,
            compacted_below=progress.finished_below,
            # While it is at work, tombstones are there still.
            tombstones_below=progress.tombstones_below if progress.is_finished else Offset(0),
        )
        found = FindingList(self._replay.findings.place)
        try:
            for offset, sentence in flaws:
                found.add("I27", sentence, offset=offset)
        except KafkaStorageError:
            if self._still_names({entry.path for entry in entries}):
                raise
            return False
        self._uncompacted = found.all()
        return True

    def _sound_content(self, file: FileEntry) -> bytes:
        content = self._content(file)
        if isinstance(content, CheckedSegment):
            raise KafkaStorageError(f"{content.flaw}, since it was read first: try again")
        return content

    def _content(self, file: FileEntry) -> bytes | CheckedSegment:
        """Return a segment's bytes, whose digest is right; or what is wrong.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        if not is_segment_name(file.path):
            return CheckedSegment(
                flaw=f"the file {file.path} is no segment by its name, and was not read"
            )
        path = f"{self._address.folder}/{file.path}"
        try:
            with as_storage_errors(f"read {path}", self._options):
                content = RootFiles(self._address.root, self._options).read(
                    path, min(file.size_bytes, SEGMENT_BYTES_MAX)
                )
        except UnsafeFileError as error:
            return CheckedSegment(flaw=f"the segment {file.path}: {error.message}")
        if content is None:
            return CheckedSegment(flaw=f"the segment {file.path} is missing", is_missing=True)
        flaw = bytes_flaw(content, file)
        return content if flaw is None else CheckedSegment(flaw=flaw)
