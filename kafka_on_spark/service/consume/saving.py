"""Commits of a consumer's offsets: asked for, or each auto.commit.interval.ms."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from kafka_on_spark.controller.commands.groups import save_offsets
from kafka_on_spark.controller.groups.checks import Membership
from kafka_on_spark.controller.result import submit_if_due
from kafka_on_spark.errors import InvalidRequestError, KafkaOnSparkError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.query.consuming.settings import ConsumerSettings
from kafka_on_spark.query.consuming.standing import Standing
from kafka_on_spark.query.offsets.following import save_positions
from kafka_on_spark.service.consume.failing import RETRY_MS_MIN
from kafka_on_spark.service.consume.positions import Positions
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

RENEWAL_MS: Final = 60_000
"""How often an idle consumer looks whether its group's offsets must be saved again, to live on."""

Speaker = Callable[[], Membership | None]
"""Returns as whom a consumer saves offsets; None: it is no member of its group."""


class Saving:
    """Saves where one consumer stands."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        settings: ConsumerSettings,
        positions: Positions,
        speaker: Speaker,
        *,
        timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._settings = settings
        self._positions = positions
        self._speaker = speaker
        self._timeout_ms = timeout_ms
        self._due_at_ms = clock.monotonic_ms() + settings.auto_commit_interval_ms

    def group(self) -> str:
        """Return the group.

        Raises:
            InvalidRequestError: The consumer has none.
        """
        if self._settings.group is None:
            raise InvalidRequestError("the consumer has no group to commit for: give it one")
        return self._settings.group

    def save(self, standings: Mapping[PartitionKey, Standing]) -> None:
        """Save positions.

        Raises:
            InvalidRequestError: The consumer has no group.
            UnknownMemberIdError, StaleMemberEpochError: As `check_may_commit`.
            RequestTimedOutError, CommitOutcomeUnknownError: As `MetadataService.submit`.
        """
        group, now_ms, positions = self.group(), self._clock.now_ms(), dict(standings)
        if not positions:
            return
        member = self._speaker()
        submit_if_due(
            self._metadata.image,
            lambda image: save_positions(image, group, positions, member, now_ms),
            partial(self._metadata.submit, timeout_ms=self._timeout_ms),
        )

    def save_offsets(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Save these offsets; positions stay.

        Raises:
            OffsetOutOfRangeError: One is below the log start or above the high watermark.
            And as `save`.
        """
        group, member, now_ms = self.group(), self._speaker(), self._clock.now_ms()
        self._metadata.submit(
            lambda image: save_offsets(image, group, offsets, member, now_ms),
            timeout_ms=self._timeout_ms,
        )

    def save_if_due(self) -> None:
        """Save what was processed, if it is time to; a failure is logged, and tried again."""
        if self.is_due():
            self.try_to_save()

    def is_due(self) -> bool:
        """Return whether commits are automatic, and it is time to."""
        return self._settings.is_auto_commit and self._clock.monotonic_ms() >= self._due_at_ms

    def try_to_save(self) -> None:
        """Save what was processed, if commits are automatic; a failure is logged."""
        if not self._settings.is_auto_commit:
            return
        now_ms = self._clock.monotonic_ms()
        self._due_at_ms = now_ms + max(self._settings.auto_commit_interval_ms, RETRY_MS_MIN)
        try:
            self.save(self._positions.processed())
            self._positions.is_moved = False
        except KafkaOnSparkError as error:
            log.warning("the offsets of group %r were not committed: %s", self.group(), error)

    def pause_ms(self, now_ms: int) -> float | None:
        """Return how long it is until it is time to; None: never."""
        if not self._settings.is_auto_commit:
            return None
        return self._due_at_ms - now_ms + (0 if self._positions.is_moved else RENEWAL_MS)

    def committed(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Offset | None]:
        """Return the group's offsets; None where it has none.

        Raises:
            InvalidRequestError: The consumer has no group.
        """
        group, groups = self.group(), self._metadata.catch_up().groups
        found = {key: groups.get((group, key)) for key in keys}
        return {key: None if each is None else each.offset for key, each in found.items()}
