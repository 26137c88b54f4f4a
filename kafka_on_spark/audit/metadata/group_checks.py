"""I30: groups with members, commit by commit: a partition is owned by one member, and its offsets
are saved by that one; a group's epochs do not fall.

While a group has members, the only offsets of partitions that nobody owns are those at which it
begins in partitions that are new to it, and those where it stands already as its last member goes.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from kafka_on_spark.audit.metadata.registers import Row
from kafka_on_spark.errors import CorruptLogError
from kafka_on_spark.ids import MemberId, Offset, PartitionKey
from kafka_on_spark.metadata.codec import decode
from kafka_on_spark.metadata.group import ConsumerGroup, replayed
from kafka_on_spark.metadata.group_records import (
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupRecord,
    GroupTargetEpochRecord,
    GroupTargetRecord,
    RemoveGroupMemberRecord,
)
from kafka_on_spark.metadata.records import (
    OffsetCommitRecord,
    Record,
    RemovePartitionRecord,
    RemoveTopicRecord,
)

Placed = tuple[int, Record]
"""A record, and its place in its commit."""

Flaw = tuple[str, int, PartitionKey | None]
"""A sentence, the place of the record that breaks the invariant, and the partition."""

_KINDS: Final = frozenset(
    each.__name__
    for each in (
        GroupMemberRecord,
        RemoveGroupMemberRecord,
        GroupTargetRecord,
        GroupTargetEpochRecord,
        GroupAssignmentRecord,
        OffsetCommitRecord,
        RemovePartitionRecord,
        RemoveTopicRecord,
    )
)


class GroupReplay:
    """Replays what the metadata log says of groups."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._saved: dict[tuple[str, PartitionKey], tuple[Offset, int | None]] = {}

    def take(self, rows: Sequence[Row]) -> Iterator[Flaw]:
        """Replay the next commit; yield what is wrong with it, and at which place in it. A record
        that can't be decoded is told by others."""
        records = []
        for place, row in enumerate(rows):
            if row["record_type"] in _KINDS:
                with suppress(CorruptLogError, TypeError):
                    records.append((place, decode(row)))
        yield from self.replay(records)

    def replay(self, records: Sequence[Placed]) -> Iterator[Flaw]:
        """As `take`, of the records about groups, and of what goes with its offsets."""
        touched = {each.group for _, each in records if isinstance(each, GroupRecord)}
        before = {group: self._owners(group) for group in touched}
        offsets = [(at, each) for at, each in records if isinstance(each, OffsetCommitRecord)]
        last = {}
        for at, record in records:
            if isinstance(record, GroupRecord):
                yield from self._rises(record, at)
                self._replay(record)
                last[record.group] = at
            elif isinstance(record, RemovePartitionRecord | RemoveTopicRecord):
                self._forget(record)
        for group, at in last.items():
            yield from self._owned_twice(group, at)
        for at, offset in offsets:
            yield from self._offset(offset, at, before.get(offset.group))

    def _replay(self, record: GroupRecord) -> None:
        after = replayed(self._groups.get(record.group), record)
        if after is None:
            self._groups.pop(record.group, None)
        else:
            self._groups[record.group] = after

    def _forget(self, record: RemovePartitionRecord | RemoveTopicRecord) -> None:
        """A partition that is added again under the number of one that is gone is a new one."""
        gone = None if isinstance(record, RemoveTopicRecord) else record.key
        for place in [each for each in self._saved if each[1].topic_id == record.topic_id]:
            if gone in (None, place[1]):
                del self._saved[place]

    def _owners(self, group: str) -> dict[PartitionKey, MemberId]:
        known = self._groups.get(group)
        members = () if known is None else known.members.values()
        return {key: each.member_id for each in members for key in each.owned}

    def _rises(self, record: GroupRecord, at: int) -> Iterator[Flaw]:
        known = self._groups.get(record.group)
        if known is None:
            return
        if isinstance(record, GroupMemberRecord | RemoveGroupMemberRecord):
            said, least = record.group_epoch, known.group_epoch
        elif isinstance(record, GroupTargetEpochRecord):
            said, least = record.target_epoch, max(known.target_epoch, known.group_epoch)
        else:
            return
        if said < least:
            yield f"epoch {said} of group {record.group!r} comes after {least}", at, None

    def _owned_twice(self, group: str, at: int) -> Iterator[Flaw]:
        known = self._groups.get(group)
        owners: dict[PartitionKey, MemberId] = {}
        for member in () if known is None else known.members.values():
            for key in member.owned:
                if key in owners:
                    sentence = (
                        f"group {group!r} has two owners of a partition, {owners[key]} and"
                        f" {member.member_id}"
                    )
                    yield sentence, at, key
                owners[key] = member.member_id

    def _offset(
        self, record: OffsetCommitRecord, at: int, before: dict[PartitionKey, MemberId] | None
    ) -> Iterator[Flaw]:
        key = PartitionKey(record.topic_id, record.partition)
        place = record.group, key
        owners = self._owners(record.group)
        has_members = record.group in self._groups or bool(before)
        is_owned = key in owners or key in (before or {})
        stands = None if record.offset is None else (record.offset, record.unclean_generation)
        is_kept = record.group not in self._groups and self._saved.get(place) == stands
        if has_members and not is_owned and place in self._saved and not is_kept:
            sentence = (
                f"an offset of group {record.group!r}, which has members, is changed, and none of"
                " them owns the partition"
            )
            yield sentence, at, key
        if stands is None:
            self._saved.pop(place, None)
        else:
            self._saved[place] = stands
