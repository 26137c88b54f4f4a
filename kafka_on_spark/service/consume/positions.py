"""Where a consumer stands in each of its partitions, and up to where all is processed."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Final

from kafka_on_spark.controller.groups.offsets import added_since
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.consuming.settings import ConsumerSettings
from kafka_on_spark.query.consuming.standing import (
    LogPiece,
    Standing,
    begin,
    cuts_after,
    revised,
)

log: Final = logging.getLogger(__name__)

LogPieces = Callable[[], Iterable[LogPiece]]
"""Reads the metadata log, the newest piece first."""


class Positions:
    """A consumer's positions.

    Attributes:
        standings: Where it goes on, by partition.
        is_moved: A position has moved since somebody has set this to False.
    """

    def __init__(self, settings: ConsumerSettings, pieces: LogPieces) -> None:
        self.standings: dict[PartitionKey, Standing] = {}
        self.is_moved = False
        self._settings = settings
        self._pieces = pieces
        self._handed_out: dict[PartitionKey, Standing] = {}

    def begin(
        self, image: MetadataImage, keys: Sequence[PartitionKey], *, is_begun: bool, is_member: bool
    ) -> None:
        """Begin in partitions. `is_begun`: others were read before these came.

        Where a member of a group begins in partitions that were added, the group's offsets say.

        Raises: as `begin`.
        """
        group, reset = self._settings.group, self._settings.auto_offset_reset
        added = set(keys) if is_begun else added_since(image, keys, group)
        for key in keys:
            is_added = key in added and not is_member
            self.standings[key] = begin(image, key, group=group, reset=reset, is_added=is_added)

    def revise(self, image: MetadataImage, key: PartitionKey) -> None:
        """Take what an image leaves of a position.

        Raises: as `revised`.
        """
        before = self.standings[key]
        after = revised(
            image,
            key,
            before,
            reset=self._settings.auto_offset_reset,
            find_cuts=lambda generations: cuts_after(self._pieces(), generations),
        )
        if after.offset != before.offset:
            name = image.name_of(key)
            log.warning("%s goes on at offset %d, not %d", name, after.offset, before.offset)
        self.standings[key] = after

    def seek(self, key: PartitionKey, standing: Standing) -> None:
        """Go on elsewhere; what was handed out below counts as processed."""
        self.standings[key] = standing
        self._handed_out.pop(key, None)

    def note_handed_out(self, key: PartitionKey) -> None:
        """Remember where a call has begun to hand out."""
        self._handed_out.setdefault(key, self.standings[key])

    def move(self, key: PartitionKey, offset: Offset) -> None:
        """Go on behind what was handed out or passed."""
        self.is_moved = True
        self.standings[key] = Standing(offset, self.standings[key].unclean_generation)

    def take_back(self) -> None:
        """Go back to before what was handed out."""
        self.standings |= self._handed_out
        self._handed_out.clear()

    def take_as_processed(self) -> None:
        """Take all that was handed out as processed."""
        self._handed_out.clear()

    def take_as_processed_to(self, offsets: Mapping[PartitionKey, int]) -> None:
        """Take what was handed out below some offsets as processed."""
        for key, offset in offsets.items():
            before = self._handed_out.get(key)
            if before is None or offset <= before.offset:
                continue
            if offset >= self.standings[key].offset:
                del self._handed_out[key]
            else:
                self._handed_out[key] = Standing(Offset(offset), before.unclean_generation)

    @property
    def has_in_hand(self) -> bool:
        """Whether something was handed out that does not count as processed yet."""
        return bool(self._handed_out)

    def processed(self) -> dict[PartitionKey, Standing]:
        """Return up to where all is processed."""
        return {**self.standings, **self._handed_out}

    def forget(self, keys: Set[PartitionKey]) -> None:
        """Forget partitions."""
        for key in keys:
            self.standings.pop(key, None)
            self._handed_out.pop(key, None)
