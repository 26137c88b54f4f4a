"""What upkeep did: rows for people, and what a process has done in all, by kind of work."""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.base.errors import ERROR_NAME_BY_CODE, NO_ERROR
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.log.upkeep_work import UpkeepResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRow:
    """What one kind of work has done on one replica, or why it could not.

    Attributes:
        topic: The topic's name; empty: it concerns a broker's root.
        partition: The partition's number; -1: it concerns a broker's root.
        broker_id: The replica, or the root; None: the metadata log.
        kind: The kind of work.
        count: Pieces of work that were done; in a dry run, that are due.
        what: What the pieces are.
        size_bytes: Bytes that they were about.
        is_left: More is due.
        error: What went wrong; empty: nothing.
    """

    topic: str
    partition: int
    broker_id: BrokerId | None
    kind: str
    count: int = 0
    what: str = ""
    size_bytes: int = 0
    is_left: bool = False
    error: str = ""

    @property
    def log(self) -> str:
        """The log that was worked on, as people name it; of a root: "root"."""
        return f"{self.topic}-{self.partition}" if self.topic else "root"

    def __str__(self) -> str:
        place = self.log
        if self.broker_id is not None:
            place = f"{place} on broker {self.broker_id}"
        if self.error:
            return f"{place}: {self.kind}: {self.error}"
        return f"{place}: {self.kind}: {self.count} {self.what} ({self.size_bytes} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """What a round of upkeep did.

    Attributes:
        visited: Replicas that were visited.
        rows: Where something was done, is left or went wrong.
        not_looked_at: What `maintain` was to look at and could not, and why, a sentence each. Of a
            share it is empty: that never looks at all.
    """

    visited: int = 0
    rows: tuple[UpkeepRow, ...] = ()
    not_looked_at: tuple[str, ...] = ()

    @property
    def is_left(self) -> bool:
        """Whether more is due, could not be done, or may be due where nobody could look."""
        return bool(self.not_looked_at) or any(row.is_left or row.error for row in self.rows)

    def plus(self, other: "UpkeepReport") -> "UpkeepReport":
        """Return both together; of one kind of work on one replica, the sum, and whether it is left
        after `other`."""
        return UpkeepReport(
            visited=self.visited + other.visited,
            rows=tuple(_summed((*self.rows, *other.rows))),
            not_looked_at=tuple(dict.fromkeys((*self.not_looked_at, *other.not_looked_at))),
        )


def _summed(rows: Iterable[UpkeepRow]) -> Iterable[UpkeepRow]:
    found: dict[tuple[str, int, BrokerId | None, str], UpkeepRow] = {}
    for row in rows:
        name = (row.topic, row.partition, row.broker_id, row.kind)
        before = found.get(name)
        if before is not None:
            row = replace(
                row,
                count=row.count + before.count,
                what=row.what or before.what,
                size_bytes=row.size_bytes + before.size_bytes,
            )
        found[name] = row
    return filter(_tells, found.values())


def _tells(row: UpkeepRow) -> bool:
    return bool(row.count or row.is_left or row.error)


def report_of(image: MetadataImage, results: Sequence[UpkeepResult]) -> UpkeepReport:
    """Return results as rows, and log what was done, is left or went wrong.

    Rows of nothing are there, too: together with an earlier report they say that nothing is left.
    """
    rows = []
    for result in results:
        topic = image.topics.get(result.key.topic_id)
        for kind, work in result.done:
            name = ERROR_NAME_BY_CODE.get(work.error_code, "UNKNOWN")
            row = UpkeepRow(
                topic="deleted" if topic is None else topic.name,
                partition=result.key.partition,
                broker_id=result.broker_id,
                kind=kind,
                count=work.count,
                what=work.what,
                size_bytes=work.size_bytes,
                is_left=work.is_left,
                error="" if work.error_code == NO_ERROR else f"{name}: {work.error}",
            )
            if _tells(row):
                log.log(logging.WARNING if row.error else logging.INFO, "%s", row)
            rows.append(row)
    return UpkeepReport(visited=len(results), rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepTotal:
    """What a process has done of one kind of work since it began: pieces, bytes that they were
    about and that they wrote instead, and how often it failed."""

    count: int = 0
    size_bytes: int = 0
    written_bytes: int = 0
    failures: int = 0


class UpkeepTotals:
    """What was done of one process. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[str, UpkeepTotal] = {}

    def take(self, results: Iterable[UpkeepResult]) -> None:
        for result in results:
            for kind, work in result.done:
                self.count(kind, work.count, work.size_bytes, work.written_bytes, bool(work.error))

    def count(
        self, kind: str, count: int, size_bytes: int, written_bytes: int = 0, failed: bool = False
    ) -> None:
        if not (count or failed):
            return
        with self._lock:
            total = self._totals.get(kind, UpkeepTotal())
            self._totals[kind] = UpkeepTotal(
                count=total.count + count,
                size_bytes=total.size_bytes + size_bytes,
                written_bytes=total.written_bytes + written_bytes,
                failures=total.failures + failed,
            )

    def by_kind(self) -> dict[str, UpkeepTotal]:
        with self._lock:
            return dict(self._totals)


def upkeep_totals(_: Node) -> UpkeepTotals:
    """Return what a process has done of upkeep: a part of its node."""
    return UpkeepTotals()
