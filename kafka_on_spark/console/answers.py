"""The views of one cluster by their names below /api/: parameters in, which are read as strictly as
options of the command line; plain values out.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.console.grid import LiveGrid
from kafka_on_spark.console.messages import COUNT_MAX, Messages
from kafka_on_spark.console.timeline import Histories, moments_view, timeline_view
from kafka_on_spark.groups.membership import describe_members
from kafka_on_spark.groups.offsets import describe_group, groups_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.reports import min_isr_setting
from kafka_on_spark.node.node import Node
from kafka_on_spark.observe.figures import group_lags
from kafka_on_spark.observe.metadata_as_of import image_as_of
from kafka_on_spark.observe.what_if import Forecast, PartitionForecast, forecast, who_dies

COUNT: Final = 50
IMAGES_MAX: Final = 16
"""Images share what is equal in them; who drags through the past goes back and forth."""

NAMED_MAX: Final = 20
"""Names in one cell of a table: a member may own ten thousand partitions."""

LISTED_MAX: Final = 2000
"""Partitions that are listed, the worst first; all are counted."""

View = dict[str, Any]

Asked = Mapping[str, str]
"""The parameters of a request."""

Answer = Callable[[Asked], Any]
"""Returns a view as plain values."""


class Answers:
    """Answers what a page asks for. `newest_grid` returns the grid of the newest image."""

    def __init__(self, node: Node, newest_grid: Callable[[], object]) -> None:
        self._node = node
        self._newest_grid = newest_grid
        self._image_at = lru_cache(IMAGES_MAX)(
            lambda at: image_as_of(node.metadata, at, f"can't go to metadata offset {at}")
        )
        self._histories = Histories(node.metadata)
        self._messages = Messages(node)

    @property
    def views(self) -> Mapping[str, Answer]:
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
        newest that is known."""
        at, now = whole(asked, "at"), self._node.metadata.image
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
            now_ms=max(self._node.clock.now_ms(), history.image.time_ms),
        )

    def _read(self, asked: Asked) -> object:
        image, topic = self._image(asked), text(asked, "topic")
        given = whole(asked, "count")
        if given == 0:
            raise InvalidRequestError("count can't be 0")
        count = min(given or COUNT, COUNT_MAX)
        if "key" in asked:
            before = whole(asked, "before")
            return self._messages.with_key(image, topic, asked["key"].encode(), count, before)
        partition = whole(asked, "partition") or 0
        time_ms = whole(asked, "time", is_signed=True)
        if time_ms is not None:
            return self._messages.at_time(image, topic, partition, time_ms, count)
        return self._messages.at_offset(image, topic, partition, whole(asked, "offset"), count)


def past_grid(image: MetadataImage) -> dict[str, Any]:
    """Return the grid of an image that nobody follows."""
    live = LiveGrid()
    live.take(image)
    return live.view()


def whole(asked: Asked, name: str, *, is_signed: bool = False) -> int | None:
    """Return a whole number, from 0 on unless `is_signed`; None: it was not given."""
    text = asked.get(name, "")
    if not text:
        return None
    digits = text.removeprefix("-") if is_signed else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18):
        raise InvalidRequestError(f"{name} can't be {digits!r}: give a whole number")
    return int(text)


def wholes(asked: Asked, name: str) -> list[int]:
    """Return whole numbers with commas between; none: it was not given."""
    parts = [part for part in asked.get(name, "").split(",") if part]
    return [each for part in parts if (each := whole({name: part}, name)) is not None]


def text(asked: Asked, name: str) -> str:
    if not asked.get(name):
        raise InvalidRequestError(f"{name} is missing")
    return asked[name]


def topic_view(image: MetadataImage, name: str) -> View:
    """Return what a topic is, besides its partitions."""
    topic = image.topic(name)
    partitions = topic.partitions.values()
    return {
        "name": topic.name,
        "id": topic.topic_id,
        "partitions": len(topic.partitions),
        "replicas": max((len(each.replicas) for each in partitions), default=0),
        "minIsr": min_isr_setting(image, topic.topic_id),
        "records": sum(each.high_watermark - each.log_start_offset for each in partitions),
        "uncommitted": sum(each.known_log_end - each.high_watermark for each in partitions),
        "configs": sorted(topic.configs.items()),
        "groups": sorted(
            {group for group, key in image.group_offsets if key.topic_id == topic.topic_id}
        ),
    }


def groups_view(image: MetadataImage) -> View:
    names = groups_of(image)
    members = {name: len(each.members) for name, each in image.consumer_groups.items()}
    topics: dict[str, list[View]] = {name: [] for name in names}
    for (name, topic), each in sorted(group_lags(image).items()):
        behind = {"partitions": len(each), "lag": sum(each), "most": max(each)}
        topics[name].append({"topic": topic, **behind})
    return {
        "groups": [
            {"name": name, "members": members.get(name, 0), "topics": topics[name]}
            for name in names
        ]
    }


def group_view(image: MetadataImage, name: str) -> View:
    """Return one group: where it stands in each partition, and its members."""
    return {
        "name": name,
        "members": [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                **each.client._asdict(),
                "epoch": each.member_epoch,
                "isAway": each.is_away,
                "topics": _some(each.topics),
                "owned": _some(each.partitions),
                "target": _some(each.target),
            }
            for each in describe_members(image, name).members
        ],
        "places": [
            [*each.name, each.offset, each.log_start_offset, each.high_watermark, each.lag]
            for each in describe_group(image, name)
            if each.offset is not None
        ],
    }


def _some(names: Sequence[object]) -> View:
    return {"count": len(names), "first": list(map(str, names[:NAMED_MAX]))}


def forecast_view(found: Forecast) -> View:
    worst = sorted(found.partitions, key=lambda each: (_severity(each), each.name))
    return {
        "offset": found.offset,
        "brokers": found.brokers,
        "counts": [
            ["leaderships that would move", len(found.moved)],
            ["partitions without a leader", len(found.offline)],
            ["partitions that would refuse acks=all", len(found.under_min_isr)],
            ["partitions with one copy left", len(found.on_last_copy)],
            ["records at risk", found.records_at_risk],
        ],
        "leaders": [
            [broker, found.leaders_before[broker], found.leaders_after.get(broker, 0)]
            for broker in found.leaders_before
        ],
        "partitions": [_partition(each) for each in worst[:LISTED_MAX]],
        "more": max(len(worst) - LISTED_MAX, 0),
    }


def _severity(each: PartitionForecast) -> int:
    if each.is_offline:
        return 0
    return 1 if each.is_under_min_isr else 2


def _partition(each: PartitionForecast) -> View:
    return {
        "name": str(each.name),
        "leader": [each.leader_before, each.leader_after],
        "isr": [each.isr_before, each.isr_after],
        "copies": each.copies_left,
        "atRisk": each.records_at_risk,
        "words": [
            words
            for words, is_so in (
                ("no leader", each.is_offline),
                ("refuses acks=all", each.is_under_min_isr),
                ("another leader", each.is_moved),
                ("fewer in sync", len(each.isr_after) < len(each.isr_before)),
            )
            if is_so
        ],
    }
