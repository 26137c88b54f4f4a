"""Compaction of logs in memory: of a record an append, whose content follows from its offset."""

from dataclasses import replace

from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log.batch import MergedSegment, Segment, segment_name
from kafka_on_spark.log.compactor import compact_replica
from kafka_on_spark.metadata.partition import Compaction
from tests.kept import KeyedRecord, kept_records
from tests.log.upkeeping import Upkeeping

BATCHES = 12
KEY_COUNT = 3
TOMBSTONES = (2, 5)


def record_at(offset):
    """Return the record of an append: keys come round, and some records delete theirs."""
    return KeyedRecord(Offset(offset), b"%d" % (offset % KEY_COUNT), offset in TOMBSTONES)


class MemoryCompactor:
    """Compacts logs of one record an append, whose content follows from its offset.

    Attributes:
        asked: The ranges that keys were read of.
        before_write: Called before a file is written.
        parts_max: How many parts of a log one file may hold.
    """

    def __init__(self, segments):
        self._segments = segments
        self._offsets = {}
        self._number = 0
        self.asked = []
        self.before_write = lambda: None
        self.parts_max = 2**31

    def offsets_of(self, part):
        known = self._offsets.get(part.segments[0].uuid)
        return range(part.base_offset, part.end_offset) if known is None else known

    def _records(self, parts):
        return [record_at(each) for part in parts for each in self.offsets_of(part)]

    def fitting(self, address, parts):
        return min(len(parts), self.parts_max)

    def last_offsets(self, address, parts, *, start_offset, end_offset):
        for part in parts:
            self._segments.check(address, part.segments[0])
        self.asked.append((start_offset, end_offset))
        found = (each for each in self._records(parts) if start_offset <= each.offset < end_offset)
        return {each.key: each.offset for each in found}

    def without_stale(
        self, address, parts, last, *, compacted_below, tombstones_below, leader_epoch
    ):
        kept = [
            each
            for each in self._records(parts)
            if each.offset >= compacted_below
            or (
                last.get(each.key, each.offset) <= each.offset
                and not (each.is_tombstone and each.offset < tombstones_below)
            )
        ]
        if len(kept) == sum(part.record_count for part in parts):
            return None
        self.before_write()
        self._number += 1
        name = f"c{self._number}"
        self._offsets[name] = [int(each.offset) for each in kept]
        segment = Segment(
            file_name=segment_name(leader_epoch, name, f"digest{name}"),
            size_bytes=100 * len(kept),
            record_count=len(kept),
            timestamp_min_us=0,
            timestamp_max_us=0,
        )
        self._segments.put(address, segment)
        return MergedSegment(
            base_offset=parts[0].base_offset,
            end_offset=parts[-1].end_offset,
            leader_epoch=parts[0].leader_epoch,
            appended_at_ms=max(part.appended_at_ms for part in parts),
            segment=segment,
            content_digest=0,
            chain_digest=parts[-1].chain_digest,
            borders=(),
        )


class Compacting(Upkeeping):
    """A partition of three replicas, twelve committed batches, and a decision."""

    def __init__(self, *, below=10, tombstones=0, count=BATCHES, **configs):
        decided = Compaction(
            compacted_below=Offset(below),
            cleaned_below=Offset(tombstones),
            expiring_below=Offset(tombstones),
            tombstones_below=Offset(tombstones),
        )
        super().__init__(count, configs={"cleanup.policy": "compact", **configs})
        self.decided = decided
        self.compactor = MemoryCompactor(self.segments)

    def order(self, broker_id=1, **fields):
        order = super().order(broker_id)
        partition = replace(order.partition, compaction=self.decided)
        return replace(order, partition=partition, **fields)

    def compact(self, broker_id=1, **fields):
        return self.do(compact_replica, broker_id, **fields)

    def compact_at_last(self, **fields):
        """Give one order after the other; return how many it took."""
        for turn in range(100):
            if not self.compact(**fields).is_left:
                return turn + 1
        raise AssertionError("it never ends")

    def records(self, broker_id=1):
        parts = self.table(broker_id).load().batches
        return [each for part in parts for each in self.compactor.offsets_of(part)]

    def progress(self, broker_id=1):
        return self.table(broker_id).load().compaction

    def expected(self, count=BATCHES):
        kept = kept_records(
            [record_at(each) for each in range(count)],
            compacted_below=self.decided.compacted_below,
            tombstones_below=self.decided.tombstones_below,
        )
        return [each.offset for each in kept]
