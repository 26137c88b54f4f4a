"""Reads and writes snapshots of the metadata log: Parquet files of records that rebuild the image.

A snapshot is named after its end offset and the epoch of its last record. Its first record names
the cluster.
"""

import logging
import re
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.ids import Offset, QuorumEpoch
from kafka_on_spark.metadata.records import ClusterRecord, MetadataBatch, Record, Stamp
from kafka_on_spark.storage.calls.file_limits import METADATA_FILE_BYTES_MAX
from kafka_on_spark.storage.metadata.metadata_files import decode_file, encode_file
from kafka_on_spark.storage.roots.roots import RootFiles

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.parquet")


def newest_snapshot(
    files: RootFiles, metadata_root: str, cluster_id: str, above: Offset, to_offset: Offset
) -> MetadataBatch | None:
    """Return the newest readable snapshot of a cluster that ends above `above`, at `to_offset` or
    before, if any.

    A process that was frozen may leave a snapshot of an earlier cluster at this root.
    """
    for name in reversed(files.names(f"{metadata_root}/snapshots")):
        found = _NAME.fullmatch(name)
        if found is None or not above < int(found[1]) <= to_offset:
            continue
        path = f"{metadata_root}/snapshots/{name}"
        try:
            return _read(files, path, cluster_id, int(found[1]))
        except (CorruptLogError, KafkaStorageError) as error:
            log.warning("snapshot %s can't be read, an older one is used: %s", name, error)
    return None


def end_in_name(name: str) -> int | None:
    """Return the end offset in a snapshot's name; None: it is no name of one."""
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def newest_snapshot_end(files: RootFiles, metadata_root: str) -> int:
    """Return where the newest snapshot ends by its name, 0 without any; none of them is read."""
    found = map(end_in_name, files.names(f"{metadata_root}/snapshots"))
    return max((each for each in found if each is not None), default=0)


def _read(files: RootFiles, path: str, cluster_id: str, end: int) -> MetadataBatch:
    batches = decode_file(files.read(path, METADATA_FILE_BYTES_MAX), path)
    if len(batches) != 1 or batches[0].end_offset != end:
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
    end_offset: Offset,
    epoch: QuorumEpoch,
) -> None:
    """Write the records that rebuild the image at `end_offset`, unless they are there. `epoch`: of
    the last record in it."""
    path = f"{metadata_root}/snapshots/{end_offset:020d}-{epoch:010d}.parquet"
    content = encode_file(records, stamp, end_offset - len(records))
    files.write_if_absent(path, content.to_pybytes())
