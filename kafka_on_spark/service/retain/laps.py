"""Laps of retention around the ring of all partitions: when the next one may wait.

A pass asks what is remembered of thousands of partitions. While nothing changes in the metadata,
only time makes one due, and `log.retention.check.interval.ms` says how soon that must be seen: so
after a whole lap the next one may wait for half of that. Without this, an idle controller of ten
thousand partitions took several percent of a core for it.
"""

import threading
from typing import Final, NamedTuple

from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage

WAIT_PART: Final = 2
"""Of the interval: a partition is looked at so much later at most. Kafka walks once an interval."""


class Walk(NamedTuple):
    """A part of the ring.

    Attributes:
        start: Its first place.
        keys: The partitions from there on.
        ring_count: How many the ring has.
    """

    start: int
    keys: list[PartitionKey]
    ring_count: int


class Laps:
    """Remembers the lap under way, and when the last whole one ended. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: tuple[object, object] | None = None
        self._walked = 0
        self._next: int | None = None
        self._ended_ms: int | None = None

    def may_wait(self, image: MetadataImage, now_ms: int) -> bool:
        """Return whether a whole lap has ended lately, and nothing has changed since it began."""
        interval_ms = image.settings().integer("log.retention.check.interval.ms")
        with self._lock:
            ended_ms = self._ended_ms if self._is_as_seen(image) else None
            return ended_ms is not None and now_ms - ended_ms < interval_ms // WAIT_PART

    def left(self, image: MetadataImage, start: int, *, of: int) -> int:
        """Return how many places of the ring's `of` the lap still has, if it goes on at `start`."""
        with self._lock:
            goes_on = self._is_as_seen(image) and start == self._next
            return of - self._walked if goes_on else of

    def add(self, image: MetadataImage, walk: Walk, *, is_whole: bool, now_ms: int) -> None:
        """Take note of a pass that has walked; `is_whole`: it has looked at all that was due."""
        with self._lock:
            if not self._is_as_seen(image):
                self._seen, self._ended_ms = (image.topics, image.configs), None
                self._next = None
            is_next = is_whole and walk.start == self._next
            self._walked = len(walk.keys) + (self._walked if is_next else 0)
            self._next = (walk.start + len(walk.keys)) % max(walk.ring_count, 1)
            if not is_whole:
                self._next = self._ended_ms = None
            elif self._walked >= walk.ring_count:
                self._walked, self._ended_ms = 0, now_ms

    def _is_as_seen(self, image: MetadataImage) -> bool:
        """Return whether an image has the same partitions and settings: replay makes new mappings
        of what changes, and keeps all others."""
        topics, configs = self._seen or (None, None)
        return image.topics is topics and image.configs is configs
