"""Records of groups with members, after KIP-848's: who is in a group, who shall have what, and who
has it.

A heartbeat is no record. A group exists while it has members; its offsets outlive it.
"""

from dataclasses import dataclass

from kafka_on_spark.base.ids import GroupEpoch, MemberId, PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMemberRecord:
    """A member joins a group, or subscribes to other topics. The group takes its next epoch.

    A static member that takes another's place leaves the group's epoch as it is.
    """

    group: str
    group_epoch: GroupEpoch
    member_id: MemberId
    instance_id: str | None
    subscribed_topics: tuple[str, ...]
    assignor: str | None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGroupMemberRecord:
    """A member has left its group, or was fenced; what it owned is free."""

    group: str
    group_epoch: GroupEpoch
    member_id: MemberId
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTargetRecord:
    """The partitions that a member shall have. Kafka's ConsumerGroupTargetAssignmentMember."""

    group: str
    member_id: MemberId
    partitions: frozenset[PartitionKey]
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTargetEpochRecord:
    """The targets of all members are those of this epoch of the group.

    Kafka's ConsumerGroupTargetAssignmentMetadata. It raises the group's epoch if that is lower: the
    partitions have changed, and no member. `partitions`: the last of each topic that was shared out
    then, so that a later one is known as added.
    """

    group: str
    target_epoch: GroupEpoch
    partitions: frozenset[PartitionKey]
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignmentRecord:
    """The partitions that a member owns from now on: it alone hands them out, and saves offsets.

    Kafka's ConsumerGroupCurrentMemberAssignment. `member_epoch`: of the targets that it has
    followed in giving up partitions; AWAY: a static member that will return.
    """

    group: str
    member_id: MemberId
    member_epoch: GroupEpoch
    partitions: frozenset[PartitionKey]
    cause: str | None = None


GroupRecord = (
    GroupMemberRecord
    | RemoveGroupMemberRecord
    | GroupTargetRecord
    | GroupTargetEpochRecord
    | GroupAssignmentRecord
)
