"""Which partitions a round looks at besides those with work, so that all are looked at in time.

Partitions stand in a ring, by topic id and number, and rounds go on along it: each looks at as
large a part of all as the time since the last one is of `replica.sweep.interval.ms`. Nothing here
visits all partitions: a slice is cut out of the ring by its place. A slice fixed by the clock
would be the same one at each run of a cron job.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage

FIRST: Final = PartitionKey(TopicId(""), 0)
"""Before every partition there is or will be."""

SLICE_MS_MIN: Final = 1000
"""What a round may spend on its slice, however little time its share is."""

AGAIN_MAX: Final = 64
"""Partitions whose look failed that are remembered to be looked at again."""

RANGES_MAX: Final = 160
"""Ranges that are remembered as looked at: those of an interval, and what wraps around."""

_MERGED_PART: Final = 64  # of an interval: looks so close in time are remembered as one
_SPARE_PART: Final = 16  # of an interval: for how long looks take, and are remembered too old


@dataclass(frozen=True, slots=True)
class Ring:
    """The partitions of some topics, in an order that every process finds alone.

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
        """How many partitions there are."""
        return self.starts[-1]

    def place(self, key: PartitionKey) -> int:
        """Return where `key` stands, or would stand if it were there."""
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
        """Return which partition stands at a place; `FIRST` for the first."""
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


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Partitions that were all looked at.

    Attributes:
        start: The first.
        end: The first behind them; None: there is none.
        at_ms: Of when the metadata was by which the earliest of these looks was planned: each of
            them began later.
    """

    start: PartitionKey
    end: PartitionKey | None
    at_ms: int

    def covers(self, other: "LookedAt") -> bool:
        """Return whether all of `other` is in it."""
        ends_later = self.end is None or (other.end is not None and other.end <= self.end)
        return self.start <= other.start and ends_later


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCourse:
    """How far rounds have come on their way around the ring. Nothing of safety rests on it.

    Attributes:
        at_ms: When the last round was.
        begins_at: Where the next slice begins.
        owed: How many partitions should have been looked at by `at_ms`, and were not.
        looked_at: What was looked at, the oldest first.
        again: Partitions whose last look failed.
        look_ms: What a look at a partition takes; None: not known.
    """

    at_ms: int
    begins_at: PartitionKey
    owed: float
    looked_at: tuple[LookedAt, ...] = ()
    again: tuple[PartitionKey, ...] = ()
    look_ms: float | None = None

    def shifted(self, by_ms: int) -> "SweepCourse":
        """Return it by another clock."""
        ranges = tuple(replace(each, at_ms=each.at_ms + by_ms) for each in self.looked_at)
        return replace(self, at_ms=self.at_ms + by_ms, looked_at=ranges)


def go_on(
    ring: Ring,
    course: SweepCourse | None,
    *,
    now_ms: int,
    interval_ms: int,
    random_below: Callable[[int], int],
) -> SweepCourse:
    """Return the course at the beginning of a round.

    One that is missing, older than the interval or from the future tells nothing: then all is
    owed, from a random place on, so that rounds that can't look at all do not begin alike.
    """
    if course is None or not 0 <= now_ms - course.at_ms <= interval_ms:
        place = random_below(ring.count) if ring.count else 0
        return SweepCourse(at_ms=now_ms, begins_at=ring.key_at(place), owed=ring.count)
    lap_ms = interval_ms - interval_ms / _SPARE_PART
    owed = course.owed + ring.count * (now_ms - course.at_ms) / lap_ms
    return replace(
        course,
        at_ms=now_ms,
        owed=min(owed, ring.count),
        looked_at=tuple(each for each in course.looked_at if now_ms - each.at_ms < interval_ms),
        again=tuple(each for each in course.again if each in ring),
    )


def next_slice(ring: Ring, course: SweepCourse, count_max: int) -> list[PartitionKey]:
    """Return what is to be looked at next: what is owed, at most `count_max`."""
    count = min(count_max, int(course.owed + 1e-6), ring.count)
    start = ring.place(course.begins_at)
    return ring.keys(0 if start >= ring.count else start, count) if count else []


def after_slice(
    ring: Ring,
    course: SweepCourse,
    keys: Sequence[PartitionKey],
    *,
    failed: Collection[PartitionKey],
    at_ms: int,
    interval_ms: int,
) -> SweepCourse:
    """Return the course once the next slice, `keys`, was looked at, some of them in vain.

    Those are looked at again in the next round. What can't be remembered does not count as looked
    at, nor what stands behind it in the slice. `at_ms`: as in `LookedAt`.
    """
    start = ring.place(course.begins_at)
    start = 0 if start >= ring.count else start
    known = {*course.again}
    wrong = [place for place, key in enumerate(keys) if key in failed and key not in known]
    room = AGAIN_MAX - len(course.again)
    sound = len(keys) if len(wrong) <= room else wrong[room]
    looked_at = course.looked_at
    for part in _parts(ring, start, sound, at_ms):
        looked_at = _with(looked_at, part, interval_ms // _MERGED_PART)
    return replace(
        course,
        begins_at=ring.key_at((start + len(keys)) % ring.count) if ring.count else FIRST,
        owed=max(0.0, course.owed - len(keys)),
        looked_at=looked_at,
        again=(*course.again, *(keys[place] for place in wrong[:room])),
    )


def _parts(ring: Ring, start: int, count: int, at_ms: int) -> Iterable[LookedAt]:
    """Yield the range of a slice, or its two ranges where it goes around the ring's end."""
    while count:
        end = min(start + count, ring.count)
        behind = None if end == ring.count else ring.key_at(end)
        yield LookedAt(ring.key_at(start), behind, at_ms)
        start, count = 0, count - (end - start)


def _with(looked_at: tuple[LookedAt, ...], new: LookedAt, merged_ms: int) -> tuple[LookedAt, ...]:
    if looked_at and looked_at[-1].end == new.start:
        last = looked_at[-1]
        if 0 <= new.at_ms - last.at_ms <= merged_ms:
            return (*looked_at[:-1], replace(last, end=new.end))
    kept = [each for each in looked_at if not new.covers(each)]
    return (*kept[-RANGES_MAX + 1 :], new)


class NotLookedAt:
    """The places of a ring that no look of the interval has come to."""

    def __init__(self, ring: Ring, course: SweepCourse) -> None:
        self._ring = ring
        self._gaps: list[tuple[int, int]] = []
        position = 0
        for start, end in sorted(_places(ring, course.looked_at)):
            if start > position:
                self._gaps.append((position, start))
            position = max(position, end)
        if position < ring.count:
            self._gaps.append((position, ring.count))

    def __contains__(self, key: PartitionKey) -> bool:
        place = self._ring.place(key)
        number = bisect_right(self._gaps, (place, self._ring.count)) - 1
        return number >= 0 and place < self._gaps[number][1]

    def count(self, failed: Collection[PartitionKey]) -> int:
        """Return how many they are, with those whose last look failed."""
        in_gaps = sum(end - start for start, end in self._gaps)
        return in_gaps + sum(1 for key in set(failed) if key not in self)


def _places(ring: Ring, looked_at: Iterable[LookedAt]) -> Iterable[tuple[int, int]]:
    for each in looked_at:
        yield ring.place(each.start), ring.count if each.end is None else ring.place(each.end)


def slice_ms(*, elapsed_ms: int, share: float) -> float:
    """Return how long a round may look at its slice, `elapsed_ms` after the last one."""
    return max(float(SLICE_MS_MIN), share * elapsed_ms)


def learned_look_ms(known: float | None, took_ms: float, count: int) -> float:
    """Return what a look at a partition takes, after `count` of them took `took_ms`."""
    measured = took_ms / count
    return measured if known is None else 0.7 * known + 0.3 * measured


def once_round_ms(
    ring: Ring, course: SweepCourse, *, elapsed_ms: int | None, interval_ms: int, share: float
) -> float | None:
    """Return how long rounds like this one take to look at everything once.

    The interval, or more where looks take more than the share of the time allows. None: looks
    can't come to an end, as far as is known.
    """
    work_ms = ring.count * (course.look_ms or 0.0)
    pace = share
    if elapsed_ms:
        pace = slice_ms(elapsed_ms=elapsed_ms, share=share) / elapsed_ms
    if work_ms == 0:
        return float(interval_ms)
    return None if pace == 0 else max(float(interval_ms), work_ms / pace)
