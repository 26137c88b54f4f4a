"""What the services ask of the outside world. Implemented in storage/ and spark/.

A port is the narrowest question a service needs answered, in the service's words. Every
implementation, the tests' in-memory one too, passes tests/contract/.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from kafka_on_spark.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from kafka_on_spark.log.addresses import FoundTable, ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.cleaning import FoundFile
from kafka_on_spark.log.merged_segment import Border, LogPart, MergedSegment
from kafka_on_spark.log.producers import ProducerEntries
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

if TYPE_CHECKING:
    # Type-checking only: appenders and readers must not load what audits and sweeps.
    from kafka_on_spark.audit.history import FileEntry, TableStep
    from kafka_on_spark.audit.metadata.metadata_checks import MetadataRows
    from kafka_on_spark.audit.trace import CheckedSegment
    from kafka_on_spark.controller.pace.sweep import SweepPosition
    from kafka_on_spark.log.compaction.kept import CompactionFlaw

Order = TypeVar("Order")
Result = TypeVar("Result")


class ReplicaLog(Protocol):
    """One replica's table."""

    def load(self) -> ReplicaState:
        """Return the newest state; all records that it counts are durable.

        Raises:
            ReplicaLostError: There is no table, or it is not the replica of the address.
            InconsistentTopicIdError: It is another topic's.
            CorruptLogError: The table breaks an invariant of the log.
            KafkaStorageError: The root does not answer.
        """
        ...

    def commit(self, state: ReplicaState, change: LogChange) -> ReplicaState:
        """Commit `change` at the version after `state`; return the state that it leads to.

        The producer entries of a change are a file of their own, which is durable before the
        commit that names it.

        Raises:
            CommitConflictError: The table had moved on, or was another at the version of `state`:
                its disk was restored. `change` is not in it.
            CommitOutcomeUnknownError: The store failed. `change` may be in the table.
        """
        ...

    @property
    def producers_number(self) -> int:
        """Number of the producer-state file of the state that was last loaded; 0: it has none."""
        ...

    def maintain(self) -> None:
        """Write a checkpoint if one is due. Called after the answer; never fails the caller."""
        ...


class ReplicaStore(Protocol):
    """Opens and creates replicas."""

    def open(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`; nothing is read yet."""
        ...

    def open_uncached(self, address: ReplicaAddress) -> ReplicaLog:
        """Return the log at `address`, without what this process has cached of it.

        Its first `load` raises KafkaStorageError unless the root was the disk of the address
        both before and after.
        """
        ...

    def create(self, address: ReplicaAddress, *, leader_epoch: LeaderEpoch | None = None) -> None:
        """Create an empty table fenced at `leader_epoch`, or find the one of an earlier try.

        With the fence from the beginning the replica needs no commit to adopt that leadership: it
        has no records to truncate.

        Raises:
            KafkaStorageError: The root is not the disk of the address, or does not answer.
        """
        ...


class SegmentStore(Protocol):
    """Moves segment files between replicas' folders."""

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        """Copy `segments` to `target`, verified by size and digest, and durable.

        A segment that `target` has already, complete and undamaged, is not copied. `names` are the
        names in `target`, where they differ. `is_staged`: they were written to `target` just now,
        and flushed: one of the right size is complete and undamaged.

        Raises:
            CorruptLogError: The source's bytes are not what the name says.
            KafkaStorageError: A root does not answer; the error's `broker_id` says whose.
        """
        ...

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
        """Write what neighbouring `parts` of `source`'s log have in a range as one merged segment
        of `target`, under a new name of `leader_epoch`; return it.

        What is read is checked, what was written is read back, and it is durable. The parts are of
        one leadership and one kind of timestamps; the range begins and ends at borders.

        Raises:
            CorruptLogError: A file of `source` is missing or damaged, or the end is no border.
            KafkaStorageError: A root does not answer; of the source, the error's `broker_id` says
                so.
        """
        ...

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> tuple[Border, ...]:
        """Return the borders that a merged segment's file keeps, its end last; empty: none.

        Raises:
            CorruptLogError: The file is missing or damaged.
            KafkaStorageError: The root does not answer.
        """
        ...

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Check that a replica has a segment, with the bytes that its name says.

        Raises:
            CorruptLogError: It is missing or damaged.
            KafkaStorageError: The root does not answer.
        """
        ...


class ReplicaFolders(Protocol):
    """Lists and deletes files in replicas' folders, for cleaning.

    Each method raises KafkaStorageError if the root does not answer.
    """

    def names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder; none if there is no folder.

        Raises:
            ReplicaLostError: A link stands in the folder's place.
        """
        ...

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> list[FoundFile]:
        """Return those of the files that are there, with sizes and times."""
        ...

    def removed_at_ms(self, address: ReplicaAddress) -> Mapping[str, int]:
        """Return the files that the table has removed, and when, as far as its log still tells."""
        ...

    def now_ms(self, address: ReplicaAddress) -> int:
        """Return the time of the replica's root.

        Raises:
            KafkaStorageError: The root is not the disk of the address.
        """
        ...

    def clean_log(self, address: ReplicaAddress) -> int:
        """Delete old commits and checkpoints of a replica's table; return how many commits."""
        ...

    def delete(self, address: ReplicaAddress, names: Sequence[str]) -> None:
        """Delete files of a replica; one that is gone was deleted by another cleaner."""
        ...


class LastOffsets(Protocol):
    """The last offset of each key in a range of a log."""

    def __len__(self) -> int:
        """Return the number of keys."""
        ...


class Compactor(Protocol):
    """Reads the keys of a replica's segments, and rewrites segments without what goes."""

    def last_offsets(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        start_offset: Offset,
        end_offset: Offset,
    ) -> LastOffsets:
        """Return the last offset of each key in ``[start_offset, end_offset)``, of `parts`.

        Raises:
            CorruptLogError: A file is missing or damaged.
            KafkaStorageError: The root does not answer.
        """
        ...

    def without_stale(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        last: LastOffsets,
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
        leader_epoch: LeaderEpoch,
    ) -> MergedSegment | None:
        """Write neighbours as one segment without the records that go; None: none goes.

        Below `compacted_below` those go that `last` has a later offset for, those without a key,
        and tombstones below `tombstones_below`. The file is durable, under a new name of
        `leader_epoch`, and was read back.

        Raises: as `last_offsets`.
        """
        ...


class MetadataLog(Protocol):
    """An ordered log of metadata batches with compare-and-append."""

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the batches from `from_offset` on, oldest first.

        `to_offset`: only those that end there or before.
        """
        ...

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment: the base of the first batch of a later time.

        Clocks of committing processes differ, so times may go back. The first later time counts, so
        that a later moment never has fewer records.
        """
        ...

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> MetadataBatch:
        """Append a batch if the log still ends at `expected_offset`; return it.

        Raises:
            CommitConflictError: The log had moved on. The batch is not in it.
            CommitOutcomeUnknownError: The store failed. The batch may be in the log.
        """
        ...

    def maintain(self) -> None:
        """Write a checkpoint if one is due. Called after the answer; never fails the caller."""
        ...

    def clean(self, delay_ms: int, now_ms: int) -> int:
        """Delete files that merges replaced so long ago, and what else no reader needs; return how
        many files. `now_ms`: the wall clock."""
        ...

    def check_writable(self) -> None:
        """Check that this process may append, as far as can be seen without an append.

        Raises:
            RootAccessDeniedError: It may not.
        """
        ...

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot as a batch that ends at its end offset.

        `to_offset`: the newest of those that end there or before.
        """
        ...

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, unless they are there."""
        ...


class CommitLock(Protocol):
    """One process's hold on the commit lock of a metadata log. It saves conflicts, no more.

    Attributes:
        needs_refresh: Another process may have committed before: read the log first.
    """

    needs_refresh: bool = False

    def queued_reports(self) -> Sequence[bytes]:
        """Return the reports that waiting processes have queued, encoded, one item a process."""
        return ()

    def mark_committed(self) -> None:
        """Tell the processes whose reports were returned that these are decided and committed."""
        return


class _NoLock(CommitLock):
    """There is no lock to take, or another process has held it for too long."""


NO_LOCK: Final[CommitLock] = _NoLock()


class SweepHints(Protocol):
    """Keeps the progress of sweeps between rounds of different processes. It is never trusted."""

    def read(self, cluster_id: str) -> "SweepPosition | None":
        """Return the newest hint, by the wall clock; None if there is no valid one.

        Raises:
            KafkaStorageError: The metadata root does not answer.
        """
        ...

    def write(self, cluster_id: str, position: "SweepPosition") -> None:
        """Replace the last hint.

        Raises:
            KafkaStorageError: The metadata root does not answer, or takes no writes.
        """
        ...


class ReplicaArchive(Protocol):
    """Reads replicas' tables and folders as they are, for audits. Changes nothing."""

    def steps(self, address: ReplicaAddress, *, is_deep: bool) -> "Iterator[TableStep]":
        """Yield the steps of a replica's table, oldest first; deep: with every checkpoint.

        Raises:
            ReplicaLostError: There is no table.
            KafkaStorageError: The root is not the disk of the address, or does not answer.
        """
        ...

    def configuration(self, address: ReplicaAddress) -> dict[str, str]:
        """Return what the table at `address` must say of itself."""
        ...

    def file_names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder."""
        ...

    def producers(self, address: ReplicaAddress, number: int) -> ProducerEntries:
        """Return the entries in a replica's producer-state file.

        Raises:
            CorruptLogError: It is missing or damaged.
            KafkaStorageError: The root does not answer.
        """
        ...

    def check_segment(
        self, address: ReplicaAddress, file: "FileEntry", borders: Sequence[int]
    ) -> "CheckedSegment":
        """Return what is wrong with a segment's bytes, and what it holds between `borders`.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        ...

    def compaction_flaws(
        self,
        address: ReplicaAddress,
        files: "Sequence[FileEntry]",
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
    ) -> "Iterator[CompactionFlaw]":
        """Yield what in segments shows that they are not compacted, in memory that is bounded.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        ...


class ClusterArchive(Protocol):
    """Reads the metadata log and the roots as they are, for audits. Changes nothing."""

    def metadata_steps(self, *, is_deep: bool, from_version: int = 0) -> "Iterator[TableStep]":
        """Yield the steps of the metadata table from `from_version` on, oldest first.

        Raises:
            CorruptLogError: There is no table.
            KafkaStorageError: The root does not answer.
        """
        ...

    def metadata_rows(self, name: str) -> "list[MetadataRows]":
        """Return the commits in one of the metadata table's files.

        Raises:
            CorruptLogError: It is missing or damaged.
        """
        ...

    def snapshot_names(self) -> list[str]:
        """Return the names of the snapshots, oldest first."""
        ...

    def snapshot(self, name: str) -> "MetadataRows":
        """Return a snapshot's rows, as a commit that ends at the offset in its name.

        Raises:
            CorruptLogError: It is damaged.
        """
        ...

    def check_root(self, root: str, directory_id: DirectoryId) -> None:
        """Check that a broker's root is the disk that it was.

        Raises:
            KafkaStorageError: It is another or none, or does not answer.
        """
        ...

    def tables_on(self, broker_id: BrokerId, root: str) -> list[FoundTable]:
        """Return the folders on a root that are named like replicas'.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        ...

    def replica_folder(self, address: ReplicaAddress) -> str:
        """Return the URL of a replica's folder."""
        ...


class TaskRunner(Protocol):
    """Runs a task function on each order, on executors or in threads."""

    def run(self, task: Callable[[Order], Result], orders: Sequence[Order]) -> list[Result]:
        """Return one result an order, in order. `task` may run twice for an order."""
        ...


class Clock(Protocol):
    """Time. No rule of safety rests on it."""

    def now_ms(self) -> int:
        """Return the wall clock, ms since 1970 UTC."""
        ...

    def monotonic_ms(self) -> int:
        """Return a clock of this process that never goes back."""
        ...

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait."""
        ...
