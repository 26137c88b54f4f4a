"""Compaction as simulated processes do it: a compactor whose every read and write is a step.

Source: log/compactor.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import LogPart, MergedSegment
from kafka_on_spark.log.state import ReplicaAddress
from tests.merged_files import borders_of, content_digest, rewritten
from tests.simulation.world.disks import Row, rows_of
from tests.simulation.world.keyed import is_tombstone, key_of
from tests.simulation.world.scheduler import Node
from tests.simulation.world.segment_store import SimulatedSegmentStore
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
        made, _ = rewritten(
            parts,
            lambda part: known.get(part.segment.uuid, ()),
            name=f"compacted{self._node.new_uuid()}",
            leader_epoch=leader_epoch,
            start_offset=parts[0].base_offset,
            end_offset=parts[-1].end_offset,
        )
        made = replace(made, content_digest=content_digest(borders))
        return self._segments.write_merged(address, made, kept, borders)

    def _read(self, address: ReplicaAddress, parts: Sequence[LogPart]) -> list[Row]:
        for part in parts:
            for segment in part.segments:
                self._segments.read(address, segment)
        return [row for part in parts for row in rows_of(part)]
