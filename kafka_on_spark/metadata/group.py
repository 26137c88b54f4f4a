"""Groups with members (KIP-848), and what each record does to one.

Three epochs: the group's counts changes of who is in it and of what there is to share out; the
target's says for which of them it was decided who shall have what; a member's, which of those it
has followed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_on_spark.base.ids import AWAY, NO_EPOCH, GroupEpoch, MemberId, PartitionKey
from kafka_on_spark.metadata.records import (
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    RemoveGroupMemberRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member of a group.

    Attributes:
        member_id: One life of a consumer: who joins again has another.
        instance_id: Of a static member, which keeps its partitions while it restarts.
            Source: group.instance.id.
        subscribed_topics: Names, in order; a topic need not exist.
        assignor: The one that it asks for; None: any.
        member_epoch: Of the target that it has followed in giving up partitions; 0: none; AWAY: a
            static member that will return.
        target: Partitions that it shall own.
        owned: Partitions that it alone hands out.
    """

    member_id: MemberId
    instance_id: str | None
    subscribed_topics: tuple[str, ...]
    assignor: str | None
    member_epoch: GroupEpoch = NO_EPOCH
    target: frozenset[PartitionKey] = frozenset()
    owned: frozenset[PartitionKey] = frozenset()

    @property
    def is_away(self) -> bool:
        """Whether it has ended and said that it returns."""
        return self.member_epoch == AWAY

    @property
    def to_give_up(self) -> frozenset[PartitionKey]:
        return self.owned - self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group that has members.

    Attributes:
        group_epoch: Changes of its members and of the partitions that they share (count, from 1).
        target_epoch: The group epoch that the targets were decided for; 0: none were.
        last_partitions: The last partition of each topic that was shared out then.
        members: By id; at least one.
    """

    group_epoch: GroupEpoch
    target_epoch: GroupEpoch = NO_EPOCH
    last_partitions: frozenset[PartitionKey] = frozenset()
    members: Mapping[MemberId, GroupMember] = field(default_factory=dict)

    def with_instance(self, instance_id: str | None) -> GroupMember | None:
        static = (each for each in self.members.values() if each.instance_id is not None)
        return next((each for each in static if each.instance_id == instance_id), None)


def replayed(group: ConsumerGroup | None, record: GroupRecord) -> ConsumerGroup | None:
    """Return a group after a record about it; None: it has no members, and so does not exist.

    A record about a member that is gone changes nothing: none is refused.
    """
    if isinstance(record, GroupMemberRecord):
        return _member(group, record)
    return None if group is None else _REPLAY[type(record)](group, record)


def _member(group: ConsumerGroup | None, record: GroupMemberRecord) -> ConsumerGroup:
    before = group or ConsumerGroup(group_epoch=record.group_epoch)
    subscribed: dict[str, Any] = {
        "instance_id": record.instance_id,
        "subscribed_topics": record.subscribed_topics,
        "assignor": record.assignor,
    }
    known = before.members.get(record.member_id)
    if known is None:
        member = GroupMember(member_id=record.member_id, **subscribed)
    else:
        member = replace(known, **subscribed)
    after = _with_member(before, member)
    return replace(after, group_epoch=_later(before.group_epoch, record.group_epoch))


def _remove_member(group: ConsumerGroup, record: RemoveGroupMemberRecord) -> ConsumerGroup | None:
    left = {name: each for name, each in group.members.items() if name != record.member_id}
    if not left:
        return None
    epoch = _later(group.group_epoch, record.group_epoch)
    return replace(group, group_epoch=epoch, members=left)


def _target(group: ConsumerGroup, record: GroupTargetRecord) -> ConsumerGroup:
    member = group.members.get(record.member_id)
    return (
        group if member is None else _with_member(group, replace(member, target=record.partitions))
    )


def _target_epoch(group: ConsumerGroup, record: GroupTargetEpochRecord) -> ConsumerGroup:
    epoch = _later(group.group_epoch, record.target_epoch)
    return replace(
        group,
        group_epoch=epoch,
        target_epoch=record.target_epoch,
        last_partitions=record.partitions,
    )


def _assignment(group: ConsumerGroup, record: GroupAssignmentRecord) -> ConsumerGroup:
    member = group.members.get(record.member_id)
    if member is None:
        return group
    owned = replace(member, member_epoch=record.member_epoch, owned=record.partitions)
    return _with_member(group, owned)


def _with_member(group: ConsumerGroup, member: GroupMember) -> ConsumerGroup:
    return replace(group, members={**group.members, member.member_id: member})


def _later(known: GroupEpoch, given: GroupEpoch) -> GroupEpoch:
    return max(known, given)


_REPLAY: Final[Mapping[type, Callable[[ConsumerGroup, Any], ConsumerGroup | None]]] = {
    RemoveGroupMemberRecord: _remove_member,
    GroupTargetRecord: _target,
    GroupTargetEpochRecord: _target_epoch,
    GroupAssignmentRecord: _assignment,
}


def rebuilding_records(name: str, group: ConsumerGroup) -> Iterator[GroupRecord]:
    """Yield the records that rebuild a group from nothing: the inverse of replay."""
    for member_id, member in group.members.items():
        yield GroupMemberRecord(
            group=name,
            group_epoch=group.group_epoch,
            member_id=member_id,
            instance_id=member.instance_id,
            subscribed_topics=member.subscribed_topics,
            assignor=member.assignor,
        )
        if member.target:
            yield GroupTargetRecord(group=name, member_id=member_id, partitions=member.target)
        if member.owned or member.member_epoch:
            yield GroupAssignmentRecord(
                group=name,
                member_id=member_id,
                member_epoch=member.member_epoch,
                partitions=member.owned,
            )
    if group.target_epoch:
        yield GroupTargetEpochRecord(
            group=name, target_epoch=group.target_epoch, partitions=group.last_partitions
        )
