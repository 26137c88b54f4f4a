"""What a pass of the controller does after its decisions about leaders: retention, expiry,
compaction, the removal of tables, and a share of upkeep.

Apart from the loop, since none of it is urgent, and each may take seconds: between two of them the
controller renews its lease, or it would count as dead.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.compaction_passes import CompactionPasses
from kafka_on_spark.controller.controller_report import Tally
from kafka_on_spark.controller.expiry import Expired, expire, offsets_retention_ms
from kafka_on_spark.controller.removing_replicas import CheckControls
from kafka_on_spark.controller.retention import Retention
from kafka_on_spark.controller.term import Term
from kafka_on_spark.groups.silent_groups import SilentGroups
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import CommitClock
from kafka_on_spark.metadata.result import ControllerResult

log = logging.getLogger(__name__)

CHECK_MS_MAX: Final = 600_000
"""Source: producer.id.expiration.check.interval.ms, offsets.retention.check.interval.ms."""

Clean = Callable[[CheckControls], int]
Maintain = Callable[..., object]
"""Does a share of upkeep, and calls `after_part` after each part of it."""
SubmitExpired = Callable[[Callable[[MetadataImage], ControllerResult[Expired]]], Expired]


class Expiry:
    """Has what is due of expiry decided, by the earliest of three clocks, some times an hour."""

    def __init__(self, clock: CommitClock) -> None:
        self._clock = clock
        self._checked_at_ms: int | None = None

    def run(self, image: MetadataImage, submit: SubmitExpired) -> None:
        """Decide what has expired, if it is time to look."""
        if not self._is_time(image):
            return
        now_ms = self._clock.too_old_by_ms()
        if now_ms is None:
            return  # the next pass looks again
        if expire(image, now_ms).records:
            expired = submit(lambda newest: expire(newest, now_ms))
            log.info("expired: %d producer ids, %d offsets", expired.producers, expired.offsets)
        self._checked_at_ms = self._clock.monotonic_ms()

    def _is_time(self, image: MetadataImage) -> bool:
        if self._checked_at_ms is None:
            return True
        settings = image.settings()
        shortest_ms = min(
            settings.integer("producer.id.expiration.ms"), offsets_retention_ms(settings)
        )
        waited_ms = self._clock.monotonic_ms() - self._checked_at_ms
        return waited_ms >= min(CHECK_MS_MAX, shortest_ms // 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chores:
    """The services that do each of it; None: it is not done."""

    retention: Retention | None = None
    expiry: Expiry | None = None
    silent_groups: SilentGroups | None = None
    compaction: CompactionPasses | None = None
    clean: Clean | None = None
    maintain: Maintain | None = None

    def run(
        self,
        term: Term,
        image: Callable[[], MetadataImage],
        tally: Tally,
        after_part: Callable[[], None],
    ) -> None:
        """Do all of it under a term, and call `after_part` after each part of it.

        Raises:
            NotControllerError: Another controller has claimed.
        """
        if self.retention is not None:
            rows = self.retention.run(submit=term.submit)
            tally.records_deleted += sum(row.count for row in rows)
        after_part()
        if self.expiry is not None:
            self.expiry.run(image(), term.submit)
        after_part()
        if self.silent_groups is not None:
            self.silent_groups.run(image(), term.submit)
        after_part()
        if self.compaction is not None:
            self.compaction.run(submit=term.submit)
        after_part()
        if self.clean is not None:
            tally.removed += self.clean(term.check)
        after_part()
        if self.maintain is not None:
            self.maintain(after_part=after_part)
