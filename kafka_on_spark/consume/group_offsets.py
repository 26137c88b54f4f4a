"""A consumer group's offsets in the metadata log: a query starts at them, and commits its own.

Pure. A query with `kafka.group.id` commits the offset behind which Spark asks for more data: Spark
asks only when all records before have been processed, and calls neither `commit` nor `stop` after
the last batch. So a group's offsets never run ahead of what was processed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.ids import GroupEpoch, MemberId, PartitionKey, TopicPartition
from kafka_on_spark.consume.data_loss import standings_of
from kafka_on_spark.consume.settings import EARLIEST
from kafka_on_spark.consume.standing import Standing, at
from kafka_on_spark.consume.stream_offsets import StreamOffset
from kafka_on_spark.consume.subscription import Partitions
from kafka_on_spark.groups.checks import Membership, check_group, check_may_commit
from kafka_on_spark.groups.groups import saved_partitions
from kafka_on_spark.groups.offsets import is_saved, needs_saving_again, saved_offset
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionRegistration
from kafka_on_spark.metadata.result import ControllerResult


def group_start(
    image: MetadataImage, group: str, wanted: Partitions, *, default: str
) -> StreamOffset:
    """Return where a group stands in the partitions `wanted`, with the unclean generations in which
    its positions were saved.

    A group that has committed nothing at all gets `default` (Kafka's auto.offset.reset). If it has
    committed some partitions, the others were added later, and start at their beginning.
    """
    saved = {
        (name, number): place
        for name, numbers in wanted.items()
        for number in numbers
        if (place := image.groups.get((group, PartitionKey(image.topic_ids[name], number))))
        is not None
    }
    reset = EARLIEST if saved else default
    positions: dict[str, dict[int, int]] = {name: {} for name in wanted}
    generations: dict[str, dict[int, int]] = {name: {} for name in wanted}
    for name, numbers in wanted.items():
        for number in numbers:
            standing = at(image.topic(name).partitions[number], reset)
            if (place := saved.get((name, number))) is not None:
                standing = Standing(place.offset, place.unclean_generation)
            positions[name][number] = standing.offset
            generations[name][number] = standing.unclean_generation
    now = StreamOffset.in_image(image, positions)
    assert now.cut is not None, "in_image sets the cut"
    return replace(now, cut=replace(now.cut, unclean_generations=generations))


def save_group(
    image: MetadataImage, group: str, position: StreamOffset, now_ms: int
) -> ControllerResult[int]:
    """Return the records that bring a group to `position`, and how many partitions they move.

    Partitions that are gone, or belong to another topic of that name now, get no record; nor does
    one that had an unclean election since, or was added again: below the position there may be
    records that nobody has read. One in which the group stands there already gets one before its
    offset expires, by `now_ms`, the clock of the process that saves.

    Raises:
        UnknownMemberIdError: The group has members, and a query is none.
    """
    return save_standings(image, group, standings_of(image, position), now_ms)


def save_standings(
    image: MetadataImage,
    group: str,
    standings: Mapping[PartitionKey, Standing],
    now_ms: int,
    member: Membership | None = None,
) -> ControllerResult[int]:
    """Return the records that bring a group to where a consumer stands, and how many partitions
    they move; otherwise as `save_group`. None: the consumer is no member.

    Raises:
        UnknownMemberIdError, StaleMemberEpochError: As `check_may_commit`.
    """
    check_may_commit(image, group, member, standings.keys())
    records = []
    for key, standing in standings.items():
        partition, known = image.partition(key), image.groups.get((group, key))
        if partition is None or partition.unclean_generation != standing.unclean_generation:
            continue
        offset = standing.offset
        if not is_saved(known, partition, offset) or needs_saving_again(image, known, now_ms):
            cause = f"group {group!r} has processed {image.name_of(key)} up to {offset}"
            records.append(saved_offset(group, key, partition, offset, cause))
    return ControllerResult(records, len(records))


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
    """Return a group's offsets and lag by partition; empty if it has committed nothing."""
    described = []
    for (name, key), place in image.groups.items():
        partition = image.partition(key)
        if name != group or partition is None:
            continue
        described.append(
            GroupLag(
                name=image.name_of(key),
                offset=place.offset,
                log_start_offset=partition.log_start_offset,
                high_watermark=partition.high_watermark,
                lag=lag_of(partition, place),
            )
        )
    return sorted(described, key=lambda each: each.name)


def lag_of(partition: PartitionRegistration, place: GroupOffset) -> int:
    """Return how many records of a partition a group has not processed, of those still kept."""
    return max(partition.high_watermark - max(place.offset, partition.log_start_offset), 0)


def groups_of(image: MetadataImage) -> list[str]:
    """Return the names of all groups: they have committed something, or have members."""
    return sorted({name for name, _ in image.groups} | image.consumer_groups.keys())


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
