"""A cluster's metadata as of a moment: one image that does not change, and its history.

Apart from the metadata service, which it does not extend: it has no method that commits.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from kafka_on_spark.errors import ClusterNotFoundError, InvalidRequestError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import LeaderChangeRecord, MetadataBatch, VotersRecord
from kafka_on_spark.query.moments import given_micros, in_seconds
from kafka_on_spark.service.metadata.metadata_roles import MetadataHistory, MetadataLogReader

NO_DECISION: Final = (VotersRecord, LeaderChangeRecord)
"""What a log begins with, before its cluster is there."""


class MetadataAsOf:
    """The metadata as of `image`, a MetadataHistory. `now` reads what it has become since."""

    def __init__(self, now: MetadataHistory, image: MetadataImage) -> None:
        self._now = now
        self._image = image

    @property
    def image(self) -> MetadataImage:
        """The image as of the moment."""
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

    def image_now(self) -> MetadataImage:
        """Return the newest image: records of the past are read from the replicas of now."""
        return self._now.catch_up()


def refusal(what: str, image: MetadataImage) -> InvalidRequestError:
    """Return the error for `what`, which can't be done to a cluster as of a moment."""
    return InvalidRequestError(
        f"can't {what}: the cluster was opened as it was at metadata offset {image.offset}"
        f" ({in_seconds(image.time_ms)}), and the past is read-only; open it without as_of"
    )


def metadata_as_of(now: MetadataLogReader, as_of: object, *, now_ms: int) -> MetadataAsOf:
    """Return the metadata as of a moment, or of a metadata offset.

    An offset is exclusive, as `image.offset` is. An offset in the middle of a decision leaves the
    decision out.

    Raises:
        InvalidRequestError: `as_of` is neither, is in the future, or is before the cluster's
            creation.
        ClusterNotFoundError: Its creation was cut off.
    """
    image = now.image_at(_offset_of(now, as_of, now_ms))
    if image.cluster_id is None and not image.brokers:
        decided = (each for each in now.history() if not isinstance(each.records[0], NO_DECISION))
        first = next(decided, None)
        if first is None:
            raise ClusterNotFoundError(
                "the creation of the cluster was cut off: create it again, which goes on with what"
                " is there"
            )
        raise InvalidRequestError(
            f"as_of can't be {as_of}: the cluster was made at {in_seconds(first.stamp.time_ms)}, by"
            f" the decision that ends at metadata offset {first.end_offset}; name a later one"
        )
    return MetadataAsOf(now, image)


def _offset_of(now: MetadataLogReader, as_of: object, now_ms: int) -> Offset:
    end = now.catch_up().offset
    if isinstance(as_of, datetime):
        offset = _offset_at(now, as_of, now_ms)
    elif isinstance(as_of, int) and not isinstance(as_of, bool):
        offset = Offset(as_of)
    else:
        raise InvalidRequestError(
            f"as_of can't be {as_of!r}: give a datetime with a time zone, or a metadata offset"
        )
    if not 0 <= offset <= end:
        raise InvalidRequestError(
            f"as_of can't be {as_of}: the metadata log has offsets 0 to {end}, the end exclusive"
        )
    return offset


def _offset_at(now: MetadataLogReader, moment: datetime, now_ms: int) -> Offset:
    time_ms = given_micros("as_of", moment) // 1000
    if time_ms > now_ms:
        raise InvalidRequestError(
            f"as_of can't be {moment}: that has not come yet (it is {in_seconds(now_ms)})"
        )
    return now.offset_at(time_ms)
