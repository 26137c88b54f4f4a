"""Snapshots on a metadata root: files of the records that rebuild the image.

A snapshot is named after its end offset and the epoch of its last record, and its first record
names the cluster. Whether it counts, the log says (`is_snapshot_of`): a process that was frozen may
leave one of an earlier cluster, or generation, at this root. The newest three stay, and of the
older ones one for each doubling of the distance to the newest: a process that wants an old moment
replays no more than that distance.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.metadata_files import decode_file, encode_file
from kafka_on_spark.metadata.quorum.voter_table import OffsetAndEpoch, RaftLog, is_snapshot_of
from kafka_on_spark.metadata.records import ClusterRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.store.local_files import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.roots import RootFiles

_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.parquet")

SNAPSHOTS_KEPT: Final = 3
"""Two may be damaged, and a process starts."""


def snapshot_ends(files: RootFiles, metadata_root: str) -> list[OffsetAndEpoch]:
    names = map(_SNAPSHOT_NAME.fullmatch, files.names(f"{metadata_root}/snapshots"))
    return [OffsetAndEpoch(Offset(int(n[1])), QuorumEpoch(int(n[2]))) for n in names if n]


def read_snapshot(
    files: RootFiles, metadata_root: str, cluster_id: str, end: OffsetAndEpoch
) -> MetadataBatch:
    """Return a snapshot of a cluster, as a batch that ends at its end offset."""
    path = _snapshot_path(metadata_root, end)
    batches = decode_file(files.read(path, METADATA_FILE_BYTES_MAX), path)
    if len(batches) != 1 or batches[0].end_offset != end.offset:
        raise CorruptLogError("a snapshot is not what its name says", path=path)
    first, *_ = batches[0].records
    if not isinstance(first, ClusterRecord) or first.cluster_id != cluster_id:
        raise CorruptLogError("a snapshot is another cluster's", path=path)
    return batches[0]


def write_snapshot(
    files: RootFiles,
    metadata_root: str,
    records: Sequence[Record],
    stamp: Stamp,
    end: OffsetAndEpoch,
) -> None:
    content = encode_file(records, stamp, end.offset - len(records))
    files.write_if_absent(_snapshot_path(metadata_root, end), content.to_pybytes())


def _snapshot_path(metadata_root: str, end: OffsetAndEpoch) -> str:
    return f"{metadata_root}/snapshots/{end.offset:020d}-{end.epoch:010d}.parquet"


def clean_snapshots(files: RootFiles, metadata_root: str, log: RaftLog) -> int:
    """Delete the snapshots of a log that are not kept; return how many.

    One that is not of this log says nothing of which others are needed, and stays: it may hold what
    a log that was rolled back has lost.
    """
    ends = [each for each in snapshot_ends(files, metadata_root) if is_snapshot_of(log, each)]
    kept = kept_snapshots([each.offset for each in ends])
    due = [each for each in ends if each.offset not in kept]
    for each in due:
        files.delete_file(_snapshot_path(metadata_root, each))
    return len(due)


def kept_snapshots(ends: Collection[int]) -> set[int]:
    """Return the end offsets of the snapshots that stay.

    Of those at a distance of 2^n to 2^(n+1) records from the newest, the oldest: as the newest goes
    on, it is the one that comes to the next such distance.
    """
    newest_first = sorted(ends, reverse=True)
    oldest: dict[int, int] = {}
    for end in newest_first:
        oldest[(newest_first[0] - end).bit_length()] = end
    return {*newest_first[:SNAPSHOTS_KEPT], *oldest.values()}
