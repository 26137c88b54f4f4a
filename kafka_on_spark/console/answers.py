"""The views of one cluster by their names below /api/: parameters in, plain values out."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kafka_on_spark.cluster.cluster import Cluster
from kafka_on_spark.console.asked import Asked, bounded, moment, text, whole, wholes
from kafka_on_spark.console.disks import disks_of
from kafka_on_spark.console.measuring import MOVES_MAX
from kafka_on_spark.console.messages import COUNT_MAX, Messages
from kafka_on_spark.console.moments import Moments
from kafka_on_spark.console.views.cluster import (
    brokers_view,
    group_view,
    groups_view,
    moves_view,
    progress_view,
    topic_view,
    voters_view,
)
from kafka_on_spark.console.views.foresight import comparison_view, forecast_view, gone_view
from kafka_on_spark.console.views.grid import grid_view
from kafka_on_spark.console.views.live_grid import LiveGrid
from kafka_on_spark.console.views.timeline import Histories, moments_view, timeline_view
from kafka_on_spark.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.inspect.replicas import compare_partition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.service.what_if.what_if import forecast, who_dies
from kafka_on_spark.spark.wiring.services import Services

SIZES_MAX: Final = 200
"""Partitions whose logs are measured for one answer: those in view, and some more."""

COUNT: Final = 50

Answer = Callable[[Asked], Any]
"""Returns a view as plain values."""

Stream = Callable[[Asked], Iterator[Any]]
"""Yields plain values, of which each takes a while."""


class Answers:
    """Answers what a page asks for. `newest_grid` returns the grid of the newest image."""

    def __init__(
        self, cluster: Cluster, services: Services, newest_grid: Callable[[], object]
    ) -> None:
        self._cluster = cluster
        self._services = services
        self._newest_grid = newest_grid
        self._moments = Moments(services.metadata)
        self._histories = Histories(services.metadata)
        self._messages = Messages(services)

    @property
    def views(self) -> Mapping[str, Answer]:
        """All views, by name."""
        return {
            "grid": self._grid,
            "topic": lambda asked: topic_view(self._image(asked), text(asked, "name")),
            "sizes": self._sizes,
            "brokers": self._brokers,
            "groups": lambda asked: groups_view(self._image(asked)),
            "group": lambda asked: group_view(self._image(asked), text(asked, "name")),
            "moves": self._moves,
            "voters": lambda asked: voters_view(self._cluster.describe_quorum()),
            "what-if": self._what_if,
            "timeline": self._timeline,
            "moments": lambda asked: moments_view(self._histories.read()),
            "messages": self._read,
        }

    @property
    def streams(self) -> Mapping[str, Stream]:
        """Views that come bit by bit, by name."""
        return {"audit": self._audit}

    def _image(self, asked: Asked) -> MetadataImage:
        return self._moments.image(whole(asked, "at"))

    def _grid(self, asked: Asked) -> object:
        at = whole(asked, "at")
        return self._newest_grid() if at is None else past_grid(self._moments.image(at))

    def _sizes(self, asked: Asked) -> object:
        image, topic = self._services.metadata.image, text(asked, "topic")
        numbers = wholes(asked, "partitions")[:SIZES_MAX]
        keys = [partition_key(image, topic, number) for number in numbers]
        sizes = self._services.partition_sizes(keys)
        return [[key.partition, sizes[key]] for key in keys]

    def _brokers(self, asked: Asked) -> object:
        image = self._image(asked)
        is_past = whole(asked, "at") is not None
        return brokers_view(image, {} if is_past else disks_of(image))

    def _moves(self, asked: Asked) -> object:
        image = self._image(asked)
        view = moves_view(image)
        first = [] if whole(asked, "at") is not None else view["moves"][:MOVES_MAX]
        keys = {partition_key(image, each["topic"], each["partition"]) for each in first}
        moves = self._services.move_progress(keys) if keys else []
        return {**view, "progress": progress_view(moves)}

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

    def _audit(self, asked: Asked) -> Iterator[object]:
        """Compare a topic's replicas, each partition's by a fresh image: the cluster goes on."""
        metadata, name = self._services.metadata, text(asked, "topic")
        options, is_deep = self._services.options, asked.get("deep") == "1"
        topic = metadata.catch_up().topic(name)
        yield {"partitions": len(topic.partitions)}
        for number in sorted(topic.partitions):
            key = PartitionKey(topic.topic_id, number)
            try:
                found = compare_partition(metadata.catch_up(), key, options, is_deep=is_deep)
            except UnknownTopicOrPartitionError:
                yield gone_view(name, number)
            else:
                yield comparison_view(name, found)


def past_grid(image: MetadataImage) -> dict[str, Any]:
    """Return the grid of an image that nobody follows."""
    live = LiveGrid()
    live.take(image)
    return grid_view(live.grid, live.rows())
