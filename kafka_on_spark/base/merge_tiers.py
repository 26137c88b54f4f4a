"""Which neighbouring files of a log become one next: by tiers, for replicas and for voters alike.

Files are in tiers, each 32 times as heavy as the one below. When 32 neighbours of a tier have come
together, they become one file, with the lighter ones between them. So each merge lifts what goes in
by a tier at least, and a record is rewritten as often as there are tiers above its batch: about the
logarithm to the base of 32 of a full file's weight by its batch's. Where fewer than 32 fit into the
largest size, those that fit become one, if they are not too few to be worth it; that ends it.

A merge names each file that it takes in its commit, so it takes no more than one commit names. An
append of many tasks has thousands: then a few batches are one merge, or a batch alone is.

Neighbours that may come into one file are a run. What is left in each tier of a closed run, which
no more will join, becomes one file, too, but for a file that is heavier than all that would join
it: so a run is left with a file a tier or so, and a record is rewritten once more a tier at most.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from kafka_on_spark.base.ids import Offset

FAN_IN: Final = 32
"""Files of a tier that become one of the next."""

TIERS: Final = 8
"""There are so many at most: the heaviest file has less than 32 to the power of 8."""

MERGED_BYTES_MAX: Final = 2**28
"""Bytes of a merged file at most: a process that reads or merges it holds it in memory."""

OFFSETS_MAX: Final = 2**31 - 1
"""Offsets that a merged file covers at most: a record's offset is 32 bits from its base."""

FILES_A_CHANGE_MAX: Final = 2**14
"""Files that a change adds or drops, where the rest can follow in another one: each takes 700 bytes
of its commit, and nobody reads a commit that is larger than a commit can be."""


class Neighbour(Protocol):
    """A file, or the files of one batch, beside others in a log."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def file_count(self) -> int: ...


N = TypeVar("N", bound=Neighbour)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBounds:
    """What a merged file may hold, and what goes into a merge at least; `filling_min`: so many
    files become one because no more fit into the largest size."""

    size_bytes_max: int
    records_max: int
    size_bytes_min: int = 0
    filling_min: int = 8

    def is_full(self, part: Neighbour) -> bool:
        """Return whether a part stays as it is: two of them would be more than a file may hold."""
        return part.size_bytes * 2 > self.size_bytes_max or part.record_count * 2 > self.records_max


def tier_of(part: Neighbour) -> int:
    """Return the tier of a file or batch: its weight's logarithm to the base of 32, rounded down.

    A record weighs as much as a KiB: most of a small file is the format's own, and is gone when it
    is merged, while its records stay.
    """
    return (_weight(part).bit_length() - 1) // 5


def _weight(part: Neighbour) -> int:
    return max(1, part.record_count + part.size_bytes // 1024)


def merges_of_lowest_tier(
    runs: Iterable[tuple[Sequence[N], bool]], bounds: MergeBounds
) -> list[tuple[N, ...]]:
    """Return neighbours that are each to become one file; none if nothing is due. `runs`: each with
    whether it is closed.

    They share no part and are of one tier, the lowest in which any is due: each can be merged
    whatever becomes of the others, and what they become is considered next time. Each has two parts
    at least, or one that has many files.
    """
    known = list(runs)
    for tier in range(TIERS):
        found = [merge for run in known for merge in _merges_of(*run, tier, bounds)]
        if found:
            return found
    return []


def _merges_of(
    run: Sequence[N], is_closed: bool, tier: int, bounds: MergeBounds
) -> Iterator[tuple[N, ...]]:
    """Yield the merges of a run that lift what is in `tier` or below."""
    taken: _Taken[N] = _Taken(bounds)
    for part in run:
        own_tier = tier_of(part)
        if own_tier > tier:
            if is_closed and taken.is_worth_one_file:
                yield tuple(taken.parts)
            taken = _Taken(bounds)
            continue
        if not taken.has_room_for(part):
            if len(taken.parts) >= bounds.filling_min or taken.is_full_of_files:
                yield tuple(taken.parts)
            taken = _Taken(bounds)
        taken.add(part)
        taken.of_tier += own_tier == tier
        if taken.of_tier >= FAN_IN and taken.size_bytes >= bounds.size_bytes_min:
            yield tuple(taken.parts)
            taken = _Taken(bounds)
    if is_closed and taken.is_worth_one_file:
        yield tuple(taken.parts)


class _Taken(Generic[N]):
    """Neighbours that may become one file."""

    def __init__(self, bounds: MergeBounds) -> None:
        self.parts: list[N] = []
        self.of_tier = self.size_bytes = self._record_count = self._file_count = 0
        self._bounds = bounds

    def add(self, part: N) -> None:
        self.parts.append(part)
        self.size_bytes += part.size_bytes
        self._record_count += part.record_count
        self._file_count += part.file_count

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
            and self.size_bytes >= self._bounds.size_bytes_min
        )

    def has_room_for(self, part: N) -> bool:
        """Return whether one file can hold `part` besides; it can if it holds nothing yet."""
        return not self.parts or (
            self.size_bytes + part.size_bytes <= self._bounds.size_bytes_max
            and self._record_count + part.record_count <= self._bounds.records_max
            and self._file_count + part.file_count <= FILES_A_CHANGE_MAX
            and part.end_offset - self.parts[0].base_offset <= OFFSETS_MAX
        )
