"""Has what is due of expiry decided: by whoever controls, some times an hour."""

import logging
from collections.abc import Callable
from typing import Final

from kafka_on_spark.controller.commands.expiry import Expired, expire, offsets_retention_ms
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import too_old_by_ms
from kafka_on_spark.ports.process import Clock

log = logging.getLogger(__name__)

CHECK_MS_MAX: Final = 600_000
"""Source: producer.id.expiration.check.interval.ms, offsets.retention.check.interval.ms."""

Submit = Callable[[Callable[[MetadataImage], ControllerResult[Expired]]], Expired]
RootsNow = Callable[[MetadataImage], int | None]
"""Returns the time by the clock of a broker's root; None: no root tells one now."""


class Expiry:
    """Expiry as one controller does it, by its own clock, a root's, and `commit_clock`, which says
    the time of what it commits: see `too_old_by_ms`."""

    def __init__(self, clock: Clock, commit_clock: Clock, *, roots_now_ms: RootsNow) -> None:
        self._clock = clock
        self._commit_clock = commit_clock
        self._roots_now_ms = roots_now_ms
        self._checked_at_ms: int | None = None

    def run(self, image: MetadataImage, submit: Submit) -> None:
        """Decide what has expired, if it is time to look."""
        if not self._is_time(image):
            return
        now_ms = self._clock.now_ms()
        if expire(image, now_ms).records:
            root_now_ms = self._roots_now_ms(image)
            if root_now_ms is None:
                return  # the next pass looks again
            now_ms = too_old_by_ms(now_ms, root_now_ms, self._commit_clock.now_ms())
            expired = submit(lambda newest: expire(newest, now_ms))
            log.info("expired: %d producer ids, %d offsets", expired.producers, expired.offsets)
        self._checked_at_ms = self._clock.monotonic_ms()

    def _is_time(self, image: MetadataImage) -> bool:
        if self._checked_at_ms is None:
            return True
        settings = image.settings()
        shortest_ms = min(
            settings.integer("producer.id.expiration.ms"),
            offsets_retention_ms(settings),
        )
        waited_ms = self._clock.monotonic_ms() - self._checked_at_ms
        return waited_ms >= min(CHECK_MS_MAX, shortest_ms // 4)
