"""Shares out the partitions of a group: targets, and how members come to follow them.

A partition goes to its new member in two steps: the old one gives it up, or is gone; then the new
one takes it. So no partition is owned by two. Source: TargetAssignmentBuilder,
CurrentAssignmentBuilder.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from kafka_on_spark.base.errors import FencedMemberEpochError
from kafka_on_spark.base.ids import GroupEpoch, MemberId, PartitionKey, TopicId
from kafka_on_spark.groups.assignors import ASSIGNORS, Sharing, assignors_of
from kafka_on_spark.groups.checks import member_of
from kafka_on_spark.groups.offsets import added_since, saved_offset
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    GroupAssignmentRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    OffsetCommitRecord,
    Record,
)
from kafka_on_spark.metadata.result import ControllerResult


def share_out(image: MetadataImage, group: str) -> ControllerResult[None]:
    """Decide who shall own what, if members or partitions have changed since that was decided.

    In partitions that were added to a topic meanwhile the group stands at the beginning, whoever
    reads them first: nothing is skipped.
    """
    known = image.consumer_groups.get(group)
    if known is None or not is_to_share(image, known):
        return ControllerResult([], None)
    partitions = _partitions(image, known)
    epoch = known.group_epoch
    if known.target_epoch == epoch:
        epoch = GroupEpoch(epoch + 1)  # the partitions have changed, and no member
    name = chosen_assignor(known, assignors_of(image))
    cause = f"epoch {epoch} of {group!r}: {len(known.members)} members, {name}"
    records: list[Record] = [*_begun_partitions(image, group, known, partitions)]
    records += [
        GroupTargetRecord(group=group, member_id=member_id, partitions=target, cause=cause)
        for member_id, target in ASSIGNORS[name](_sharing(image, known, partitions)).items()
        if target != known.members[member_id].target
    ]
    last = _last_partitions(image, known)
    records.append(
        GroupTargetEpochRecord(group=group, target_epoch=epoch, partitions=last, cause=cause)
    )
    return ControllerResult(records, None)


def is_to_share(image: MetadataImage, group: ConsumerGroup) -> bool:
    """Return whether members or partitions have changed since the targets were decided."""
    is_behind = group.target_epoch != group.group_epoch
    return is_behind or group.last_partitions != _last_partitions(image, group)


def chosen_assignor(group: ConsumerGroup, allowed: Sequence[str]) -> str:
    """Return the assignor that most members ask for; of several the first, and so the default.

    Source: ConsumerGroup.preferredServerAssignor.
    """
    votes = Counter(each.assignor for each in group.members.values())
    return max(allowed, key=lambda name: votes[name])


def _topic_ids(image: MetadataImage, group: ConsumerGroup) -> list[TopicId]:
    """Return the topics that exist and that some member has subscribed to, by their names."""
    names = {name for each in group.members.values() for name in each.subscribed_topics}
    return [image.topic_ids[name] for name in sorted(names) if name in image.topic_ids]


def _partitions(image: MetadataImage, group: ConsumerGroup) -> dict[TopicId, list[PartitionKey]]:
    return {
        topic_id: [PartitionKey(topic_id, number) for number in image.topics[topic_id].partitions]
        for topic_id in _topic_ids(image, group)
    }


def _last_partitions(image: MetadataImage, group: ConsumerGroup) -> frozenset[PartitionKey]:
    """Return the last partition of each topic: they are numbered from 0, so it tells how many."""
    return frozenset(
        PartitionKey(topic_id, len(image.topics[topic_id].partitions) - 1)
        for topic_id in _topic_ids(image, group)
    )


def _begun_partitions(
    image: MetadataImage,
    name: str,
    group: ConsumerGroup,
    partitions: Mapping[TopicId, Sequence[PartitionKey]],
) -> Iterator[OffsetCommitRecord]:
    """Yield the offsets of a group in partitions that were added since their topics were shared
    out, or since it has saved offsets of lower ones."""
    last = dict(group.last_partitions)
    for topic_id, keys in partitions.items():
        if topic_id in last:
            added = {key for key in keys if key.partition > last[topic_id]}
        else:
            added = added_since(image, keys, name)
        for key in sorted(added):
            partition = image.partition(key)
            if partition is not None and (name, key) not in image.groups:
                cause = f"{image.name_of(key)} was added: group {name!r} begins at its beginning"
                yield saved_offset(name, key, partition, partition.log_start_offset, cause)


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
