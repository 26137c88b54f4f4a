"""A dry run: decisions take effect on an image in memory, and nowhere else.

The controller decides in steps, each step on what the one before led to. Here it does so by the
same functions, and nothing is committed: there is no way to the metadata log.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.base.ids import ControllerEpoch, Offset
from kafka_on_spark.base.process import Clock
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.metadata.result import ControllerResult

T = TypeVar("T")


class DryRunMetadata:
    """A MetadataDecider that begins with `image`, and whose decisions change its own image alone.

    A lease that a controller holds counts as resigned: the question is what a controller would do.

    Attributes:
        decided: The records that would be committed, without claims and resignations.
    """

    def __init__(self, image: MetadataImage, clock: Clock) -> None:
        if image.controller is not None:
            image = replace(image, controller=replace(image.controller, controller_id=None))
        self._image = image
        self._clock = clock
        self.decided: list[Record] = []

    @property
    def image(self) -> MetadataImage:
        """The image that the decisions so far have led to."""
        return self._image

    def catch_up(self) -> MetadataImage:
        """Return the image: no other process takes part in a dry run."""
        return self._image

    def has_next(self) -> bool:
        """Return that there is nothing to read."""
        return False

    def submit(
        self,
        decide: Callable[[MetadataImage], ControllerResult[T]],
        *,
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None = None,
    ) -> T:
        """Have what `decide` says of the image take effect on it; return its response."""
        return self._take_effect(decide(self._image))

    def _take_effect(self, result: ControllerResult[T]) -> T:
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
