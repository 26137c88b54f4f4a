"""Decides what compaction does next in a log, which records stay, what of it is finished (I27).

Below `compacted_below` a replica keeps the last record of each key there, without records of no key
and without tombstones below `tombstones_below`; from `compacted_below` on all. Since both only
rise, it is the same to apply a decision to a log, or to what an earlier decision has left of it.
How far a replica has come is in five counters of its table, written by the commits that rewrite
segments. The *targets* count from the first of these commits on, since from then on the log below
them is no longer whole.

It goes from the log start upwards, so a tombstone goes with or after all that it deleted. Each
group of segments is one commit: another process can go on after any. Source: LogCleanerManager, and
Cleaner.groupSegmentsBySize; a batch stands for Kafka's segment, and its append time for the newest
timestamp in it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Self

from kafka_on_spark.base.ids import Offset, ensure
from kafka_on_spark.base.merge_tiers import OFFSETS_MAX
from kafka_on_spark.log.batch import LogPart
from kafka_on_spark.metadata.partition import Compaction

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionProgress:
    """A replica's compaction, as of a version of its table.

    A *round* is one way through the log, from its start upwards. A target takes several if its keys
    do not fit into memory.

    Attributes:
        compacted_below: A target. Records below it may be gone, for later ones below it.
        tombstones_below: A target. Tombstones below it may be gone.
        round_below: Where the round that the replica is in ends; 0: it is in none.
        compacted_to: Its segments up to here are as the round leaves them.
        finished_below: Where the last round ended that it has finished.
    """

    compacted_below: Offset = Offset(0)
    tombstones_below: Offset = Offset(0)
    round_below: Offset = Offset(0)
    compacted_to: Offset = Offset(0)
    finished_below: Offset = Offset(0)

    def __post_init__(self) -> None:
        ensure(
            0 <= self.tombstones_below <= self.compacted_below
            and 0 <= self.compacted_to <= self.round_below <= self.compacted_below
            and 0 <= self.finished_below <= self.compacted_below,
            self,
        )

    @property
    def is_finished(self) -> bool:
        """Whether the replica has done all that its targets ask for."""
        return not self.round_below and self.finished_below == self.compacted_below

    def has_finished(self, decided: Compaction) -> bool:
        """Return whether the replica has finished `decided` or a later decision."""
        return (
            self.is_finished
            and self.compacted_below >= decided.compacted_below
            and self.tombstones_below >= decided.tombstones_below
        )

    def begun(self, decided: Compaction) -> Self:
        """Return the progress with the targets of `decided`; as it is, if they are not above.

        For higher targets all segments are read again: the keys that they bring, and
        tombstones below them, may be anywhere.
        """
        return self._with_targets(decided.compacted_below, decided.tombstones_below)

    def _with_targets(self, compacted_below: Offset, tombstones_below: Offset) -> Self:
        compacted_below = max(self.compacted_below, compacted_below)
        tombstones_below = max(self.tombstones_below, tombstones_below)
        if (compacted_below, tombstones_below) == (self.compacted_below, self.tombstones_below):
            return self
        # Only tombstones are new: the round needs no keys.
        is_short = self.finished_below == compacted_below
        return replace(
            self,
            compacted_below=compacted_below,
            tombstones_below=tombstones_below,
            round_below=compacted_below if is_short else Offset(0),
            compacted_to=Offset(0),
        )

    def in_round(self, round_below: Offset) -> Self:
        """Return the progress in a round that ends at `round_below`, or in the one it is in."""
        if self.round_below:
            return self
        return replace(self, round_below=min(round_below, self.compacted_below))

    def advanced(self, offset: Offset) -> Self:
        """Return the progress once the segments below `offset` are as the round leaves them."""
        return replace(self, compacted_to=min(offset, self.round_below))

    def round_finished(self) -> Self:
        return replace(
            self,
            round_below=Offset(0),
            compacted_to=Offset(0),
            finished_below=max(self.finished_below, self.round_below),
        )

    def after_fetch(self, leader: Self, *, is_first: bool, is_whole: bool = False) -> Self:
        """Return the progress of a follower that takes segments of its `leader`.

        It lacks what its leader lacks: records below the leader's target that later ones below it
        have replaced, and, with its first fetch, tombstones. So both are its own from then on, and
        it has finished what it had finished. `is_whole`: it has all that its leader had at one
        version of its table, and nothing else; then it is as far as its leader.
        """
        if is_whole:
            return leader
        tombstones_below = leader.tombstones_below if is_first else Offset(0)
        return self._with_targets(leader.compacted_below, tombstones_below)

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
            round_below=Offset(0) if self.is_finished else log_end_offset,
            compacted_to=Offset(0),
            finished_below=min(self.finished_below, log_end_offset),
        )


COUNTERS: Final = {
    "compacted_below": "compacted-below",
    "tombstones_below": "tombstones-below",
    "round_below": "compaction-round-below",
    "compacted_to": "compacted-to",
    "finished_below": "compaction-finished-below",
}
"""The counters of a replica's table, by the field that each is."""

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


@dataclass(frozen=True, slots=True)
class Dirt:
    """A log's dirty part: what compaction has not seen.

    Attributes:
        cleanable_below: Where what may be compacted ends: a border of batches.
        dirty_bytes: Bytes from `first_dirty` to `cleanable_below`.
        oldest_dirty_ms: When the first dirty batch that may be compacted was appended, or before;
            None: there is none.
    """

    first_dirty: Offset
    cleanable_below: Offset
    clean_bytes: int
    dirty_bytes: int
    oldest_dirty_ms: int | None

    @property
    def ratio(self) -> float:
        """Dirty bytes by all bytes below `cleanable_below`; 0 if there are none."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def dirt_of(
    parts: Iterable[LogPart],
    *,
    log_start_offset: Offset,
    compacted_below: Offset,
    stable_below: Offset,
    appended_before_ms: int,
) -> Dirt:
    """Return what may be compacted of a log, its `parts` in order.

    It ends at or below `stable_below`, the last stable offset, and before the first batch that was
    not appended before `appended_before_ms`. Retention may have passed `compacted_below`.
    """
    first_dirty = max(log_start_offset, compacted_below)
    cleanable_below, clean_bytes, dirty_bytes = first_dirty, 0, 0
    oldest: int | None = None
    for each in parts:
        if each.end_offset <= first_dirty:
            clean_bytes += each.size_bytes
            continue
        if each.end_offset > stable_below or each.appended_at_ms >= appended_before_ms:
            break
        cleanable_below = each.end_offset
        dirty_bytes += each.size_bytes
        oldest = each.oldest_ms if oldest is None else min(oldest, each.oldest_ms)
    return Dirt(first_dirty, cleanable_below, clean_bytes, dirty_bytes, oldest)


def next_group(
    parts: Sequence[LogPart],
    progress: CompactionProgress,
    *,
    bytes_max: int,
    records_max: int,
    files_max: int,
) -> range | None:
    """Return the places of the parts that are rewritten next; None: there are no more.

    Their bytes are at most `bytes_max`, their records `records_max` and their files `files_max`, or
    they are one part. The last one may reach above the target: its records from there on stay.
    """
    first = next(
        (place for place, each in enumerate(parts) if each.end_offset > progress.compacted_to),
        None,
    )
    is_done = progress.compacted_to >= progress.round_below
    if first is None or is_done or parts[first].base_offset >= progress.round_below:
        return None
    begin, end = parts[first], first + 1
    size_bytes, record_count, file_count = begin.size_bytes, begin.record_count, len(begin.segments)
    for each in parts[end:]:
        size_bytes += each.size_bytes
        record_count += each.record_count
        file_count += len(each.segments)
        if (
            size_bytes > bytes_max
            or record_count > records_max
            or file_count > files_max
            or each.base_offset >= progress.round_below
            or each.leader_epoch != begin.leader_epoch
            or each.has_append_time != begin.has_append_time
            or each.end_offset - begin.base_offset > OFFSETS_MAX
        ):
            break
        end += 1
    return range(first, end)


def stays(
    offsets: "Numbers",
    *,
    has_key: "Flags",
    last_offsets: "Numbers",
    is_tombstone: "Flags",
    compacted_below: Offset,
    tombstones_below: Offset,
) -> "Flags":
    """Return which records stay (I27): of a key below what is compacted its last one.

    `last_offsets`: where the last record of each one's key is.
    """
    is_last = has_key & (offsets >= last_offsets)
    had_its_time = is_tombstone & (offsets < tombstones_below)
    kept: Flags = (offsets >= compacted_below) | (is_last & ~had_its_time)
    return kept
