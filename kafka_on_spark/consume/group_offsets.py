"""What a consumer or query has its group save: positions, what it owns, that it goes.

Pure. A query with `kafka.group.id` saves the offset behind which Spark asks for more data: Spark
asks only when all records before have been processed, and calls neither `commit` nor `stop` after
the last batch. So a group's offsets never run ahead of what was processed.

A member saves the offsets of the partitions that it gives up in the same commit: the next owner
begins where this one has stopped. Where the group has no offset of a partition that it takes, the
place where it begins is saved with the taking: nobody begins later.
"""

from collections.abc import Iterable, Mapping, Set
from itertools import chain

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.positions import Position, at
from kafka_on_spark.consume.stream_offsets import StreamOffset, positions_of
from kafka_on_spark.consume.subscription import Subscribe, Subscription, partitions_of
from kafka_on_spark.groups.assignment import reconcile
from kafka_on_spark.groups.membership import leave
from kafka_on_spark.groups.offsets import (
    Membership,
    check_may_commit,
    member_of,
    offsets_kept,
    saved_if_due,
    saved_offset,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import OffsetCommitRecord
from kafka_on_spark.metadata.result import ControllerResult

Positions = Mapping[PartitionKey, Position]


def save_group(
    image: MetadataImage, group: str, offset: StreamOffset, now_ms: int
) -> ControllerResult[int]:
    """Decide that a group stands where a query does. Answer: how many partitions are saved."""
    records = saved_positions(image, group, positions_of(image, offset), None, now_ms)
    return ControllerResult(records, len(records))


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
    return list(partitions_of(image, subscription, is_missing_failed=False))


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
    taken = result.response - before
    begun = _begun(image, group, taken, begins_at) if begins_at is not None else ()
    return ControllerResult([*chain(saved, result.records, begun)], result.response)


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


def _begun(
    image: MetadataImage, group: str, taken: Iterable[PartitionKey], place: str
) -> Iterable[OffsetCommitRecord]:
    for key in sorted(taken):
        partition = image.partition(key)
        if partition is not None and (group, key) not in image.groups:
            offset = at(partition, place).offset
            cause = f"group {group!r} begins at {offset} of {image.name_of(key)}, the {place}"
            yield saved_offset(group, key, partition, offset, cause)
