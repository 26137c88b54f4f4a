"""Members of a group: they join, subscribe, leave and are fenced, and come to own partitions. Pure.

Each change of the members is the group's next epoch, and shares out nothing: `share_out` does, for
all changes that came before it. A partition goes to its new member in two steps: the old one gives
it up, or is gone; then the new one takes it. So no partition is owned by two.

`uniform` gives every member as many as any other, as far as their topics allow, and moves as few
partitions as that takes. `range` gives each member a run of each topic: partitions of one number
of several topics go together.

Source: GroupMetadataManager.consumerGroupHeartbeat, UniformAssignor, RangeAssignor,
TargetAssignmentBuilder, CurrentAssignmentBuilder.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from kafka_on_spark.base.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kafka_on_spark.base.ids import (
    AWAY,
    NO_EPOCH,
    GroupEpoch,
    MemberId,
    PartitionKey,
    TopicId,
    TopicPartition,
)
from kafka_on_spark.groups.offsets import (
    EARLIEST,
    Membership,
    Position,
    added_since,
    beginnings,
    check_group,
    member_of,
    needs_saving_again,
    saved_partitions,
    saved_positions,
)
from kafka_on_spark.metadata.image import (
    ConsumerGroup,
    ControllerResult,
    GroupMember,
    MetadataImage,
    names_of,
)
from kafka_on_spark.metadata.records import (
    NO_CLIENT,
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    MemberClient,
    OffsetCommitRecord,
    Record,
    RemoveGroupMemberRecord,
)

# Who is in a group


def join(
    image: MetadataImage,
    group: str,
    *,
    member_id: MemberId,
    topics: Sequence[str],
    instance_id: str | None = None,
    assignor: str | None = None,
    client: MemberClient = NO_CLIENT,
) -> ControllerResult[None]:
    """Decide that a member joins a group, which may be new; one that is in it stays so.

    A static member that returns takes the place of its life before, with its partitions: nobody
    else has to give up or take any.

    Raises:
        UnsupportedAssignorError: It asks for an assignor that the cluster does not allow.
        UnreleasedInstanceIdError: The static member's place is taken by one that is at work.
        GroupMaxSizeReachedError: The group is full (group.consumer.max.size)."""
    allowed = assignors_of(image)
    if assignor is not None and assignor not in allowed:
        raise UnsupportedAssignorError(
            f"there is no assignor {assignor!r}: give one of {', '.join(allowed)}"
        )
    member = GroupMember(
        member_id=member_id,
        instance_id=instance_id,
        subscribed_topics=tuple(sorted(set(topics))),
        assignor=assignor,
        client=client,
    )
    cause = f"member {member_id} has joined {group!r}"
    known = image.consumer_groups.get(group)
    if known is None:
        return ControllerResult([_subscribed(group, GroupEpoch(1), member, cause)], None)
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
    return ControllerResult([_subscribed(group, _next_epoch(known), member, cause)], None)


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
        client=member.client,
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
    asked = (member.subscribed_topics, member.assignor)
    is_same = (before.subscribed_topics, before.assignor) == asked
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
    image: MetadataImage, group: str, member_id: MemberId, topics: Sequence[str]
) -> ControllerResult[None]:
    """Decide that a member reads other topics from now on.

    Topics come to a member, whose pattern stays, as they are created: the group stands at their
    beginning, whoever reads them first."""
    member = member_of(image, group, member_id)
    after = replace(member, subscribed_topics=tuple(sorted(set(topics))))
    if after == member:
        return ControllerResult([], None)
    cause = f"member {member_id} of {group!r} has subscribed to other topics"
    epoch = _next_epoch(image.consumer_groups[group])
    came = sorted(set(after.subscribed_topics) - set(member.subscribed_topics))
    keys = [
        PartitionKey(topic.topic_id, number)
        for topic in (image.topic(name) for name in came if name in image.topic_ids)
        for number in topic.partitions
    ]
    begun = beginnings(image, group, keys, "its topic came")
    return ControllerResult([_subscribed(group, epoch, after, cause), *begun], None)


def leave(
    image: MetadataImage,
    group: str,
    member_id: MemberId,
    now_ms: int,
    *,
    saved: Sequence[OffsetCommitRecord] = (),
    returns: bool = False,
) -> ControllerResult[None]:
    """Decide that a member leaves, after it has `saved` offsets; what it owned is free. One that is
    gone stays so.

    A static member that `returns` keeps its partitions until it does, or is fenced.
    """
    known = image.consumer_groups.get(group)
    member = None if known is None else known.members.get(member_id)
    if known is None or member is None:
        return ControllerResult([*saved], None)
    if not returns or member.instance_id is None:
        gone = {member_id: "has left"}
        return ControllerResult(_without(image, group, known, gone, now_ms, saved), None)
    if member.is_away:
        return ControllerResult([*saved], None)
    away = GroupAssignmentRecord(
        group=group,
        member_id=member_id,
        member_epoch=AWAY,
        partitions=member.owned,
        cause=f"static member {member.instance_id!r} of {group!r} has ended, and will return",
    )
    return ControllerResult([*saved, away], None)


def fence(
    image: MetadataImage, group: str, silent_ms: Mapping[MemberId, float], now_ms: int
) -> ControllerResult[None]:
    """Decide that members are out: no heartbeat of each was seen for so long. One that is gone
    stays so; another life of the same consumer has another id."""
    known = image.consumer_groups.get(group)
    if known is None:
        return ControllerResult([], None)
    gone = {
        each: f"was fenced: no heartbeat for {silent_ms[each] / 1000:.1f} s"
        for each in sorted(known.members.keys() & silent_ms.keys())
    }
    return ControllerResult(_without(image, group, known, gone, now_ms), None)


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
    gone = dict.fromkeys(removed, "was removed by request")
    return ControllerResult(_without(image, group, known, gone, image.time_ms), removed)


def _without(
    image: MetadataImage,
    group: str,
    known: ConsumerGroup,
    gone: Mapping[MemberId, str],
    now_ms: int,
    saved: Sequence[OffsetCommitRecord] = (),
) -> list[Record]:
    """Return the records by which members go, each for its reason, after some offsets were `saved`.
    `now_ms`: as in `needs_saving_again`.

    While a group has members its offsets do not expire, however old they are. They live for
    offsets.retention.minutes from when the last one goes (KIP-211): old ones are saved again.
    """
    again: list[OffsetCommitRecord] = []
    if not known.members.keys() - gone.keys():
        places = {PartitionKey(each.topic_id, each.partition) for each in saved}
        again = [
            OffsetCommitRecord.again(
                group,
                key,
                place,
                cause=f"group {group!r} stands at {place.offset} of {image.name_of(key)} as its"
                " last member goes",
            )
            for (name, key), place in image.group_offsets.items()
            if name == group and key not in places and needs_saving_again(image, place, now_ms)
        ]
    removed = (
        RemoveGroupMemberRecord(
            group=group,
            group_epoch=_next_epoch(known),
            member_id=member_id,
            cause=f"member {member_id} of {group!r} {why}",
        )
        for member_id, why in gone.items()
    )
    return [*again, *saved, *removed]


def _next_epoch(known: ConsumerGroup) -> GroupEpoch:
    return GroupEpoch(known.group_epoch + 1)


# Who shall own what

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
    takers = {
        topic_id: [member for member, topics in sharing.members.items() if topic_id in topics]
        for topic_id in sharing.partitions
    }
    owners = {
        key: member  # of two that have the same, the first
        for member in reversed(list(sharing.members))
        for key in sharing.current.get(member, ())
        if key.topic_id in sharing.members[member]
    }
    loads = dict.fromkeys(sharing.members, 0)
    # By topic, what a member got last goes first.
    stacks: dict[MemberId, dict[TopicId, list[PartitionKey]]] = {
        member: defaultdict(list) for member in sharing.members
    }

    def give(member: MemberId, key: PartitionKey) -> None:
        stacks[member][key.topic_id].append(key)
        loads[member] += 1

    free = []
    for key in chain.from_iterable(sharing.partitions.values()):
        if key in owners:
            give(owners[key], key)
        else:
            free.append(key)
    # Of several that have as few, the first takes; those first that few may have.
    for key in sorted(free, key=lambda each: len(takers[each.topic_id])):
        give(min(takers[key.topic_id], key=loads.__getitem__), key)
    while move := _next_move(takers, loads, stacks):
        giver, topic_id, taker = move
        loads[giver] -= 1
        give(taker, stacks[giver][topic_id].pop())
    return {
        member: frozenset(chain.from_iterable(of_topics.values()))
        for member, of_topics in stacks.items()
    }


def _next_move(
    takers: Mapping[TopicId, Sequence[MemberId]],
    loads: Mapping[MemberId, int],
    stacks: Mapping[MemberId, Mapping[TopicId, Sequence[PartitionKey]]],
) -> tuple[MemberId, TopicId, MemberId] | None:
    """Return a member, the most loaded first, and of which topic it gives a partition to a member
    that has at least two fewer; None: there is none."""
    least = min(loads.values(), default=0)
    for giver in sorted(loads, key=lambda each: -loads[each]):
        if least > loads[giver] - 2:
            return None
        poorest = {
            topic_id: min(takers[topic_id], key=loads.__getitem__)
            for topic_id, keys in stacks[giver].items()
            if keys
        }
        topic_id = min(poorest, key=lambda each: loads[poorest[each]])
        if loads[poorest[topic_id]] <= loads[giver] - 2:
            return giver, topic_id, poorest[topic_id]
    return None


ASSIGNORS: Final[Mapping[str, Callable[[Sharing], Assigned]]] = {
    "uniform": uniform_assignor,
    "range": range_assignor,
}


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
    last = _last_partitions(image, known)
    partitions = {
        topic_id: [PartitionKey(topic_id, number) for number in range(highest + 1)]
        for topic_id, highest in last
    }
    members = sorted(known.members.values(), key=_rank)
    sharing = Sharing(
        members={
            each.member_id: frozenset(
                image.topic_ids[name] for name in each.subscribed_topics if name in image.topic_ids
            )
            for each in members
        },
        partitions=partitions,
        current={each.member_id: each.target for each in members},
    )
    epoch = known.group_epoch
    if known.target_epoch == epoch:
        epoch = GroupEpoch(epoch + 1)  # the partitions have changed, and no member
    name = chosen_assignor(known, assignors_of(image))
    cause = f"epoch {epoch} of {group!r}: {len(known.members)} members, {name}"
    records: list[Record] = [*_begun_partitions(image, group, known, partitions)]
    records += [
        GroupTargetRecord(group=group, member_id=member_id, partitions=target, cause=cause)
        for member_id, target in ASSIGNORS[name](sharing).items()
        if target != known.members[member_id].target
    ]
    records.append(
        GroupTargetEpochRecord(
            group=group, target_epoch=epoch, partitions=frozenset(last), cause=cause
        )
    )
    return ControllerResult(records, None)


def is_to_share(image: MetadataImage, group: ConsumerGroup) -> bool:
    is_behind = group.target_epoch != group.group_epoch
    return is_behind or group.last_partitions != frozenset(_last_partitions(image, group))


def chosen_assignor(group: ConsumerGroup, allowed: Sequence[str]) -> str:
    """Return the assignor that most members ask for; of several the first, and so the default.
    Source: ConsumerGroup.preferredServerAssignor."""
    votes = Counter(each.assignor for each in group.members.values())
    return max(allowed, key=votes.__getitem__)


def _last_partitions(image: MetadataImage, group: ConsumerGroup) -> list[PartitionKey]:
    """Return the last partition of each topic that exists and that some member has subscribed to,
    by the topics' names. Partitions are numbered from 0, so it says how many there are."""
    names = {name for each in group.members.values() for name in each.subscribed_topics}
    return [
        PartitionKey(topic_id, len(image.topics[topic_id].partitions) - 1)
        for name in sorted(names)
        if (topic_id := image.topic_ids.get(name)) is not None
    ]


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
        yield from beginnings(image, name, added, "it was added")


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
    others = (each.owned for each in group.members.values() if each.member_id != member_id)
    return set[PartitionKey]().union(*others)


# What it owns with what is processed


def save_positions(
    image: MetadataImage,
    group: str,
    processed: Mapping[PartitionKey, Position],
    member: Membership | None,
    now_ms: int,
) -> ControllerResult[None]:
    """Decide that a group stands where a consumer says. With the next offsets that it saves a
    member that owns what it shall also says that it has followed its target: of many members few
    have to move any partition."""
    saved = saved_positions(image, group, processed, member, now_ms)
    if member is None or not saved:
        return ControllerResult([*saved], None)
    owned = member_of(image, group, member.member_id).owned
    result = reconcile(image, group, member.member_id, member.member_epoch)
    followed = result.records if result.response == owned else []
    return ControllerResult([*saved, *followed], None)


def follow_target(
    image: MetadataImage,
    group: str,
    member: Membership,
    *,
    held: Set[PartitionKey],
    processed: Mapping[PartitionKey, Position],
    begins_at: str | None,
    now_ms: int,
) -> ControllerResult[frozenset[PartitionKey]]:
    """Decide what a member owns that hands out `held` alone: it gives up what else it owns and
    shall not, and takes what is free. Answer: the partitions that it owns then.

    The offsets of what it gives up, in `processed`, are saved in the same commit: the next owner
    begins where this one has stopped. `begins_at`: EARLIEST or LATEST, where it begins without an
    offset, which is saved with the taking, so nobody begins later; None: nothing is."""
    before = member_of(image, group, member.member_id).owned
    result = reconcile(image, group, member.member_id, member.member_epoch, before - held)
    saved = _saved(image, group, member, processed, now_ms)
    if result.response == before:
        return ControllerResult([*saved], before)
    taken = () if begins_at is None else result.response - before
    begun = beginnings(image, group, taken, f"the {begins_at}", is_at_end=begins_at != EARLIEST)
    return ControllerResult([*saved, *result.records, *begun], result.response)


def leave_group(
    image: MetadataImage,
    group: str,
    member: Membership,
    *,
    processed: Mapping[PartitionKey, Position],
    returns: bool,
    now_ms: int,
) -> ControllerResult[None]:
    """Decide that a member leaves, once its positions are saved. UnknownMemberIdError: it was
    fenced, and has positions to save."""
    saved = _saved(image, group, member, processed, now_ms)
    return leave(image, group, member.member_id, now_ms, saved=saved, returns=returns)


def _saved(
    image: MetadataImage,
    group: str,
    member: Membership,
    processed: Mapping[PartitionKey, Position],
    now_ms: int,
) -> list[OffsetCommitRecord]:
    """Return the records that save positions, of what the member owns: the rest was given up by a
    commit whose outcome was unknown, and its offsets with it."""
    if not processed:
        return []
    owned = member_of(image, group, member.member_id).owned
    positions = {key: each for key, each in processed.items() if key in owned}
    return saved_positions(image, group, positions, member, now_ms) if positions else []


# Descriptions

GROUP_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member of a group.

    Attributes:
        member_id: One life of a consumer.
        instance_id: Of a static member, or None.
        client: Its client.id, host and process, as far as they are known.
        is_away: Whether it has ended and said that it returns.
        member_epoch: Of the target that it has followed in giving up partitions.
        partitions: What it owns.
        target: What it shall own.
    """

    member_id: MemberId
    instance_id: str | None
    client: MemberClient
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
    """

    state: str
    group_epoch: GroupEpoch | None
    target_epoch: GroupEpoch | None
    members: tuple[MemberDescription, ...]


def describe_members(image: MetadataImage, group: str) -> GroupMembers:
    check_group(group)
    known = image.consumer_groups.get(group)
    if known is None:
        saved_partitions(image, group)
        return GroupMembers(state="Empty", group_epoch=None, target_epoch=None, members=())
    return GroupMembers(
        state=state_of(known),
        group_epoch=known.group_epoch,
        target_epoch=known.target_epoch,
        members=tuple(
            MemberDescription(
                member_id=member_id,
                instance_id=member.instance_id,
                client=member.client,
                is_away=member.is_away,
                member_epoch=member.member_epoch,
                topics=member.subscribed_topics,
                partitions=tuple(names_of(image, member.owned)),
                target=tuple(names_of(image, member.target)),
            )
            for member_id, member in sorted(known.members.items())
        ),
    )


def state_of(group: ConsumerGroup | None) -> str:
    """Return a group's state. Source: ConsumerGroup.maybeUpdateGroupState."""
    if group is None:
        return "Empty"
    if group.group_epoch > group.target_epoch:
        return "Assigning"
    is_settled = all(each.is_away or each.owned == each.target for each in group.members.values())
    return "Stable" if is_settled else "Reconciling"
