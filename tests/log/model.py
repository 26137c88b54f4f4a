"""Replicas of one compacted log and a reader, driven through the product's pure rules.

Each replica also has the whole log that it would have without compaction, so that the checks know
what is missing. A batch is one append; a fetch takes one segment; a group is at most two segments.
"""

from dataclasses import dataclass, field, replace

from kafka_on_spark.base.ids import Offset, ReplicaUuid
from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
)
from kafka_on_spark.log import compaction
from kafka_on_spark.log.compaction import NO_PROGRESS, CompactionProgress
from kafka_on_spark.metadata.partition import PartitionChange
from tests.builders import KEY, image_of, partition, partition_map
from tests.committing import committed
from tests.kept import KeyedRecord, kept_records
from tests.log.cut_reader import BrokenError, CutReader, table_of

RETENTION_MS = 100
CONFIGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(RETENTION_MS),
    "min.cleanable.dirty.ratio": "0",
}


@dataclass(frozen=True, slots=True)
class Extent:
    """A LogPart, by its sizes."""

    base_offset: int
    end_offset: int
    size_bytes: int
    record_count: int
    leader_epoch: int
    has_append_time: bool = False
    segments: tuple[None, ...] = (None,)
    appended_at_ms: int = 0
    oldest_ms: int = 0


@dataclass(slots=True)
class Replica:
    """One replica. `whole` is its log without compaction, `records` what its files have.

    `epochs` are those of the whole log's records: with the offset they name a record.
    """

    uuid: str
    epoch: int = -1
    whole: list[KeyedRecord] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    records: list[KeyedRecord] = field(default_factory=list)
    extents: list[Extent] = field(default_factory=list)
    progress: CompactionProgress = NO_PROGRESS

    @property
    def end(self) -> Offset:
        return Offset(len(self.whole))


@dataclass(slots=True)
class Reader:
    """One that keeps the last value of each key, from whichever replica may be read."""

    position: Offset = Offset(0)
    table: dict[bytes | None, Offset] = field(default_factory=dict)
    began_ms: int = 0


class Log:
    """A partition with three replicas; each method is a step, and False if it can't be taken."""

    def __init__(self, keys_max: int | None = None) -> None:
        self.keys_max = keys_max
        self.image = image_of(partition("1 2 3", hw=0), configs=CONFIGS)
        self.replicas = {number: Replica(f"uuid{number}") for number in (1, 2, 3)}
        for each in self.replicas.values():
            each.epoch = self.partition.leader_epoch
        self.now_ms = 1_000_000
        self.makings = 0
        self.reader = Reader(began_ms=self.now_ms)
        self.cuts = CutReader(self)
        self.seen: set[str] = set()

    @property
    def partition(self):
        return self.image.partition(KEY)

    @property
    def leader(self) -> Replica:
        return self.replicas[self.partition.leader]

    def _change(self, **fields) -> None:
        change = self.partition.completed(PartitionChange(**fields))
        self._put(self.partition.merge(change))

    def _put(self, registration) -> None:
        topic = self.image.topics[KEY.topic_id]
        topics = {KEY.topic_id: replace(topic, partitions=partition_map({0: registration}))}
        self.image = replace(self.image, topics=topics)

    # Steps.

    def append(self, *keys: tuple[bytes, bool]) -> bool:
        leader = self.leader
        base = leader.end
        new = [KeyedRecord(Offset(base + i), key, dead) for i, (key, dead) in enumerate(keys)]
        leader.whole += new
        leader.epochs += [leader.epoch] * len(new)
        leader.records += new
        leader.extents.append(
            Extent(base, leader.end, len(new), len(new), self.partition.leader_epoch)
        )
        return True

    def fetch(self, number: int) -> bool:
        if number == self.partition.leader:
            return False
        follower, leader = self.replicas[number], self.leader
        if follower.epoch < self.partition.leader_epoch and not self._adopt(number):
            return True
        is_first = not follower.extents
        if compaction.has_missed_tombstones(
            follower.progress, follower.end, leader.progress, is_first=is_first
        ):
            self.seen.add("missed tombstones")
            return self._make_again(number)
        found = [each for each in leader.extents if each.end_offset > follower.end]
        if not found:
            return True
        if found[0].base_offset < follower.end:
            self.seen.add("inside a compacted segment")
            return self._make_again(number)
        taken = found[0]
        follower.progress = follower.progress.after_fetch(leader.progress, is_first=is_first)
        follower.extents.append(taken)
        follower.whole += leader.whole[taken.base_offset : taken.end_offset]
        follower.epochs += leader.epochs[taken.base_offset : taken.end_offset]
        follower.records += [
            each for each in leader.records if taken.base_offset <= each.offset < taken.end_offset
        ]
        return True

    def fetch_whole(self, number: int) -> bool:
        """Fetch all that the leader has, at one version of it, to a follower that has nothing."""
        if number == self.partition.leader or self.replicas[number].extents:
            return False
        follower = self.replicas[number]
        while follower.end < self.leader.end:
            if not self.fetch(number) or self.replicas[number] is not follower:
                return True  # it was made again
        if follower.extents:
            follower.progress = self.leader.progress
            self.seen.add("fetched as a whole")
        return True

    def _adopt(self, number: int) -> bool:
        follower, leader = self.replicas[number], self.leader
        pairs = zip(follower.epochs, leader.epochs, strict=False)
        alike = [mine == theirs for mine, theirs in pairs]
        shared = (*alike, False).index(False)
        is_prefix = shared == len(follower.whole)
        # What the leader answers for the follower's last epoch.
        ends = [e.end_offset for e in leader.extents if e.leader_epoch <= follower.epoch]
        on_leader = max(ends, default=Offset(0)) if is_prefix else Offset(shared)
        if compaction.lacks_replaced_records(follower.progress, on_leader):
            self.seen.add("past the cut")
            self._make_again(number)
            return False
        borders = {Offset(0), *(each.end_offset for each in follower.extents)}
        cut = max(each for each in borders if each <= shared)
        follower.whole, follower.epochs = follower.whole[:cut], follower.epochs[:cut]
        follower.records = [each for each in follower.records if each.offset < cut]
        follower.extents = [each for each in follower.extents if each.end_offset <= cut]
        follower.epoch = self.partition.leader_epoch
        return True

    def _make_again(self, number: int) -> bool:
        if number in self.partition.isr:
            if len(self.partition.isr) == 1 or number == self.partition.leader:
                return False
            self._change(isr=self.partition.isr - {number})
        self.makings += 1
        uuid = f"again{self.makings}"
        self.replicas[number] = Replica(uuid, self.partition.leader_epoch)
        uuids = list(self.partition.replica_uuids)
        uuids[self.partition.replicas.index(number)] = ReplicaUuid(uuid)
        self._change(replica_uuids=tuple(uuids))
        self.seen.add("made again")
        return True

    def lose(self, number: int) -> bool:
        return number != self.partition.leader and self._make_again(number)

    def advance(self) -> bool:
        members = [self.replicas[each] for each in self.partition.isr]
        if any(each.epoch != self.partition.leader_epoch for each in members):
            return False
        mark = min(each.end for each in members)
        if mark <= self.partition.high_watermark:
            return False
        self._put(replace(self.partition, high_watermark=mark, log_end_offset=mark))
        return True

    def leave(self, number: int) -> bool:
        if number == self.partition.leader or number not in self.partition.isr:
            return False
        self._change(isr=self.partition.isr - {number})
        return True

    def join(self, number: int) -> bool:
        follower = self.replicas[number]
        if (
            number in self.partition.isr
            or follower.epoch != self.partition.leader_epoch
            or follower.end < self.partition.high_watermark
            or not self.partition.compaction.may_count(follower.progress.finished_below)
        ):
            return False
        self._change(isr=self.partition.isr | {number})
        return True

    def elect(self, number: int) -> bool:
        if number not in self.partition.isr:
            return False
        self._change(leader=number)
        self.leader.epoch = self.partition.leader_epoch
        return True

    def elect_uncleanly(self, number: int) -> bool:
        leader = self.replicas[number]
        is_lacking = compaction.lacks_replaced_records(leader.progress, leader.end)
        leader.progress = leader.progress.lowered_to(leader.end)
        self._change(
            leader=number,
            isr=frozenset({number}),
            high_watermark=leader.end,
            unclean_generation=self.partition.unclean_generation + 1,
        )
        leader.epoch = self.partition.leader_epoch
        self.reader = Reader(began_ms=self.now_ms)
        self.cuts = CutReader(self)
        self.seen.add("unclean")
        if is_lacking:
            self.seen.add("an unclean leader lacks records")
            leader.whole = self._as_it_is(leader)
            for other in {1, 2, 3} - {number}:
                self._make_again(other)
        return True

    def _as_it_is(self, leader: Replica) -> list[KeyedRecord]:
        """Return the leader's log as if what it lacks had never been: keys of their own."""
        has = {each.offset for each in leader.records}
        return [
            each if each.offset in has else KeyedRecord(each.offset, None) for each in leader.whole
        ]

    def decide(self, sees_others: bool = True) -> bool:
        leader, registration = self.leader, self.partition
        found = compaction.dirt_of(
            leader.extents,
            log_start_offset=Offset(0),
            compacted_below=registration.compaction.compacted_below,
            stable_below=registration.high_watermark,
            appended_before_ms=self.now_ms,
        )
        told = {
            number: ReplicaProgress(ReplicaUuid(each.uuid), each.end, each.progress)
            for number, each in self.replicas.items()
            if sees_others or number in registration.isr
        }
        record = compact(
            self.image,
            CompactionReport(
                key=KEY,
                leader_epoch=registration.leader_epoch,
                dirt=found,
                replicas=told,
                cleaned_below=registration.compaction.cleaned_below,
                now_ms=self.now_ms,
                latest_ms=self.now_ms,
            ),
        )
        if record is None:
            return False
        self.image = committed(self.image, [record])
        if self.partition.compaction.tombstones_below > registration.compaction.tombstones_below:
            self.seen.add("tombstones go")
        return True

    def apply(self, number: int) -> bool:
        """Rewrite one group of a replica that is fenced at the image's leadership."""
        replica = self.replicas[number]
        decided = self.partition.compaction
        if replica.epoch != self.partition.leader_epoch or replica.end < decided.compacted_below:
            return False
        if replica.progress.has_finished(decided):
            return False
        begun = replica.progress.begun(decided)
        begun = begun.in_round(self._round_of(replica, begun))
        group = compaction.next_group(
            replica.extents, begun, bytes_max=3, records_max=99, files_max=99
        )
        if group is None:
            replica.progress = begun.round_finished()
            return True
        first, last = replica.extents[group[0]], replica.extents[group[-1]]
        remaining = {
            each.offset
            for each in kept_records(
                replica.records,
                compacted_below=begun.round_below,
                tombstones_below=begun.tombstones_below,
            )
        }
        inside = range(first.base_offset, last.end_offset)
        after = [e for e in replica.records if e.offset not in inside or e.offset in remaining]
        if len(after) < len(replica.records):
            self.seen.add("records go")
            merged = replace(first, end_offset=last.end_offset, size_bytes=len(group))
            replica.extents[group[0] : group[-1] + 1] = [merged]
        replica.records = after
        replica.progress = begun.advanced(last.end_offset)
        return True

    def _round_of(self, replica: Replica, begun: CompactionProgress) -> Offset:
        """Return how far a round goes: in some lives the keys of a whole target do not fit."""
        at_once = begun.compacted_below if self.keys_max is None else self.keys_max
        return min(Offset(begun.finished_below + at_once), begun.compacted_below)

    def wait(self) -> bool:
        self.now_ms += RETENTION_MS // 2
        return True

    def read(self, number: int) -> bool:
        """Read two offsets of a replica that may be read.

        A reader that takes longer than tombstones are kept for begins again; it does so, too, after
        an unclean election.
        """
        replica, reader, mark = self.replicas[number], self.reader, self.partition.high_watermark
        if reader.position > mark or self.now_ms - reader.began_ms >= RETENTION_MS:
            self.reader = reader = Reader(began_ms=self.now_ms)
        if not self.may_read(number):
            return False
        if reader.position == 0:
            reader.began_ms = self.now_ms
        end = min(Offset(reader.position + 2), mark)
        for each in replica.records:
            if reader.position <= each.offset < end:
                reader.table[each.key] = each.offset
                if each.is_tombstone:
                    del reader.table[each.key]
        reader.position = end
        if end == mark:
            self._read_to_the_end()
        return True

    def _read_to_the_end(self) -> None:
        true = table_of(self.leader.whole, self.partition.high_watermark)
        true.pop(None, None)
        if self.reader.table != true:
            raise BrokenError(f"a reader has {self.reader.table}, not {true}")
        self.reader = Reader(began_ms=self.now_ms)
        self.seen.add("a reader came to the end")

    def may_read(self, number: int) -> bool:
        replica = self.replicas[number]
        return (
            number in self.partition.isr
            and replica.epoch == self.partition.leader_epoch
            and self.partition.compaction.may_count(replica.progress.finished_below)
        )
