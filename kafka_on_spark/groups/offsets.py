"""A group's saved offsets: who may save them, what saves, resets and removes them, and its lag.

What is asked for by request leaves a group that has members alone. A running query of the group,
which is no member, saves over the offsets that are decided here; a new one starts from them.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final, TypeVar

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    GroupEpoch,
    MemberId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    check_text,
)
from kafka_on_spark.metadata.image import ControllerResult, GroupMember, MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionRegistration
from kafka_on_spark.metadata.records import OffsetCommitRecord, RemoveGroupMemberRecord

T = TypeVar("T")

MINUTE_MS: Final = 60_000
"""The unit of offsets.retention.minutes."""

# Who may save


@dataclass(frozen=True, slots=True)
class Membership:
    """The member that saves offsets for a group: its id, and the epoch that it knows to be at."""

    member_id: MemberId
    member_epoch: GroupEpoch


def check_group(group: object) -> None:
    """Raise InvalidGroupIdError unless a name can be a group's. Source:
    GroupMetadataManager.validateGroupId."""
    check_text(group, "a group's name", InvalidGroupIdError)
    if not group:
        raise InvalidGroupIdError("a group's name can't be empty: give one")


def check_no_members(image: MetadataImage, group: str) -> None:
    """Raise NonEmptyGroupError if a group has members: offsets set by request would not stay."""
    known = image.consumer_groups.get(group)
    if known is not None:
        count = len(known.members)
        raise NonEmptyGroupError(
            f"group {group!r} has {count} member{'s' if count > 1 else ''}: end its consumers"
            " first, or remove members that were killed (consumer-groups --remove-members)"
        )


def member_of(image: MetadataImage, group: str, member_id: MemberId) -> GroupMember:
    """Return a member of a group, or raise UnknownMemberIdError."""
    known = image.consumer_groups.get(group)
    member = None if known is None else known.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(
            f"group {group!r} has no member {member_id}: it has left, or was fenced"
        )
    return member


def check_may_commit(
    image: MetadataImage, group: str, member: Membership | None, keys: Set[PartitionKey]
) -> None:
    """Check that a member owns the partitions whose offsets it saves; None: a client that is not a
    member, which may save while the group has none.

    Kafka compares the epochs only. Here the owner is in the same log as the offsets, so that of two
    members that have handed out the same records one alone can say how far they are processed.

    Raises:
        UnknownMemberIdError: It has left, or was fenced; or the group has members, and it is none.
        StaleMemberEpochError: Its epoch is another, or it does not own one of the partitions.
    """
    if member is None:
        if group in image.consumer_groups:
            raise UnknownMemberIdError(
                f"group {group!r} has members, which alone save its offsets: give the consumer"
                " topics, so that it becomes one, or another group"
            )
        return
    known = member_of(image, group, member.member_id)
    if known.member_epoch != member.member_epoch:
        raise StaleMemberEpochError(
            f"member {known.member_id} of group {group!r} is at epoch {known.member_epoch}, not"
            f" at {member.member_epoch}"
        )
    if not_owned := keys - known.owned:
        key = min(not_owned)
        name = f"partition {key.partition} of topic {key.topic_id}, which is gone"
        if key.topic_id in image.topics:
            name = str(image.name_of(key))
        raise StaleMemberEpochError(
            f"member {known.member_id} of group {group!r} does not own {name}"
        )


# One partition's offset


def saved_offset(
    group: str, key: PartitionKey, partition: PartitionRegistration, offset: int, cause: str
) -> OffsetCommitRecord:
    """Return the record that brings a group to `offset` of a partition."""
    is_at_end = offset == partition.high_watermark
    return OffsetCommitRecord(
        group=group,
        topic_id=key.topic_id,
        partition=key.partition,
        offset=Offset(offset),
        leader_epoch=partition.high_watermark_epoch if is_at_end else None,
        unclean_generation=partition.unclean_generation or None,
        cause=cause,
    )


def saved_if_due(
    image: MetadataImage, group: str, key: PartitionKey, offset: int, now_ms: int, cause: str
) -> list[OffsetCommitRecord]:
    """Return the record that brings a group to `offset` of a partition that is there; none if it
    stands there, and its offset needs not be saved again."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    known = image.group_offsets.get((group, key))
    is_there = (
        known is not None
        and (known.offset, known.unclean_generation) == (offset, partition.unclean_generation)
        and not needs_saving_again(image, known, now_ms)
    )
    return [] if is_there else [saved_offset(group, key, partition, offset, cause)]


def beginnings(
    image: MetadataImage,
    group: str,
    keys: Iterable[PartitionKey],
    why: str,
    *,
    is_at_end: bool = False,
) -> Iterator[OffsetCommitRecord]:
    """Yield the records by which a group stands at the beginning, or the end, of those partitions
    of which it has no offset: so nothing behind that is skipped, whoever reads them first."""
    for key in sorted(keys):
        partition = image.partition(key)
        if partition is not None and (group, key) not in image.group_offsets:
            offset = partition.high_watermark if is_at_end else partition.log_start_offset
            cause = f"group {group!r} begins at {offset} of {image.name_of(key)}: {why}"
            yield saved_offset(group, key, partition, offset, cause)


def added_since(
    image: MetadataImage, keys: Iterable[PartitionKey], group: str | None
) -> set[PartitionKey]:
    """Return the partitions that were added to their topics after a group had saved lower ones: it
    has no offset of any that is as high. A group without an offset of a topic is new to it."""
    highest: dict[TopicId, int] = {}
    for name, saved in image.group_offsets:
        if name == group:
            highest[saved.topic_id] = max(saved.partition, highest.get(saved.topic_id, 0))
    return {key for key in keys if key.partition > highest.get(key.topic_id, key.partition)}


# How long it lives


def offsets_retention_ms(settings: Settings) -> int:
    """Return how long a group's offset stays that nobody saves again."""
    return settings.integer("offsets.retention.minutes") * MINUTE_MS


def needs_saving_again(image: MetadataImage, known: GroupOffset, now_ms: int) -> bool:
    """Return whether half of the time is over after which a saved offset expires. `now_ms`: the
    clock of the process that saves."""
    half_ms = offsets_retention_ms(image.settings()) // 2
    return is_renewal_due(image, known.saved_at_ms, now_ms, half_ms)


def is_renewal_due(image: MetadataImage, saved_at_ms: int, now_ms: int, after_ms: int) -> bool:
    """Return whether what a client saved is older than `after_ms`, by the client's clock or by the
    newest commit: the log may have gone on since the client read its clock. What a clock far ahead
    of this one has stamped is renewed, too."""
    return max(image.time_ms, now_ms) - saved_at_ms >= after_ms or saved_at_ms - now_ms >= after_ms


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
        for (name, key), place in image.group_offsets.items()
        if name == group and key not in saved and needs_saving_again(image, place, now_ms)
    ]
    return ControllerResult([*again, *left.records], left.response)


# Set, saved and removed


def alter_group_offsets(
    image: MetadataImage, group: str, offsets: Mapping[PartitionKey, int]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide that a group, which may be new and must have no members, stands at these offsets: all
    or none.

    Kafka takes any number; here a query must be able to start from it. An offset where it stands is
    saved again before it expires, by the time of the newest commit: a request tells no time.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        OffsetOutOfRangeError: An offset is below the log start or above the high watermark."""
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
    """Decide that a group stands where a consumer says: all or none. Raises what
    `alter_group_offsets` and `check_may_commit` do."""
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
        cause = f"group {group!r} set to {offset} of {image.name_of(key)} {by_whom}"
        records += saved_if_due(image, group, key, offset, now_ms, cause)
    return ControllerResult(records, {key: Offset(each) for key, each in offsets.items()})


def delete_group(
    image: MetadataImage, group: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a group's offsets go: of the partitions `keys`, or all, and so the group. Answer:
    the partitions in which it had an offset."""
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
    """Return the partitions in which a group has an offset, if it has no members: it need not have
    saved anything yet."""
    check_group(group)
    check_no_members(image, group)
    return saved_partitions(image, group)


def saved_partitions(image: MetadataImage, group: str) -> list[PartitionKey]:
    """Return the partitions in which a group has an offset, in order of their names, or raise
    GroupIdNotFoundError."""
    check_group(group)
    saved = sorted((key for name, key in image.group_offsets if name == group), key=image.name_of)
    if not saved:
        known = ", ".join(sorted({name for name, _ in image.group_offsets})[:10]) or "none"
        raise GroupIdNotFoundError(
            f"there is no consumer group {group!r}: it exists once it has committed an offset"
            f" (known: {known})"
        )
    return saved


# Lag


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
    """Return a group's offsets and lag by partition; empty if it has saved nothing."""
    described = [
        GroupLag(
            name=image.name_of(key),
            offset=place.offset,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.high_watermark,
            lag=lag_of(partition, place),
        )
        for (name, key), place in image.group_offsets.items()
        if name == group and (partition := image.partition(key)) is not None
    ]
    return sorted(described, key=lambda each: each.name)


def lag_of(partition: PartitionRegistration, place: GroupOffset) -> int:
    """Return how many records of a partition a group has not processed, of those still kept."""
    return max(partition.high_watermark - max(place.offset, partition.log_start_offset), 0)


def groups_of(image: MetadataImage) -> list[str]:
    """Return the names of all groups: they have saved something, or have members."""
    return sorted({name for name, _ in image.group_offsets} | image.consumer_groups.keys())
