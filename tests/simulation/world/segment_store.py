"""The files of segments as one simulated process reads and writes them: each call stands before the
scheduler, then takes effect.

Apart from the logs, whose commits name these files: a file is written before, and counts from then on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.batch import LogPart, MergedSegment, Segment, segment_name
from kafka_on_spark.log.state import ReplicaAddress
from tests.merged_files import Borders, rewritten
from tests.simulation.world.disks import Row, digest_of, folder, rows_of
from tests.simulation.world.scheduler import Node
from tests.simulation.world.world import FAILED, World

RECORD_BYTES = 100
"""Of each record."""


class SimulatedSegmentStore:
    """A SegmentStore of one process."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self._node = node

    def put(self, address: ReplicaAddress, segment: Segment) -> None:
        """Write a new segment, as a staging task does."""
        root = self._world.disks.roots[address.root]
        fault = self._world.scheduler.call("put", root)
        root.check_writes(is_small=False)
        root.check_directory(address)
        if fault in FAILED:
            raise KafkaStorageError("EIO")
        root.files.setdefault(folder(address), {})[segment.file_name] = segment.digest

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        named: Sequence[Segment] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        origin, root = (self._world.disks.roots[each.root] for each in (source, target))
        for segment, own in zip(segments, named or segments, strict=True):
            name = own.file_name
            fault = self._world.scheduler.call("copy", root)
            root.check_reads()
            root.check_directory(target)
            present = root.files.setdefault(folder(target), {})
            if len(present.get(name, "")) == len(segment.digest):
                continue
            origin.check_reads()
            content = origin.files.get(folder(source), {}).get(segment.file_name)
            if content != segment.digest:
                raise CorruptLogError(
                    "a segment is missing or not what its name says", segment=segment.file_name
                )
            root.check_writes(is_small=False)
            if fault in FAILED:
                raise KafkaStorageError("EIO")
            present[name] = content

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
        """Write a range of a log as one file."""
        for part in parts:
            for segment in part.segments:
                self._read_of(source, segment)
        known = self._world.disks.borders
        made, borders = rewritten(
            parts,
            lambda part: known.get(part.segment.uuid, ()),
            name=f"merged{self._node.new_uuid()}",
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        rows = [
            row for part in parts for row in rows_of(part) if start_offset <= row[0] < end_offset
        ]
        return self.write_merged(target, made, rows, borders)

    def write_merged(
        self, target: ReplicaAddress, merged: MergedSegment, rows: Sequence[Row], borders: Borders
    ) -> MergedSegment:
        """Write a segment's file with these records and borders, and read it back."""
        digest = digest_of(rows, merged.base_offset)
        file = replace(
            merged.segment,
            file_name=segment_name(merged.segment.epoch_in_name, merged.segment.uuid, digest),
            size_bytes=RECORD_BYTES * len(rows),
            record_count=len(rows),
        )
        self._world.disks.borders[file.uuid] = borders
        self.put(target, file)
        try:
            self.read(target, file)
        except CorruptLogError as error:
            raise KafkaStorageError("a file just written is damaged") from error
        return replace(merged, segment=file)

    def _read_of(self, source: ReplicaAddress, segment: Segment) -> None:
        try:
            self.read(source, segment)
        except KafkaStorageError as error:
            raise KafkaStorageError(error.message, broker_id=source.broker_id) from error

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> Borders:
        self.read(address, merged.segment)
        return self._world.disks.borders.get(merged.segment.uuid, ())

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        self.read(address, segment)

    def read(self, address: ReplicaAddress, segment: Segment) -> str:
        """Return a segment's bytes, verified."""
        root = self._world.disks.roots[address.root]
        fault = self._world.scheduler.call("read", root)
        if fault in FAILED:
            raise KafkaStorageError("the root does not answer")
        root.check_reads()
        content = root.files.get(folder(address), {}).get(segment.file_name)
        if content != segment.digest:
            raise CorruptLogError("a segment is missing or damaged", segment=segment.file_name)
        return content
