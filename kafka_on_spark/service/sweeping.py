"""What one process remembers of the sweep between its rounds, and what a hint tells the first one.

Apart from the round, which fetches: this says which partitions it looks at besides those with
work, and keeps how far it has come. `controller/sweep.py` decides.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from kafka_on_spark.config import Settings
from kafka_on_spark.controller.sweep import (
    NotLookedAt,
    Ring,
    SweepCourse,
    after_slice,
    go_on,
    learned_look_ms,
    next_slice,
    once_round_ms,
    slice_ms,
)
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock, SweepHints

log = logging.getLogger(__name__)

SCOPES_MAX: Final = 16
"""Choices of topics whose courses a process remembers."""

FIRST_LOOKS: Final = 16
"""Partitions that are looked at to learn what a look takes."""

_HINTS_AN_INTERVAL: Final = 64

Scope = frozenset[TopicId] | None


class Sweep:
    """The courses of a process's rounds: of those over all topics, and of those over some.

    Threads may share it. Only the course over all topics is written as a hint; any begins with it.
    """

    def __init__(
        self,
        clock: Clock,
        hints: SweepHints,
        *,
        random_below: Callable[[int], int],
        is_rehearsed: bool = False,
    ) -> None:
        self._clock = clock
        self._hints = hints
        self._random_below = random_below
        self._is_rehearsed = is_rehearsed
        self._lock = threading.Lock()
        self._courses: OrderedDict[Scope, SweepCourse] = OrderedDict()
        self._written_at_ms: int | None = None

    def begin(
        self,
        image: MetadataImage,
        scope: Scope,
        settings: Settings,
        *,
        as_of_ms: int,
        is_all: bool = False,
    ) -> "SweepTurn":
        """Return a round's turn over the topics of `scope`, or over all.

        `as_of_ms`: `image` has all that was committed by then. The process may have stood still
        since. `is_all`: of everything, however long it takes.
        """
        with self._lock:
            known = self._courses.get(scope) or self._courses.get(None)
        known = self._hint(image) if known is None else known
        now_ms = as_of_ms
        if known is not None and as_of_ms < known.at_ms <= self._clock.monotonic_ms():
            now_ms = known.at_ms  # another round was quicker
        return SweepTurn(
            Ring.of(image, scope),
            known,
            settings,
            now_ms=now_ms,
            as_of_ms=as_of_ms,
            random_below=self._random_below,
            is_all=is_all,
        )

    def _hint(self, image: MetadataImage) -> SweepCourse | None:
        try:
            found = self._hints.read(image.cluster_id or "")
        except KafkaOnSparkError as error:
            log.info("the hint of the sweep can't be read; all is looked at: %s", error)
            return None
        return None if found is None else found.shifted(-self._wall_ms())

    def _wall_ms(self) -> int:
        """Return what a hint's times are ahead of those that this process remembers."""
        return self._clock.now_ms() - self._clock.monotonic_ms()

    def keep(self, image: MetadataImage, scope: Scope, turn: "SweepTurn") -> None:
        """Have the next round go on where `turn` has come to."""
        with self._lock:
            self._courses[scope] = turn.course
            self._courses.move_to_end(scope)
            if len(self._courses) > SCOPES_MAX:
                self._courses.popitem(last=False)
            if scope is not None or self._is_rehearsed or not self._is_hint_due(turn):
                return
            self._written_at_ms = turn.course.at_ms
        try:
            self._hints.write(image.cluster_id or "", turn.course.shifted(self._wall_ms()))
        except KafkaOnSparkError as error:
            log.info("the hint of the sweep can't be written: %s", error)

    def _is_hint_due(self, turn: "SweepTurn") -> bool:
        """Whoever goes on writes seldom: what a hint lacks is looked at once more."""
        if self._written_at_ms is None:
            return True
        elapsed_ms = turn.course.at_ms - self._written_at_ms
        return turn.is_all or elapsed_ms >= turn.interval_ms / _HINTS_AN_INTERVAL


class SweepTurn:
    """One round's slice, in as many parts as it takes to learn how much fits into its time.

    Attributes:
        interval_ms: replica.sweep.interval.ms.
        is_all: Everything is looked at, however long it takes.
        course: Where the next part begins, and what was looked at.
    """

    def __init__(
        self,
        ring: Ring,
        known: SweepCourse | None,
        settings: Settings,
        *,
        now_ms: int,
        as_of_ms: int,
        random_below: Callable[[int], int],
        is_all: bool,
    ) -> None:
        self.interval_ms = settings.integer("replica.sweep.interval.ms")
        self.is_all = is_all
        self.course = go_on(
            ring,
            known,
            now_ms=now_ms,
            interval_ms=self.interval_ms,
            random_below=random_below,
        )
        self._ring = ring
        self._as_of_ms = as_of_ms
        self._elapsed_ms: int | None = None
        if known is not None and known.at_ms < now_ms:
            self._elapsed_ms = min(now_ms - known.at_ms, self.interval_ms)
        self._share = settings.number("replica.sweep.share")
        self._budget_ms = slice_ms(elapsed_ms=self._elapsed_ms or 0, share=self._share)
        self._again = () if is_all else self.course.again
        self._is_first = True
        if is_all:
            self.course = replace(self.course, owed=ring.count)

    def next_keys(self) -> list[PartitionKey]:
        """Return what to look at next; nothing: the round's slice is over."""
        self.course = replace(self.course, again=()) if self._is_first else self.course
        keys = [*self._again, *next_slice(self._ring, self.course, self._count_max())]
        self._is_first = False
        return keys

    def _count_max(self) -> int:
        look_ms = self.course.look_ms
        if self.is_all or look_ms == 0:
            return self._ring.count
        if self._budget_ms <= 0:
            return 0
        if look_ms is None:
            return FIRST_LOOKS
        return max(int(self._budget_ms / look_ms), int(self._is_first))

    def looked_at(
        self,
        keys: Sequence[PartitionKey],
        *,
        failed: Collection[PartitionKey],
        took_ms: float,
        count: int,
    ) -> None:
        """Take note of a look at the keys that were asked for; those of `failed` were not seen.

        `count`: how many it took the time to look at; of the others a fetch had seen all.
        """
        again, self._again = self._again, ()
        if again:  # they came with the first part
            left = tuple(key for key in again if key in failed)
            self.course = replace(self.course, again=left)
        self.course = after_slice(
            self._ring,
            self.course,
            keys[len(again) :],
            failed=failed,
            at_ms=self._as_of_ms,
            interval_ms=self.interval_ms,
        )
        self._budget_ms -= took_ms
        if count and not self.is_all:  # then there was copied, too
            look_ms = learned_look_ms(self.course.look_ms, took_ms, count)
            self.course = replace(self.course, look_ms=look_ms)

    def not_looked_at(self, leaderless: Collection[PartitionKey]) -> int:
        """Return of how many partitions the round can't say how they are.

        `leaderless`: nobody can.
        """
        return NotLookedAt(self._ring, self.course).count({*self.course.again, *leaderless})

    @property
    def once_round_ms(self) -> float | None:
        """How long it takes to look at everything once; None: there is no end of it."""
        return once_round_ms(
            self._ring,
            self.course,
            elapsed_ms=self._elapsed_ms,
            interval_ms=self.interval_ms,
            share=self._share,
        )
