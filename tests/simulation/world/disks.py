"""What stands on the disks: tables, files and the metadata log, with no process's view of them.

Every change goes through here and is told to the observer at once, so that the invariants are
checked after each effect, whichever process waits for its reply. A segment's content is its digest,
and both are its values, so that a copy can be verified, a bit can rot and a record can be
recognised without any encoding. In a merged segment each value has its offset's distance from the
base before it: records may be missing there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.errors import KafkaStorageError, RootFullError, RootReadOnlyError
from kafka_on_spark.base.ids import BrokerId, DirectoryId, LeaderEpoch, Offset
from kafka_on_spark.log.batch import LogPart, Segment
from kafka_on_spark.log.state import (
    LogChange,
    ReplicaAddress,
    ReplicaIdentity,
    ReplicaState,
)
from kafka_on_spark.log.unnamed_files import files_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from tests.merged_files import Borders

if TYPE_CHECKING:
    from tests.simulation.checks.checker import Checker

NO_RECORDS: Final = "none"
"""The digest of a merged segment without records."""

Row = tuple[int, int]
"""(offset, value)."""


@lru_cache(maxsize=100_000)
def rows_in(segment: Segment, base_offset: int) -> tuple[Row, ...]:
    """Return the records of a segment that begins at `base_offset`, in order."""
    if segment.digest == NO_RECORDS:
        return ()
    texts = [text.rpartition("x") for text in segment.digest.split("_")]
    return tuple(
        (base_offset + int(delta or place), int(value))
        for place, (delta, _, value) in enumerate(texts)
    )


def rows_of(part: LogPart) -> tuple[Row, ...]:
    return tuple(row for segment, base, _ in part.ranges() for row in rows_in(segment, base))


def digest_of(rows: Sequence[Row], base_offset: int) -> str:
    """Return the digest of a merged segment's file that has these records."""
    return "_".join(f"{at - base_offset}x{value}" for at, value in rows) or NO_RECORDS


def folder(address: ReplicaAddress) -> str:
    return f"{address.key.topic_id}/{address.key.partition}-{address.replica_uuid}"


class Table:
    """One replica's Delta table: every version's state.

    Attributes:
        identity: Which replica it is.
        states: By version.
        is_suspect: Its disk lost commits: what is in it is no fault of the code.
        is_emptied: Its last commit file has no bytes.
        verified: Up to where its log is known to be what was committed.
        forgotten: What its disk had there and lost, each time, until the checker knows.
        removed: The files that its commits have removed.
    """

    def __init__(self, identity: ReplicaIdentity, leader_epoch: LeaderEpoch | None = None) -> None:
        self.identity = identity
        self.states = [ReplicaState(identity=identity, leader_epoch=leader_epoch)]
        self.is_suspect = False
        self.is_emptied = False
        self.verified = 0
        self.forgotten: list[ReplicaState] = []
        self.removed: set[str] = set()

    @property
    def state(self) -> ReplicaState:
        return self.states[-1]


@dataclass(slots=True)
class Root:
    """One broker's disk.

    Attributes:
        directory_id: Which disk it is; None: it was wiped, identity and all.
        can_read, can_write: It answers; neither: it was renamed away or is unmounted.
        is_full: Nothing new fits.
        is_nearly_full: Small writes fit, as commits and probes are, and no file of records.
        failing_calls: So many of the next calls fail (a burst of 503, one EIO).
        rotten: Files whose bytes are not what they were, by folder and path.
        damaged: Folders in which a file was damaged once. It may have been put right, or removed by
            retention, since a process inspected it.
        lost: What stood in folders that this disk has lost, or that were removed: a late task may
            make a table there again.
        whole: Folders that had all of their files when the disk was wiped: a process that read before may
            still say so.
        clock_ahead_ms: Its clock, which times what is written to it, is wrong by this.
    """

    broker_id: BrokerId
    url: str
    directory_id: DirectoryId | None
    can_read: bool = True
    can_write: bool = True
    is_full: bool = False
    is_nearly_full: bool = False
    failing_calls: int = 0
    tables: dict[str, Table] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    rotten: set[tuple[str, str]] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)
    lost: dict[str, ReplicaState] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    clock_ahead_ms: int = 0

    def check_reads(self) -> None:
        if not self.can_read:
            raise KafkaStorageError("the root does not answer")
        self._check_burst()

    def check_writes(self, *, is_small: bool = True) -> None:
        """Refuse if the root takes no new bytes."""
        if not self.can_read:
            raise KafkaStorageError("the root does not answer")
        if not self.can_write:
            raise RootReadOnlyError("read-only file system")
        if self.is_full or (self.is_nearly_full and not is_small):
            raise RootFullError("no space left on the root")
        self._check_burst()

    def _check_burst(self) -> None:
        if self.failing_calls:
            self.failing_calls -= 1
            raise KafkaStorageError("503 Slow Down")

    def check_directory(self, address: ReplicaAddress) -> None:
        """Refuse if it is another disk than `address` names."""
        if self.directory_id != address.directory_id:
            raise KafkaStorageError("the root is not the disk it was")

    def is_whole(self, place: str) -> bool:
        table = self.tables.get(place)
        if table is None or table.is_emptied:
            return False
        files = self.files.get(place, {})
        return all(
            files.get(segment.file_name) == segment.digest
            for batch in table.state.batches
            for segment in batch.segments
        )


class Disks:
    """The roots of a cluster and its metadata log."""

    def __init__(self) -> None:
        self.roots: dict[str, Root] = {}
        self.batches: list[MetadataBatch] = []
        self.image = MetadataImage()
        self.snapshots: list[MetadataBatch] = []
        self.observer: Checker | None = None
        self.is_metadata_away = False
        self.sweep_hint: bytes | None = None
        self.borders: dict[str, Borders] = {}
        """Of merged segments' files, by the uuid in their names."""

    def add(self, broker_id: int) -> Root:
        """Put a new disk where `broker_id`'s root is."""
        url = f"disk://{broker_id}"
        root = Root(BrokerId(broker_id), url, DirectoryId(f"disk{broker_id}"))
        self.roots[url] = root
        return root

    def root_of(self, broker_id: int) -> Root:
        return self.roots[f"disk://{broker_id}"]

    def table(self, address: ReplicaAddress) -> Table | None:
        return self.roots[address.root].tables.get(folder(address))

    def commit(self, address: ReplicaAddress, version: int, change: LogChange) -> bool:
        """Put a commit at `version` if that is the next one; return whether it is."""
        table = self.table(address)
        if table is None or table.state.version + 1 != version:
            return False
        before = table.state
        table.states.append(before.apply(change))
        if self.observer is not None:
            self.observer.on_commit(self.roots[address.root], table, before, change)
        table.removed |= files_of(before) - files_of(table.state)
        return True

    def unlink(self, root: Root, place: str, name: str) -> None:
        """Delete one file, if it is there."""
        if root.files.get(place, {}).pop(name, None) is not None and self.observer is not None:
            self.observer.on_unlink(root, place, name)

    def remove(self, root: Root, place: str) -> None:
        """Remove a replica's folder, if it is there."""
        table, files = root.tables.pop(place, None), root.files.pop(place, None)
        if table is not None:
            root.lost[place] = table.state
        if self.observer is not None and (table is not None or files is not None):
            self.observer.on_remove(place)

    def append_metadata(
        self, records: Sequence[Record], stamp: Stamp, expected_offset: Offset
    ) -> MetadataBatch | None:
        """Append to the metadata log if it ends at `expected_offset`; return the batch."""
        if self.image.offset != expected_offset:
            return None
        batch = MetadataBatch(base_offset=expected_offset, stamp=stamp, records=tuple(records))
        before = self.image
        self.image = before.replay(batch)
        self.batches.append(batch)
        if self.observer is not None:
            self.observer.on_metadata(before, self.image, batch)
        return batch

    def replica_table(self, partition: Any, key: Any, broker_id: BrokerId) -> Table | None:
        """Return the table of an assigned replica under its uuid of now, on its disk of now."""
        root = self.root_of(broker_id)
        uuid = partition.uuid_of(broker_id)
        return root.tables.get(f"{key.topic_id}/{key.partition}-{uuid}")
