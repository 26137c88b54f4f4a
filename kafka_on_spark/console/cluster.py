"""Topics and groups as plain values: the page's tables."""

from collections.abc import Sequence
from typing import Any, Final

from kafka_on_spark.base.errors import GroupIdNotFoundError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.groups.offsets import describe_group, groups_of, lag_of
from kafka_on_spark.metadata.high_watermark import min_isr_setting
from kafka_on_spark.metadata.image import MetadataImage

View = dict[str, Any]

NAMED_MAX: Final = 20
"""Names in one cell of a table: a member may own ten thousand partitions."""


def topic_view(image: MetadataImage, name: str) -> View:
    """Return what a topic is, besides its partitions.

    Raises:
        UnknownTopicOrPartitionError: There is no such topic.
    """
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
        "groups": sorted({group for group, key in image.groups if key.topic_id == topic.topic_id}),
    }


def groups_view(image: MetadataImage) -> View:
    """Return all groups, each with its lag by topic."""
    lags: dict[str, dict[str, list[int]]] = {}
    for (group, key), place in image.groups.items():
        partition = image.partition(key)
        if partition is not None:
            topic = image.topics[key.topic_id].name
            lags.setdefault(group, {}).setdefault(topic, []).append(lag_of(partition, place))
    names = sorted({*groups_of(image), *image.consumer_groups})
    return {
        "groups": [
            {
                "name": name,
                "members": len(image.consumer_groups[name].members)
                if name in image.consumer_groups
                else 0,
                "topics": [
                    {"topic": topic, "partitions": len(each), "lag": sum(each), "most": max(each)}
                    for topic, each in sorted(lags.get(name, {}).items())
                ],
            }
            for name in names
        ]
    }


def group_view(image: MetadataImage, name: str) -> View:
    """Return one group: where it stands in each partition, and its members.

    Raises:
        GroupIdNotFoundError: There is no such group.
    """
    places, group = describe_group(image, name), image.consumer_groups.get(name)
    if not places and group is None:
        raise GroupIdNotFoundError(f"there is no group {name!r}")
    return {
        "name": name,
        "places": [
            [*each.name, each.offset, each.log_start_offset, each.high_watermark, each.lag]
            for each in places
        ],
        "members": [
            {
                "id": each.member_id,
                "instance": each.instance_id,
                "epoch": each.member_epoch,
                "isAway": each.is_away,
                "topics": _some(each.subscribed_topics),
                "owned": _some(_names(image, each.owned)),
                "target": _some(_names(image, each.target)),
            }
            for each in (() if group is None else group.members.values())
        ],
    }


def _some(names: Sequence[str]) -> View:
    return {"count": len(names), "first": names[:NAMED_MAX]}


def _names(image: MetadataImage, keys: frozenset[PartitionKey]) -> list[str]:
    there = (key for key in keys if image.partition(key) is not None)
    return [str(each) for each in sorted(image.name_of(key) for key in there)]
