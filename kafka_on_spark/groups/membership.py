"""Members of a group: they join, subscribe, leave and are fenced, each in the group's next epoch.

None of this shares out partitions: `assignment` does, for all changes that came before it.
Source: GroupMetadataManager.consumerGroupHeartbeat.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import (
    FencedInstanceIdError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kafka_on_spark.base.ids import (
    AWAY,
    NO_EPOCH,
    GroupEpoch,
    MemberId,
    PartitionKey,
    TopicPartition,
    check_text,
    check_topic_name,
)
from kafka_on_spark.groups.assignment import assignors_of
from kafka_on_spark.groups.offsets import beginning, check_group, member_of, saved_partitions
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupTargetRecord,
    Record,
    RemoveGroupMemberRecord,
)
from kafka_on_spark.metadata.result import ControllerResult


def join(
    image: MetadataImage,
    group: str,
    *,
    member_id: MemberId,
    topics: Sequence[str],
    instance_id: str | None = None,
    assignor: str | None = None,
) -> ControllerResult[None]:
    """Decide that a member joins a group, which may be new; one that is in it stays so.

    A static member that returns takes the place of its life before, with its partitions: nobody
    else has to give up or take any.

    Raises:
        UnreleasedInstanceIdError: The static member's place is taken by one that is at work.
        GroupMaxSizeReachedError: The group is full (group.consumer.max.size)."""
    check_group(group)
    _check_subscription(image, topics, assignor)
    if instance_id is not None:
        check_text(instance_id, "a group's instance id", InvalidRequestError)
    member = GroupMember(
        member_id=member_id,
        instance_id=instance_id,
        subscribed_topics=tuple(sorted(set(topics))),
        assignor=assignor,
    )
    known = image.consumer_groups.get(group)
    if known is None:
        return ControllerResult([_joined(group, GroupEpoch(1), member)], None)
    if member_id in known.members:
        return ControllerResult([], None)
    before = known.with_instance(instance_id)
    if before is not None:
        return ControllerResult(_returned(image, group, before, member), None)
    members_max = image.settings().integer("group.consumer.max.size")
    if len(known.members) >= members_max:
        raise GroupMaxSizeReachedError(
            f"group {group!r} has {len(known.members)} members, and may have no more than"
            f" {members_max} (group.consumer.max.size)"
        )
    return ControllerResult([_joined(group, _next_epoch(known), member)], None)


def _check_subscription(image: MetadataImage, topics: Sequence[str], assignor: str | None) -> None:
    for name in topics:
        check_topic_name(name)
    allowed = assignors_of(image)
    if assignor is not None and assignor not in allowed:
        raise UnsupportedAssignorError(
            f"there is no assignor {assignor!r}: give one of {', '.join(allowed)}"
        )


def _joined(group: str, epoch: GroupEpoch, member: GroupMember) -> GroupMemberRecord:
    return _subscribed(group, epoch, member, f"member {member.member_id} has joined {group!r}")


def _subscribed(
    group: str, epoch: GroupEpoch, member: GroupMember, cause: str
) -> GroupMemberRecord:
    return GroupMemberRecord(
        group=group,
        group_epoch=epoch,
        member_id=member.member_id,
        instance_id=member.instance_id,
        subscribed_topics=member.subscribed_topics,
        assignor=member.assignor,
        cause=cause,
    )


def _returned(
    image: MetadataImage, group: str, before: GroupMember, member: GroupMember
) -> list[Record]:
    """Return the records that put a static member in the place of its life before. It has none of
    the partitions of topics that it reads no more."""
    if not before.is_away:
        raise UnreleasedInstanceIdError(
            f"static member {member.instance_id!r} of group {group!r} runs as {before.member_id}:"
            " end it, or wait until it is fenced"
        )
    known = image.consumer_groups[group]
    is_same = _asked(before) == _asked(member)
    epoch = known.group_epoch if is_same else _next_epoch(known)
    topic_ids = {image.topic_ids.get(name) for name in member.subscribed_topics}
    target, owned = (
        frozenset(key for key in keys if key.topic_id in topic_ids)
        for keys in (before.target, before.owned)
    )
    cause = f"static member {member.instance_id!r} has returned to {group!r}"
    # It comes before the one that goes: the group is never empty.
    return [
        _subscribed(group, epoch, member, cause),
        GroupTargetRecord(group=group, member_id=member.member_id, partitions=target, cause=cause),
        GroupAssignmentRecord(
            group=group,
            member_id=member.member_id,
            member_epoch=NO_EPOCH,
            partitions=owned,
            cause=cause,
        ),
        RemoveGroupMemberRecord(
            group=group, group_epoch=epoch, member_id=before.member_id, cause=cause
        ),
    ]


def check_not_replaced(image: MetadataImage, group: str, instance_id: str | None) -> None:
    """Raise FencedInstanceIdError if another consumer is at work in the place of a static member
    that was fenced. Source: GroupMetadataManager.throwIfInstanceIdIsFenced."""
    known = image.consumer_groups.get(group)
    other = None if known is None else known.with_instance(instance_id)
    if other is not None and not other.is_away:
        raise FencedInstanceIdError(
            f"static member {instance_id!r} of group {group!r} runs as {other.member_id} now: end"
            " this consumer, or give it another group_instance_id"
        )


def subscribe(
    image: MetadataImage,
    group: str,
    member_id: MemberId,
    topics: Sequence[str],
    assignor: str | None = None,
) -> ControllerResult[None]:
    """Decide that a member reads other topics from now on.

    Topics come to a member, whose pattern stays, as they are created: the group stands at their
    beginning, whoever reads them first."""
    _check_subscription(image, topics, assignor)
    member = member_of(image, group, member_id)
    after = GroupMember(
        member_id=member_id,
        instance_id=member.instance_id,
        subscribed_topics=tuple(sorted(set(topics))),
        assignor=assignor,
    )
    if _asked(after) == _asked(member):
        return ControllerResult([], None)
    cause = f"member {member_id} of {group!r} has subscribed to other topics"
    epoch = _next_epoch(image.consumer_groups[group])
    came = sorted(set(after.subscribed_topics) - set(member.subscribed_topics))
    begun = [
        beginning(group, topic.name, key, partition)
        for topic in (image.topic(name) for name in came if name in image.topic_ids)
        for number, partition in topic.partitions.items()
        if (group, key := PartitionKey(topic.topic_id, number)) not in image.groups
    ]
    return ControllerResult([_subscribed(group, epoch, after, cause), *begun], None)


def _asked(member: GroupMember) -> tuple[tuple[str, ...], str | None]:
    return member.subscribed_topics, member.assignor


def leave(
    image: MetadataImage, group: str, member_id: MemberId, *, returns: bool = False
) -> ControllerResult[None]:
    """Decide that a member leaves; what it owned is free. One that is gone stays so.

    A static member that `returns` keeps its partitions until it does, or is fenced.
    """
    known = image.consumer_groups.get(group)
    member = None if known is None else known.members.get(member_id)
    if known is None or member is None:
        return ControllerResult([], None)
    if not returns or member.instance_id is None:
        return ControllerResult([_removed(group, known, member_id, "has left")], None)
    if member.is_away:
        return ControllerResult([], None)
    away = GroupAssignmentRecord(
        group=group,
        member_id=member_id,
        member_epoch=AWAY,
        partitions=member.owned,
        cause=f"static member {member.instance_id!r} of {group!r} has ended, and will return",
    )
    return ControllerResult([away], None)


def fence(
    image: MetadataImage,
    group: str,
    silent_ms: Mapping[MemberId, float],
    *,
    is_all_or_none: bool = False,
) -> ControllerResult[None]:
    """Decide that members are out: no heartbeat of each was seen for so long.

    One that is gone stays so. Another life of the same consumer has another id. `is_all_or_none`:
    none is if others have joined meanwhile, which check it themselves."""
    known = image.consumer_groups.get(group)
    if known is None or (is_all_or_none and known.members.keys() - silent_ms.keys()):
        return ControllerResult([], None)
    records = [
        _removed(group, known, each, f"was fenced: no heartbeat for {silent_ms[each] / 1000:.1f} s")
        for each in sorted(known.members.keys() & silent_ms.keys())
    ]
    return ControllerResult([*records], None)


def remove_members(
    image: MetadataImage, group: str, member_ids: Collection[MemberId] | None
) -> ControllerResult[list[MemberId]]:
    """Decide that members are out by request, of all that there are (None) or some; one that lives
    joins again. Answer: those that were there."""
    check_group(group)
    known = image.consumer_groups.get(group)
    if known is None:
        raise GroupIdNotFoundError(f"group {group!r} has no members")
    removed = [each for each in sorted(known.members) if member_ids is None or each in member_ids]
    records = [_removed(group, known, each, "was removed by request") for each in removed]
    return ControllerResult([*records], removed)


def _removed(
    group: str, known: ConsumerGroup, member_id: MemberId, how: str
) -> RemoveGroupMemberRecord:
    return RemoveGroupMemberRecord(
        group=group,
        group_epoch=_next_epoch(known),
        member_id=member_id,
        cause=f"member {member_id} of {group!r} {how}",
    )


def _next_epoch(known: ConsumerGroup) -> GroupEpoch:
    return GroupEpoch(known.group_epoch + 1)


# Descriptions

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
    """Return a group's members, or raise GroupIdNotFoundError."""
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


def _names(image: MetadataImage, keys: Iterable[PartitionKey]) -> tuple[TopicPartition, ...]:
    """Return the names of partitions; those of a deleted topic have none."""
    return tuple(sorted(image.name_of(key) for key in keys if image.partition(key) is not None))
