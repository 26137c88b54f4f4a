"""A group's members as people see them: its state, and who has which partitions. Pure."""

from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.commands.groups import saved_partitions
from kafka_on_spark.controller.groups.checks import check_group
from kafka_on_spark.ids import GroupEpoch, MemberId, PartitionKey, TopicPartition
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import MetadataImage

EMPTY: Final = "Empty"
ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
GROUP_STATES: Final = (EMPTY, ASSIGNING, RECONCILING, STABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: One life of a consumer.
        instance_id: Of a static member, or None.
        is_away: Whether it has ended and said that it returns.
        member_epoch: Of the target that it has followed in giving up partitions.
        topics: What it has subscribed to.
        partitions: What it owns.
        target: What it shall own.
    """

    member_id: MemberId
    instance_id: str | None
    is_away: bool
    member_epoch: GroupEpoch
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """A group and its members.

    Attributes:
        state: Kafka's: "Empty" without members, "Assigning" while it is not decided who shall own
            what, "Reconciling" while members give up and take partitions, or "Stable".
        group_epoch: Changes of its members and partitions; None: it has no members.
        target_epoch: The last of them that it was decided for who shall own what.
        members: By their ids.
    """

    state: str
    group_epoch: GroupEpoch | None
    target_epoch: GroupEpoch | None
    members: tuple[MemberDescription, ...]


def describe_members(image: MetadataImage, group: str) -> GroupMembers:
    """Return a group's members.

    Raises:
        InvalidGroupIdError: The name can't be a group's.
        GroupIdNotFoundError: There is no such group.
    """
    check_group(group)
    known = image.consumer_groups.get(group)
    if known is None:
        saved_partitions(image, group)
        return GroupMembers(state=EMPTY, group_epoch=None, target_epoch=None, members=())
    return GroupMembers(
        state=state_of(known),
        group_epoch=known.group_epoch,
        target_epoch=known.target_epoch,
        members=tuple(_described(image, known.members[each]) for each in sorted(known.members)),
    )


def state_of(group: ConsumerGroup | None) -> str:
    """Return a group's state. Source: ConsumerGroup.maybeUpdateGroupState."""
    if group is None:
        return EMPTY
    if group.group_epoch > group.target_epoch:
        return ASSIGNING
    is_settled = all(each.is_away or each.owned == each.target for each in group.members.values())
    return STABLE if is_settled else RECONCILING


def _described(image: MetadataImage, member: GroupMember) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.instance_id,
        is_away=member.is_away,
        member_epoch=member.member_epoch,
        topics=member.subscribed_topics,
        partitions=_names(image, member.owned),
        target=_names(image, member.target),
    )


def _names(image: MetadataImage, keys: frozenset[PartitionKey]) -> tuple[TopicPartition, ...]:
    """Return the names of partitions; those of a deleted topic have none."""
    return tuple(sorted(image.name_of(key) for key in keys if image.partition(key) is not None))
