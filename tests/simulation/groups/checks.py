"""What must hold of a simulated group after each commit, and of each record that is handed out."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafka_on_spark.base.ids import MemberId, PartitionKey, TopicId
from kafka_on_spark.consume.member import ASKED_MS
from kafka_on_spark.groups.offsets import offsets_retention_ms
from kafka_on_spark.metadata.image import ConsumerGroup, MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    OffsetCommitRecord,
    RemoveGroupMemberRecord,
)
from tests.builders import TOPIC, TOPIC_ID

if TYPE_CHECKING:
    from tests.simulation.groups.processes import Process
    from tests.simulation.groups.world import World

OWNED = "I30 a partition is owned by one member, and its offsets are saved by that"
SKIPPED = "nothing is skipped"
COMMITTED = "what was committed is handed out by nobody else"
ASKED = "who may have slept past its session asks before it hands out more"
ALIVE = "who beats is not fenced"
SAVED = "offsets stand before a partition is given up"
SETTLED = "a group comes to rest with all processed"
KEPT = "offsets have half of their time left at least when the last member goes"

LATE_MS = 10_000
"""What clocks that are wrong, and a process that is frozen, add to the age of an offset."""

LATER = "later"
"""A topic that is deleted and created anew while members read it."""

NOBODY = ConsumerGroup(group_epoch=0)


class Checker:
    """The truth about a group.

    Attributes:
        image: The metadata, of the whole log.
        beaten_at_ms: When each member has beaten last, in the time that the world was awake.
    """

    def __init__(self, world: "World", group: str, session_ms: int) -> None:
        self.image = MetadataImage()
        self.beaten_at_ms: dict[str, int] = {}
        self._world = world
        self._group = group
        self._session_ms = session_ms
        self._first: dict[PartitionKey, int] = {}
        self._processed: dict[PartitionKey, set[int]] = defaultdict(set)
        self._positions: dict[tuple[str, PartitionKey], int] = {}
        self._fenced_at_ms: dict[str, int] = {}
        self._taken_at: dict[tuple[str, PartitionKey], int] = {}

    def check_batch(self, process: "Process | None", batch: MetadataBatch) -> None:
        """Check a commit of a process; None: of the world."""
        before = self.image.consumer_groups.get(self._group, NOBODY)
        had = set(self.image.group_offsets)
        self.image = self.image.replay(batch)
        after = self.image.consumer_groups.get(self._group, NOBODY)
        if process is None:
            return
        owned = [key for each in after.members.values() for key in each.owned]
        assert len(owned) == len(set(owned)), OWNED
        assert after.target_epoch <= after.group_epoch, OWNED
        assert after is NOBODY or before is NOBODY or after.group_epoch >= before.group_epoch, OWNED
        for record in batch.records:
            if isinstance(record, OffsetCommitRecord):
                self._check_offset(process, record, before, after, had)
            elif isinstance(record, RemoveGroupMemberRecord):
                self._check_removed(process, record)
        self._check_moved(process, before, after)
        if before.members and not after.members:
            self._check_kept()

    def _check_kept(self) -> None:
        half_ms = offsets_retention_ms(self.image.settings()) // 2
        places = [
            place for (name, _), place in self.image.group_offsets.items() if name == self._group
        ]
        for place in places:
            age_ms = self.image.time_ms - place.saved_at_ms
            assert age_ms < half_ms + LATE_MS, (KEPT, age_ms)

    def add_partition(self, number: int) -> None:
        """A partition is about to be added: a group that shares its topic out reads all of it."""
        group = self.image.consumer_groups.get(self._group, NOBODY)
        if TOPIC_ID in {last.topic_id for last in group.last_partitions}:
            self._first[PartitionKey(TOPIC_ID, number)] = 0

    def create_topic(self, topic_id: TopicId, count: int) -> None:
        """A topic is about to be created: a group that reads its name reads all of it."""
        group = self.image.consumer_groups.get(self._group, NOBODY)
        if any(LATER in each.subscribed_topics for each in group.members.values()):
            for number in range(count):
                self._first[PartitionKey(topic_id, number)] = 0

    def read_keys(self) -> list[PartitionKey]:
        return [
            PartitionKey(topic.topic_id, number)
            for topic in self.image.topics.values()
            if topic.name in (TOPIC, LATER)
            for number in topic.partitions
        ]

    def _check_offset(
        self,
        process: "Process",
        record: OffsetCommitRecord,
        before: ConsumerGroup,
        after: ConsumerGroup,
        had: set[tuple[str, PartitionKey]],
    ) -> None:
        key = PartitionKey(record.topic_id, record.partition)
        assert record.offset is not None
        if key not in self.read_keys():
            assert record.offset == self.image.group_offsets[self._group, key].offset, KEPT
            return
        owners = {owner_in(before, key), owner_in(after, key)}
        is_added = owners == {None} and (self._group, key) not in had
        assert is_added or process.member_id in owners, (OWNED, record.cause)
        start = self._first.setdefault(key, record.offset)
        missing = set(range(start, record.offset)) - self._processed[key]
        assert not missing, (SKIPPED, key.partition, sorted(missing))

    def _check_removed(self, process: "Process", record: RemoveGroupMemberRecord) -> None:
        if "fenced" not in (record.cause or ""):
            return
        world, member = self._world, record.member_id
        silent_ms = world.awake_ms - self.beaten_at_ms.get(member, -self._session_ms)
        if silent_ms >= self._session_ms:
            self._fenced_at_ms[member] = world.now_ms
        else:
            assert process.was_frozen, (ALIVE, member, silent_ms)

    def _check_moved(self, process: "Process", before: ConsumerGroup, after: ConsumerGroup) -> None:
        for name, member in after.members.items():
            was = before.members.get(name)
            if was is None:
                self._fenced_at_ms.pop(name, None)  # its first join may have stood, unknown to it
            for key in member.owned - (was.owned if was is not None else frozenset()):
                self._first.setdefault(key, self._begin_of(key))
                known = self.image.group_offsets.get((self._group, key))
                self._taken_at[name, key] = 0 if known is None else known.offset
                self._positions.pop((name, key), None)
        mine = before.members.get(process.member_id)
        now = after.members.get(process.member_id)
        for key in (mine.owned if mine is not None else frozenset()) - (
            now.owned if now is not None else frozenset()
        ):
            position = self._positions.get((process.member_id, key))
            known = self.image.group_offsets.get((self._group, key))
            if position is not None and self.image.partition(key) is not None:
                assert known is not None, SAVED
                assert known.offset >= position, (SAVED, known.offset, position)

    def _begin_of(self, key: PartitionKey) -> int:
        """Return where the group begins in a partition that somebody has taken for the first
        time."""
        partition = self.image.partition(key)
        if partition is None:
            return 0  # its topic was deleted, and the target not shared out anew yet
        return 0 if self._world.reset == "earliest" else partition.high_watermark

    def hand_out(self, process: "Process", key: PartitionKey, rows: Any) -> None:
        world, member = self._world, process.member_id
        fenced_ms = self._fenced_at_ms.get(member)
        if fenced_ms is not None:
            late_ms = world.now_ms - fenced_ms
            assert late_ms <= ASKED_MS, (ASKED, member, late_ms)
        assert rows.start >= self._taken_at.get((member, key), 0), COMMITTED

    def processed(self, process: "Process", key: PartitionKey, rows: Any) -> None:
        self._processed[key] |= set(range(rows.start, rows.end))
        self._positions[process.member_id, key] = rows.end

    def check_end(self, processes: "list[Process]") -> None:
        group = self.image.consumer_groups[self._group]
        names = {each.member_id for each in processes}
        assert set(group.members) == names, (SETTLED, set(group.members), names)
        keys = set(self.read_keys())
        assert {key for each in group.members.values() for key in each.owned} == keys, SETTLED
        for key in keys:
            partition = self.image.partition(key)
            assert partition is not None
            end = partition.high_watermark
            assert self.image.group_offsets[self._group, key].offset == end, (
                SETTLED,
                key.partition,
            )


def owner_in(group: ConsumerGroup, key: PartitionKey) -> MemberId | None:
    owners = (each.member_id for each in group.members.values() if key in each.owned)
    return next(owners, None)
