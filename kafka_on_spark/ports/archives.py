"""What audits ask of the tables of replicas and of a cluster, version by version."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kafka_on_spark.ids import DirectoryId, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.producers import ProducerEntries, ProducersFile
from kafka_on_spark.raft.voter_set import Voter

if TYPE_CHECKING:
    # Type-checking only: appenders and readers must not load what audits and sweeps.
    from kafka_on_spark.audit.history import FileEntry, TableCheckpoint, TableCommit, TableStep
    from kafka_on_spark.audit.metadata.metadata_checks import MetadataRows
    from kafka_on_spark.audit.metadata.voter_trace import VoterCommit
    from kafka_on_spark.audit.trace import CheckedSegment
    from kafka_on_spark.log.compaction.flaws import CompactionFlaw


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

    def producers(self, address: ReplicaAddress, file: ProducersFile) -> ProducerEntries:
        """Return the entries in the producer-state file that a replica's commits name.

        Raises:
            CorruptLogError: It is missing or damaged, or another one.
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


class MetadataArchive(Protocol):
    """Reads one voter's metadata root as it is, for audits. Changes nothing."""

    @property
    def voter(self) -> Voter:
        """Which voter, and its root."""
        ...

    def steps(self, *, is_deep: bool, from_version: int = 0) -> "Iterator[TableStep]":
        """Yield the steps of the voter's table from `from_version` on, oldest first.

        Raises:
            CorruptLogError: There is no table.
            ClusterNotFoundError: The root was emptied.
            KafkaStorageError: The root does not answer.
        """
        ...

    def voter_commit(self, step: "TableCommit | TableCheckpoint") -> "VoterCommit":
        """Return what a step says of the voter.

        Raises:
            CorruptLogError: Nothing that can be: it is damaged.
        """
        ...

    def rows(self, name: str) -> "Iterator[MetadataRows]":
        """Yield the commits in one of the table's files.

        Raises:
            CorruptLogError: It is missing or damaged, perhaps after some commits.
        """
        ...

    def snapshot_names(self) -> list[str]:
        """Return the names of the root's snapshots, oldest first."""
        ...

    def snapshot(self, name: str) -> "MetadataRows":
        """Return a snapshot's rows, as a commit that ends at the offset in its name.

        Raises:
            CorruptLogError: It is damaged.
        """
        ...


class ClusterArchive(Protocol):
    """Reads the metadata roots and the brokers' as they are, for audits. Changes nothing."""

    def voters(self) -> tuple[Sequence[MetadataArchive], Mapping[Voter, str]]:
        """Return the roots of the newest set of voters that any of them names, the leader's first,
        else the one with the best log; and why others of them can't be read.

        Raises:
            ClusterNotFoundError, KafkaStorageError: None can.
        """
        ...

    def check_root(self, root: str, directory_id: DirectoryId) -> None:
        """Check that a broker's root is the disk that it was.

        Raises:
            KafkaStorageError: It is another or none, or does not answer.
        """
        ...
