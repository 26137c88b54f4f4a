"""A group's offsets live for offsets.retention.minutes from when its last member goes (KIP-211).

While a group has members its offsets do not expire, however old they are. So those that are old are
saved again in the commit by which the last one leaves or is put out. Apart from `groups`, which
decides what somebody asks for.
"""

from collections.abc import Iterator, Set
from typing import TypeVar

from kafka_on_spark.controller.commands.expiry import needs_saving_again
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.group_records import RemoveGroupMemberRecord
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import OffsetCommitRecord

T = TypeVar("T")


def offsets_kept(
    image: MetadataImage, group: str, left: ControllerResult[T], now_ms: int
) -> ControllerResult[T]:
    """Return a decision by which members of a group go, with what keeps the group's offsets if no
    other member is there. `now_ms`: as in `needs_saving_again`."""
    known = image.consumer_groups.get(group)
    gone = {each.member_id for each in left.records if isinstance(each, RemoveGroupMemberRecord)}
    if known is None or known.members.keys() - gone:
        return left
    saved = {
        PartitionKey(each.topic_id, each.partition)
        for each in left.records
        if isinstance(each, OffsetCommitRecord)
    }
    again = _saved_again(image, group, saved, now_ms)
    return ControllerResult([*again, *left.records], left.response)


def _saved_again(
    image: MetadataImage, group: str, saved: Set[PartitionKey], now_ms: int
) -> Iterator[OffsetCommitRecord]:
    for (name, key), place in image.groups.items():
        if name != group or key in saved or not needs_saving_again(image, place, now_ms):
            continue
        yield OffsetCommitRecord(
            group=group,
            topic_id=key.topic_id,
            partition=key.partition,
            offset=place.offset,
            leader_epoch=place.leader_epoch,
            unclean_generation=place.unclean_generation or None,
            cause=f"group {group!r} stands at {place.offset} of {image.name_of(key)} as its last"
            " member goes",
        )
