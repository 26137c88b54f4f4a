"""The grid of the newest image, kept from one image to the next: a commit costs what it changes.

Apart from `inspect/grid`, which makes every row anew: at ten thousand partitions that takes
longer than the time between two commits of a busy cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_on_spark.console.views.grid import Row, row_view
from kafka_on_spark.ids import Offset, TopicId
from kafka_on_spark.inspect.grid import Grid, GridRow, columns_of, row_of
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.moments import time_of


@dataclass(frozen=True, slots=True)
class _Kept:
    partition: PartitionRegistration
    row: GridRow
    view: Row


class LiveGrid:
    """The rows of one image, and of the next."""

    def __init__(self) -> None:
        self._image = MetadataImage()
        self._topics: dict[TopicId, dict[int, _Kept]] = {}

    def take(self, image: MetadataImage) -> list[Row] | None:
        """Take the next image; return the rows that changed. None: more changed than rows, such as
        a broker or a topic, and all of them are to be shown anew."""
        before, self._image = self._image, image
        if _is_other(before, image):
            self._topics = {
                topic_id: {number: _kept(image, topic, number) for number in topic.partitions}
                for topic_id, topic in image.topics.items()
            }
            return None
        changed = []
        for topic_id, topic in image.topics.items():
            if topic is before.topics[topic_id]:
                continue
            kept = self._topics[topic_id]
            for number, partition in topic.partitions.items():
                if kept[number].partition is not partition:
                    kept[number] = _kept(image, topic, number)
                    changed.append(kept[number].view)
        return changed

    @property
    def grid(self) -> Grid:
        """The grid of the image that was taken last."""
        image = self._image
        rows = tuple(each.row for each in self._in_order())
        return Grid(
            cluster_id=image.cluster_id or "",
            offset=Offset(image.offset),
            time=time_of(image.time_ms),
            columns=tuple(columns_of(image, rows)),
            rows=rows,
        )

    def rows(self) -> list[Row]:
        """Return the views of all rows, by topic and number."""
        return [each.view for each in self._in_order()]

    def _in_order(self) -> Iterator[_Kept]:
        topics = sorted(self._image.topics.values(), key=lambda each: each.name)
        for topic in topics:
            kept = self._topics[topic.topic_id]
            yield from (kept[number] for number in sorted(kept))


def _is_other(before: MetadataImage, after: MetadataImage) -> bool:
    """Return whether more than registrations of the same partitions changed."""
    return (
        before.offset == 0
        or before.brokers != after.brokers
        or before.configs != after.configs
        or before.topics.keys() != after.topics.keys()
        or any(
            topic is not before.topics[topic_id] and _is_other_topic(before.topics[topic_id], topic)
            for topic_id, topic in after.topics.items()
        )
    )


def _is_other_topic(before: TopicImage, after: TopicImage) -> bool:
    return before.configs != after.configs or len(before.partitions) != len(after.partitions)


def _kept(image: MetadataImage, topic: TopicImage, number: int) -> _Kept:
    partition = topic.partitions[number]
    row = row_of(image, topic, number, partition)
    return _Kept(partition, row, row_view(row, partition))
