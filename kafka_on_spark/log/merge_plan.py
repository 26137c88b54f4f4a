"""Which neighbours of a log are merged into one file next: decided from headers and settings.

Files are in tiers, each 32 times as heavy as the one below. When 32 neighbours of a tier have come
together, they become one file, with the lighter ones between them. So each merge lifts what goes in
by a tier at least, and a record is rewritten as often as there are tiers above its batch: about the
logarithm to the base of 32 of a full file's weight by its batch's. Where fewer than 32 fit into the
largest size, those that fit become one, if they are not too few to be worth it; that ends it.

A merge names each file that it takes in its commit, so it takes no more than one commit names. An
append of many tasks has thousands: then a few batches are one merge, or a batch alone is.

Neighbours of one kind are a run: one file can't hold what another leadership appended, or what
retention drops at another time. A run is closed once the log goes on with another kind. Then what
is left of each tier becomes one file, or a log of many leaderships would keep 31 files of each. A
file that is heavier than all that would join it stays as it is: so a closed run is left with a file
a tier or so, and a record is rewritten once more a tier at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import OFFSETS_MAX, LogPart, Segment
from kafka_on_spark.log.state import FILES_A_CHANGE_MAX

FAN_IN: Final = 32
"""Files of a tier that become one of the next."""

FILLING_MIN: Final = 8
"""Files at least that become one because no more fit into the largest size."""

TIERS: Final = 8
"""There are so many at most: the heaviest file has less than 32 to the power of 8."""

RECORDS_MAX: Final = 2**24
"""Records of a merged segment at most: a reader must be able to hold the file's columns."""

MERGED_BYTES_MAX: Final = 2**28
"""Bytes of a merged segment at most, if segment.bytes allows more: a task that reads a part of it
has the file in memory, since it checks the digest of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRules:
    """What may be merged.

    Attributes:
        stable_offset: The last stable offset: only what lies below it is the same in all replicas.
        size_bytes_max: Size of a merged segment at most.
        span_ms: A merged segment has batches of one span of append times, so that retention by age
            can drop it as a whole.
        lag_batches: So many of the newest batches are left: whoever appended them may still ask
            whether they stand.
        size_bytes_min: What goes into a merge at least: it writes the whole producer state anew.
        left_out: Files that can't be read, or are too large once uncompressed, which only reading
            them tells. They are left as if they were full: a merge that can't be done would else be
            the first that is due for ever, and hide all others.
    """

    stable_offset: Offset
    size_bytes_max: int
    span_ms: int
    lag_batches: int
    size_bytes_min: int = 0
    left_out: frozenset[Segment] = frozenset()


def merges_due(batches: Sequence[LogPart], rules: MergeRules) -> list[tuple[LogPart, ...]]:
    """Return runs of neighbours that are each to become one segment; none if nothing is due.

    The runs share no batch and are of one tier, the lowest in which any is due: each can be merged
    whatever becomes of the others, and what they become is considered next time. A run is of two
    batches at least, or of one that has many files.
    """
    runs = list(_runs(batches, rules))
    for tier in range(TIERS):
        found = [merge for run in runs for merge in _merges_of(*run, tier, rules)]
        if found:
            return found
    return []


def tier_of(part: LogPart) -> int:
    """Return the tier of a file or batch: its weight's logarithm to the base of 32, rounded down.

    A record weighs as much as a KiB: most of a small file is the format's own, and is gone when it
    is merged, while its records stay.
    """
    return (_weight(part).bit_length() - 1) // 5


def _weight(part: LogPart) -> int:
    return max(1, part.record_count + part.size_bytes // 1024)


def _runs(
    batches: Sequence[LogPart], rules: MergeRules
) -> Iterator[tuple[Sequence[LogPart], bool]]:
    """Yield neighbours that may come into one segment by what they are, and whether their run is
    closed: no more will join them."""
    last = max(0, len(batches) - rules.lag_batches)
    kinds = list(_kinds(batches, rules))
    open_kinds = {*kinds[last:], *kinds[-1:]}
    end = 0
    may_merge = (
        kind if _may_merge(part, rules) else None
        for part, kind in zip(batches[:last], kinds, strict=False)
    )
    for kind, group in groupby(may_merge):
        start, end = end, end + sum(1 for _ in group)
        if kind is not None:
            yield batches[start:end], kind not in open_kinds


_Kind = tuple[int, bool, int]


def _kinds(batches: Iterable[LogPart], rules: MergeRules) -> Iterator[_Kind]:
    """Yield the kind of each batch of a log, in order.

    An append time before that of an earlier batch is a wrong clock's, and counts as the earlier
    one's, as it does for retention: where two appenders take turns, and one has such a clock, no
    two neighbours would else be of one span.
    """
    appended_ms = 0
    for part in batches:
        appended_ms = max(appended_ms, part.appended_at_ms)
        yield _kind_of(part, rules, appended_ms)


def _may_merge(part: LogPart, rules: MergeRules) -> bool:
    """Return whether a part may be merged: it is stable, neither full nor left out."""
    is_full = part.size_bytes * 2 > rules.size_bytes_max or part.record_count * 2 > RECORDS_MAX
    is_left_out = not rules.left_out.isdisjoint(part.segments)
    return not (is_full or part.end_offset > rules.stable_offset or is_left_out)


def _kind_of(part: LogPart, rules: MergeRules, appended_ms: int) -> _Kind:
    """Return what neighbours in one segment must share. `appended_ms`: the latest append time up to
    the part."""
    return part.leader_epoch, part.has_append_time, appended_ms // rules.span_ms


def _merges_of(
    run: Sequence[LogPart], is_closed: bool, tier: int, rules: MergeRules
) -> Iterator[tuple[LogPart, ...]]:
    """Yield the merges of a run that lift what is in `tier` or below."""
    taken = _Taken(rules)
    for part in run:
        own_tier = tier_of(part)
        if own_tier > tier:
            if is_closed and taken.is_worth_one_file:
                yield tuple(taken.parts)
            taken = _Taken(rules)
            continue
        if not taken.has_room_for(part):
            if len(taken.parts) >= FILLING_MIN or taken.is_full_of_files:
                yield tuple(taken.parts)
            taken = _Taken(rules)
        taken.add(part)
        taken.of_tier += own_tier == tier
        if taken.of_tier >= FAN_IN and taken.size_bytes >= rules.size_bytes_min:
            yield tuple(taken.parts)
            taken = _Taken(rules)
    if is_closed and taken.is_worth_one_file:
        yield tuple(taken.parts)


class _Taken:
    """Neighbours that may become one segment."""

    def __init__(self, rules: MergeRules) -> None:
        self.parts: list[LogPart] = []
        self.of_tier = 0
        self.size_bytes = 0
        self._bytes_max = rules.size_bytes_max
        self._bytes_min = rules.size_bytes_min
        self._records_left = RECORDS_MAX
        self._file_count = 0

    def add(self, part: LogPart) -> None:
        self.parts.append(part)
        self.size_bytes += part.size_bytes
        self._records_left -= part.record_count
        self._file_count += len(part.segments)

    @property
    def is_full_of_files(self) -> bool:
        """Return whether they have so many files that they need not be many batches: of two
        neighbours that have too many together, one has."""
        return self._file_count > FILES_A_CHANGE_MAX // 2

    @property
    def is_worth_one_file(self) -> bool:
        """Return whether they are to become one file though no more come: their files are many, or
        none is heavier than the others together, and what is written besides is not more than they
        are."""
        weights = [_weight(part) for part in self.parts]
        return self.is_full_of_files or (
            len(weights) > 1
            and 2 * max(weights) <= sum(weights)
            and self.size_bytes >= self._bytes_min
        )

    def has_room_for(self, part: LogPart) -> bool:
        """Return whether one segment can hold `part` besides; it can if it holds nothing yet."""
        return not self.parts or (
            self.size_bytes + part.size_bytes <= self._bytes_max
            and part.record_count <= self._records_left
            and self._file_count + len(part.segments) <= FILES_A_CHANGE_MAX
            and part.end_offset - self.parts[0].base_offset <= OFFSETS_MAX
        )
