"""The grid as plain values: a row for each partition, with all that the metadata says of it."""

from typing import Any, Final

from kafka_on_spark.base.ids import TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.observe.descriptions import (
    Cell,
    Grid,
    GridColumn,
    GridRow,
    Part,
    grid_with,
    row_of,
)

ROW_FIELDS: Final = (
    "topic", "partition", "leader", "leaderEpoch", "partitionEpoch", "isr", "logStart",
    "highWatermark", "logEnd", "problems", "reassigning", "cells",
)  # fmt: skip
"""What stands where in a row: ten thousand objects would repeat the names."""

PART_LETTERS: Final = {
    Part.LEADER: "l",
    Part.IN_SYNC: "s",
    Part.OUT_OF_SYNC: "o",
    Part.REASSIGNING: "m",
    Part.OFFLINE: "f",
}

Row = list[Any]
View = dict[str, Any]


def figures_view(grid: Grid) -> View:
    """Return what changes with every decision: brokers and counts."""
    return {
        "offset": grid.offset,
        "timeMs": int(grid.time.timestamp() * 1000),
        "counts": list(grid.counts.items()),
        "brokers": list(map(_column, grid.columns)),
    }


def _column(column: GridColumn) -> View:
    return {
        "id": column.broker_id,
        "rack": column.rack,
        "state": "unregistered" if column.state is None else column.state.value,
        "leaders": column.leaders,
        "replicas": column.replicas,
    }


def row_view(row: GridRow, partition: PartitionRegistration) -> Row:
    """Return a row under ROW_FIELDS; its cells are in the replicas' order of preference, each a
    broker and the part that the replica has there."""
    return [
        row.name.topic,
        row.name.partition,
        row.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        sorted(partition.isr),
        partition.log_start_offset,
        row.high_watermark,
        partition.known_log_end,
        list(row.problems),
        row.is_reassigning,
        [[broker_id, part_code(cell)] for broker_id, cell in row.cells.items()],
    ]


def part_code(cell: Cell) -> str:
    """Return a cell as a letter, "+" if it comes, "-" if it leaves, a colon and its words."""
    moves = "+" * cell.is_coming + "-" * cell.is_leaving
    return f"{PART_LETTERS[cell.part]}{moves}:{cell.words}"


def concerns(before: MetadataImage, after: MetadataImage) -> list[str]:
    """Return what differs between two images, in the words of the page's views."""
    found = {
        "partitions": before.topics is not after.topics,
        "groups": before.group_offsets is not after.group_offsets
        or before.consumer_groups is not after.consumer_groups,
        "brokers": before.brokers is not after.brokers,
        "configs": before.configs is not after.configs,
    }
    return [name for name, is_other in found.items() if is_other]


class LiveGrid:
    """The rows of one image, and of the next, by topic and number: a commit costs what it changes.
    To make every row anew, as `grid_of` does, takes longer at ten thousand partitions than the
    time between two commits of a busy cluster."""

    def __init__(self) -> None:
        self._image = MetadataImage()
        self._rows: dict[tuple[TopicId, int], tuple[PartitionRegistration, GridRow]] = {}

    def take(self, image: MetadataImage) -> list[Row] | None:
        """Take the next image; return the rows that changed. None: more changed than rows, such as
        a broker or a topic, and all of them are to be shown anew."""
        is_other = _is_other(self._image, image)
        known, changed = ({} if is_other else self._rows), list[Row]()
        self._image, self._rows = image, {}
        for topic in sorted(image.topics.values(), key=lambda each: each.name):
            for number, partition in sorted(topic.partitions.items()):
                key = (topic.topic_id, number)
                before, row = known.get(key, (None, None))
                if row is None or before is not partition:
                    row = row_of(image, topic, number, partition)
                    changed.append(row_view(row, partition))
                self._rows[key] = partition, row
        return None if is_other else changed

    @property
    def grid(self) -> Grid:
        return grid_with(self._image, [row for _, row in self._rows.values()])

    def view(self) -> View:
        return {
            "cluster": self._image.cluster_id,
            "fields": ROW_FIELDS,
            "legend": [[letter, part.value] for part, letter in PART_LETTERS.items()],
            "topics": sorted({row.name.topic for _, row in self._rows.values()}),
            "rows": [row_view(row, partition) for partition, row in self._rows.values()],
            **figures_view(self.grid),
        }


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
