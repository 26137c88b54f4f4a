"""Who of a group's members shall own which partitions, and how they come to own them. Pure.

`uniform` gives every member as many as any other, as far as their topics allow, and moves as few
partitions as that takes. `range` gives each member a run of each topic: partitions of one number
of several topics go together. A partition goes to its new member in two steps: the old one gives it
up, or is gone; then the new one takes it. So no partition is owned by two. Source: UniformAssignor,
RangeAssignor, TargetAssignmentBuilder, CurrentAssignmentBuilder.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.errors import FencedMemberEpochError
from kafka_on_spark.base.ids import GroupEpoch, MemberId, PartitionKey, TopicId
from kafka_on_spark.groups.offsets import added_since, member_of, saved_offset
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

Assigned = dict[MemberId, frozenset[PartitionKey]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What is to be shared out, and among whom.

    Attributes:
        members: In the order in which ties are decided; the topics that each has subscribed to.
        partitions: The partitions of each topic that somebody has subscribed to, in order.
        current: What each member has so far, as far as it is known.
    """

    members: Mapping[MemberId, frozenset[TopicId]]
    partitions: Mapping[TopicId, Sequence[PartitionKey]]
    current: Mapping[MemberId, frozenset[PartitionKey]]


def range_assignor(sharing: Sharing) -> Assigned:
    """Return for each member a run of the partitions of each of its topics; the first members have
    one more where they can't be divided."""
    assigned: dict[MemberId, set[PartitionKey]] = {member: set() for member in sharing.members}
    for topic_id, keys in sharing.partitions.items():
        takers = [member for member, topics in sharing.members.items() if topic_id in topics]
        least, longer = divmod(len(keys), len(takers))
        start = 0
        for place, member in enumerate(takers):
            end = start + least + (place < longer)
            assigned[member].update(keys[start:end])
            start = end
    return {member: frozenset(keys) for member, keys in assigned.items()}


def uniform_assignor(sharing: Sharing) -> Assigned:
    """Return an assignment in which no member has two more than one that could take a partition
    of it; each keeps what it has as far as that allows."""
    shares = _Shares(sharing)
    shares.keep_current()
    shares.give_out_the_rest()
    while shares.move_one():
        pass
    return shares.assigned()


class _Shares:
    """An assignment being built. Its lists are stacks: what a member got last goes first."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._places = {member: place for place, member in enumerate(sharing.members)}
        self._loads = dict.fromkeys(sharing.members, 0)
        self._stacks: dict[MemberId, dict[TopicId, list[PartitionKey]]] = {
            member: defaultdict(list) for member in sharing.members
        }
        self._takers: dict[TopicId, list[MemberId]] = {
            topic_id: [member for member, topics in sharing.members.items() if topic_id in topics]
            for topic_id in sharing.partitions
        }
        self._free: list[PartitionKey] = []

    def keep_current(self) -> None:
        """Let each member have what it has and still may; of two that have the same, the first."""
        owners: dict[PartitionKey, MemberId] = {}
        for member, topics in self._sharing.members.items():
            for key in self._sharing.current.get(member, frozenset()):
                if key.topic_id in topics:
                    owners.setdefault(key, member)
        for keys in self._sharing.partitions.values():
            for key in keys:
                if key in owners:
                    self._push(owners[key], key)
                else:
                    self._free.append(key)

    def give_out_the_rest(self) -> None:
        """Give each free partition to who has the fewest; those first that few may have."""
        self._free.sort(key=lambda key: len(self._takers[key.topic_id]))
        for key in self._free:
            self._push(min(self._takers[key.topic_id], key=self._rank), key)

    def move_one(self) -> bool:
        """Move a partition from a member to one that has at least two fewer, the most loaded first;
        return whether there was one to move."""
        for giver in sorted(self._loads, key=lambda each: (-self._loads[each], self._places[each])):
            enough = self._loads[giver] - 2
            if min(self._loads.values()) > enough:
                return False
            takers = (
                (min(self._takers[topic_id], key=self._rank), keys)
                for topic_id, keys in self._stacks[giver].items()
                if keys
            )
            taker, keys = min(takers, key=lambda each: self._rank(each[0]))
            if self._loads[taker] <= enough:
                self._loads[giver] -= 1
                self._push(taker, keys.pop())
                return True
        return False

    def _push(self, member: MemberId, key: PartitionKey) -> None:
        self._stacks[member][key.topic_id].append(key)
        self._loads[member] += 1

    def _rank(self, member: MemberId) -> tuple[int, int]:
        return self._loads[member], self._places[member]

    def assigned(self) -> Assigned:
        """Return the assignment."""
        return {
            member: frozenset(key for keys in stacks.values() for key in keys)
            for member, stacks in self._stacks.items()
        }


UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final[Mapping[str, Callable[[Sharing], Assigned]]] = {
    UNIFORM: uniform_assignor,
    RANGE: range_assignor,
}
"""By name."""


def assignors_of(image: MetadataImage) -> list[str]:
    """Return the names of the assignors that members may ask for, the default first. Source:
    group.consumer.assignors."""
    return image.settings().text("group.consumer.assignors").split(",")


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
    Source: ConsumerGroup.preferredServerAssignor."""
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

    Answer: the partitions that it owns then. FencedMemberEpochError: its epoch is another."""
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
