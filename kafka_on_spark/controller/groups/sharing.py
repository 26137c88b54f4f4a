"""Shares out the partitions of a group: targets, and how members come to follow them.

A partition goes to its new member in two steps: the old one gives it up, or is gone; then the new
one takes it. So no partition is owned by two. Source: TargetAssignmentBuilder,
CurrentAssignmentBuilder.
"""

from collections import Counter
from collections.abc import Set

from kafka_on_spark.controller.groups.assignors import ASSIGNORS, Sharing
from kafka_on_spark.controller.groups.checks import member_of
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import FencedMemberEpochError
from kafka_on_spark.ids import GroupEpoch, MemberId, PartitionKey, TopicId
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.group_records import (
    GroupAssignmentRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import Record


def share_out(image: MetadataImage, group: str) -> ControllerResult[None]:
    """Decide who shall own what, if members or partitions have changed since that was decided."""
    known = image.consumer_groups.get(group)
    if known is None:
        return ControllerResult([], None)
    partitions = _partitions(image, known)
    is_changed = _targets(known) != {key for keys in partitions.values() for key in keys}
    if known.target_epoch == known.group_epoch and not is_changed:
        return ControllerResult([], None)
    epoch = known.group_epoch
    if known.target_epoch == epoch:
        epoch = GroupEpoch(epoch + 1)  # the partitions have changed, and no member
    name = chosen_assignor(known)
    cause = f"epoch {epoch} of {group!r}: {len(known.members)} members, {name}"
    records: list[Record] = [
        GroupTargetRecord(group=group, member_id=member_id, partitions=target, cause=cause)
        for member_id, target in ASSIGNORS[name](_sharing(image, known, partitions)).items()
        if target != known.members[member_id].target
    ]
    records.append(GroupTargetEpochRecord(group=group, target_epoch=epoch, cause=cause))
    return ControllerResult(records, None)


def chosen_assignor(group: ConsumerGroup) -> str:
    """Return the assignor that most members ask for; of several the first, and so the default.

    Source: ConsumerGroup.preferredServerAssignor.
    """
    votes = Counter(each.assignor for each in group.members.values())
    return max(ASSIGNORS, key=lambda name: votes[name])


def _partitions(image: MetadataImage, group: ConsumerGroup) -> dict[TopicId, list[PartitionKey]]:
    """Return the partitions of the topics that exist and that some member has subscribed to."""
    names = {name for each in group.members.values() for name in each.subscribed_topics}
    topic_ids = [image.topic_ids[name] for name in sorted(names) if name in image.topic_ids]
    return {
        topic_id: [PartitionKey(topic_id, number) for number in image.topics[topic_id].partitions]
        for topic_id in topic_ids
    }


def _targets(group: ConsumerGroup) -> set[PartitionKey]:
    return {key for each in group.members.values() for key in each.target}


def _sharing(
    image: MetadataImage, group: ConsumerGroup, partitions: dict[TopicId, list[PartitionKey]]
) -> Sharing:
    members = sorted(group.members.values(), key=_rank)
    return Sharing(
        members={
            each.member_id: frozenset(
                image.topic_ids[name] for name in each.subscribed_topics if name in image.topic_ids
            )
            for each in members
        },
        partitions=partitions,
        current={each.member_id: each.target for each in members},
    )


def _rank(member: GroupMember) -> tuple[bool, str]:
    """Return a member's place: static ones first, by a name that outlives a restart."""
    is_dynamic = member.instance_id is None
    return is_dynamic, member.instance_id or member.member_id


def reconcile(
    image: MetadataImage,
    group: str,
    member_id: MemberId,
    member_epoch: GroupEpoch,
    stopped: Set[PartitionKey] = frozenset(),
) -> ControllerResult[frozenset[PartitionKey]]:
    """Decide what a member owns: it gives up what it shall not own and has `stopped` to hand out.
    Once nothing of that is left, it follows the newest target and takes what is free of it.

    Answer: the partitions that it owns then.

    Raises:
        UnknownMemberIdError: It has left, or was fenced.
        FencedMemberEpochError: Its epoch is another.
    """
    member = member_of(image, group, member_id)
    if member.member_epoch != member_epoch:
        raise FencedMemberEpochError(
            f"member {member_id} of group {group!r} is at epoch {member.member_epoch}, not at"
            f" {member_epoch}"
        )
    known = image.consumer_groups[group]
    owned = member.owned - (member.to_give_up & stopped)
    epoch = member_epoch
    if owned <= member.target:
        epoch = known.target_epoch
        owned |= member.target - _owned_by_others(known, member_id)
    if (owned, epoch) == (member.owned, member_epoch):
        return ControllerResult([], owned)
    gone, came = len(member.owned - owned), len(owned - member.owned)
    record = GroupAssignmentRecord(
        group=group,
        member_id=member_id,
        member_epoch=epoch,
        partitions=owned,
        cause=f"member {member_id} of {group!r} gives up {gone} and takes {came} partitions",
    )
    return ControllerResult([record], owned)


def _owned_by_others(group: ConsumerGroup, member_id: MemberId) -> set[PartitionKey]:
    others = (each for each in group.members.values() if each.member_id != member_id)
    return {key for each in others for key in each.owned}
