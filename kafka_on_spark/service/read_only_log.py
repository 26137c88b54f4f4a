"""A metadata log that can be read and never written.

Rehearsals and clusters of the past are given this one: whatever a service of theirs forgets to
override, there is no way to commit.
"""

from collections.abc import Sequence
from typing import NoReturn

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.ports import MetadataLog


class ReadOnlyLog:
    """The MetadataLog `log`, read and nothing else."""

    def __init__(self, log: MetadataLog) -> None:
        self._log = log

    def read(self, *, from_offset: Offset, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return the batches from `from_offset` on, as `log` does."""
        return self._log.read(from_offset=from_offset, to_offset=to_offset)

    def offset_at(self, time_ms: int) -> Offset:
        """Return where the log ended at a moment, as `log` does."""
        return self._log.offset_at(time_ms)

    def check_writable(self) -> None:
        """Refuse.

        Raises:
            InvalidRequestError: Always.
        """
        raise _refusal("commit")

    def newest_snapshot(self, *, to_offset: Offset | None = None) -> MetadataBatch | None:
        """Return the newest readable snapshot, as `log` does."""
        return self._log.newest_snapshot(to_offset=to_offset)

    def append(
        self, records: Sequence[Record], stamp: Stamp, *, expected_offset: Offset
    ) -> NoReturn:
        """Refuse.

        Raises:
            InvalidRequestError: Always.
        """
        raise _refusal(f"commit {len(records)} records")

    def write_snapshot(self, records: Sequence[Record], stamp: Stamp, end_offset: Offset) -> None:
        """Refuse.

        Raises:
            InvalidRequestError: Always.
        """
        raise _refusal("write a snapshot")

    def maintain(self) -> None:
        """Nothing is due."""


def _refusal(what: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"can't {what}: this metadata log was opened to be read, for a dry run or for the past;"
        " open the cluster without --dry-run and as_of to change it"
    )
