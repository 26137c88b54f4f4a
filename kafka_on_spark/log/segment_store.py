"""Adapts files on roots to the SegmentStore port: copies, checks, rewrites replicas' segments."""

from collections.abc import Sequence
from functools import partial

from kafka_on_spark.base.ids import LeaderEpoch, Offset
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.merged_segment import Border, LogPart, MergedSegment
from kafka_on_spark.log.replica_folders import (
    create_folder,
    flush_folder,
    replica_folder,
)
from kafka_on_spark.log.segments import (
    NotTheSegmentError,
    bytes_max_of,
    checked,
    segment_pieces,
)
from kafka_on_spark.store.deadlines import within
from kafka_on_spark.store.error_translation import ABSENT
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local


class FileSegmentStore:
    """A SegmentStore on fsspec file systems."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options

    def copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None = None,
        *,
        is_staged: bool = False,
    ) -> None:
        """Copy `segments` to `target`, checked by size and digest, and durable."""
        if segments:
            copy = partial(self._copy, source, target, segments, names, is_staged=is_staged)
            within(target.root, copy)

    def _copy(
        self,
        source: ReplicaAddress,
        target: ReplicaAddress,
        segments: Sequence[Segment],
        names: Sequence[str] | None,
        *,
        is_staged: bool,
    ) -> None:
        create_folder(target, self._options)
        targets = RootFiles(target.root, self._options)
        folder = replica_folder(target)
        missing = []
        for segment, name in zip(segments, names or [e.file_name for e in segments], strict=True):
            path = f"{folder}/{name}"
            if is_staged and targets.size(path) == segment.size_bytes:
                continue
            is_staged = False
            if self._is_there(targets, path, segment):
                # Its writer may not have flushed it.
                if target.is_flushed:
                    flush([path])
                continue
            missing.append((path, segment_pieces(source, segment, self._options)))
        if not is_staged:
            targets.write_all(missing, is_flushed=target.is_flushed)
            flush_folder(target)

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
        """Write a range of `source`'s log as one file of `target`, checked and durable."""
        # In the function: most processes merge nothing.
        from kafka_on_spark.log.merged_files import rewrite

        write = partial(
            rewrite,
            source,
            target,
            parts,
            self._options,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            end_offset=end_offset,
        )
        return within(target.root, write)

    def borders(self, address: ReplicaAddress, merged: MergedSegment) -> tuple[Border, ...]:
        """Return the borders that a merged segment's file keeps."""
        from kafka_on_spark.log.borders import read_borders

        return within(address.root, partial(read_borders, address, merged, self._options))

    def check(self, address: ReplicaAddress, segment: Segment) -> None:
        """Check that a replica has a segment, by size and digest."""
        for _ in segment_pieces(address, segment, self._options):
            pass

    @staticmethod
    def _is_there(targets: RootFiles, path: str, segment: Segment) -> bool:
        """Return whether the segment is at `path`; a file of other bytes is written over.

        A disk that lost its power may keep a file of the right size with other bytes. A store has
        an object as it was put, or not at all.
        """
        if targets.size(path) != segment.size_bytes:
            return False
        if not is_local(path):
            return True
        try:
            for _ in checked(segment, targets.pieces(path, bytes_max_of(segment))):
                pass
        except (NotTheSegmentError, UnsafeFileError, *ABSENT):
            return False
        return True
