"""How far one replica has come with compaction, and what follows for it.

Four counters of its table, written by the commits that rewrite segments: the *target* is the
decision that a replica is at, and counts from the first of these commits on, since from then on the
log below it is no longer whole.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from kafka_on_spark.errors import ensure
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.compaction import Compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProgress:
    """A replica's compaction, as of a version of its table.

    Attributes:
        compacted_below: The target: the decision that it is at, or has finished.
        tombstones_below: Of the target. Tombstones below it may be gone from this replica.
        compacted_to: Its segments up to here are as the target has them.
        finished_below: The `compacted_below` of the last decision that it has finished.
    """

    compacted_below: Offset = Offset(0)
    tombstones_below: Offset = Offset(0)
    compacted_to: Offset = Offset(0)
    finished_below: Offset = Offset(0)

    def __post_init__(self) -> None:
        ensure(
            0 <= self.tombstones_below <= self.compacted_below
            and 0 <= self.compacted_to <= self.compacted_below
            and 0 <= self.finished_below <= self.compacted_below,
            self,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the replica has done all that its target asks for."""
        return self.compacted_to == self.compacted_below

    def has_finished(self, decided: Compaction) -> bool:
        """Return whether the replica has finished `decided` or a later decision."""
        return (
            self.is_finished
            and self.compacted_below >= decided.compacted_below
            and self.tombstones_below >= decided.tombstones_below
        )

    def may_count(self, decided: Compaction) -> bool:
        """Return whether the replica may be read, join the ISR, or count as finished.

        Below `cleaned_below` nothing is left, on a replica that counts, of what a tombstone has
        deleted. So a tombstone may go from one replica without its key coming back on another.
        """
        return self.finished_below >= decided.cleaned_below

    def begun(self, decided: Compaction) -> Self:
        """Return the progress with `decided` as its target; as it is, if that is its target.

        All segments are looked at again for another target, from the first on: its keys, and
        tombstones below it, may be anywhere.
        """
        if self._is_at(decided):
            return self
        return replace(
            self,
            compacted_below=max(self.compacted_below, decided.compacted_below),
            tombstones_below=max(self.tombstones_below, decided.tombstones_below),
            compacted_to=Offset(0),
        )

    def after_fetch(self, leader: Self, *, is_first: bool) -> Self:
        """Return the progress of a follower that takes segments of its `leader`.

        It lacks what its leader lacks: records below the leader's target that later ones below it
        have replaced, and, with its first fetch, tombstones. So both are its own from then on, and
        it has finished what it had finished.
        """
        compacted_below = max(self.compacted_below, leader.compacted_below)
        tombstones_below = self.tombstones_below
        if is_first:
            tombstones_below = max(tombstones_below, leader.tombstones_below)
        if (compacted_below, tombstones_below) == (self.compacted_below, self.tombstones_below):
            return self
        return replace(
            self,
            compacted_below=compacted_below,
            tombstones_below=tombstones_below,
            compacted_to=Offset(0),
        )

    def lowered_to(self, log_end_offset: Offset) -> Self:
        """Return the progress of a replica whose log begins a leadership at `log_end_offset`.

        Only after an unclean election can its target be above.
        """
        if self.compacted_below <= log_end_offset:
            return self
        return replace(
            self,
            compacted_below=log_end_offset,
            tombstones_below=min(self.tombstones_below, log_end_offset),
            compacted_to=Offset(0),
            finished_below=min(self.finished_below, log_end_offset),
        )

    def _is_at(self, decided: Compaction) -> bool:
        return (
            self.compacted_below >= decided.compacted_below
            and self.tombstones_below >= decided.tombstones_below
        )

    def advanced(self, offset: Offset) -> Self:
        """Return the progress once the segments below `offset` are as the target has them."""
        reached = min(Offset(offset), self.compacted_below)
        if reached < self.compacted_below:
            return replace(self, compacted_to=reached)
        return replace(self, compacted_to=reached, finished_below=reached)


NO_PROGRESS: Final = CompactionProgress()
"""Of a replica that was never compacted."""


def lacks_replaced_records(progress: CompactionProgress, shared_end: Offset) -> bool:
    """Return whether a log lacks records that are the last of their keys below `shared_end`.

    `shared_end` is where what it shares with its leader ends on the leader, or, of a replica that
    may lead uncleanly, its own log end. Above it stood what has replaced those records. Such a
    follower is never cut, but lost and made again; of such a leader the others are.
    """
    return progress.compacted_below > shared_end


def has_missed_tombstones(
    follower: CompactionProgress,
    log_end_offset: Offset,
    leader: CompactionProgress,
    *,
    is_first: bool,
) -> bool:
    """Return whether a follower may hold what a tombstone deleted that it will never see.

    Its leader may have removed tombstones below `leader.tombstones_below`. A follower whose log
    goes that far has had them; one without records (`is_first`) holds nothing that they deleted,
    nor does one that began so from a leader that had come as far.
    """
    return (
        not is_first
        and log_end_offset < leader.tombstones_below
        and follower.tombstones_below < leader.tombstones_below
    )
