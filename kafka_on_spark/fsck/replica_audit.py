"""I1, I15, I25, I27: the audit of one replica, with its segments if deep. Runs in a task.

It answers with a trace and never raises for what a root or a table does: a part that can't be read
is a finding, and the audit of other replicas goes on. One table's history is in memory at a time.

Segments take long to read, and meanwhile some may be merged into others and deleted. So a segment
that is missing is damage only if the log, read on, names it still; else the audit goes on with
those that it names by then.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.fsck.archive import ReplicaArchive
from kafka_on_spark.fsck.findings import Finding, FindingList
from kafka_on_spark.fsck.replica import PRODUCER_STATE, ReplicaReplay
from kafka_on_spark.fsck.trace import CheckedSegment, ContentSum, ReplicaTrace
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.producer_state import producers_file_name
from kafka_on_spark.log.replicas import configuration_of
from kafka_on_spark.log.state import ProducerEntries
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.store.delta.history import FileEntry, TableCommit, TableDamage, TableStep

READS_MAX: Final = 20
"""How often the log is read on for files that are gone, at most: they stay there for
`file.delete.delay.ms`, and most are read by then."""


class SegmentsRead(NamedTuple):
    """What was read of a replica's segments.

    Attributes:
        files: How many were read.
        size_bytes: Their bytes.
        contents: Their records between each two borders; None: they are damaged.
        findings: What shows that they are not compacted.
    """

    files: int = 0
    size_bytes: int = 0
    contents: tuple[ContentSum, ...] | None = None
    findings: tuple[Finding, ...] = ()


NOTHING_READ: Final = SegmentsRead()


class FollowedLog:
    """A replica's log, replayed as far as it went when it was read last."""

    def __init__(
        self,
        address: ReplicaAddress,
        replay: ReplicaReplay,
        archive: ReplicaArchive,
        *,
        is_deep: bool,
    ) -> None:
        self.address = address
        self.replay = replay
        self._archive = archive
        self._is_deep = is_deep
        self._version = -1

    def catch_up(self) -> None:
        """Replay the steps that have come since the last time.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root does not answer, or some of them are deleted already.
        """
        known = self._version
        for step in self._archive.steps(self.address, is_deep=self._is_deep):
            if step.version <= known:
                continue
            if self._version == known >= 0 and not _goes_on(known, step):
                raise KafkaStorageError(
                    f"commits after version {known} were deleted before they were read: try again"
                )
            self.replay.take(step)
            if not _is_of_checkpoint(step):
                self._version = step.version

    def names(self, paths: Set[str]) -> bool:
        self.catch_up()
        return paths <= {entry.path for entry in self.replay.active_entries}


def _goes_on(version: int, step: TableStep) -> bool:
    """Return whether a step is the next after `version`, and not one that replaces others."""
    is_commit = isinstance(step, TableCommit | TableDamage) and step.version == version + 1
    return is_commit or _is_of_checkpoint(step)


def _is_of_checkpoint(step: TableStep) -> bool:
    """Return whether a step is damage that no commit has, at whatever version it says."""
    return isinstance(step, TableDamage) and step.is_checkpoint


def read_segments(
    log: FollowedLog, archive: ReplicaArchive, borders: Sequence[int]
) -> SegmentsRead:
    """Read every segment that the log names, and check what they hold together.

    Raises:
        KafkaStorageError: The root does not answer, or segments were deleted faster than they were
            read.
    """
    reading = _Reading(log, archive, borders)
    for _ in range(READS_MAX):
        read = reading.read_on()
        if read is not None:
            return read
    raise KafkaStorageError(
        f"segments were merged and deleted while they were read, {READS_MAX} times: try again"
    )


class _Reading:
    """What was read so far of a replica's segments, each of which is read once."""

    def __init__(self, log: FollowedLog, archive: ReplicaArchive, borders: Sequence[int]) -> None:
        self._log = log
        self._archive = archive
        self._borders = borders
        self._sums: dict[str, tuple[ContentSum, ...] | None] = {}
        self._size_bytes = 0

    def read_on(self) -> SegmentsRead | None:
        """Read the segments that were not read yet; None: the log is further than it was, since
        it has removed one that is gone."""
        entries = self._log.replay.active_entries
        for entry in entries:
            if entry.path in self._sums:
                continue
            checked = self._archive.check_segment(self._log.address, entry, self._borders)
            if checked.is_missing and not self._log.names({entry.path}):
                return None
            self._take(entry, checked)
        contents = self._contents_of(entries)
        findings = () if contents is None else self._compaction_findings(entries)
        if findings is None:
            return None
        return SegmentsRead(len(self._sums), self._size_bytes, contents, findings)

    def _take(self, entry: FileEntry, checked: CheckedSegment) -> None:
        self._size_bytes += entry.size_bytes
        if checked.flaw is not None:
            self._sums[entry.path] = None
            _add_flaw(self._log.replay.findings, entry, checked.flaw)
            return
        self._sums[entry.path] = checked.sums
        if entry.values.get("content_digest") is not None:
            self._log.replay.check_borders(entry.path, checked.ends)

    def _contents_of(self, entries: Sequence[FileEntry]) -> tuple[ContentSum, ...] | None:
        contents = [ContentSum()] * (len(self._borders) - 1)
        for entry in entries:
            sums = self._sums[entry.path]
            if sums is None:
                return None
            contents = [each.plus(more) for each, more in zip(contents, sums, strict=True)]
        return tuple(contents)

    def _compaction_findings(self, entries: Sequence[FileEntry]) -> tuple[Finding, ...] | None:
        """Check that what the replica has finished shows in its records (I27); None: as above."""
        replay = self._log.replay
        progress, findings = replay.compaction, FindingList(replay.findings.place)
        if not progress.finished_below:
            return ()
        flaws = self._archive.compaction_flaws(
            self._log.address,
            entries,
            compacted_below=progress.finished_below,
            # While it is at work, tombstones are there still.
            tombstones_below=progress.tombstones_below if progress.is_finished else Offset(0),
        )
        try:
            for offset, sentence in flaws:
                findings.add("I27", sentence, offset=offset)
        except KafkaStorageError:
            if self._log.names({entry.path for entry in entries}):
                raise
            return None
        return findings.all()


def _add_flaw(findings: FindingList, entry: FileEntry, flaw: str) -> None:
    base = entry.values.get("base_offset")
    is_offset = base is not None and base.isdecimal() and len(base) < 20
    offset = int(base) if base is not None and is_offset else None
    findings.add("I15", flaw, path=entry.path, offset=offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOrder:
    """Which replica to audit.

    Attributes:
        address: The replica.
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


def audit_replica(order: AuditOrder, archive: ReplicaArchive) -> ReplicaTrace:
    address = order.address
    replay = ReplicaReplay(address, configuration_of(address.identity), order.expired_epochs)
    read, forgotten = NOTHING_READ, tuple[tuple[str, int], ...]()
    try:
        log = FollowedLog(address, replay, archive, is_deep=order.is_deep)
        log.catch_up()
        forgotten = _compare_producers(order, replay, archive)
        if order.is_deep:
            read = read_segments(log, archive, order.borders)
    except ReplicaLostError as error:
        # Its disk is there, and its table is not.
        invariant = "I1" if order.is_in_sync else None
        replay.findings.add(invariant, f"the replica is lost: {error.message}")
    except KafkaOnSparkError as error:
        replay.findings.add(None, f"the replica could not be checked: {error.message}")
        return replace(replay.trace(), is_read=False)
    trace = replay.trace()
    return replace(
        trace,
        findings=(*trace.findings, *read.findings),
        forgotten_producers=forgotten,
        contents=read.contents,
        read_files=read.files,
        read_bytes=read.size_bytes,
    )


def _compare_producers(
    order: AuditOrder, replay: ReplicaReplay, archive: ReplicaArchive
) -> tuple[tuple[str, int], ...]:
    """Compare the producer state with the log's history; return the producers that it lacks."""
    file, number = replay.producers_file, replay.producer_state
    entries: ProducerEntries = {}
    try:
        if number:
            entries = archive.producers(order.address, file)
    except CorruptLogError as error:
        later = archive.steps(order.address, is_deep=False)
        if all(_named_by(step) <= number for step in later):  # else it may be cleaned by now
            replay.findings.add("I15", error.message, path=producers_file_name(number))
        return ()
    return replay.compare_producers(entries)


def _named_by(step: TableStep) -> int:
    return 0 if isinstance(step, TableDamage) else step.counters.get(PRODUCER_STATE, 0)


def audit_task(order: AuditOrder, worker: Worker) -> ReplicaTrace:
    """Check one replica's history; read only. A task."""
    return audit_replica(order, ReplicaArchive(worker.options))
