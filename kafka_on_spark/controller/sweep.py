"""The sweep: which slice of all partitions a round inspects, so that all are inspected in time.

Partitions are in a ring, by topic id and number, and rounds go along it: each inspects as large a
part of all as the time since the last round is of `replica.sweep.interval.ms`. Nothing here visits
all partitions: a slice is cut out of the ring by its place. A slice fixed by the clock would be the
same one at each run of a cron job.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Final

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage

FIRST: Final = PartitionKey(TopicId(""), 0)
"""Before every partition there is or will be."""

SLICE_MS_MIN: Final = 1000
"""What a round may spend on its slice, however little time its share is."""

AGAIN_MAX: Final = 64
"""Partitions with a failed inspection that a round inspects again, before its slice."""

_SPARE_PART: Final = 16  # of an interval: for the time that inspections take


@dataclass(frozen=True, slots=True)
class Ring:
    """The partitions of some topics, in the same order in every process.

    Attributes:
        topic_ids: In order.
        starts: The place of each topic's first partition, and at the end how many there are.
    """

    topic_ids: tuple[TopicId, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, image: MetadataImage, topic_ids: Collection[TopicId] | None = None) -> "Ring":
        """Return the ring of the partitions of `topic_ids`, or of all topics."""
        known = image.topics if topic_ids is None else image.topics.keys() & set(topic_ids)
        ordered = tuple(sorted(known))
        counts = (len(image.topics[each].partitions) for each in ordered)
        return cls(ordered, tuple(accumulate(counts, initial=0)))

    @property
    def count(self) -> int:
        return self.starts[-1]

    def changed_count(self, then: "Ring | int") -> int:
        """Return how many partitions came or went since `then`, of which less may be known: only
        how many there were."""
        if isinstance(then, int):
            return abs(self.count - then)
        if self == then:
            return 0
        now, before = Counter(self._counts()), Counter(then._counts())
        now.subtract(before)
        return sum(map(abs, now.values()))

    def _counts(self) -> dict[TopicId, int]:
        ends = zip(self.topic_ids, pairwise(self.starts), strict=True)
        return {topic_id: end - start for topic_id, (start, end) in ends}

    def place(self, key: PartitionKey) -> int:
        """Return the place of `key`, or the one that it would have."""
        number = bisect_left(self.topic_ids, key.topic_id)
        if number == len(self.topic_ids):
            return self.count
        if self.topic_ids[number] != key.topic_id:
            return self.starts[number]
        return min(self.starts[number] + key.partition, self.starts[number + 1])

    def __contains__(self, key: PartitionKey) -> bool:
        place = self.place(key)
        return place < self.count and self.keys(place, 1) == [key]

    def key_at(self, place: int) -> PartitionKey:
        """Return the partition at a place; `FIRST` for the first."""
        if place == 0 or place >= self.count:
            return FIRST
        number = bisect_right(self.starts, place) - 1
        return PartitionKey(self.topic_ids[number], place - self.starts[number])

    def keys(self, start: int, count: int) -> list[PartitionKey]:
        """Return `count` partitions from a place on, around the ring's end."""
        number = bisect_right(self.starts, start) - 1
        keys: list[PartitionKey] = []
        while len(keys) < count:
            end = min(self.starts[number + 1], start + count - len(keys))
            topic_id, base = self.topic_ids[number], self.starts[number]
            keys.extend(PartitionKey(topic_id, place - base) for place in range(start, end))
            start, number = (0, 0) if end == self.count else (end, number + 1)
        return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPosition:
    """How far rounds have come around the ring. No rule of safety depends on it.

    Attributes:
        at_ms: When the last round was.
        begins_at: Where the next slice begins.
        owed: How many partitions should have been inspected by `at_ms`, and were not. No more than
            these were not inspected within the interval, but for those of `again`: within it as
            many fall due as there are, and they are inspected in the order of the ring. One that
            is new lets those behind it wait, and one that is gone slows the pace: each is owed.
        ring: What the ring was then; a hint knows only how many partitions it had.
        again: Partitions whose last inspection failed, those first that failed longest ago.
        inspection_ms: How long the inspection of a partition takes; None: not known.
    """

    at_ms: int
    begins_at: PartitionKey
    owed: float
    ring: Ring | int
    again: tuple[PartitionKey, ...] = ()
    inspection_ms: float | None = None


def begin_round(
    ring: Ring,
    position: SweepPosition | None,
    *,
    now_ms: int,
    interval_ms: int,
    random_below: Callable[[int], int],
) -> SweepPosition:
    """Return the position at the beginning of a round.

    One that is missing, older than the interval or from the future says nothing: then all is
    owed, from a random place on, so that rounds that can't inspect all do not begin at one place.
    """
    if position is None or not 0 <= now_ms - position.at_ms <= interval_ms:
        place = random_below(ring.count) if ring.count else 0
        begins_at = ring.key_at(place)
        return SweepPosition(at_ms=now_ms, begins_at=begins_at, owed=ring.count, ring=ring)
    round_ms = interval_ms - interval_ms / _SPARE_PART
    owed = position.owed + ring.count * (now_ms - position.at_ms) / round_ms
    owed += ring.changed_count(position.ring)
    return replace(
        position,
        at_ms=now_ms,
        owed=min(owed, ring.count),
        ring=ring,
        again=tuple(each for each in position.again if each in ring),
    )


def next_slice(ring: Ring, position: SweepPosition, count_max: int) -> list[PartitionKey]:
    """Return the partitions to inspect next: those owed, at most `count_max`."""
    count = min(count_max, int(position.owed + 1e-6), ring.count)
    start = ring.place(position.begins_at)
    return ring.keys(0 if start >= ring.count else start, count) if count else []


def after_slice(
    ring: Ring,
    position: SweepPosition,
    keys: Sequence[PartitionKey],
    *,
    repeated: int,
    failed: Collection[PartitionKey],
) -> SweepPosition:
    """Return the position once `keys` were inspected: some again (`repeated`), then the next slice.

    Those whose inspections failed are inspected again in a later round.
    """
    start, seen, count = ring.place(position.begins_at), set(keys), len(keys) - repeated
    start = 0 if start >= ring.count else start
    left = (key for key in position.again if key not in seen)
    return replace(
        position,
        begins_at=ring.key_at((start + count) % ring.count) if ring.count else FIRST,
        owed=max(0.0, position.owed - count),
        again=(*left, *(key for key in keys if key in failed)),
    )


def learned_inspection_ms(known: float | None, took_ms: float, count: int) -> float:
    """Return how long an inspection takes, after `count` of them took `took_ms`."""
    measured = took_ms / count
    return measured if known is None else 0.7 * known + 0.3 * measured
