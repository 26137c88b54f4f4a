"""The grid of the newest image, kept from one image to the next: a commit costs what it changes.

Apart from `inspect/grid`, which makes every row anew: at ten thousand partitions that takes
longer than the time between two commits of a busy cluster.
"""

from dataclasses import dataclass

from kafka_on_spark.console.views.grid import Row, row_view
from kafka_on_spark.ids import TopicId
from kafka_on_spark.inspect.grid import Grid, GridRow, grid_with, row_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration


@dataclass(frozen=True, slots=True)
class _Kept:
    partition: PartitionRegistration
    row: GridRow
    view: Row


class LiveGrid:
    """The rows of one image, and of the next, by topic and number."""

    def __init__(self) -> None:
        self._image = MetadataImage()
        self._kept: dict[tuple[TopicId, int], _Kept] = {}

    def take(self, image: MetadataImage) -> list[Row] | None:
        """Take the next image; return the rows that changed. None: more changed than rows, such as
        a broker or a topic, and all of them are to be shown anew."""
        is_other = _is_other(self._image, image)
        known, changed = ({} if is_other else self._kept), list[Row]()
        self._image, self._kept = image, {}
        for topic in sorted(image.topics.values(), key=lambda each: each.name):
            for number, partition in sorted(topic.partitions.items()):
                key = (topic.topic_id, number)
                kept = known.get(key)
                if kept is None or kept.partition is not partition:
                    row = row_of(image, topic, number, partition)
                    kept = _Kept(partition, row, row_view(row, partition))
                    changed.append(kept.view)
                self._kept[key] = kept
        return None if is_other else changed

    @property
    def grid(self) -> Grid:
        """The grid of the image that was taken last."""
        return grid_with(self._image, [each.row for each in self._kept.values()])

    def rows(self) -> list[Row]:
        """Return the views of all rows."""
        return [each.view for each in self._kept.values()]


def _is_other(before: MetadataImage, after: MetadataImage) -> bool:
    """Return whether more than registrations of the same partitions changed."""
    return (
        before.offset == 0
        or before.brokers != after.brokers
        or before.configs != after.configs
        or before.topics.keys() != after.topics.keys()
        or any(
            topic.configs != was.configs or len(topic.partitions) != len(was.partitions)
            for topic_id, topic in after.topics.items()
            if (was := before.topics[topic_id]) is not topic
        )
    )
