"""What merging and compaction ask of files. Nobody else sees a file before a commit names it, and none
is damaged in a search, so none of it is a step: a name says what its file holds.

The same rewriting of the same files makes the same name. A real one is new each time; but what a
table has replaced under a fence can't be rewritten there again, so no name comes twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import LogPart, MergedSegment, Segment, segment_name
from kafka_on_spark.log.state import ReplicaAddress
from tests.merged_files import Borders, borders_of, rewritten
from tests.search.upkeep.rows import Row, is_tombstone, key_of, merged_name, rows_of

RECORD_BYTES = 100


class SearchedSegments:
    """A SegmentStore. Files are there before a commit names them.

    `borders`: what merged files keep of borders, by the files' digests.
    """

    def __init__(self, borders: dict[str, Borders]) -> None:
        self._borders = borders

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        named: Sequence[Segment] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        """A copy touches nothing that others see."""

    def too_large_to_merge(
        self, address: ReplicaAddress, parts: Iterable[LogPart]
    ) -> frozenset[Segment]:
        """Return none: no file is large."""
        return frozenset()

    def rewrite(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        parts: Sequence[LogPart],
        *,
        leader_epoch: LeaderEpoch,
        start_offset: Offset,
        end_offset: Offset,
    ) -> MergedSegment:
        made, borders = rewritten(
            parts,
            self._known,
            name="m",
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        rows = [
            row for each in parts for row in rows_of(each) if start_offset <= row[0] < end_offset
        ]
        return self._named(made, rows, borders)

    def without(
        self, parts: Sequence[LogPart], kept: Sequence[Row], below: int, leader_epoch: LeaderEpoch
    ) -> MergedSegment:
        """Write parts of a log without some of their records; the borders from `below` on stay."""
        first, last = parts[0], parts[-1]
        borders = tuple(
            each
            for each in borders_of(last, self._known)
            if each.offset >= below and last.end_offset > below
        )
        digest = blake2b(f"{last.chain_digest}{borders}".encode(), digest_size=16).hexdigest()
        made = MergedSegment(
            base_offset=first.base_offset,
            end_offset=last.end_offset,
            leader_epoch=first.leader_epoch,
            appended_at_ms=max(each.appended_at_ms for each in parts),
            segment=replace(
                first.segments[0], file_name=segment_name(leader_epoch, "m", f"{digest}c")
            ),
            content_digest=0,
            chain_digest=last.chain_digest,
            has_append_time=first.has_append_time,
        )
        return self._named(made, kept, borders)

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> Borders:
        return self._known(merged)

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Every file is as its name says."""

    def _known(self, merged: MergedSegment) -> Borders:
        return self._borders[merged.segment.digest]

    def _named(self, made: MergedSegment, rows: Sequence[Row], borders: Borders) -> MergedSegment:
        """Return the segment under the name of its records, its borders in the file only."""
        file, uuid = made.segment, merged_name(rows, made.base_offset)
        self._borders[file.digest] = borders
        named = replace(
            file,
            file_name=segment_name(file.epoch_in_name, uuid, file.digest),
            size_bytes=RECORD_BYTES * len(rows),
            record_count=len(rows),
        )
        return replace(made, segment=named)


@dataclass(frozen=True, slots=True)
class KeyOffsets:
    """LastOffsets: by key."""

    of: dict[str, int]

    def __len__(self) -> int:
        return len(self.of)


class SearchedCompactor:
    """A Compactor. Source: log/compactor.py."""

    def __init__(self, segments: SearchedSegments) -> None:
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
        rows = (row for each in parts for row in rows_of(each))
        return KeyOffsets({key_of(v): at for at, v in rows if start_offset <= at < end_offset})

    def without_stale(
        self,
        address: ReplicaAddress,
        parts: Sequence[LogPart],
        last: KeyOffsets,
        *,
        compacted_below: Offset,
        tombstones_below: Offset,
        leader_epoch: LeaderEpoch,
    ) -> MergedSegment | None:
        """Write neighbours without the records that go; None: none goes."""
        rows = [row for each in parts for row in rows_of(each)]
        kept = [
            (at, value)
            for at, value in rows
            if at >= compacted_below
            or (
                at >= last.of.get(key_of(value), -1)
                and not (is_tombstone(value) and at < tombstones_below)
            )
        ]
        if kept == rows:
            return None
        return self._segments.without(parts, kept, compacted_below, leader_epoch)
