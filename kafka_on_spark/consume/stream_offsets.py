"""A query's offset: one consistent cut over all partitions that it reads, and what is left of it.

As JSON it is Kafka's, ``{"flights": {"0": 23}}``, with one more key, which no topic can have:
``"$cut"`` has the cluster, the metadata offset, the topic ids and the unclean generations. So a
query notices that a topic or partition was removed and made again, or that an election was unclean:
it fails, in the words of Spark's Kafka source (KAFKA_DATA_LOSS.*), or continues with the records
that are left if `failOnDataLoss` is off. Pure. Keys are sorted: Spark compares offsets as JSON
texts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import (
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.consume.positions import (
    FindCuts,
    Position,
    after_cuts,
    may_have_lost,
    saved_positions,
)
from kafka_on_spark.consume.subscription import names_of, registration_of
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

CUT: Final = "$cut"
CUT_VERSION: Final = 1
"""Format version of the cut's JSON."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The state of the cluster that a query's positions belong to: taken of the image at
    `metadata_offset`; topic ids by name, and the unclean generations above 0 of these topics."""

    cluster_id: str | None
    metadata_offset: int
    topic_ids: Mapping[str, str]
    unclean_generations: Mapping[TopicPartition, int]

    def to_json(self) -> Json:
        """Return the cut as it is stored, keys sorted."""
        return {
            "cluster_id": self.cluster_id,
            "metadata_offset": self.metadata_offset,
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "unclean_generations": _texts(self.unclean_generations),
            "version": CUT_VERSION,
        }

    @classmethod
    def from_json(cls, cut: Mapping[str, Any] | None) -> "Cut | None":
        """Return what `to_json` wrote, or plain Kafka JSON."""
        if cut is None:
            return None
        try:
            version = int(cut["version"])
            if version > CUT_VERSION:
                raise InvalidRequestError(
                    f"the offset has format version {version}, this kafka_on_spark reads up to"
                    f" {CUT_VERSION}: use a newer kafka_on_spark"
                )
            return cls(
                cluster_id=cut["cluster_id"],
                metadata_offset=int(cut["metadata_offset"]),
                topic_ids=dict(cut["topic_ids"]),
                unclean_generations=_numbers(cut["unclean_generations"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidRequestError(
                f"the {CUT!r} of an offset is not of this source: {cut!r:.200}; leave it out, or"
                " give it as a query has stored it"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Next offset to read, by partition; no `cut` in plain Kafka JSON."""

    positions: Mapping[TopicPartition, int]
    cut: Cut | None = None

    def to_json(self) -> Json:
        """Return the offset as Spark stores it, keys sorted."""
        cut = {} if self.cut is None else {CUT: self.cut.to_json()}
        return {**cut, **_texts(self.positions)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "StreamOffset":
        """Return what `to_json` wrote, or plain Kafka JSON."""
        try:
            positions = _numbers({name: offset[name] for name in offset if name != CUT})
        except (AttributeError, TypeError, ValueError):
            raise InvalidRequestError(
                f"a stored offset is not of this source: {offset!r:.100}; expected e.g."
                ' {"topicA": {"0": 23}}'
            ) from None
        return cls(positions=positions, cut=Cut.from_json(offset.get(CUT)))

    @classmethod
    def in_image(
        cls, image: MetadataImage, positions: Mapping[TopicPartition, int]
    ) -> "StreamOffset":
        """Return `positions` with the cut of `image`."""
        topics = {name.topic: image.topic(name.topic) for name in positions}
        cut = Cut(
            cluster_id=image.cluster_id,
            metadata_offset=image.offset,
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            unclean_generations={
                TopicPartition(name, number): partition.unclean_generation
                for name, topic in topics.items()
                for number, partition in topic.partitions.items()
                if partition.unclean_generation
            },
        )
        return cls(positions=positions, cut=cut)


def _texts(numbers: Mapping[TopicPartition, int]) -> Json:
    texts: Json = {}
    for name in sorted(numbers):
        texts.setdefault(name.topic, {})[str(name.partition)] = numbers[name]
    return texts


def _numbers(texts: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, partitions in texts.items()
        for number, offset in partitions.items()
    }


# Data loss

_TO_CONTINUE = "set failOnDataLoss to false to go on"


@dataclass(frozen=True, slots=True)
class DataLoss:
    """What a query does if its offsets point to records that are gone: it fails, or continues with
    what is left. Source: failOnDataLoss."""

    is_failed: bool
    find_cuts: FindCuts

    def checked(self, image: MetadataImage, offset: StreamOffset) -> StreamOffset:
        """Return `offset`, if its cluster, topics and unclean generations are still those of
        `image`.

        If data loss may pass, positions of lost records are cut as those of consumers are, so that
        records appended since are read. A topic that was created again is read from its beginning.

        Raises:
            InconsistentClusterIdError: The offset is another cluster's, or of its future: this one
                was rolled back.
            UnknownTopicOrPartitionError: A topic or partition is gone.
            InconsistentTopicIdError: A topic was deleted and created again.
            LogTruncatedError: An unclean election has lost records that may have been read, or the
                partition was removed and added again.
        """
        _check_cluster(image, offset)
        if self.is_failed:
            _check_kept(image, offset)
            return offset
        after = after_cuts(image, positions_of(image, offset), self.find_cuts)
        positions = {}
        for topic_name in sorted({name.topic for name in offset.positions}):
            if topic_name not in image.topic_ids:
                continue
            topic, is_another = image.topic(topic_name), is_another_topic(image, offset, topic_name)
            for number, partition in topic.partitions.items():
                name, key = TopicPartition(topic_name, number), PartitionKey(topic.topic_id, number)
                if is_another:
                    positions[name] = int(partition.log_start_offset)
                elif key in after:
                    # One above the high watermark, up to the log's end, waits for commits.
                    positions[name] = min(after[key].offset, partition.known_log_end)
        return StreamOffset(positions=positions, cut=offset.cut)

    def first_offset(self, image: MetadataImage, start: StreamOffset, name: TopicPartition) -> int:
        """Return where a query that stands at `start` begins in a partition: one that was added
        since is read from its beginning, or fails the query if that is not offset 0."""
        if name in start.positions:
            return start.positions[name]
        first = image.topic(name.topic).partitions[name.partition].log_start_offset
        if first > 0 and self.is_failed:
            raise OffsetOutOfRangeError(
                "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Added partition"
                f" {name} starts from {first} instead of 0; {_TO_CONTINUE} from there"
            )
        return first


def _check_cluster(image: MetadataImage, offset: StreamOffset) -> None:
    cut = offset.cut
    if cut is None:
        return
    if cut.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the stored offsets are of cluster {cut.cluster_id}, not of {image.cluster_id}:"
            " start with a new checkpoint"
        )
    if cut.metadata_offset > image.offset:
        raise InconsistentClusterIdError(
            f"the stored offsets were taken at metadata offset {cut.metadata_offset}, and the"
            f" metadata log of cluster {image.cluster_id} ends at {image.offset}: it was rolled"
            " back; start with a new checkpoint"
        )


def positions_of(image: MetadataImage, offset: StreamOffset) -> dict[PartitionKey, Position]:
    """Return the positions of an offset, in partitions that are still there, and of topics that are
    still the same, with the unclean generations that they were taken in."""
    return {
        PartitionKey(image.topic_ids[name.topic], name.partition): Position(
            Offset(position), _generation(offset, name, partition)
        )
        for name, position in sorted(offset.positions.items())
        if (partition := registration_of(image, name)) is not None
        and not is_another_topic(image, offset, name.topic)
    }


def is_another_topic(image: MetadataImage, offset: StreamOffset, name: str) -> bool:
    """Return whether the topic of that name was created again since `offset` was taken."""
    topic_id = image.topic(name).topic_id
    return offset.cut is not None and offset.cut.topic_ids.get(name, topic_id) != topic_id


def _generation(
    offset: StreamOffset, name: TopicPartition, partition: PartitionRegistration
) -> int:
    """Return the unclean generation of a partition as `offset` was taken."""
    if offset.cut is None:
        return partition.unclean_generation
    return offset.cut.unclean_generations.get(name, 0)


def has_new_generations(image: MetadataImage, offset: StreamOffset) -> bool:
    """Return whether a partition of the topics of `offset` had an unclean election since, or is
    another one of its number."""
    return any(
        partition.unclean_generation > _generation(offset, TopicPartition(name, number), partition)
        for name in {each.topic for each in offset.positions}
        if name in image.topic_ids
        for number, partition in image.topic(name).partitions.items()
    )


def _check_kept(image: MetadataImage, start: StreamOffset) -> None:
    for name, position in sorted(start.positions.items()):
        if name.topic in image.topic_ids and is_another_topic(image, start, name.topic):
            raise InconsistentTopicIdError(
                f"KAFKA_DATA_LOSS: topic {name.topic!r} was deleted and created again since the"
                " query's last batch: start with a new checkpoint, or set failOnDataLoss to false"
            )
        partition = registration_of(image, name)
        if partition is None:
            raise partitions_deleted(
                [each for each in start.positions if registration_of(image, each) is None]
            )
        position_then = Position(Offset(position), _generation(start, name, partition))
        has_lost = may_have_lost(partition, position_then)
        if has_lost or position > partition.known_log_end:
            changed = (
                f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: Partition {name} offset was changed"
                f" from {position} to {partition.high_watermark}"
            )
            raise LogTruncatedError(
                f"{changed}: it was led by a replica that lacked committed records (an unclean"
                f" election), or removed and added again; {_TO_CONTINUE} with what there is now"
                if has_lost
                else f"{changed}, and its log ends at {partition.known_log_end}: the start offset"
                " is set too high and this is the first batch, or records are gone;"
                f" {_TO_CONTINUE} from there"
            )


def partitions_deleted(
    names: Iterable[TopicPartition], what: str = "have been deleted"
) -> UnknownTopicOrPartitionError:
    """Return the error for partitions of a query that are gone."""
    return UnknownTopicOrPartitionError(
        f"KAFKA_DATA_LOSS.PARTITIONS_DELETED: Partitions {', '.join(names_of(names))} {what};"
        f" {_TO_CONTINUE} without them"
    )


def could_not_read(place: TopicPartition, first: int, last: int, why: str) -> OffsetOutOfRangeError:
    """Return the error for records of a range that can't be read: [first, last)."""
    return OffsetOutOfRangeError(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset"
        f" [{first}, {last}) for topic partition {place}: {why}; {_TO_CONTINUE} without them"
    )


# What a query's group saves


def save_group(
    image: MetadataImage, group: str, offset: StreamOffset, now_ms: int
) -> ControllerResult[int]:
    """Decide that a group stands where a query does. Answer: how many partitions are saved.

    That is behind which Spark asks for more data: it asks only when all records before have been
    processed, and calls neither `commit` nor `stop` after the last batch. So a group's offsets
    never run ahead of what was processed."""
    records = saved_positions(image, group, positions_of(image, offset), None, now_ms)
    return ControllerResult(records, len(records))
