"""Measures how far moves are, beside the thread that follows the log: a disk that hangs holds up
what is known of moves, and no news of commits."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Final

from kafka_on_spark.console.views.cluster import progress_view
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.service.describe.sizes import MoveProgress
from kafka_on_spark.storage.calls.daemon_threads import DaemonThreads

MOVES_MAX: Final = 50
"""Moves that are measured in one turn: each opens a table for each replica of it."""

Measure = Callable[[Collection[PartitionKey]], list[MoveProgress]]
Progress = Mapping[str, tuple[int, int]]


class MoveMeter:
    """Measures moves in turns, one at a time. `measure` returns how far some moves are."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._threads = DaemonThreads(1, "moves")
        self._turn: Future[list[MoveProgress]] | None = None
        self._next = 0
        self._progress: Progress = {}

    @property
    def is_under_way(self) -> bool:
        """Whether a turn is, or what it found was not asked for yet."""
        return self._turn is not None

    def progress(self, moving: Mapping[str, PartitionKey]) -> Progress:
        """Return what is known of the moves under way, by partition.

        Raises:
            KafkaOnSparkError: The last turn has failed.
        """
        known = self._progress
        if self._turn is not None and self._turn.done():
            turn, self._turn = self._turn, None
            known = {**known, **progress_view(turn.result())}
        self._progress = {name: each for name, each in known.items() if name in moving}
        return self._progress

    def begin(self, moving: Mapping[str, PartitionKey]) -> None:
        """Begin a turn, of those moves that come next; none while one is under way."""
        if self.is_under_way or not moving:
            return
        keys = list(moving.values())
        first = self._next if self._next < len(keys) else 0
        self._next = first + MOVES_MAX
        self._turn = self._threads.submit(self._measure, keys[first : first + MOVES_MAX])

    def end(self) -> None:
        """Begin no turn any more."""
        self._threads.shutdown(wait=False)
