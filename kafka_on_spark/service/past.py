"""A cluster's metadata as it was: one image that does not move, and that nobody can change.

Apart from the metadata service, which it stands in for: all that asks it gets the past, and all
that would commit is refused.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn, TypeVar

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import ControllerEpoch, Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import MetadataBatch
from kafka_on_spark.ports import Turn
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.read_only_log import ReadOnlyLog

T = TypeVar("T")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PastMetadata(MetadataService):
    """The metadata as of `image`. `now` is the service of what it has become since."""

    def __init__(self, now: MetadataService, image: MetadataImage) -> None:
        log = ReadOnlyLog(now._log)
        super().__init__(log, now._clock, random=now._random, table=now.table)
        self.now = now
        self._image = image

    def catch_up(self) -> MetadataImage:
        """Return the image: what was does not change."""
        return self._image

    def _submit(
        self,
        decide: Callable[[MetadataImage, Turn], ControllerResult[T]],
        timeout_ms: int,
        controller: tuple[str, ControllerEpoch] | None,
        note: Callable[[], bytes] | None,
    ) -> NoReturn:
        """Refuse what is submitted or concluded.

        Raises:
            InvalidRequestError: Always.
        """
        raise refusal("change it", self._image)

    def maintain(self) -> None:
        """Nothing is due."""

    def history(self, *, to_offset: Offset | None = None) -> list[MetadataBatch]:
        """Return every batch up to then, oldest first."""
        end = self._image.offset if to_offset is None else min(to_offset, self._image.offset)
        return self.now.history(to_offset=Offset(end))


def refusal(what: str, image: MetadataImage) -> InvalidRequestError:
    """Return the error for `what` can't be done to a cluster of the past."""
    return InvalidRequestError(
        f"can't {what}: the cluster was opened as it was at metadata offset {image.offset}"
        f" ({_moment(image.time_ms)}), and the past is read-only; open it without as_of"
    )


def go_back(now: MetadataService, as_of: object, *, now_ms: int) -> PastMetadata:
    """Return the metadata as of a moment, or of a metadata offset.

    An offset is exclusive, as `image.offset` is; one in the middle of a decision is before it.

    Raises:
        InvalidRequestError: It is neither, is not yet, or was before the cluster.
    """
    image = now.image_at(_offset_of(now, as_of, now_ms))
    if image.offset == 0:
        first = now.history()[0]
        raise InvalidRequestError(
            f"as_of can't be {as_of}: the cluster was made at {_moment(first.stamp.time_ms)}, by"
            f" the decision that ends at metadata offset {first.end_offset}; name a later one"
        )
    return PastMetadata(now, image)


def _offset_of(now: MetadataService, as_of: object, now_ms: int) -> Offset:
    end = now.catch_up().offset
    if isinstance(as_of, datetime):
        offset = _at(now, as_of, now_ms)
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


def _at(now: MetadataService, moment: datetime, now_ms: int) -> Offset:
    if moment.tzinfo is None:
        raise InvalidRequestError(
            f"as_of can't be {moment}: it has no time zone; give one, as in datetime.now(UTC)"
        )
    # Not by timestamp(), a float: the moment of a history's entry must include that entry.
    time_ms = (moment - EPOCH) // timedelta(milliseconds=1)
    if time_ms > now_ms:
        raise InvalidRequestError(
            f"as_of can't be {moment}: that has not come yet (it is {_moment(now_ms)})"
        )
    return now.offset_at(time_ms)


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
