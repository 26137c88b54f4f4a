"""A query's position: one consistent cut over all partitions that it reads.

As JSON it is Kafka's, ``{"flights": {"0": 23}}``, with one key more that no topic can have:
``"$cut"`` says of which cluster, at which metadata offset, of which topic ids and unclean
generations. So a topic that was deleted and created again, and an unclean election, are told to
the query and never skipped over. Keys are sorted: Spark compares offsets as JSON texts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.errors import (
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.service.reading import ReadOrder, plan_read
from kafka_on_spark.service.source_options import EARLIEST, LATEST, Positions

CUT: Final = "$cut"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Next offset to read, by topic and partition.

    Attributes:
        positions: By topic name and partition.
        cluster_id: Of which cluster; None in plain Kafka JSON.
        metadata_offset: The image that the cut was taken of; None in plain Kafka JSON.
        topic_ids: By topic name.
        unclean_generations: By topic name and partition; only those above 0.
    """

    positions: Mapping[str, Mapping[int, int]]
    cluster_id: str | None = None
    metadata_offset: int | None = None
    topic_ids: Mapping[str, str]
    unclean_generations: Mapping[str, Mapping[int, int]]

    def to_json(self) -> Json:
        """Return the offset as Spark stores it, keys sorted."""
        cut: Json = {
            "cluster_id": self.cluster_id,
            "metadata_offset": self.metadata_offset,
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "unclean_generations": _texts(self.unclean_generations),
        }
        return {CUT: cut, **_texts(self.positions)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "StreamOffset":
        """Return the offset that `to_json` wrote, or plain Kafka JSON.

        Raises:
            InvalidRequestError: It is neither.
        """
        cut = offset.get(CUT, {})
        try:
            return cls(
                positions=_numbers({name: offset[name] for name in offset if name != CUT}),
                cluster_id=cut.get("cluster_id"),
                metadata_offset=cut.get("metadata_offset"),
                topic_ids=dict(cut.get("topic_ids", {})),
                unclean_generations=_numbers(cut.get("unclean_generations", {})),
            )
        except (AttributeError, TypeError, ValueError):
            raise InvalidRequestError(
                f"a stored offset is not of this source: {offset!r:.100}; expected e.g."
                ' {"topicA": {"0": 23}}'
            ) from None


def _texts(numbers: Mapping[str, Mapping[int, int]]) -> Json:
    return {
        topic: {str(number): numbers[topic][number] for number in sorted(numbers[topic])}
        for topic in sorted(numbers)
    }


def _numbers(texts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    return {
        topic: {int(number): int(offset) for number, offset in partitions.items()}
        for topic, partitions in texts.items()
    }


def _stream_offset(
    image: MetadataImage, positions: Mapping[str, Mapping[int, int]]
) -> StreamOffset:
    return StreamOffset(
        positions=positions,
        cluster_id=image.cluster_id,
        metadata_offset=image.offset,
        topic_ids={name: image.topic(name).topic_id for name in positions},
        unclean_generations={
            name: generations
            for name in positions
            if (generations := _generations(image.topic(name)))
        },
    )


def _generations(topic: TopicImage) -> dict[int, int]:
    return {
        number: partition.unclean_generation
        for number, partition in topic.partitions.items()
        if partition.unclean_generation
    }


def resolve(
    image: MetadataImage, topics: Iterable[str], positions: Positions, option: str
) -> StreamOffset:
    """Return the offsets that `positions` mean in `image`.

    Raises:
        UnknownTopicOrPartitionError: A topic does not exist.
        InvalidRequestError: Specific positions do not name all partitions.
    """
    if not isinstance(positions, str):
        _check_all_named(image, topics, positions, option)
    resolved = {
        name: {
            number: _resolve_one(partition, _position_of(positions, name, number))
            for number, partition in image.topic(name).partitions.items()
        }
        for name in topics
    }
    return _stream_offset(image, resolved)


def _position_of(positions: Positions, topic: str, number: int) -> int | str:
    return positions if isinstance(positions, str) else positions[topic][number]


def _resolve_one(partition: PartitionRegistration, position: int | str) -> int:
    if position == EARLIEST:
        return partition.log_start_offset
    if position == LATEST:
        return partition.high_watermark
    assert isinstance(position, int)
    return position


def _check_all_named(
    image: MetadataImage,
    topics: Iterable[str],
    positions: Mapping[str, Mapping[int, int | str]],
    option: str,
) -> None:
    specified = {f"{name}-{number}" for name, each in positions.items() for number in each}
    assigned = {f"{name}-{number}" for name in topics for number in image.topic(name).partitions}
    if specified != assigned:
        raise InvalidRequestError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions."
            " Use -1 for latest, -2 for earliest."
            f" Specified: {sorted(specified)} Assigned: {sorted(assigned)}"
        )


def latest(
    image: MetadataImage, start: StreamOffset, topics: Iterable[str], *, is_data_loss_failed: bool
) -> StreamOffset | None:
    """Return the committed ends of now, or None if no partition of the query has moved.

    Raises:
        LogTruncatedError, InconsistentTopicIdError, InconsistentClusterIdError: What was read
            is gone or another's (unless data loss is passed over).
    """
    start = checked(image, start, is_data_loss_failed=is_data_loss_failed)
    topics = readable_topics(image, topics, is_data_loss_failed=is_data_loss_failed)
    ends = {
        name: {
            number: int(partition.high_watermark)
            for number, partition in image.topic(name).partitions.items()
        }
        for name in topics
    }
    if ends == {name: dict(each) for name, each in start.positions.items()}:
        return None
    return _stream_offset(image, ends)


def readable_topics(
    image: MetadataImage, topics: Iterable[str], *, is_data_loss_failed: bool
) -> list[str]:
    """Return `topics`; with data loss passed over, without those that are gone."""
    return [name for name in topics if is_data_loss_failed or name in image.topic_ids]


def checked(
    image: MetadataImage, start: StreamOffset, *, is_data_loss_failed: bool
) -> StreamOffset:
    """Return `start`, if its cluster, topics and generations are still the ones of `image`.

    With data loss passed over, positions of what was lost are cut to what there is.

    Raises:
        InconsistentClusterIdError: The offsets are another cluster's.
        UnknownTopicOrPartitionError: A topic is gone.
        InconsistentTopicIdError: A topic was deleted and created again.
        LogTruncatedError: An unclean election has lost records that may have been read.
    """
    if start.cluster_id not in (None, image.cluster_id):
        raise InconsistentClusterIdError(
            f"the stored offsets are of cluster {start.cluster_id}, not of {image.cluster_id}:"
            " start with a new checkpoint"
        )
    positions = {name: dict(each) for name, each in start.positions.items()}
    for name in start.positions:
        if is_data_loss_failed:
            image.topic(name)
            _check_topic(image, start, name)
        elif name not in image.topic_ids:
            del positions[name]
        else:
            positions[name] = _clipped(image, start, name)
    return StreamOffset(
        positions=positions,
        cluster_id=start.cluster_id,
        metadata_offset=start.metadata_offset,
        topic_ids=start.topic_ids,
        unclean_generations=start.unclean_generations,
    )


def _clipped(image: MetadataImage, start: StreamOffset, name: str) -> dict[int, int]:
    topic = image.topic(name)
    is_another = start.topic_ids.get(name, topic.topic_id) != topic.topic_id
    if is_another:
        return {number: int(each.log_start_offset) for number, each in topic.partitions.items()}
    return {
        number: min(position, topic.partitions[number].high_watermark)
        for number, position in start.positions[name].items()
        if number in topic.partitions
    }


def _check_topic(image: MetadataImage, start: StreamOffset, name: str) -> None:
    topic = image.topic(name)
    if start.topic_ids.get(name, topic.topic_id) != topic.topic_id:
        raise InconsistentTopicIdError(
            f"KAFKA_DATA_LOSS: topic {name!r} was deleted and created again since the query's"
            " last batch: start with a new checkpoint, or set failOnDataLoss to false"
        )
    known = start.unclean_generations.get(name, {})
    for number, position in start.positions[name].items():
        partition = topic.partitions.get(number)
        if partition is None:
            raise UnknownTopicOrPartitionError(
                f"KAFKA_DATA_LOSS.PARTITIONS_DELETED: {name}-{number} is gone; set"
                " failOnDataLoss to false to go on without it"
            )
        is_told = start.metadata_offset is None
        has_lost = partition.unclean_generation > known.get(number, 0) and not is_told
        if position > partition.high_watermark or has_lost:
            raise LogTruncatedError(
                f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: {name}-{number} was led by a replica"
                f" that lacked committed records; it ends at {partition.high_watermark}, the"
                f" query has read to {position}; set failOnDataLoss to false to go on"
            )


def plan(
    image: MetadataImage,
    start: StreamOffset,
    end: StreamOffset,
    *,
    is_data_loss_failed: bool,
    client_rack: str | None,
) -> list[ReadOrder]:
    """Return one order a partition that has records between `start` and `end`.

    A partition that `start` does not know is read from its beginning.

    Raises:
        OffsetOutOfRangeError: Records of the range are gone below the log start.
        And as `checked`.
    """
    start = checked(image, start, is_data_loss_failed=is_data_loss_failed)
    orders = []
    for name, partitions in sorted(end.positions.items()):
        topic = image.topic(name)
        for number, end_offset in sorted(partitions.items()):
            partition = topic.partitions.get(number)
            if partition is None:
                continue
            first = start.positions.get(name, {}).get(number, partition.log_start_offset)
            if first < partition.log_start_offset and is_data_loss_failed:
                raise OffsetOutOfRangeError(
                    f"KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: offsets {first} to"
                    f" {partition.log_start_offset} of {name}-{number} are gone; set"
                    " failOnDataLoss to false to go on after them"
                )
            first = max(first, partition.log_start_offset)
            if first >= end_offset:
                continue
            key = PartitionKey(TopicId(topic.topic_id), number)
            orders.append(
                plan_read(
                    image,
                    key,
                    start_offset=Offset(first),
                    end_offset=Offset(end_offset),
                    client_rack=client_rack,
                )
            )
    return orders
