"""Batches of the past: `asOfTimestamp` and `asOfMetadataOffset` read what a consumer saw then.

Pure. An image at any offset of the metadata log has the high watermarks of all partitions: one
consistent cut. The records are read from the tables of now, which must prove to have them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch


@dataclass(frozen=True, slots=True)
class AsOf:
    """A moment of the metadata log: an offset of it, or a time in ms since 1970."""

    kind: Literal["offset", "timestamp"]
    value: int


def image_as_of(batches: Iterable[MetadataBatch], as_of: AsOf) -> MetadataImage:
    """Return the image as of a moment, replayed from the first batch on.

    An offset is exclusive, as an image's is, and never splits a batch. A time includes what was
    committed until then; the first later commit ends the past, so that a later time never includes
    less, even if clocks were wrong.

    Raises:
        InvalidRequestError: There was no cluster then, or the log ends before.
    """
    past, end = [], 0
    for batch in batches:
        end = batch.end_offset
        moment = batch.end_offset if as_of.kind == "offset" else batch.stamp.time_ms
        if moment > as_of.value:
            break
        past.append(batch)
    else:
        if as_of.kind == "offset" and as_of.value > end:
            raise InvalidRequestError(
                f"option 'asOfMetadataOffset' can't be {as_of.value}: the metadata log ends at"
                f" {end}"
            )
    if not past:
        option = "asOfMetadataOffset" if as_of.kind == "offset" else "asOfTimestamp"
        raise InvalidRequestError(
            f"option {option!r} can't be {as_of.value}: there was no cluster yet"
        )
    return MetadataImage().replay(*past)
