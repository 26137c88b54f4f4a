"""Positions in a partition: where a reader begins, what an image leaves of its position, and what
its group saves.

Pure. A position carries the unclean generation that it was taken in: so a consumer notices that
records below it were lost, and goes back to where they were cut (KIP-320), or fails. A partition
that was removed and added again is one that was cut at 0.

A member saves the offsets of the partitions that it gives up in the same commit: the next owner
begins where this one has stopped. Where the group has no offset of a partition that it takes, the
place where it begins is saved with the taking: nobody begins later.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from kafka_on_spark.base.errors import HistoryExpiredError, LogTruncatedError, OffsetOutOfRangeError
from kafka_on_spark.base.ids import KEEP, Offset, PartitionKey
from kafka_on_spark.consume.settings import EARLIEST, NONE
from kafka_on_spark.consume.subscription import Subscribe, Subscription, partitions_of
from kafka_on_spark.groups.membership import leave, reconcile
from kafka_on_spark.groups.offsets import (
    Membership,
    beginnings,
    check_may_commit,
    member_of,
    offsets_kept,
    saved_if_due,
)
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    OffsetCommitRecord,
    PartitionChangeRecord,
    PartitionRecord,
)


@dataclass(frozen=True, slots=True)
class Position:
    """The next record that a reader hands out, and the unclean generation of the partition when the
    position was taken."""

    offset: Offset
    unclean_generation: int


FindCuts = Callable[[Mapping[PartitionKey, int]], Mapping[PartitionKey, Offset]]
"""Returns the lowest offset at which each partition was cut after a generation, where one is found.
It reads the metadata log, and is asked only of partitions that have another generation."""

LogPiece = tuple[MetadataImage, Sequence[MetadataBatch]]
"""Batches of the metadata log, and the image that they continue."""


def partition_of(image: MetadataImage, key: PartitionKey) -> PartitionRegistration:
    """Return the registration of a partition that the image has."""
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
    before, position = position, after_cuts(image, {key: position}, find_cuts)[key]
    if reset == NONE and position.offset < before.offset:
        raise LogTruncatedError(
            f"{image.name_of(key)} has lost the records from offset {position.offset} on, below the"
            f" position {before.offset}, by an unclean election or as it was removed and added"
            " again, and auto_offset_reset is 'none': seek to where to go on"
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
    pieces: Iterable[LogPiece], generations: Mapping[PartitionKey, int]
) -> dict[PartitionKey, Offset]:
    """Return the lowest end that each partition was given in generations after one: by unclean
    elections, or as it was added again.

    `pieces` are the log's, the newest first. No more of them are read than reach back to those
    generations.
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


# What a group saves

Positions = Mapping[PartitionKey, Position]


def saved_positions(
    image: MetadataImage,
    group: str,
    positions: Positions,
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


def save_positions(
    image: MetadataImage, group: str, processed: Positions, member: Membership | None, now_ms: int
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


def subscribed_topics(image: MetadataImage, subscription: Subscription) -> list[str]:
    """Return the topics that a subscription names in an image; one by name need not exist."""
    if isinstance(subscription, Subscribe):
        return list(subscription.topics)
    found = partitions_of(image, subscription, fails_on_missing=False)
    return list(dict.fromkeys(name.topic for name in found))


def follow_target(
    image: MetadataImage,
    group: str,
    member: Membership,
    *,
    held: Set[PartitionKey],
    processed: Positions,
    begins_at: str | None,
    now_ms: int,
) -> ControllerResult[frozenset[PartitionKey]]:
    """Decide what a member owns that hands out `held` alone: it gives up what else it owns and
    shall not, and takes what is free. Answer: the partitions that it owns then.

    `processed` are positions to save, of others that it owns. `begins_at`: EARLIEST or LATEST,
    where it begins without an offset, which is saved; None: nothing is."""
    before = member_of(image, group, member.member_id).owned
    result = reconcile(image, group, member.member_id, member.member_epoch, before - held)
    saved = _saved(image, group, member, processed, before, now_ms)
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
    processed: Positions,
    returns: bool,
    now_ms: int,
) -> ControllerResult[None]:
    """Decide that a member leaves, once its positions are saved; if it is the last one, the group's
    other offsets live on from now.

    Raises:
        UnknownMemberIdError: It was fenced, and has positions to save."""
    owned = member_of(image, group, member.member_id).owned if processed else frozenset()
    saved = _saved(image, group, member, processed, owned, now_ms)
    left = leave(image, group, member.member_id, returns=returns)
    return offsets_kept(image, group, ControllerResult([*saved, *left.records], None), now_ms)


def _saved(
    image: MetadataImage,
    group: str,
    member: Membership,
    processed: Positions,
    owned: Set[PartitionKey],
    now_ms: int,
) -> list[OffsetCommitRecord]:
    """Return the records that save positions, of what the member owns: the rest was given up by a
    commit whose outcome was unknown, and its offsets with it."""
    positions = {key: each for key, each in processed.items() if key in owned}
    return saved_positions(image, group, positions, member, now_ms) if positions else []
