"""The views of one cluster by their names below /api/: parameters in, which are read as strictly as
options of the command line; plain values out."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.console.cluster import group_view, groups_view, topic_view
from kafka_on_spark.console.foresight import forecast_view
from kafka_on_spark.console.grid import LiveGrid, grid_view
from kafka_on_spark.console.messages import COUNT_MAX, Messages
from kafka_on_spark.console.timeline import Histories, moments_view, timeline_view
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.services import Services
from kafka_on_spark.observe.metadata_as_of import image_as_of
from kafka_on_spark.observe.what_if import forecast, who_dies

COUNT: Final = 50
IMAGES_MAX: Final = 16
"""Images share what is equal in them; who drags through the past goes back and forth."""

Asked = Mapping[str, str]
"""The parameters of a request."""

Answer = Callable[[Asked], Any]
"""Returns a view as plain values."""


class Answers:
    """Answers what a page asks for. `newest_grid` returns the grid of the newest image."""

    def __init__(self, services: Services, newest_grid: Callable[[], object]) -> None:
        self._services = services
        self._newest_grid = newest_grid
        self._image_at = lru_cache(IMAGES_MAX)(
            lambda at: image_as_of(services.metadata, at, f"can't go to metadata offset {at}")
        )
        self._histories = Histories(services.metadata)
        self._messages = Messages(services)

    @property
    def views(self) -> Mapping[str, Answer]:
        """All views, by name."""
        return {
            "grid": self._grid,
            "topic": lambda asked: topic_view(self._image(asked), text(asked, "name")),
            "groups": lambda asked: groups_view(self._image(asked)),
            "group": lambda asked: group_view(self._image(asked), text(asked, "name")),
            "what-if": self._what_if,
            "timeline": self._timeline,
            "moments": lambda asked: moments_view(self._histories.read()),
            "messages": self._read,
        }

    def _image(self, asked: Asked) -> MetadataImage:
        """Return the image at the metadata offset that a page is at, exclusive; without one, the
        newest that is known.

        Raises:
            InvalidRequestError: The log has no such offset, or the cluster was not there yet.
        """
        at, now = whole(asked, "at"), self._services.metadata.image
        return now if at in (None, now.offset) else self._image_at(at)

    def _grid(self, asked: Asked) -> object:
        return past_grid(self._image(asked)) if asked.get("at") else self._newest_grid()

    def _what_if(self, asked: Asked) -> object:
        image = self._image(asked)
        racks = [asked["rack"]] if asked.get("rack") else []
        return forecast_view(forecast(image, who_dies(image, wholes(asked, "brokers"), racks)))

    def _timeline(self, asked: Asked) -> object:
        history = self._histories.read()
        return timeline_view(
            history,
            topic=asked.get("topic") or None,
            partition=whole(asked, "partition"),
            now_ms=max(self._services.clock.now_ms(), history.image.time_ms),
        )

    def _read(self, asked: Asked) -> object:
        image, topic = self._image(asked), text(asked, "topic")
        count = bounded(asked, "count", COUNT, COUNT_MAX)
        if count == 0:
            raise InvalidRequestError("count can't be 0")
        if "key" in asked:
            before = whole(asked, "before")
            return self._messages.with_key(image, topic, asked["key"].encode(), count, before)
        partition = whole(asked, "partition") or 0
        time_ms = moment(asked, "time")
        if time_ms is not None:
            return self._messages.at_time(image, topic, partition, time_ms, count)
        return self._messages.at_offset(image, topic, partition, whole(asked, "offset"), count)


def past_grid(image: MetadataImage) -> dict[str, Any]:
    """Return the grid of an image that nobody follows."""
    live = LiveGrid()
    live.take(image)
    return grid_view(live.grid, live.rows())


def whole(asked: Asked, name: str) -> int | None:
    """Return a whole number from 0 on; None: it was not given.

    Raises:
        InvalidRequestError: It is no such number.
    """
    text = asked.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidRequestError(f"{name} can't be {text!r}: give a whole number")
    return int(text)


def moment(asked: Asked, name: str) -> int | None:
    """Return ms since 1970, before it if they are negative; None: it was not given.

    Raises:
        InvalidRequestError: It is no such number.
    """
    given = asked.get(name, "")
    found = whole({name: given.removeprefix("-")}, name)
    return -found if found is not None and given.startswith("-") else found


def bounded(asked: Asked, name: str, default: int, most: int) -> int:
    """Return a whole number up to `most`; `default`: it was not given.

    Raises:
        InvalidRequestError: It is no number.
    """
    found = whole(asked, name)
    return default if found is None else min(found, most)


def wholes(asked: Asked, name: str) -> list[int]:
    """Return whole numbers with commas between; none: it was not given.

    Raises:
        InvalidRequestError: One is no number.
    """
    parts = [part for part in asked.get(name, "").split(",") if part]
    return [each for part in parts if (each := whole({name: part}, name)) is not None]


def text(asked: Asked, name: str) -> str:
    """Return a text.

    Raises:
        InvalidRequestError: It was not given.
    """
    if not asked.get(name):
        raise InvalidRequestError(f"{name} is missing")
    return asked[name]
