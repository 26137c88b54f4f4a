"""Looks at the tables of partitions: what each is told, and what it says. Tasks import no more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.log.addresses import ReplicaAddress

RootNow = Callable[[ReplicaAddress], int]
"""Returns the time of a replica's root, ms: the modification time of a file that it writes there.
Raises KafkaStorageError if the root does not answer."""

ReportT = TypeVar("ReportT")


class LookTimes(NamedTuple):
    """When looks are planned, by the clock of the process and by that of what it commits, and
    whether they change nothing."""

    now_ms: int
    commit_ms: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Look(Generic[ReportT]):
    """What was seen; None: it could not be, for `error`."""

    report: ReportT | None = None
    error: str | None = None

    @classmethod
    def failed(cls, error: KafkaOnSparkError) -> "Look[ReportT]":
        """Return a look that an error has ended."""
        return cls(error=error.message)
