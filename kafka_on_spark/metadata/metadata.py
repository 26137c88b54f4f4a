"""What the services ask of the metadata root: its log, its commit lock."""

from collections.abc import Sequence
from typing import Final, Protocol

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp


class MetadataLog(Protocol):
    """An ordered log of metadata batches with compare-and-append."""

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the batches from `from_offset` on, oldest first.

        `to_offset`: only those that end there or before.
        """
        ...

    def has_next(self) -> bool:
        """Return whether there may be a commit after the newest that was read: a small question.

        False proves nothing about a log that was cleaned or went back: `read` notices that.
        """
        ...

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log_end_at` does."""
        ...

    def root_ms(self) -> int | None:
        """Return the time of the root that commits are put on, ms since 1970 UTC; None: it tells
        none now. No request is made for it, as far as the store tells its time by itself."""
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

    def clean(self, now_ms: int) -> int:
        """Delete files that merges replaced a while ago, and what else no reader needs; return how
        many, old commits apart. `now_ms`: the wall clock."""
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

    def expire(self, before_ms: int) -> None:
        """Give up the oldest records of the history, if they are older than `before_ms` and no
        reader of the newest snapshots needs them."""
        ...

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Write the records that rebuild the image at `end_offset`, unless they are there."""
        ...


class CommitLock:
    """One process's hold on the commit lock of a metadata log. It saves conflicts, no more.

    Attributes:
        needs_refresh: Another process may have committed before: read the log first.
    """

    def __init__(self, *, needs_refresh: bool = False) -> None:
        self.needs_refresh = needs_refresh

    def queued_reports(self) -> Sequence[bytes]:
        """Return the reports that waiting processes have queued, encoded, one item a process."""
        return ()

    def mark_committed(self) -> None:
        """Tell the processes whose reports were returned that these are decided and committed."""
        return


NO_LOCK: Final = CommitLock()
"""There is no lock to take, or another process has held it for too long."""
