"""Compaction as simulated processes do it: a compactor whose every read and write is a step.

Source: log/compactor.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import LogPart, MergedSegment
from kafka_on_spark.log.state import ReplicaAddress
from tests.merged_files import borders_of, content_digest
from tests.simulation.world.disks import Row, rows_of
from tests.simulation.world.keyed import is_tombstone, key_of
from tests.simulation.world.scheduler import Node
from tests.simulation.world.segment_store import SimulatedSegmentStore, merged_file
from tests.simulation.world.world import World


@dataclass(frozen=True, slots=True)
class KeyOffsets:
    """LastOffsets: by key."""

    of: dict[bytes, int]

    def __len__(self) -> int:
        return len(self.of)


class SimulatedCompactor:
    """A Compactor of one process."""

    def __init__(self, world: World, node: Node, segments: SimulatedSegmentStore) -> None:
        self._world = world
        self._node = node
        self._segments = segments

    def fitting(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> int:
        """Return all: no file is large."""
        return len(parts)

    def last_offsets(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        start_offset: Offset,
        end_offset: Offset,
    ) -> KeyOffsets:
        last: dict[bytes, int] = {}
        for at, value in self._read(address, parts):
            key = key_of(value)
            if key is not None and start_offset <= at < end_offset:
                last[key] = max(at, last.get(key, -1))
        return KeyOffsets(last)

    def without_stale(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        last: KeyOffsets,  # type: ignore[override]
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
        leader_epoch: LeaderEpoch,
    ) -> MergedSegment | None:
        def stays(row: Row) -> bool:
            at, value = row
            key = key_of(value)
            if at >= compacted_below:
                return True
            if key is None or at < last.of.get(key, -1):
                return False
            return not (is_tombstone(value) and at < tombstones_below)

        rows = self._read(address, parts)
        kept = [row for row in rows if stays(row)]
        if len(kept) == len(rows):
            return None
        known = self._world.disks.borders
        borders = tuple(
            each
            for each in borders_of(parts[-1], lambda part: known.get(part.segment.uuid, ()))
            if each.offset >= compacted_below and parts[-1].end_offset > compacted_below
        )
        first, final = parts[0], parts[-1]
        made = MergedSegment(
            base_offset=first.base_offset,
            end_offset=final.end_offset,
            leader_epoch=first.leader_epoch,
            appended_at_ms=max(part.appended_at_ms for part in parts),
            segment=replace(
                first.segments[0],
                file_name=f"{leader_epoch}-compacted{self._node.new_uuid()}-none.parquet",
                timestamp_min_us=min(e.timestamp_min_us for part in parts for e in part.segments),
                timestamp_max_us=max(e.timestamp_max_us for part in parts for e in part.segments),
            ),
            content_digest=content_digest(borders),
            chain_digest=final.chain_digest,
            has_append_time=first.has_append_time,
        )
        made = replace(made, segment=merged_file(made, kept))
        known[made.segment.uuid] = borders
        self._segments.put(address, made.segment)
        try:
            self._segments.read(address, made.segment)
        except CorruptLogError as error:
            raise KafkaStorageError("a file just written is damaged") from error
        return made

    def _read(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> list[Row]:
        for part in parts:
            for segment in part.segments:
                self._segments.read(address, segment)
        return [row for part in parts for row in rows_of(part)]
