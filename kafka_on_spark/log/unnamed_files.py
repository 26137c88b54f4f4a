"""Decides which files in a replica's folder, that its log does not name, may be deleted.

A path is added to a table only while the table is fenced at the leader epoch in the path's name,
and never again after that table removed it (I26; design note 12). So what was listed first may go
if a state that was read afterwards does not name it, and
- the table has removed it: its log has a tombstone of it; or
- it is a segment staged under an epoch below the table's fence; or
- it is a producer-state file with a number below the table's counter.

Once true, each stays true: a late cleaner does no harm. A file of the current epoch that no commit
names may be of an append under way, and is never deleted: it is an orphan, as is one whose
tombstone was forgotten before a cleaner came. Clocks only say how long others are given.

No fence tells a producer-state file that a commit under way is about to name from one that a try
left, so above the counter it stays until a commit that names a later one raises that.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kafka_on_spark.base.ids import LeaderEpoch
from kafka_on_spark.log.batch import epoch_in_name
from kafka_on_spark.log.producer_state import producers_file_number
from kafka_on_spark.log.state import ReplicaState

CLOCK_ERROR_MS: Final = 24 * 3600 * 1000
"""A file from further in the future was written under a wrong clock: its time says nothing."""

STAGING_MS: Final = 3600 * 1000
"""For how long an append under way may stage nothing for one partition, and still be committed if
its epoch is over. Source: the largest file.delete.delay.ms, which is for readers."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file in a replica's folder, written at a time of the root's clock."""

    name: str
    size_bytes: int
    written_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTimes:
    """How long files stay.

    Attributes:
        now_ms: By the root's clock.
        delete_delay_ms: How long readers have that planned before. Source: file.delete.delay.ms.
        append_ms: How long an append may be under way. Source: delivery.timeout.ms.
    """

    now_ms: int
    delete_delay_ms: int
    append_ms: int

    def waits(self, since_ms: int, delay_ms: int) -> bool:
        """Return whether some of `delay_ms` since a moment is left."""
        age_ms = self.now_ms - since_ms
        return -CLOCK_ERROR_MS <= age_ms < delay_ms


class Fate(Enum):
    STAYS = "it is named, may be named yet, or is none of a replica's files"
    WAITS = "it may be deleted once readers and appends under way had their time"
    GOES = "it may be deleted"
    ORPHAN = "no append under way has staged it, but one may still name it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """What a table says of files, as of one state of it.

    Attributes:
        removed_at_ms: When it removed files, as far as its log still tells.
        producers: Number of the producer-state file that counts; None: there is none, or it was not
            listed.
        producers_written_at_ms: When each producer-state file that was listed was written, by its
            number and the root's clock.
        staged_at_ms: When the newest file was staged, by epoch (`newest_staged_at_ms`).
    """

    named: Collection[str]
    fence: LeaderEpoch | None
    removed_at_ms: Mapping[str, int]
    producers: int | None = None
    producers_written_at_ms: Mapping[int, int] = field(default_factory=dict)
    staged_at_ms: Mapping[LeaderEpoch, int] = field(default_factory=dict)


def is_cleaned(name: str) -> bool:
    """Return whether a file is one that cleaning judges, by its name."""
    return epoch_in_name(name) is not None or producers_file_number(name) is not None


def files_of(state: ReplicaState) -> frozenset[str]:
    return frozenset(file.file_name for part in state.batches for file in part.segments)


def judge(file: FoundFile, table: TableFiles, times: CleaningTimes) -> Fate:
    """Return what becomes of a file that was listed before `table` was read."""
    if file.name in table.named:
        return Fate.STAYS
    number = producers_file_number(file.name)
    if number is not None:
        return _judge_producers(number, table, times)
    epoch = epoch_in_name(file.name)
    if epoch is None or table.fence is None:
        return Fate.STAYS
    removed_at_ms = table.removed_at_ms.get(file.name)
    if removed_at_ms is not None:
        return _after(times, removed_at_ms, times.delete_delay_ms, Fate.GOES)
    if epoch < table.fence:
        # An append names all of its files by the epoch in which it began, and one that goes on
        # under a later epoch copies them at its end: the first as the last, hours later.
        since_ms = table.staged_at_ms.get(epoch, file.written_at_ms)
        delay_ms = max(STAGING_MS, times.delete_delay_ms, times.append_ms)
        return _after(times, since_ms, delay_ms, Fate.GOES)
    if epoch == table.fence:
        return _after(times, file.written_at_ms, times.append_ms, Fate.ORPHAN)
    return Fate.STAYS


def newest_staged_at_ms(
    found: Iterable[FoundFile], removed: Collection[str], times: CleaningTimes
) -> dict[LeaderEpoch, int]:
    """Return when the newest file was staged, by epoch, of files that a table neither names nor has
    removed. A time that says nothing does not count."""
    newest: dict[LeaderEpoch, int] = {}
    for file in found:
        epoch = epoch_in_name(file.name)
        is_ahead = file.written_at_ms - times.now_ms > CLOCK_ERROR_MS
        if epoch is not None and file.name not in removed and not is_ahead:
            newest[epoch] = max(file.written_at_ms, newest.get(epoch, 0))
    return newest


def is_waiting(name: str, table: TableFiles, times: CleaningTimes) -> bool:
    """Return whether the table has removed a file that still waits: it need not be asked for."""
    is_removed = name in table.removed_at_ms
    return is_removed and judge(FoundFile(name, 0, 0), table, times) is Fate.WAITS


def _judge_producers(number: int, table: TableFiles, times: CleaningTimes) -> Fate:
    """Return what becomes of a producer-state file.

    A reader may have read the counter before the next file was written. The time counts from that
    one: the file that counts now is always a young one where there is much to do.
    """
    if table.producers is None or number >= table.producers:
        return Fate.STAYS
    later = (each for each in table.producers_written_at_ms if number < each <= table.producers)
    since_ms = table.producers_written_at_ms[min(later)]
    return _after(times, since_ms, times.delete_delay_ms, Fate.GOES)


def _after(times: CleaningTimes, since_ms: int, delay_ms: int, fate: Fate) -> Fate:
    return Fate.WAITS if times.waits(since_ms, delay_ms) else fate
