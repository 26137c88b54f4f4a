"""A consumer group's offsets in the metadata log: a query starts at them, and commits its own.

Pure. A query with `kafka.group.id` commits the offset behind which Spark asks for more data: Spark
asks only when all records before have been processed, and calls neither `commit` nor `stop` after
the last batch. So a group's offsets never run ahead of what was processed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_on_spark.controller.commands.expiry import needs_saving_again
from kafka_on_spark.controller.groups.checks import Membership, check_may_commit
from kafka_on_spark.controller.groups.offsets import is_saved, saved_offset
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import PartitionKey, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionRegistration
from kafka_on_spark.metadata.records import OffsetCommitRecord
from kafka_on_spark.query.consuming.standing import Standing
from kafka_on_spark.query.offsets.data_loss import has_new_generation, is_another_topic
from kafka_on_spark.query.offsets.stream_offsets import StreamOffset
from kafka_on_spark.query.subscription import Partitions


def group_positions(
    image: MetadataImage, group: str, wanted: Partitions, *, default: str
) -> dict[str, dict[int, int | str]]:
    """Return a group's positions in the partitions `wanted`.

    A group that has committed nothing at all gets `default` (Kafka's auto.offset.reset). If it has
    committed some partitions, the others were added later, and start at their beginning.
    """
    committed: dict[tuple[str, int], int] = {}
    for name, numbers in wanted.items():
        for number in numbers:
            place = image.groups.get((group, PartitionKey(image.topic_ids[name], number)))
            if place is not None:
                committed[name, number] = place.offset
    missing = "earliest" if committed else default
    return {
        name: {number: committed.get((name, number), missing) for number in numbers}
        for name, numbers in wanted.items()
    }


def group_generations(
    image: MetadataImage, group: str, wanted: Partitions
) -> dict[str, dict[int, int]]:
    """Return the unclean generations with which a group's positions were saved, by partition; the
    current one where the group has no position."""
    return {
        name: {
            number: image.topic(name).partitions[number].unclean_generation
            if (place := image.groups.get((group, PartitionKey(image.topic_ids[name], number))))
            is None
            else place.unclean_generation
            for number in numbers
        }
        for name, numbers in wanted.items()
    }


def save_group(
    image: MetadataImage, group: str, position: StreamOffset, now_ms: int
) -> ControllerResult[int]:
    """Return the records that bring a group to `position`, and how many partitions they move.

    Partitions that are gone, or belong to another topic of that name now, get no record; nor does
    one that had an unclean election since, or was added again: below the position there may be
    records that nobody has read. One in which the group stands there already gets one before its
    offset expires, by `now_ms`, the clock of the process that saves.

    Raises:
        UnknownMemberIdError: The group has members, and a query is none.
    """
    check_may_commit(image, group, None, frozenset())
    records: list[OffsetCommitRecord] = []
    for name, partitions in sorted(position.positions.items()):
        if name not in image.topic_ids or is_another_topic(image, position, name):
            continue
        topic = image.topic(name)
        for number, offset in sorted(partitions.items()):
            partition = topic.partitions.get(number)
            if partition is None or has_new_generation(position, name, number, partition):
                continue
            key = PartitionKey(topic.topic_id, number)
            records += _saving(image, group, key, offset, now_ms)
    return ControllerResult(records, len(records))


def save_standings(
    image: MetadataImage,
    group: str,
    standings: Mapping[PartitionKey, Standing],
    now_ms: int,
    member: Membership | None = None,
) -> ControllerResult[int]:
    """Return the records that bring a group to where a consumer stands, and how many partitions
    they move; otherwise as `save_group`. None: the consumer is no member.

    Raises:
        UnknownMemberIdError, StaleMemberEpochError: As `check_may_commit`.
    """
    check_may_commit(image, group, member, standings.keys())
    records = [
        record
        for key, standing in standings.items()
        if (partition := image.partition(key)) is not None
        and partition.unclean_generation == standing.unclean_generation
        for record in _saving(image, group, key, standing.offset, now_ms)
    ]
    return ControllerResult(records, len(records))


def _saving(
    image: MetadataImage, group: str, key: PartitionKey, offset: int, now_ms: int
) -> list[OffsetCommitRecord]:
    """Return the record that brings a group to `offset`; none where it stands there, or nothing
    is there to stand in."""
    partition, known = image.partition(key), image.groups.get((group, key))
    if partition is None:
        return []
    if is_saved(known, partition, offset) and not needs_saving_again(image, known, now_ms):
        return []
    cause = f"group {group!r} has processed {image.name_of(key)} up to {offset}"
    return [saved_offset(group, key, partition, offset, cause)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in one partition.

    Attributes:
        name: The partition.
        offset: Next record that the group would read.
        log_start_offset: First offset kept.
        high_watermark: First offset not committed.
        lag: Records that it has not processed.
    """

    name: TopicPartition
    offset: int
    log_start_offset: int
    high_watermark: int
    lag: int


def describe_group(image: MetadataImage, group: str) -> list[GroupLag]:
    """Return a group's offsets and lag by partition; empty if it has committed nothing."""
    described = []
    for (name, key), place in image.groups.items():
        partition = image.partition(key)
        if name != group or partition is None:
            continue
        described.append(
            GroupLag(
                name=image.name_of(key),
                offset=place.offset,
                log_start_offset=partition.log_start_offset,
                high_watermark=partition.high_watermark,
                lag=lag_of(partition, place),
            )
        )
    return sorted(described, key=lambda each: each.name)


def lag_of(partition: PartitionRegistration, place: GroupOffset) -> int:
    """Return how many records of a partition a group has not processed, of those still kept."""
    return max(partition.high_watermark - max(place.offset, partition.log_start_offset), 0)


def groups_of(image: MetadataImage) -> list[str]:
    """Return the names of all groups: they have committed something, or have members."""
    return sorted({name for name, _ in image.groups} | image.consumer_groups.keys())
