"""Data loss: fails a query whose offsets point to records that are gone, unless told otherwise.

Pure. A query's offset carries the cluster, the topic ids and the unclean generations that it was
taken with; this module compares them with the newest image. A partition has another generation
after an unclean election, or if it was removed and added again. The conditions have the names of
Spark's Kafka source (KAFKA_DATA_LOSS.*). With `failOnDataLoss` off the query continues with the
records that are left.
"""

from collections.abc import Iterable

from kafka_on_spark.base.errors import (
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.consume.standing import FindCuts, Standing, after_cuts
from kafka_on_spark.consume.stream_offsets import StreamOffset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

_TO_CONTINUE = "set failOnDataLoss to false to go on"


def check_cluster(image: MetadataImage, offset: StreamOffset) -> None:
    """Check that `offset` was taken of this cluster, and not in its future.

    Raises:
        InconsistentClusterIdError: It is another cluster's, or this one was rolled back.
    """
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


def checked_position(
    image: MetadataImage,
    start: StreamOffset,
    *,
    is_data_loss_failed: bool,
    find_cuts: FindCuts,
) -> StreamOffset:
    """Return `start`, if its cluster, topics and unclean generations are still those of `image`.

    If data loss may pass, positions of lost records are cut as those of consumers are, so that
    records appended since are read. A topic that was created again is read from its beginning.

    Raises:
        InconsistentClusterIdError: The offsets are another cluster's.
        UnknownTopicOrPartitionError: A topic or partition is gone.
        InconsistentTopicIdError: A topic was deleted and created again.
        LogTruncatedError: An unclean election has lost records that may have been read, or the
            partition was removed and added again.
    """
    check_cluster(image, start)
    if is_data_loss_failed:
        for name in start.positions:
            _check_topic(image, start, name)
        return start
    topics = {name: image.topic(name) for name in start.positions if name in image.topic_ids}
    after = after_cuts(image, standings_of(image, start), find_cuts)
    positions = {}
    for name, topic in topics.items():
        if is_another_topic(image, start, name):
            positions[name] = {
                number: int(each.log_start_offset) for number, each in topic.partitions.items()
            }
            continue
        # A position above the high watermark, up to the log's end, waits for commits.
        positions[name] = {
            number: min(after[key].offset, topic.partitions[number].known_log_end)
            for number in start.positions[name]
            if (key := PartitionKey(topic.topic_id, number)) in after
        }
    return StreamOffset(positions=positions, cut=start.cut)


def standings_of(image: MetadataImage, offset: StreamOffset) -> dict[PartitionKey, Standing]:
    """Return the positions of an offset, in partitions that are still there, and of topics that are
    still the same, with the unclean generations that they were taken in."""
    return {
        PartitionKey(topic.topic_id, number): Standing(
            Offset(position), _generation(offset, name, number, topic.partitions[number])
        )
        for name, positions in sorted(offset.positions.items())
        if name in image.topic_ids and not is_another_topic(image, offset, name)
        for topic in [image.topic(name)]
        for number, position in sorted(positions.items())
        if number in topic.partitions
    }


def is_another_topic(image: MetadataImage, offset: StreamOffset, name: str) -> bool:
    """Return whether the topic of that name was created again since `offset` was taken."""
    topic_id = image.topic(name).topic_id
    return offset.cut is not None and offset.cut.topic_ids.get(name, topic_id) != topic_id


def has_new_generation(
    offset: StreamOffset, name: str, number: int, partition: PartitionRegistration
) -> bool:
    """Return whether a partition had an unclean election since `offset` was taken, or is another
    one of the number."""
    return partition.unclean_generation > _generation(offset, name, number, partition)


def _generation(
    offset: StreamOffset, name: str, number: int, partition: PartitionRegistration
) -> int:
    """Return the unclean generation of a partition as `offset` was taken."""
    if offset.cut is None:
        return partition.unclean_generation
    return offset.cut.unclean_generations.get(name, {}).get(number, 0)


def has_new_generations(image: MetadataImage, offset: StreamOffset) -> bool:
    """Return whether a partition of the topics of `offset` has another generation than then."""
    return any(
        has_new_generation(offset, name, number, partition)
        for name in offset.positions
        if name in image.topic_ids
        for number, partition in image.topic(name).partitions.items()
    )


def _check_topic(image: MetadataImage, start: StreamOffset, name: str) -> None:
    places = start.positions[name]
    if name not in image.topic_ids:
        raise partitions_deleted(f"{name}-{number}" for number in places)
    if is_another_topic(image, start, name):
        raise InconsistentTopicIdError(
            f"KAFKA_DATA_LOSS: topic {name!r} was deleted and created again since the query's"
            " last batch: start with a new checkpoint, or set failOnDataLoss to false"
        )
    partitions = image.topic(name).partitions
    gone = [f"{name}-{number}" for number in places if number not in partitions]
    if gone:
        raise partitions_deleted(gone)
    for number, position in places.items():
        partition = partitions[number]
        # A query that stands at the log start has read nothing that could be lost.
        has_read = position > partition.log_start_offset
        has_lost = has_read and has_new_generation(start, name, number, partition)
        if has_lost or position > partition.known_log_end:
            raise _offset_changed(f"{name}-{number}", position, partition, has_lost=has_lost)


def partitions_deleted(
    names: Iterable[str], what: str = "have been deleted"
) -> UnknownTopicOrPartitionError:
    """Return the error for partitions of a query that are gone."""
    return UnknownTopicOrPartitionError(
        f"KAFKA_DATA_LOSS.PARTITIONS_DELETED: Partitions {', '.join(sorted(names))} {what};"
        f" {_TO_CONTINUE} without them"
    )


def _offset_changed(
    place: str, position: int, partition: PartitionRegistration, *, has_lost: bool
) -> LogTruncatedError:
    changed = (
        f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: Partition {place} offset was changed from"
        f" {position} to {partition.high_watermark}"
    )
    if has_lost:
        return LogTruncatedError(
            f"{changed}: it was led by a replica that lacked committed records (an unclean"
            f" election), or removed and added again; {_TO_CONTINUE} with what there is now"
        )
    return LogTruncatedError(
        f"{changed}, and its log ends at {partition.known_log_end}: the start offset is set too"
        f" high and this is the first batch, or records are gone; {_TO_CONTINUE} from there"
    )


def first_offset(
    image: MetadataImage, start: StreamOffset, name: str, number: int, *, is_data_loss_failed: bool
) -> int:
    """Return where a query that stands at `start` begins in a partition: one that was added since
    is read from its beginning.

    Raises:
        OffsetOutOfRangeError: That one does not begin at 0, and data loss fails the query.
    """
    position = start.positions.get(name, {}).get(number)
    if position is not None:
        return position
    first = image.topic(name).partitions[number].log_start_offset
    if first > 0 and is_data_loss_failed:
        raise OffsetOutOfRangeError(
            "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Added partition"
            f" {name}-{number} starts from {first} instead of 0; {_TO_CONTINUE} from there"
        )
    return first


def could_not_read(place: str, first: int, last: int, why: str) -> OffsetOutOfRangeError:
    """Return the error for records of a range that can't be read: [first, last)."""
    return OffsetOutOfRangeError(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset"
        f" [{first}, {last}) for topic partition {place}: {why}; {_TO_CONTINUE} without them"
    )
