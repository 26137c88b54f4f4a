"""Where readers stand: where one begins in a partition, what an image leaves of its position, and
what its group saves of that.

Pure. A position carries the unclean generation that it was taken in: so a reader notices that
records below it were lost, and goes back to where they were cut (KIP-320), or fails. A partition
that was removed and added again is one that was cut at 0.

A group that has members is left alone by requests. A running query of a group, which is not a
member, saves over the offsets that a request has set; a new one starts from them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    GroupIdNotFoundError,
    HistoryExpiredError,
    InvalidGroupIdError,
    LogTruncatedError,
    NonEmptyGroupError,
    OffsetOutOfRangeError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import (
    KEEP,
    GroupEpoch,
    MemberId,
    Offset,
    PartitionKey,
    TopicId,
    TopicPartition,
    check_text,
)
from kafka_on_spark.metadata.image import ControllerResult, GroupMember, MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset, PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    NO_CLIENT,
    MemberClient,
    MetadataBatch,
    OffsetCommitRecord,
    PartitionChangeRecord,
    PartitionRecord,
)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NONE: Final = "none"
MINUTE_MS: Final = 60_000

# Positions


@dataclass(frozen=True, slots=True)
class Position:
    """The next record that a reader hands out, and the partition's unclean generation by then."""

    offset: Offset
    unclean_generation: int


FindCuts = Callable[[Mapping[PartitionKey, int]], Mapping[PartitionKey, Offset]]
"""Returns the lowest offset at which each partition was cut after a generation, where one is found.
It reads the metadata log, and is asked only of partitions that have another generation."""


def partition_of(image: MetadataImage, key: PartitionKey) -> PartitionRegistration:
    return image.topics[key.topic_id].partitions[key.partition]


def begin(image: MetadataImage, key: PartitionKey, *, group: str | None, reset: str) -> Position:
    """Return where a reader begins in a partition: at the group's offset; otherwise by `reset`,
    where NONE raises OffsetOutOfRangeError."""
    partition = partition_of(image, key)
    saved = None if group is None else image.group_offsets.get((group, key))
    if saved is not None:
        return Position(saved.offset, saved.unclean_generation)
    if reset == NONE:
        whose = "the consumer" if group is None else f"group {group!r}"
        raise OffsetOutOfRangeError(
            f"{whose} has no offset of {image.name_of(key)}, and auto_offset_reset is 'none': seek,"
            " set the group's offset, or give 'earliest' or 'latest'"
        )
    return at(partition, reset)


def at(partition: PartitionRegistration, place: str) -> Position:
    """Return the position EARLIEST or LATEST of a partition."""
    start, end = partition.log_start_offset, partition.high_watermark
    return Position(start if place == EARLIEST else end, partition.unclean_generation)


def is_due(partition: PartitionRegistration, position: Position) -> bool:
    """Return whether a partition has records at a position, or the position has to be revised."""
    return (
        partition.high_watermark > position.offset
        or partition.unclean_generation != position.unclean_generation
        or position.offset > partition.known_log_end
    )


def may_have_lost(partition: PartitionRegistration, position: Position) -> bool:
    """Return whether records below a position may be lost: a reader at the log start has read
    nothing that could be, and what others have read is gone, lost or not."""
    return (
        position.unclean_generation != partition.unclean_generation
        and position.offset > partition.log_start_offset
    )


def revised(
    image: MetadataImage, key: PartitionKey, position: Position, *, reset: str, find_cuts: FindCuts
) -> Position:
    """Return the position that `image` leaves of `position`: itself, if its record can be read;
    otherwise as `reset` says, where NONE raises LogTruncatedError or OffsetOutOfRangeError.

    Source: SubscriptionState.maybeCompleteValidation, FetchCollector.handleInitializeErrors."""
    partition = partition_of(image, key)
    start, end = partition.log_start_offset, partition.known_log_end
    if position.unclean_generation != partition.unclean_generation:
        before, position = position, after_cuts(image, {key: position}, find_cuts)[key]
        if reset == NONE and position.offset < before.offset:
            raise LogTruncatedError(
                f"{image.name_of(key)} has lost the records from offset {position.offset} on, below"
                f" the position {before.offset}, by an unclean election or as it was removed and"
                " added again, and auto_offset_reset is 'none': seek to where to go on"
            )
    if start <= position.offset <= end:
        return position
    if reset == NONE:
        raise OffsetOutOfRangeError(
            f"offset {position.offset} of {image.name_of(key)} is not between its log start {start}"
            f" and its log end {end}, and auto_offset_reset is 'none': seek to another"
        )
    return at(partition, reset)


def after_cuts(
    image: MetadataImage, positions: Mapping[PartitionKey, Position], find_cuts: FindCuts
) -> dict[PartitionKey, Position]:
    """Return what cuts since positions were taken leave of them: each goes back to the lowest of
    them, where records stand that its reader has not read."""
    partitions = {key: partition_of(image, key) for key in positions}
    cut = {
        key: position.unclean_generation
        for key, position in positions.items()
        if may_have_lost(partitions[key], position)
    }
    try:
        ends = find_cuts(cut) if cut else {}
    except HistoryExpiredError:
        # As Kafka's consumers, if the leader's epochs begin after their own: what they have read
        # may be lost, and they read again what is there.
        ends = {key: partitions[key].log_start_offset for key in cut}
    after = {}
    for key, position in positions.items():
        partition, end = partitions[key], position.offset
        if key in cut:
            end = min(end, ends.get(key, partition.high_watermark))
        after[key] = Position(end, partition.unclean_generation)
    return after


def cuts_after(
    pieces: Iterable[tuple[MetadataImage, Sequence[MetadataBatch]]],
    generations: Mapping[PartitionKey, int],
) -> dict[PartitionKey, Offset]:
    """Return the lowest end that each partition was given in generations after one: by unclean
    elections, or as it was added again.

    `pieces` are batches of the metadata log with the image that they continue, the newest first. No
    more of them are read than reach back to those generations.
    """
    cuts: dict[PartitionKey, Offset] = {}
    for before, batches in pieces:
        for record in (each for batch in batches for each in batch.records):
            if not isinstance(record, PartitionRecord | PartitionChangeRecord):
                continue
            given: PartitionRegistration | PartitionChange
            given = record.registration if isinstance(record, PartitionRecord) else record.change
            generation, end = given.unclean_generation, given.high_watermark
            if record.key not in generations or generation is KEEP or end is KEEP:
                continue
            if generation > generations[record.key]:
                cuts[record.key] = min(end, cuts.get(record.key, end))
        known = {key: before.partition(key) for key in generations}
        if all(
            each is not None and each.unclean_generation <= generations[key]
            for key, each in known.items()
        ):
            break
    return cuts


# Who may save


@dataclass(frozen=True, slots=True)
class Membership:
    """The member that saves offsets for a group: its id, and the epoch that it knows to be at."""

    member_id: MemberId
    member_epoch: GroupEpoch


def check_group(group: object) -> None:
    """Raise InvalidGroupIdError unless a name can be a group's. Source:
    GroupMetadataManager.validateGroupId."""
    check_text(group, "a group's name", InvalidGroupIdError)
    if not group:
        raise InvalidGroupIdError("a group's name can't be empty: give one")


def check_no_members(image: MetadataImage, group: str) -> None:
    known = image.consumer_groups.get(group)
    if known is not None:
        count = len(known.members)
        raise NonEmptyGroupError(
            f"group {group!r} has {count} member{'s' if count > 1 else ''}: end its consumers"
            " first, or remove members that were killed (consumer-groups --remove-members)"
        )


def member_of(image: MetadataImage, group: str, member_id: MemberId) -> GroupMember:
    known = image.consumer_groups.get(group)
    member = None if known is None else known.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(
            f"group {group!r} has no member {member_id}: it has left, or was fenced"
        )
    return member


def check_may_commit(
    image: MetadataImage, group: str, member: Membership | None, keys: Set[PartitionKey]
) -> None:
    """Check that a member owns the partitions whose offsets it saves; None: a client that is not a
    member, which may save while the group has none.

    Kafka compares the epochs only. Here the owner is in the same log as the offsets, so that of two
    members that have handed out the same records one alone can say how far they are processed.

    Raises:
        UnknownMemberIdError: It has left, or was fenced; or the group has members, and it is none.
        StaleMemberEpochError: Its epoch is another, or it does not own one of the partitions.
    """
    if member is None:
        if group in image.consumer_groups:
            raise UnknownMemberIdError(
                f"group {group!r} has members, which alone save its offsets: give the consumer"
                " topics, so that it becomes one, or another group"
            )
        return
    known = member_of(image, group, member.member_id)
    if known.member_epoch != member.member_epoch:
        raise StaleMemberEpochError(
            f"member {known.member_id} of group {group!r} is at epoch {known.member_epoch}, not"
            f" at {member.member_epoch}"
        )
    if not_owned := keys - known.owned:
        key = min(not_owned)
        name = (
            image.name_of(key)
            if key.topic_id in image.topics
            else f"{key.topic_id}-{key.partition}, gone"
        )
        raise StaleMemberEpochError(
            f"member {known.member_id} of group {group!r} does not own {name}"
        )


# One partition's offset


def saved_offset(
    group: str, key: PartitionKey, partition: PartitionRegistration, offset: int, cause: str
) -> OffsetCommitRecord:
    is_at_end = offset == partition.high_watermark
    return OffsetCommitRecord(
        group=group,
        topic_id=key.topic_id,
        partition=key.partition,
        offset=Offset(offset),
        leader_epoch=partition.high_watermark_epoch if is_at_end else None,
        unclean_generation=partition.unclean_generation or None,
        cause=cause,
    )


def saved_if_due(
    image: MetadataImage, group: str, key: PartitionKey, offset: int, now_ms: int, cause: str
) -> list[OffsetCommitRecord]:
    """Return the record that brings a group to `offset` of a partition that is there; none if it
    stands there, and its offset needs not be saved again."""
    partition = partition_of(image, key)
    known = image.group_offsets.get((group, key))
    is_there = (
        known is not None
        and (known.offset, known.unclean_generation) == (offset, partition.unclean_generation)
        and not needs_saving_again(image, known, now_ms)
    )
    return [] if is_there else [saved_offset(group, key, partition, offset, cause)]


def saved_positions(
    image: MetadataImage,
    group: str,
    positions: Mapping[PartitionKey, Position],
    member: Membership | None,
    now_ms: int,
) -> list[OffsetCommitRecord]:
    """Return the records that bring a group to these positions; None: the reader is not a member.

    Partitions that are gone get none; nor does one that had an unclean election since, or was added
    again: below the position there may be records that nobody has read. One in which the group
    stands there already gets one before its offset expires, by `now_ms`, the clock of the process
    that saves."""
    check_may_commit(image, group, member, positions.keys())
    records = []
    for key, position in positions.items():
        partition = image.partition(key)
        if partition is None or partition.unclean_generation != position.unclean_generation:
            continue
        cause = f"group {group!r} has processed {image.name_of(key)} up to {position.offset}"
        records += saved_if_due(image, group, key, position.offset, now_ms, cause)
    return records


def beginnings(
    image: MetadataImage,
    group: str,
    keys: Iterable[PartitionKey],
    why: str,
    *,
    is_at_end: bool = False,
) -> Iterator[OffsetCommitRecord]:
    """Yield the records by which a group stands at the beginning, or the end, of those partitions
    of which it has no offset: so nothing behind that is skipped, whoever reads them first."""
    for key in sorted(keys):
        partition = image.partition(key)
        if partition is not None and (group, key) not in image.group_offsets:
            offset = partition.high_watermark if is_at_end else partition.log_start_offset
            cause = f"group {group!r} begins at {offset} of {image.name_of(key)}: {why}"
            yield saved_offset(group, key, partition, offset, cause)


def added_since(
    image: MetadataImage, keys: Iterable[PartitionKey], group: str | None
) -> set[PartitionKey]:
    """Return the partitions that were added to their topics after a group had saved lower ones: it
    has no offset of any that is as high. A group without an offset of a topic is new to it."""
    highest: dict[TopicId, int] = {}
    for name, saved in image.group_offsets:
        if name == group:
            highest[saved.topic_id] = max(saved.partition, highest.get(saved.topic_id, 0))
    return {key for key in keys if key.partition > highest.get(key.topic_id, key.partition)}


# How long it lives


def offsets_retention_ms(settings: Settings) -> int:
    return settings.integer("offsets.retention.minutes") * MINUTE_MS


def needs_saving_again(image: MetadataImage, known: GroupOffset, now_ms: int) -> bool:
    """Return whether half of the time is over after which a saved offset expires. `now_ms`: the
    clock of the process that saves."""
    half_ms = offsets_retention_ms(image.settings()) // 2
    return is_renewal_due(image, known.saved_at_ms, now_ms, half_ms)


def is_renewal_due(image: MetadataImage, saved_at_ms: int, now_ms: int, after_ms: int) -> bool:
    """Return whether what a client saved is older than `after_ms`, by the client's clock or by the
    newest commit: the log may have gone on since the client read its clock. What a clock far ahead
    of this one has stamped is renewed, too."""
    return max(image.time_ms, now_ms) - saved_at_ms >= after_ms or saved_at_ms - now_ms >= after_ms


# Set, saved and removed


def alter_group_offsets(
    image: MetadataImage, group: str, offsets: Mapping[PartitionKey, int]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide that a group, which may be new and must have no members, stands at these offsets: all
    or none.

    Kafka takes any number; here a query must be able to start from it. An offset where it stands is
    saved again before it expires, by the time of the newest commit: a request tells no time.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        OffsetOutOfRangeError: An offset is below the log start or above the high watermark."""
    check_group(group)
    check_no_members(image, group)
    return _set_offsets(image, group, offsets, "by request", image.time_ms)


def save_offsets(
    image: MetadataImage,
    group: str,
    offsets: Mapping[PartitionKey, int],
    member: Membership | None,
    now_ms: int,
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide that a group stands where a consumer says: all or none. Raises what
    `alter_group_offsets` and `check_may_commit` do."""
    check_may_commit(image, group, member, offsets.keys())
    return _set_offsets(image, group, offsets, "by its consumer", now_ms)


def _set_offsets(
    image: MetadataImage, group: str, offsets: Mapping[PartitionKey, int], by_whom: str, now_ms: int
) -> ControllerResult[dict[PartitionKey, Offset]]:
    records = []
    for key, offset in offsets.items():
        partition = image.partition(key)
        if partition is None:
            raise UnknownTopicOrPartitionError("there is no such partition to have an offset of")
        start, end = partition.log_start_offset, partition.high_watermark
        if not start <= offset <= end:
            raise OffsetOutOfRangeError(
                f"group {group!r} can't stand at offset {offset} of {image.name_of(key)}: give one"
                f" from its log start {start} to its high watermark {end}"
            )
        cause = f"group {group!r} set to {offset} of {image.name_of(key)} {by_whom}"
        records += saved_if_due(image, group, key, offset, now_ms, cause)
    return ControllerResult(records, {key: Offset(each) for key, each in offsets.items()})


def delete_group(
    image: MetadataImage, group: str, keys: Iterable[PartitionKey] | None = None
) -> ControllerResult[list[PartitionKey]]:
    """Decide that a group's offsets go: of the partitions `keys`, or all, and so the group. Answer:
    the partitions in which it had an offset."""
    saved = deletable_partitions(image, group)
    wanted = saved if keys is None else [key for key in keys if key in set(saved)]
    records = [
        OffsetCommitRecord(
            group=group,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=None,
            leader_epoch=None,
            cause=f"group {group!r} left {image.name_of(key)} by request",
        )
        for key in wanted
    ]
    return ControllerResult(records, wanted)


def deletable_partitions(image: MetadataImage, group: str) -> list[PartitionKey]:
    """Return the partitions in which a group has an offset, if it has no members: it need not have
    saved anything yet."""
    check_group(group)
    check_no_members(image, group)
    return saved_partitions(image, group)


def saved_partitions(image: MetadataImage, group: str) -> list[PartitionKey]:
    """Return the partitions in which a group has an offset, in order of their names, or raise
    GroupIdNotFoundError."""
    check_group(group)
    saved = sorted((key for name, key in image.group_offsets if name == group), key=image.name_of)
    if not saved:
        known = ", ".join(sorted({name for name, _ in image.group_offsets})[:10]) or "none"
        raise GroupIdNotFoundError(
            f"there is no consumer group {group!r}: it exists once it has committed an offset"
            f" (known: {known})"
        )
    return saved


# Lag


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in one partition: `offset` is the next record that it would read,
    `lag` the records that it has not processed; None: it has saved no offset there. `member_id` is
    the partition's owner, and `client` what is known of it; None: it has no owner."""

    name: TopicPartition
    offset: int | None
    log_start_offset: int
    high_watermark: int
    lag: int | None
    member_id: MemberId | None
    client: MemberClient


def describe_group(image: MetadataImage, group: str) -> list[GroupLag]:
    """Return a group's offsets, lag and members by partition: those where it has saved an offset,
    and those that its members own."""
    saved = {key: each for (name, key), each in image.group_offsets.items() if name == group}
    known = image.consumer_groups.get(group)
    members = () if known is None else known.members.values()
    owners = {key: each for each in members for key in each.owned}
    described = [
        GroupLag(
            name=image.name_of(key),
            offset=None if (place := saved.get(key)) is None else place.offset,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.high_watermark,
            lag=None if place is None else lag_of(partition, place),
            member_id=None if (owner := owners.get(key)) is None else owner.member_id,
            client=NO_CLIENT if owner is None else owner.client,
        )
        for key in saved.keys() | owners.keys()
        if (partition := image.partition(key)) is not None
    ]
    return sorted(described, key=lambda each: each.name)


def lag_of(partition: PartitionRegistration, place: GroupOffset) -> int:
    """Return how many records of a partition a group has not processed, of those still kept."""
    return max(partition.high_watermark - max(place.offset, partition.log_start_offset), 0)


def groups_of(image: MetadataImage) -> list[str]:
    return sorted({name for name, _ in image.group_offsets} | image.consumer_groups.keys())
