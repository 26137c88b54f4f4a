"""When one member of a group shares out its partitions: any may, and one is enough.

Who has changed the group does, and the first of its members; the others do if these have not for an
interval. All wait a moment after the last sharing out, so that many that join at once have few
targets between them. None of it is needed for safety: who comes second finds nothing to decide.
"""

from collections.abc import Callable
from typing import Final

from kafka_on_spark.controller.groups.sharing import is_to_share
from kafka_on_spark.ids import NO_EPOCH, MemberId
from kafka_on_spark.metadata.group import ConsumerGroup
from kafka_on_spark.metadata.image import MetadataImage

SHARE_MS: Final = 1_000
"""Between two targets of a group, about. Source: group.consumer.assignment.interval.ms."""


class SharePace:
    """One member's pace. `random` gives [0, 1). For one thread."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._is_mine = False
        self._target_epoch: int = NO_EPOCH
        self._shared_at_ms: float | None = None
        self._since_ms: int | None = None
        self._jitter = random()

    def claim(self) -> None:
        """This member has changed the group, and sees to it."""
        self._is_mine = True

    def is_due(
        self,
        image: MetadataImage,
        group: ConsumerGroup,
        me: MemberId,
        now_ms: int,
        interval_ms: int,
    ) -> bool:
        """Return whether `me` shares out now."""
        if group.target_epoch != self._target_epoch:
            self._target_epoch, self._shared_at_ms = group.target_epoch, now_ms
        if not is_to_share(image, group):
            self._since_ms, self._is_mine = None, False
            return False
        if self._since_ms is None:
            self._since_ms, self._jitter = now_ms, self._random()
        if group.target_epoch == NO_EPOCH:
            return True
        due_ms = (self._shared_at_ms or 0) + SHARE_MS * (0.5 + self._jitter)
        if not self._is_mine and me != _first(group):
            due_ms = max(due_ms, self._since_ms + interval_ms * (0.5 + self._jitter))
        return now_ms >= due_ms


def _first(group: ConsumerGroup) -> MemberId | None:
    """Return the first member that is there."""
    return min((name for name, each in group.members.items() if not each.is_away), default=None)
