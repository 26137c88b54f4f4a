"""What the services ask of replicas: logs, segments, folders, and what compaction needs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.merged_segment import Border, LogPart, MergedSegment
from kafka_on_spark.log.state import LogChange, ReplicaState

if TYPE_CHECKING:
    from kafka_on_spark.log.cleaning import FoundFile


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
    """Looks at, lists and deletes files in replicas' folders, for upkeep.

    Each method raises KafkaStorageError if the root does not answer.
    """

    def names(self, address: ReplicaAddress) -> list[str]:
        """Return the names of the files in a replica's folder; none if there is no folder.

        Raises:
            ReplicaLostError: A link stands in the folder's place.
        """
        ...

    def found(self, address: ReplicaAddress, names: Iterable[str]) -> "list[FoundFile]":
        """Return those of the files that are there, with sizes and times."""
        ...

    def too_large_to_merge(
        self, address: ReplicaAddress, parts: Iterable[LogPart]
    ) -> frozenset[Segment]:
        """Return the files of those parts of a log that are too large to be merged with a neighbour
        once they are uncompressed: any two others fit into one file.

        Little of them is read, and what can't be read is not among them. Those that were found
        before may be returned alone: leave them out, and ask again.
        """
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

    def fitting(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> int:
        """Return how many of some neighbours, from the first on, one file may hold once they are
        uncompressed; one at least.

        Little of them is read, and what can't be read counts for nothing.

        Raises:
            KafkaStorageError: The root does not answer.
        """
        ...

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
