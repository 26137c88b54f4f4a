"""Batches of the past: `asOfTimestamp` and `asOfMetadataOffset` read what a consumer saw then.

Pure. An image at any offset of the metadata log has the high watermarks of all partitions: one
consistent cut. The records are read from the tables of now, which must prove to have them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the metadata log: an offset of it, or a time in ms since 1970."""

    kind: Literal["offset", "timestamp"]
    value: int


def image_as_of(
    as_of: AsOf,
    end: Offset,
    *,
    offset_at: Callable[[int], Offset],
    image_at: Callable[[Offset], MetadataImage],
) -> MetadataImage:
    """Return the image as of a moment; `end`: of the log.

    An offset is exclusive, as an image's is, and never splits a batch: `image_at` leaves out one
    that does not end by it. A time includes what was committed until then; the first later commit
    ends the past (`offset_at` says where it begins), so that a later time never includes less, even
    if clocks were wrong.

    Raises:
        InvalidRequestError: There was no cluster then, or the log ends before.
    """
    is_offset = as_of.kind == "offset"
    if is_offset and as_of.value > end:
        raise InvalidRequestError(
            f"option 'asOfMetadataOffset' can't be {as_of.value}: the metadata log ends at {end}"
        )
    image = image_at(Offset(as_of.value) if is_offset else offset_at(as_of.value))
    if image.cluster_id is None and not image.brokers:
        option = "asOfMetadataOffset" if is_offset else "asOfTimestamp"
        raise InvalidRequestError(
            f"option {option!r} can't be {as_of.value}: there was no cluster yet"
        )
    return image
