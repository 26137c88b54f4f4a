"""A cluster's metadata as of a moment: one image that does not change, and its history.

Apart from the metadata service, which it does not extend: it has no method that commits.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Final

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    HistoryExpiredError,
    InvalidRequestError,
)
from kafka_on_spark.base.ids import Offset, given_micros, in_seconds
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.records import LeaderChangeRecord, MetadataBatch, VotersRecord

NO_DECISION: Final = (VotersRecord, LeaderChangeRecord)
"""What a log begins with, before its cluster is there."""


class MetadataAsOf:
    """The metadata as of `image`. `now` reads what it has become since."""

    def __init__(self, now: MetadataService, image: MetadataImage) -> None:
        self._now = now
        self._image = image

    @property
    def image(self) -> MetadataImage:
        return self._image

    def catch_up(self) -> MetadataImage:
        """Return the image: the past does not change."""
        return self._image

    def history(self, *, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return every batch up to the moment, oldest first."""
        end = self._image.offset if to_offset is None else min(to_offset, self._image.offset)
        return self._now.history(to_offset=Offset(end))

    def pieces_newest_first(self) -> Iterator[tuple[MetadataImage, list[MetadataBatch]]]:
        """Yield the log up to the moment, between its snapshots, the newest piece first."""
        end = self._image.offset
        for before, batches in self._now.pieces_newest_first():
            if before.offset < end:
                yield before, [batch for batch in batches if batch.end_offset <= end]

    def refusal(self, what: str) -> InvalidRequestError:
        """Return the error for `what`, which can't be done to a cluster as of a moment."""
        return InvalidRequestError(
            f"can't {what}: the cluster was opened as it was at metadata offset"
            f" {self._image.offset} ({in_seconds(self._image.time_ms)}), and the past is"
            " read-only; open it without as_of"
        )


def metadata_as_of(now: MetadataService, as_of: object, *, now_ms: int) -> MetadataAsOf:
    """Return the metadata as of a moment, or of a metadata offset; raise InvalidRequestError if it
    is neither, or in the future, and as `image_as_of`."""
    given = f"as_of can't be {as_of}"
    if isinstance(as_of, datetime):
        time_ms = given_micros("as_of", as_of) // 1000
        if time_ms > now_ms:
            raise InvalidRequestError(
                f"{given}: that has not come yet (it is {in_seconds(now_ms)})"
            )
        now.catch_up()
        offset = now.log.offset_at(time_ms)
    elif isinstance(as_of, int) and not isinstance(as_of, bool):
        offset = Offset(as_of)
    else:
        raise InvalidRequestError(
            f"as_of can't be {as_of!r}: give a datetime with a time zone, or a metadata offset"
        )
    return MetadataAsOf(now, image_as_of(now, offset, given))


def image_as_of(log: MetadataService, offset: Offset, given: str) -> MetadataImage:
    """Return the image at an offset of the metadata log, which is exclusive, as `image.offset` is:
    one in the middle of a decision leaves the decision out. `given`: "as_of can't be 7".

    Raises:
        InvalidRequestError: The log has no such offset, or it is before the cluster's creation.
        ClusterNotFoundError: Its creation was cut off.
    """
    end = log.catch_up().offset
    if not 0 <= offset <= end:
        raise InvalidRequestError(
            f"{given}: the metadata log has offsets 0 to {end}, the end exclusive"
        )
    image = log.image_at(offset)
    if image.cluster_id is not None or image.brokers:
        return image
    decided = (each for each in log.history() if not isinstance(each.records[0], NO_DECISION))
    first = next(decided, None)
    if first is None:
        raise ClusterNotFoundError(
            "the creation of the cluster was cut off: create it again, which goes on with what"
            " is there"
        )
    raise InvalidRequestError(
        f"{given}: the cluster was made at {in_seconds(first.stamp.time_ms)}, by the decision that"
        f" ends at metadata offset {first.end_offset}; name a later one"
    )


def kept_history(
    metadata: MetadataService | MetadataAsOf,
) -> tuple[MetadataImage, list[MetadataBatch]]:
    """Return every batch of the log whose records are kept, oldest first, and the image that they
    continue."""
    try:
        return MetadataImage(), metadata.history()
    except HistoryExpiredError:
        before, kept = metadata.image, list[list[MetadataBatch]]()
    with suppress(HistoryExpiredError):
        for image, batches in metadata.pieces_newest_first():
            before = image
            kept.append(batches)
    return before, [batch for batches in reversed(kept) for batch in batches]
