"""Checks of a group before a decision for it: its name, and the member that asks."""

from collections.abc import Set
from dataclasses import dataclass

from kafka_on_spark.base.errors import (
    FencedInstanceIdError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from kafka_on_spark.base.ids import GroupEpoch, MemberId, PartitionKey, check_text
from kafka_on_spark.metadata.group import GroupMember
from kafka_on_spark.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class Membership:
    """The member that saves offsets for a group: its id, and the epoch that it knows to be at."""

    member_id: MemberId
    member_epoch: GroupEpoch


def check_group(group: object) -> None:
    """Check that a name can be a group's. Source: GroupMetadataManager.validateGroupId.

    Raises:
        InvalidGroupIdError: It is empty, or no text.
    """
    check_text(group, "a group's name", InvalidGroupIdError)
    if not group:
        raise InvalidGroupIdError("a group's name can't be empty: give one")


def check_no_members(image: MetadataImage, group: str) -> None:
    """Check that no member of a group is at work: what is done to its offsets now stays so.

    Raises:
        NonEmptyGroupError: It has members.
    """
    known = image.consumer_groups.get(group)
    if known is not None:
        count = len(known.members)
        raise NonEmptyGroupError(
            f"group {group!r} has {count} member{'s' if count > 1 else ''}: end its consumers"
            " first, or remove members that were killed (consumer-groups --remove-members)"
        )


def member_of(image: MetadataImage, group: str, member_id: MemberId) -> GroupMember:
    """Return a member of a group.

    Raises:
        UnknownMemberIdError: The group has no such member.
    """
    known = image.consumer_groups.get(group)
    member = None if known is None else known.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(
            f"group {group!r} has no member {member_id}: it has left, or was fenced"
        )
    return member


def check_not_replaced(image: MetadataImage, group: str, instance_id: str | None) -> None:
    """Check that nobody else is at work in the place of a member that was fenced. Source:
    GroupMetadataManager.throwIfInstanceIdIsFenced.

    Raises:
        FencedInstanceIdError: It was a static member, and somebody is.
    """
    known = image.consumer_groups.get(group)
    other = None if known is None else known.with_instance(instance_id)
    if other is not None and not other.is_away:
        raise FencedInstanceIdError(
            f"static member {instance_id!r} of group {group!r} runs as {other.member_id} now: end"
            " this consumer, or give it another group_instance_id"
        )


def check_may_commit(
    image: MetadataImage, group: str, speaker: Membership | None, keys: Set[PartitionKey]
) -> None:
    """Check that somebody may save offsets of some partitions: a member that owns them; or who is
    no member (None), while the group has none.

    Kafka compares the epochs only. Here the owner is in the same log as the offsets, so that of two
    members that have handed out the same records one alone can say how far they are processed.

    Raises:
        UnknownMemberIdError: It has left, or was fenced; or the group has members, and it is none.
        StaleMemberEpochError: Its epoch is another, or it does not own one of the partitions.
    """
    if speaker is None:
        if group in image.consumer_groups:
            raise UnknownMemberIdError(
                f"group {group!r} has members, which alone save its offsets: give the consumer"
                " topics, so that it becomes one, or another group"
            )
        return
    member = member_of(image, group, speaker.member_id)
    if member.member_epoch != speaker.member_epoch:
        raise StaleMemberEpochError(
            f"member {member.member_id} of group {group!r} is at epoch {member.member_epoch}, not"
            f" at {speaker.member_epoch}"
        )
    if not_owned := keys - member.owned:
        raise StaleMemberEpochError(
            f"member {member.member_id} of group {group!r} does not own"
            f" {_named(image, min(not_owned))}"
        )


def _named(image: MetadataImage, key: PartitionKey) -> str:
    """Return a partition as people name it; one of a topic that is gone by the topic's id."""
    if key.topic_id in image.topics:
        return str(image.name_of(key))
    return f"partition {key.partition} of topic {key.topic_id}, which is gone"
