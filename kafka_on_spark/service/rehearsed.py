"""A cluster's metadata for a rehearsal: decisions take effect on an image of its own, nowhere else.

Apart from the metadata service, which it stands in for: whoever decides in steps, each on what the
one before led to, does so here by the same functions, and nothing is committed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.service.metadata_service import MetadataService

T = TypeVar("T")


class RehearsedMetadata(MetadataService):
    """The metadata of `now`, and what is decided on it from then on.

    A lease that somebody holds is taken for resigned: the question is what a controller would do.

    Attributes:
        decided: The records that would be committed, without claims and resignations.
    """

    def __init__(self, now: MetadataService) -> None:
        super().__init__(now._log, now._clock, random=now._random)
        image = now.catch_up()
        if image.controller is not None:
            image = replace(image, controller=replace(image.controller, controller_id=None))
        self._image = image
        self.decided: list[Record] = []

    def catch_up(self) -> MetadataImage:
        """Return the image: nobody else takes part in a rehearsal."""
        return self._image

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have `decide` take effect on this image alone; return its response."""
        result = decide(self._image)
        if result.records:
            batch = MetadataBatch(
                base_offset=Offset(self._image.offset),
                stamp=Stamp(time_ms=self._clock.now_ms()),
                records=tuple(result.records),
            )
            self._image = self._image.replay(batch)
            self.decided.extend(
                each for each in result.records if not isinstance(each, ControllerRecord)
            )
        return result.response

    def maintain(self) -> None:
        """Nothing is due."""
