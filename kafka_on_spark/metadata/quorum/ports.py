"""What the quorum asks of a voter's root, and of whoever lets it ask several at once.

Apart from the other ports, since only this folder asks them. Every implementation of VoterLog, the
tests' in-memory one too, passes tests/contract/test_voter_log_contract.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.quorum.raft_log import OffsetAndEpoch
from kafka_on_spark.metadata.quorum.voter_set import Voter, VoterKey
from kafka_on_spark.metadata.quorum.voter_table import TableChange, VoterTable
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

T = TypeVar("T")

UNREADABLE: Final = (ClusterNotFoundError, CorruptLogError, KafkaStorageError, ReplicaLostError)
"""Why a voter can't be read; another one may."""


class VoterLog(Protocol):
    """One voter's table, as this process follows it. Threads may share it.

    It is the table of one directory: a root that was emptied, and made again, has another.
    """

    def load(self) -> VoterTable:
        """Return the newest table. All that it says is durable: commits are flushed here, whoever
        made them, so a voter may be counted for what was loaded.

        Raises:
            ReplicaLostError: There is no table of this directory, or it went back behind what this
                process has seen.
            ClusterNotFoundError: The root was emptied, and has another directory now.
            CorruptLogError: The table breaks an invariant of the log.
            KafkaStorageError: The root does not answer.
        """
        ...

    def is_newest(self, table: VoterTable) -> bool:
        """Return whether no commit follows `table`, which was loaded or committed here: one look.
        Not so where the table went back: `load` says why.

        Raises: as `load`.
        """
        ...

    def commit(
        self, table: VoterTable, change: TableChange, source: "VoterLog | None" = None
    ) -> VoterTable:
        """Commit `change` at the version after `table`; return the table that it leads to.

        What it appends is copied from `source` first, and is durable before the commit.

        Raises:
            CommitConflictError: The table had moved on. `change` is not in it.
            CommitOutcomeUnknownError: The store failed. `change` may be in the table.
            CorruptLogError: `source` lacks a batch, or has a damaged one. Nothing was put.
            KafkaStorageError: A root does not answer. Nothing was put.
        """
        ...

    def append(self, table: VoterTable, change: TableChange, batch: MetadataBatch) -> VoterTable:
        """Do as `commit`; the one batch that `change` appends holds the records of `batch`.

        Raises: as `commit`.
        """
        ...

    def read(self, *, from_offset: Offset, to_offset: Offset) -> list[MetadataBatch]:
        """Return the batches from the border `from_offset` on that end at `to_offset` or before,
        oldest first.

        Raises: as `load`; CorruptLogError also where the log does not have all of them.
        """
        ...

    def root_ms(self) -> int:
        """Return the time of the root, ms since 1970 UTC.

        Raises:
            KafkaStorageError: It does not answer, takes no writes, or tells no time.
        """
        ...

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log_end_at` does.

        Raises: as `load`.
        """
        ...

    def snapshots(self) -> list[OffsetAndEpoch]:
        """Return where the root's snapshots end, by their names. None of them is read, so they may
        be damaged, and some may be of other logs than this one.

        Raises: as `load`.
        """
        ...

    def read_snapshot(self, end: OffsetAndEpoch) -> MetadataBatch:
        """Return a snapshot, as a batch that ends at its end offset.

        Raises: as `load`; CorruptLogError also where it is damaged, or another cluster's.
        """
        ...

    def expire(self, before_ms: int) -> bool:
        """Give up the oldest records of the history, if they are older than `before_ms` and no
        reader of the newest snapshots needs them; return whether there were any.

        Raises: as `load`.
        """
        ...

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end: OffsetAndEpoch) -> None:
        """Write the records that rebuild the image at an end that is committed, unless they are
        there. `end`: its offset, and the epoch of the record before it.

        Raises: as `load`.
        """
        ...

    def check_writable(self) -> None:
        """Check that this process may write here, as far as can be seen without a commit.

        Raises:
            RootAccessDeniedError: It may not.
        """
        ...

    def maintain(self) -> bool:
        """Do what is due after an answer was given; return whether the table has gone on by that,
        though no row and no counter changed.

        Raises: as `load`.
        """
        ...

    def clean(self, now_ms: int) -> int:
        """Delete what no reader needs; return how many files, old commits apart.

        Raises: as `load`.
        """
        ...


OpenVoterLog = Callable[[Voter], VoterLog]
"""Returns a voter's log; nothing is read yet."""


@dataclass(frozen=True, slots=True)
class VoterCall(Generic[T]):
    """A call on a voter."""

    key: VoterKey
    work: Callable[[], T]

    def __call__(self) -> T:
        return self.work()


class SideBySide(Protocol):
    """Makes several calls at once. No call raises."""

    def run(self, calls: Sequence[VoterCall[T]], timeout_ms: int) -> Iterator[T]:
        """Yield the results of `calls` as they come, for `timeout_ms` at most. None waits for a
        call on another voter, however many of those hang.

        A caller may stop asking; calls that are not done then go on by themselves, and their
        results are lost.
        """
        ...
