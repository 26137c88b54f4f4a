"""What a member decides for itself: it gives up and takes partitions, and leaves. Pure.

The offsets that go with it are in the same commit. That a member has followed a target, and its
partitions are the same, is said with its next offsets: of many members few have to move any.

Offsets of what it gives up stand in the log before the partition is free, so the next owner begins
where this one has stopped. Where the group has no offset of what it takes, the place where it
begins is saved with the taking: nobody begins later.
"""

from collections.abc import Iterable, Mapping, Set
from itertools import chain

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.group_offsets import save_standings
from kafka_on_spark.consume.standing import Standing, at
from kafka_on_spark.consume.subscription import Subscribe, Subscription, partitions_of
from kafka_on_spark.groups.checks import Membership, member_of
from kafka_on_spark.groups.groups import offsets_kept
from kafka_on_spark.groups.membership import leave
from kafka_on_spark.groups.offsets import saved_offset
from kafka_on_spark.groups.sharing import reconcile
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import OffsetCommitRecord, Record
from kafka_on_spark.metadata.result import ControllerResult

Standings = Mapping[PartitionKey, Standing]


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
    processed: Standings,
    begins_at: str | None,
    now_ms: int,
) -> ControllerResult[frozenset[PartitionKey]]:
    """Decide what a member owns that hands out `held` alone: it gives up what else it owns and
    shall not, and takes what is free. Answer: the partitions that it owns then.

    Args:
        image: The newest image.
        group: The group.
        member: The member that decides.
        held: The partitions that it goes on to hand out.
        processed: Positions to save, of others that it owns.
        begins_at: EARLIEST or LATEST: where it begins without an offset, which is saved. None:
            nothing is.
        now_ms: As in `save_standings`.

    Raises:
        UnknownMemberIdError, FencedMemberEpochError, StaleMemberEpochError: As `reconcile` and
            `check_may_commit`.
    """
    before = member_of(image, group, member.member_id).owned
    result = reconcile(image, group, member.member_id, member.member_epoch, before - held)
    saved = _saved(image, group, member, processed, before, now_ms)
    if result.response == before:
        return ControllerResult([*saved], before)
    taken = result.response - before
    begun = _begun(image, group, taken, begins_at) if begins_at is not None else ()
    return ControllerResult([*chain(saved, result.records, begun)], result.response)


def save_positions(
    image: MetadataImage, group: str, processed: Standings, member: Membership | None, now_ms: int
) -> ControllerResult[None]:
    """Decide that a group stands where a consumer says; a member tells the target that it has
    followed with it. None: the consumer is no member.

    Raises: as `save_standings`.
    """
    saved = save_standings(image, group, processed, now_ms, member).records
    if member is None or not saved:
        return ControllerResult(saved, None)
    owned = member_of(image, group, member.member_id).owned
    result = reconcile(image, group, member.member_id, member.member_epoch)
    followed = result.records if result.response == owned else []
    return ControllerResult([*saved, *followed], None)


def leave_group(
    image: MetadataImage,
    group: str,
    member: Membership,
    *,
    processed: Standings,
    returns: bool,
    now_ms: int,
) -> ControllerResult[None]:
    """Decide that a member leaves, once its positions are saved; if it is the last one, the group's
    other offsets live on from now.

    Raises:
        UnknownMemberIdError: It was fenced, and has positions to save.
        StaleMemberEpochError: As `check_may_commit`.
    """
    owned = member_of(image, group, member.member_id).owned if processed else frozenset()
    saved = _saved(image, group, member, processed, owned, now_ms)
    left = leave(image, group, member.member_id, returns=returns)
    return offsets_kept(image, group, ControllerResult([*saved, *left.records], None), now_ms)


def _saved(
    image: MetadataImage,
    group: str,
    member: Membership,
    processed: Standings,
    owned: Set[PartitionKey],
    now_ms: int,
) -> list[Record]:
    """Return the records that save positions, of what the member owns: the rest was given up by a
    commit whose outcome was unknown, and its offsets with it."""
    positions = {key: each for key, each in processed.items() if key in owned}
    return (
        list(save_standings(image, group, positions, now_ms, member).records) if positions else []
    )


def _begun(
    image: MetadataImage, group: str, taken: Iterable[PartitionKey], place: str
) -> Iterable[OffsetCommitRecord]:
    for key in sorted(taken):
        partition = image.partition(key)
        if partition is not None and (group, key) not in image.groups:
            offset = at(partition, place).offset
            cause = f"group {group!r} begins at {offset} of {image.name_of(key)}, the {place}"
            yield saved_offset(group, key, partition, offset, cause)
