"""When partitions are visited, and for how long.

A partition is visited for everything that is due when the cursor comes to it. Partitions are in a
ring, by topic id and number, and rounds go along it: each inspects as large a part of all (its
*slice*) as the time since the last round is of `replica.sweep.interval.ms`. A slice is cut out of
the ring by its place. One fixed by the clock would be the same at each run of a cron job.

For everything but inspections a partition is visited earlier if it has changed, if its last visit
said so, or if this process has not visited it (`DueTimes`, one for each kind of work).

A process that ends leaves a hint for the next one, in `sweep.json` on a metadata root: how far
the cursor is, when work had its share of time, and when roots were cleaned. Any process replaces
the last hint, and its content is never trusted: bytes that can't be a hint count as none.
"""

import json
import logging
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from operator import itemgetter
from typing import Any, Final, NamedTuple

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Clock, PartitionKey, TopicId, listed
from kafka_on_spark.metadata.cluster_roots import HintRoots
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.node.node import Node, hint_roots

log = logging.getLogger(__name__)

FIRST: Final = PartitionKey(TopicId(""), 0)
"""Before every partition there is or will be."""

SLICE_MS_MIN: Final = 1000
"""What a round may spend on its slice, however little time its share is."""

AGAIN_MAX: Final = 64
"""Partitions with a failed inspection that a round inspects again, before its slice."""

_SPARE_PART: Final = 16  # of an interval: for the time that inspections take


Ring = tuple[PartitionKey, ...]
"""The partitions of some topics, by topic id and number: in the same order in every process."""


def ring_of(image: MetadataImage, topic_ids: Collection[TopicId] | None = None) -> Ring:
    known = image.topics if topic_ids is None else image.topics.keys() & set(topic_ids)
    return _ring(tuple((each, len(image.topics[each].partitions)) for each in sorted(known)))


@lru_cache(maxsize=4)  # a round of an idle cluster asks for nothing but this
def _ring(counts: tuple[tuple[TopicId, int], ...]) -> Ring:
    return tuple(PartitionKey(each, number) for each, count in counts for number in range(count))


ROOTS_INTERVAL_MS: Final = 3_600_000
"""How often the roots of brokers are cleaned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPosition:
    """How far rounds have come around the ring. No rule of safety depends on it.

    Attributes:
        owed: How many partitions should have been inspected by `at_ms`, and were not. No more than
            these were not inspected within the interval, but for those of `again`: within it as
            many fall due as there are, and they are inspected in the order of the ring. One that
            is new lets those behind it wait, and one that is gone slows the pace: each is owed.
        ring: What the ring was then; a hint knows only how many partitions it had.
        again: Partitions whose last inspection failed, those first that failed longest ago.
        worked_at_ms: When the time for other work was last given out, by the wall clock; None: not
            known.
        cleaned_at_ms: When roots were last cleaned, by the wall clock; None: not known.
    """

    at_ms: int
    begins_at: PartitionKey
    owed: float
    ring: Ring | int
    again: tuple[PartitionKey, ...] = ()
    worked_at_ms: int | None = None
    cleaned_at_ms: int | None = None


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
        begins_at = ring[random_below(len(ring))] if ring else FIRST
        return SweepPosition(at_ms=now_ms, begins_at=begins_at, owed=len(ring), ring=ring)
    round_ms = interval_ms - interval_ms / _SPARE_PART
    owed = position.owed + len(ring) * (now_ms - position.at_ms) / round_ms
    if isinstance(position.ring, int):
        owed += abs(len(ring) - position.ring)
    elif ring != position.ring:
        owed += len(set(ring).symmetric_difference(position.ring))
    known = set(ring) if position.again else ()
    return replace(
        position,
        at_ms=now_ms,
        owed=min(owed, len(ring)),
        ring=ring,
        again=tuple(each for each in position.again if each in known),
    )


NAME: Final = "sweep.json"

_VERSION: Final = 3

_ID_LENGTH_MAX: Final = 64

_NUMBER_MAX: Final = 2**53


def encode(cluster_id: str, position: SweepPosition) -> bytes:
    """Return a sweep's progress as a hint's bytes, at most `local_files.SMALL_FILE_BYTES_MAX`."""
    fields = {
        "version": _VERSION,
        "cluster_id": cluster_id,
        "at_ms": position.at_ms,
        "begins_at": position.begins_at,
        "owed": position.owed,
        "partitions": position.ring if isinstance(position.ring, int) else len(position.ring),
        "again": position.again,
        "worked_at_ms": position.worked_at_ms,
        "cleaned_at_ms": position.cleaned_at_ms,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(content: bytes, cluster_id: str) -> SweepPosition | None:
    """Return the sweep's progress in a hint's bytes, or None if it can't be one of this cluster."""
    try:
        fields = json.loads(content)
        again = fields["again"]
        if (fields["version"], fields["cluster_id"]) != (_VERSION, cluster_id):
            return None
        if not isinstance(again, list) or len(again) > AGAIN_MAX:
            return None
        return SweepPosition(
            at_ms=_number(fields["at_ms"]),
            begins_at=_key(fields["begins_at"]),
            owed=float(_number(fields["owed"], int, float)),
            ring=_number(fields["partitions"]),
            again=tuple(map(_key, again)),
            worked_at_ms=_number(fields["worked_at_ms"], int, type(None)),
            cleaned_at_ms=_number(fields["cleaned_at_ms"], int, type(None)),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _key(value: Any) -> PartitionKey:
    topic_id, number = value
    if not isinstance(topic_id, str) or len(topic_id) > _ID_LENGTH_MAX:
        raise ValueError("not a topic's id")
    return PartitionKey(TopicId(topic_id), _number(number))


def _number(value: Any, *kinds: type) -> Any:
    if type(value) not in (kinds or (int,)) or not 0 <= (value or 0) <= _NUMBER_MAX:
        raise ValueError("not a number of a hint")
    return value


SCOPES_MAX: Final = 16
"""Selections of topics whose progress a process remembers."""

FIRST_INSPECTIONS: Final = 16
"""Partitions that a round inspects first, to learn how long an inspection takes."""

_HINTS_AN_INTERVAL: Final = 64

Scope = frozenset[TopicId] | None
"""The topics of a round; None: all."""


def scope_of(image: MetadataImage, topics: str | Iterable[str] | None) -> Scope:
    """Return the scope of a round over `topics`, one topic, or all. InvalidRequestError: they are
    no name and no list of them; UnknownTopicOrPartitionError: a topic does not exist."""
    if topics is None:
        return None
    names = [topics] if isinstance(topics, str) else listed(topics, "topics", "names")
    return frozenset(image.topic(name).topic_id for name in names)


SWEEP_INTERVAL: Final = "replica.sweep.interval.ms"

WORK_INTERVAL: Final = "log.cleaner.interval.ms"


class Scheduler:
    """What one process visits, and for how long: the cursor of inspections, of all topics and of
    selections of topics, and the time for all other work.

    Threads may share it. Only the progress over all topics is written as a hint, and every
    selection begins with it.
    """

    def __init__(
        self,
        clock: Clock,
        hints: HintRoots,
        *,
        random_below: Callable[[int], int],
    ) -> None:
        self._clock = clock
        self._hints = hints
        self._random_below = random_below
        self._lock = threading.Lock()
        self._progress: OrderedDict[Scope, SweepPosition] = OrderedDict()
        self._written_at_ms: int | None = None
        self._worked_at_ms: int | None = None
        self._has_worked = False
        self._debt_ms = 0.0
        self._cleaned_at_ms: int | None = None

    def begin(
        self,
        image: MetadataImage,
        scope: Scope,
        settings: Settings,
        *,
        as_of_ms: int,
        is_all: bool = False,
    ) -> "SweepRound":
        """Return a round's slice of the topics of `scope`, or of all topics.

        `as_of_ms`: `image` has all that was committed by then. The process may have stood still
        since. `is_all`: the slice is everything, however long that takes.
        """
        with self._lock:
            known = self._progress.get(scope) or self._progress.get(None)
        known = self._hint(image) if known is None else known
        now_ms = as_of_ms
        if known is not None and as_of_ms < known.at_ms <= self._clock.monotonic_ms():
            now_ms = known.at_ms  # another round has ended first
        ring, interval_ms = ring_of(image, scope), settings.integer(SWEEP_INTERVAL)
        position = begin_round(
            ring, known, now_ms=now_ms, interval_ms=interval_ms, random_below=self._random_below
        )
        elapsed_ms = 0 if known is None else min(max(0, now_ms - known.at_ms), interval_ms)
        budget_ms = max(SLICE_MS_MIN, settings.number("replica.sweep.share") * elapsed_ms)
        return SweepRound(ring, position, budget_ms, is_all=is_all)

    def keep(self, image: MetadataImage, scope: Scope, sweep_round: "SweepRound") -> None:
        """Have the next round go on where `sweep_round` has ended."""
        with self._lock:
            self._progress[scope] = sweep_round.position
            self._progress.move_to_end(scope)
            if len(self._progress) > SCOPES_MAX:
                self._progress.popitem(last=False)
        if scope is None:
            self._leave_hint(image, is_due=sweep_round.is_all)

    def begin_work(self, image: MetadataImage) -> float:
        """Return how long work may take now (ms): `log.cleaner.share` of the time since this was
        last asked, in this process or in that which left the hint, less what work took too long.

        Time that nobody has used is not given out later: a pass must come to its end.
        """
        if self._worked_at_ms is None:
            self._hint(image)
        now_ms, settings = self._clock.now_ms(), image.settings()
        with self._lock:
            since_ms = now_ms if self._worked_at_ms is None else self._worked_at_ms
            self._worked_at_ms = now_ms
            if self._cleaned_at_ms is None:
                self._cleaned_at_ms = now_ms
            elapsed_ms = min(max(0, now_ms - since_ms), settings.integer(WORK_INTERVAL))
            return settings.number("log.cleaner.share") * elapsed_ms - self._debt_ms

    def end_work(self, image: MetadataImage, left_ms: float) -> None:
        """Note what is left of the time that work had; less than 0: it took so much longer."""
        with self._lock:
            self._debt_ms = max(0.0, -left_ms)
            is_first, self._has_worked = not self._has_worked, True
        self._leave_hint(image, is_due=is_first)

    def are_roots_due(self) -> bool:
        """Return whether an interval has passed since roots were cleaned, or since the first work
        if nothing is known of that. A time of the future says nothing."""
        with self._lock:
            last_ms = self._cleaned_at_ms
            elapsed_ms = 0 if last_ms is None else self._clock.now_ms() - last_ms
            return not 0 <= elapsed_ms < ROOTS_INTERVAL_MS

    def note_roots_cleaned(self) -> None:
        with self._lock:
            self._cleaned_at_ms = self._clock.now_ms()

    def _hint(self, image: MetadataImage) -> SweepPosition | None:
        try:
            contents = self._hints.contents(NAME)
            decoded = (decode(each, image.cluster_id or "") for each in contents)
            found = next((each for each in decoded if each is not None), None)
        except KafkaOnSparkError as error:
            log.info("the hint of the sweep can't be read; all partitions are inspected: %s", error)
            return None
        if found is None:
            return None
        with self._lock:
            if self._worked_at_ms is None:
                self._worked_at_ms = found.worked_at_ms
            if self._cleaned_at_ms is None:
                self._cleaned_at_ms = found.cleaned_at_ms
        return replace(found, at_ms=found.at_ms - self._wall_ms())

    def _wall_ms(self) -> int:
        """Return by how much the wall clock, which hints use, is ahead of the monotonic one."""
        return self._clock.now_ms() - self._clock.monotonic_ms()

    def _leave_hint(self, image: MetadataImage, *, is_due: bool) -> None:
        """Write how far this process is: seldom, since what a hint lacks is only visited again; and
        not if it has no room for what failed: then an older one says less.

        A process that makes no rounds leaves what the hint says of inspections.
        """
        now_ms = self._clock.monotonic_ms()
        interval_ms = image.settings().integer(SWEEP_INTERVAL)
        with self._lock:
            written_at_ms, position = self._written_at_ms, self._progress.get(None)
            if position is not None and len(position.again) > AGAIN_MAX:
                return
            since_ms = inf if written_at_ms is None else now_ms - written_at_ms
            if not is_due and since_ms < interval_ms / _HINTS_AN_INTERVAL:
                return
            self._written_at_ms = now_ms
        position = position or self._hint(image)
        if position is None:
            ring = ring_of(image)
            position = SweepPosition(at_ms=now_ms, begins_at=FIRST, owed=len(ring), ring=ring)
        position = replace(
            position,
            at_ms=position.at_ms + self._wall_ms(),
            worked_at_ms=self._worked_at_ms,
            cleaned_at_ms=self._cleaned_at_ms,
        )
        try:
            self._hints.write(NAME, encode(image.cluster_id or "", position))
        except KafkaOnSparkError as error:
            log.debug("the hint of the sweep can't be written: %s", error)  # who writes it says so


class SweepRound:
    """One round's slice, in parts, so that the round learns how much fits into its time."""

    def __init__(
        self,
        ring: Ring,
        position: SweepPosition,
        budget_ms: float,
        *,
        is_all: bool,
    ) -> None:
        self.budget_ms = budget_ms
        self.is_all = is_all
        self.position = replace(position, owed=len(ring)) if is_all else position
        self._ring = ring
        self._place = bisect_left(ring, position.begins_at) % max(1, len(ring))
        self._again = () if is_all else position.again[:AGAIN_MAX]
        self._inspection_ms: float | None = None

    def is_ahead_of(self, as_of_ms: int) -> bool:
        """Return whether what is known of inspections is newer than an image of `as_of_ms`."""
        return self.position.at_ms > as_of_ms

    def next_keys(self) -> list[PartitionKey]:
        """Return the partitions to inspect next; none: the round's slice is complete."""
        if self.is_all or self._inspection_ms == 0:
            count_max = len(self._ring)
        elif self.budget_ms <= 0:
            count_max = 0
        elif self._inspection_ms is None:
            count_max = FIRST_INSPECTIONS
        else:
            count_max = int(self.budget_ms / self._inspection_ms)
        end = self._place + min(count_max, int(self.position.owed + 1e-6), len(self._ring))
        around = max(0, end - len(self._ring))
        return [*self._again, *self._ring[self._place : end], *self._ring[:around]]

    def record_inspected(
        self,
        keys: Sequence[PartitionKey],
        *,
        failed: Collection[PartitionKey],
        took_ms: float,
    ) -> None:
        """Record that `keys` were inspected. Those in `failed`, whose inspections failed, are
        inspected again in a later round."""
        position, seen, count = self.position, set(keys), len(keys) - len(self._again)
        left = (key for key in position.again if key not in seen)
        self._place = (self._place + count) % max(1, len(self._ring))
        self._again = ()
        self.position = replace(
            position,
            begins_at=self._ring[self._place] if self._place else FIRST,
            owed=max(0.0, position.owed - count),
            again=(*left, *(key for key in keys if key in failed)),
        )
        self.budget_ms -= took_ms
        if keys:
            self._inspection_ms = took_ms / len(keys)

    def not_inspected_count(self, leaderless: Collection[PartitionKey]) -> int:
        """Return how many partitions may not have been inspected within the interval.

        `leaderless`: partitions that can't be inspected.
        """
        failed = {*self.position.again, *leaderless}
        return min(int(self.position.owed + 1e-6) + len(failed), len(self._ring))


REST_PART: Final = 2
"""Of the interval between two visits: once all that was due was visited, nobody asks what is due
for so long. Without this, an idle controller of ten thousand partitions took several percent of a
core for it."""


class _Visit(NamedTuple):
    """A partition and its settings as they were visited, when that was, and when the next visit is
    due though nothing changes. Without a partition: only its settings count."""

    partition: PartitionRegistration | None
    layers: tuple[Mapping[str, str], ...]
    at_ms: float
    due_at_ms: float

    def is_of(self, partition: PartitionRegistration, settings: Settings) -> bool:
        """Return whether nothing has changed since."""
        then = self.partition
        is_same = then is None or partition is then or partition == then
        return is_same and settings.layers == self.layers


class DueTimes:
    """When partitions are due for one kind of work, by what one process knows of its visits.

    A partition is due when its last visit said so; or once it or its settings have changed, and an
    interval has passed since. One that this process has not visited is due. Nothing rests on it:
    what is forgotten costs visits. Threads may share it.
    """

    def __init__(self, interval: str, random_below: Callable[[int], int]) -> None:
        """`interval`: the setting of the time between two visits of a partition, at least."""
        self._interval = interval
        self._random_below = random_below
        self._visits: dict[PartitionKey, _Visit] = {}
        self._all_visited_at_ms: float = -inf

    def are_resting(self, image: MetadataImage, now_ms: float) -> bool:
        """Return whether all that was due was visited a short time ago."""
        rest_ms = image.settings().integer(self._interval) // REST_PART
        return now_ms - self._all_visited_at_ms < rest_ms

    def rest(self, since_ms: float) -> None:
        self._all_visited_at_ms = since_ms

    def due(
        self,
        image: MetadataImage,
        partitions: Iterable[tuple[PartitionKey, PartitionRegistration]],
        now_ms: float,
    ) -> list[PartitionKey]:
        """Return which of `partitions` are due, those first that were never visited, then those
        that were visited longest ago.

        The first visits of a process begin at a random place: processes that have time for some
        only come to all partitions together.
        """
        interval_ms = image.settings().integer(self._interval)
        found = list(partitions)
        visits = self._visits
        if len(visits) > sum(len(topic.partitions) for topic in image.topics.values()):
            known = visits.copy().items()  # other threads add to it
            visits = {key: each for key, each in known if image.partition(key) is not None}
            self._visits = visits
        if found and not visits:
            first = self._random_below(len(found))
            found = [*found[first:], *found[:first]]
        due: list[tuple[float, PartitionKey]] = []
        for key, partition in found:
            visit = visits.get(key)
            if visit is None:
                due.append((-inf, key))
            elif now_ms >= visit.due_at_ms or (
                now_ms - visit.at_ms >= interval_ms
                and not visit.is_of(partition, image.settings(key.topic_id))
            ):
                due.append((visit.at_ms, key))
        due.sort(key=itemgetter(0))
        return [key for _, key in due]

    def record(
        self,
        key: PartitionKey,
        partition: PartitionRegistration | None,
        settings: Settings,
        *,
        at_ms: float,
        due_at_ms: float,
    ) -> None:
        """Note a visit of a partition as it was (None: how it was makes no difference); it is due
        at `due_at_ms` though nothing changes."""
        self._visits[key] = _Visit(partition, settings.layers, at_ms, due_at_ms)


def scheduler(node: Node) -> Scheduler:
    """Return what says which partitions this process visits: a part of a node."""
    return Scheduler(node.clock, node.part(hint_roots), random_below=node.ids.random_below)
