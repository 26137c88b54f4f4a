"""Reads and writes snapshots of the metadata log: Parquet files of records that rebuild the image.

A snapshot is named after its end offset and the epoch of its last record. Its first record names
the cluster. Whether it counts, the log says (quorum/lookups.py): a process that was frozen may
leave one of an earlier cluster, or generation, at this root.
"""

import re
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.metadata_files import decode_file, encode_file
from kafka_on_spark.metadata.quorum.raft_log import OffsetAndEpoch, RaftLog, is_snapshot_of
from kafka_on_spark.metadata.records import ClusterRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.store.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.store.roots import RootFiles

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.parquet")


def snapshot_ends(files: RootFiles, metadata_root: str) -> list[OffsetAndEpoch]:
    """Return where the snapshots at a root end, by their names; none of them is read."""
    found = map(end_in_name, files.names(f"{metadata_root}/snapshots"))
    return [each for each in found if each is not None]


def end_in_name(name: str) -> OffsetAndEpoch | None:
    """Return the end in a snapshot's name; None: it is no name of one."""
    found = _NAME.fullmatch(name)
    return (
        None if found is None else OffsetAndEpoch(Offset(int(found[1])), QuorumEpoch(int(found[2])))
    )


def newest_snapshot_end(files: RootFiles, metadata_root: str, log: RaftLog) -> int:
    """Return where the newest snapshot of a log ends, 0 without any; none of them is read."""
    ends = snapshot_ends(files, metadata_root)
    return max((each.offset for each in ends if is_snapshot_of(log, each)), default=0)


def read_snapshot(
    files: RootFiles, metadata_root: str, cluster_id: str, end: OffsetAndEpoch
) -> MetadataBatch:
    """Return a snapshot of a cluster, as a batch that ends at its end offset.

    Raises:
        CorruptLogError: It is damaged, or another cluster's.
        KafkaStorageError: The root does not answer.
    """
    path = _path(metadata_root, end)
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
    """Write the records that rebuild the image at `end`, unless they are there."""
    content = encode_file(records, stamp, end.offset - len(records))
    files.write_if_absent(_path(metadata_root, end), content.to_pybytes())


def _path(metadata_root: str, end: OffsetAndEpoch) -> str:
    return f"{metadata_root}/snapshots/{end.offset:020d}-{end.epoch:010d}.parquet"
