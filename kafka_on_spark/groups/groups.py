"""Consumer groups' offsets: set or removed by request, and saved by who reads.

What is asked for by request leaves a group that has members alone. A running query of the group,
which is no member, commits over the offsets that are decided here; a new one starts from them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.groups.checks import Membership, check_group, check_may_commit, check_no_members
from kafka_on_spark.groups.offsets import is_saved, needs_saving_again, saved_offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import OffsetCommitRecord, RemoveGroupMemberRecord
from kafka_on_spark.metadata.result import ControllerResult

T = TypeVar("T")


def alter_group_offsets(
    image: MetadataImage, group: str, offsets: Mapping[PartitionKey, int]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide that a group, which may be new, stands at these offsets: all or none.

    Kafka takes any number; here a query must be able to start from it. An offset where it stands is
    saved again before it expires, by the time of the newest commit: a request tells no time.

    Raises:
        InvalidGroupIdError: The name can't be a group's.
        UnknownTopicOrPartitionError: There is no such partition.
        OffsetOutOfRangeError: An offset is below the log start or above the high watermark.
        NonEmptyGroupError: The group has members.
    """
    check_group(group)
    check_no_members(image, group)
    return _set_offsets(image, group, offsets, "by request", image.time_ms)


def save_offsets(
    image: MetadataImage,
    group: str,
    offsets: Mapping[PartitionKey, int],
    member: Membership | None,
    now_ms: int,
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide that a group stands where a consumer says: all or none. None: it is no member.

    An offset where it stands is saved again before it expires, by `now_ms`, the clock of the
    process that saves.

    Raises:
        UnknownTopicOrPartitionError, OffsetOutOfRangeError: As `alter_group_offsets`.
        UnknownMemberIdError, StaleMemberEpochError: As `check_may_commit`.
    """
    check_may_commit(image, group, member, offsets.keys())
    return _set_offsets(image, group, offsets, "by its consumer", now_ms)


def _set_offsets(
    image: MetadataImage,
    group: str,
    offsets: Mapping[PartitionKey, int],
    by_whom: str,
    now_ms: int,
) -> ControllerResult[dict[PartitionKey, Offset]]:
    records = []
    for key, offset in offsets.items():
        partition = image.partition(key)
        if partition is None:
            raise UnknownTopicOrPartitionError("there is no such partition to have an offset of")
        start, end = partition.log_start_offset, partition.high_watermark
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(
                f"group {group!r} can't stand at offset {offset} of {image.name_of(key)}: give one"
                f" from its log start {start} to its high watermark {end}"
            )
        known = image.groups.get((group, key))
        is_kept = is_saved(known, partition, offset)
        if not is_kept or needs_saving_again(image, known, now_ms):
            cause = f"group {group!r} set to {offset} of {image.name_of(key)} {by_whom}"
            records.append(saved_offset(group, key, partition, offset, cause))
    return ControllerResult(records, {key: Offset(each) for key, each in offsets.items()})


def delete_group(
    image: MetadataImage, group: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a group's offsets go: of the partitions `keys`, or all, and so the group.

    Answer: the partitions in which it had an offset.

    Raises:
        InvalidGroupIdError: The name can't be a group's.
        GroupIdNotFoundError: No group of that name has committed an offset.
        NonEmptyGroupError: The group has members.
    """
    saved = deletable_partitions(image, group)
    wanted = saved if keys is None else [key for key in keys if key in set(saved)]
    records = [
        OffsetCommitRecord(
            group=group,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=None,
            leader_epoch=None,
            cause=f"group {group!r} left {image.name_of(key)} by request",
        )
        for key in wanted
    ]
    return ControllerResult(records, wanted)


def deletable_partitions(image: MetadataImage, group: str) -> list[PartitionKey]:
    """Return the partitions in which a group has an offset, if these may be deleted.

    Raises:
        InvalidGroupIdError, GroupIdNotFoundError: As `saved_partitions`.
        NonEmptyGroupError: The group has members; it need not have committed anything yet.
    """
    check_group(group)
    check_no_members(image, group)
    return saved_partitions(image, group)


def saved_partitions(image: MetadataImage, group: str) -> list[PartitionKey]:
    """Return the partitions in which a group has an offset, in order of their names.

    Raises:
        InvalidGroupIdError: The name can't be a group's.
        GroupIdNotFoundError: No group of that name has committed an offset.
    """
    check_group(group)
    saved = sorted((key for name, key in image.groups if name == group), key=image.name_of)
    if not saved:
        known = ", ".join(sorted({name for name, _ in image.groups})[:10]) or "none"
        raise GroupIdNotFoundError(
            f"there is no consumer group {group!r}: it exists once it has committed an offset"
            f" (known: {known})"
        )
    return saved


def offsets_kept(
    image: MetadataImage, group: str, left: ControllerResult[T], now_ms: int
) -> ControllerResult[T]:
    """Return a decision by which members of a group go, with what keeps the group's offsets if no
    other member is there. `now_ms`: as in `needs_saving_again`.

    While a group has members its offsets do not expire, however old they are. They live for
    offsets.retention.minutes from when the last one goes (KIP-211): old ones are saved again.
    """
    known = image.consumer_groups.get(group)
    gone = {each.member_id for each in left.records if isinstance(each, RemoveGroupMemberRecord)}
    if known is None or known.members.keys() - gone:
        return left
    saved = {
        PartitionKey(each.topic_id, each.partition)
        for each in left.records
        if isinstance(each, OffsetCommitRecord)
    }
    again = [
        OffsetCommitRecord.again(
            group,
            key,
            place,
            cause=f"group {group!r} stands at {place.offset} of {image.name_of(key)} as its last"
            " member goes",
        )
        for (name, key), place in image.groups.items()
        if name == group and key not in saved and needs_saving_again(image, place, now_ms)
    ]
    return ControllerResult([*again, *left.records], left.response)
