"""Snapshots of the metadata log: a Parquet file of the records that rebuild the image, each named
after the offset that it ends at and the epoch of its last record.
"""

import logging
from collections.abc import Sequence

import pyarrow as pa

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp
from kafka_on_spark.storage.metadata_files import decode_file, encode_file
from kafka_on_spark.storage.metadata_placement import EPOCH
from kafka_on_spark.storage.roots import RootFiles

log = logging.getLogger(__name__)


def newest_snapshot(
    files: RootFiles, metadata_root: str, to_offset: Offset | None
) -> MetadataBatch | None:
    """Return the newest readable snapshot that ends at `to_offset` or before, if there is one."""
    for name in reversed(files.names(f"{metadata_root}/snapshots")):
        if not name.endswith(".parquet"):
            continue
        end = name.split("-")[0]
        if to_offset is not None and end.isdecimal() and int(end) > to_offset:
            continue
        try:
            return _read(files, f"{metadata_root}/snapshots/{name}", end)
        except (CorruptLogError, ValueError, pa.ArrowException, KafkaStorageError) as error:
            log.warning("snapshot %s can't be read, an older one is used: %s", name, error)
    return None


def _read(files: RootFiles, path: str, end: str) -> MetadataBatch:
    batches = decode_file(files.read(path), path)
    if len(batches) != 1 or batches[0].end_offset != int(end):
        raise CorruptLogError("a snapshot is not what its name says", path=path)
    return batches[0]


def write_snapshot(
    files: RootFiles,
    metadata_root: str,
    records: Sequence[Record],
    stamp: Stamp,
    end_offset: Offset,
) -> None:
    """Write the records that rebuild the image at `end_offset`, unless they are there."""
    path = f"{metadata_root}/snapshots/{end_offset:020d}-{EPOCH:010d}.parquet"
    content = encode_file(records, stamp, end_offset - len(records))
    files.write_if_absent(path, content.to_pybytes())
