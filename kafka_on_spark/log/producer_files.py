"""Writes and reads a replica's producer state: one immutable file, which a counter of its table
names (log/producer_state.py says what is in it) and another one binds to what is in it.

Design note 7 has the rule. A process that dies before the commit leaves a file above the counter:
the next writer passes over its number, however many there are. A file that is missing, or has not
the digest that it names itself and that the commit names, is evidence against the replica, never
an empty state.
"""

import json
from collections.abc import Callable
from dataclasses import fields
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.base.ids import ProducerEpoch, ReplicaUuid, ensure
from kafka_on_spark.log.producer_state import (
    ProducersFile,
    producers_file_name,
    producers_file_number,
)
from kafka_on_spark.log.state import LastAppend, ProducerEntries, ProducerEntry
from kafka_on_spark.store import arrow_compute as pc
from kafka_on_spark.store.error_translation import parsing
from kafka_on_spark.store.local_files import UnsafeFileError
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles

ReadFile = Callable[[str], bytes | None]
"""Returns the bytes of a replica's file by its name; None: there is none."""

_SCHEMA: Final = pa.schema(
    [
        ("producer_id", pa.string()),
        ("producer_epoch", pa.int32()),
        ("unknown_to", pa.int64()),
        ("sequence", pa.int64()),
        ("base_offset", pa.int64()),
        ("record_count", pa.int64()),
        ("payload_digest", pa.int64()),
        ("partition_count", pa.int32()),
        ("append_time_ms", pa.int64()),
    ]
)
_LAST: Final = tuple(field.name for field in fields(LastAppend))
"""What the last columns hold, in order."""

_LABEL: Final = b"kos.producers"
_TRIES_MAX: Final = 64
"""Tries of one write. Numbers that were taken before are listed: only races take another try."""


def write_producers(
    files: RootFiles,
    folder: str,
    replica_uuid: ReplicaUuid,
    entries: ProducerEntries,
    *,
    above: int,
) -> ProducersFile:
    """Write `entries` under a free number above `above`, the counter; return which file it is.

    It takes the first that is free, not the one after the highest: a file of somebody else's may
    have the highest that there can be.
    """
    table = _table_of(entries)
    number, digest = above + 1, _digest(table)
    for _ in range(_TRIES_MAX):
        path = f"{folder}/{producers_file_name(number)}"
        if files.write_if_absent(path, _encoded(table, _label(replica_uuid, number, digest))):
            return ProducersFile(number, _bits_of(digest))
        taken = set(map(producers_file_number, files.names(folder)))
        number = next(each for each in count(number + 1) if each not in taken)
    raise KafkaStorageError(
        f"other writers took {_TRIES_MAX} numbers of producer-state files in {folder} before this"
        " one: try again"
    )


def read_producers(
    read: ReadFile, replica_uuid: ReplicaUuid, file: ProducersFile
) -> ProducerEntries:
    """Return the entries of the file that a replica's commits name, or raise CorruptLogError."""
    name = producers_file_name(file.number)
    try:
        content = read(name)
    except UnsafeFileError as error:
        raise CorruptLogError(error.message, **error.context) from error
    if content is None:
        raise CorruptLogError(f"the producer state {name} is missing from the replica's folder")
    return decode_producers(content, replica_uuid, file)


def decode_producers(
    content: bytes, replica_uuid: ReplicaUuid, file: ProducersFile
) -> ProducerEntries:
    name = producers_file_name(file.number)
    table = read_parquet(content, name, verifies_pages=True)
    with parsing(f"the producer state {name}"):
        label = (table.schema.metadata or {}).get(_LABEL)
        table = table.replace_schema_metadata(None)
        digest = _digest(table) if table.schema == _SCHEMA else ""
        if not digest or label != _label(replica_uuid, file.number, digest):
            raise CorruptLogError(
                f"the producer state {name} is not what its digest says, or another replica's"
            )
        if _bits_of(digest) != file.digest:
            raise CorruptLogError(
                f"the producer state {name} is not the one that the log names, but what another"
                " writer has put under its number"
            )
        return _entries_of(table)


def _encoded(table: pa.Table, label: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({_LABEL: label}),
        sink,
        compression="zstd",
        use_dictionary=False,
        write_page_checksum=True,
        write_statistics=False,
    )
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def _label(replica_uuid: ReplicaUuid, number: int, digest: str) -> bytes:
    """Return what a file says of itself: whose it is, its number, and the digest of its rows."""
    return json.dumps({"replica_uuid": replica_uuid, "number": number, "digest": digest}).encode()


def _bits_of(digest: str) -> int:
    """Return as much of a digest as a counter holds."""
    return int(digest[:16], 16) >> 1


def _digest(table: pa.Table) -> str:
    """Return a digest of the values, whatever pages they are in."""
    digest = xxhash.xxh3_128()
    for column in table.combine_chunks().columns:
        digest.update(np.packbits(pc.is_valid(column).to_numpy(zero_copy_only=False)).tobytes())
        if pa.types.is_string(column.type):
            digest.update(_bytes_of(pc.binary_length(column)))
            digest.update("".join(column.to_pylist()).encode())
        else:
            digest.update(_bytes_of(column))
    return digest.hexdigest()


def _bytes_of(column: Any) -> bytes:
    numbers = pc.fill_null(column, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    content: bytes = np.ascontiguousarray(numbers).tobytes()
    return content


def _table_of(entries: ProducerEntries) -> pa.Table:
    rows = sorted(entries.items())
    lasts = [entry.last for _, entry in rows]
    columns: list[list[Any]] = [
        [producer_id for producer_id, _ in rows],
        [entry.producer_epoch for _, entry in rows],
        [entry.unknown_to for _, entry in rows],
        *([None if last is None else getattr(last, name) for last in lasts] for name in _LAST),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _entries_of(table: pa.Table) -> ProducerEntries:
    entries: dict[str, ProducerEntry] = {}
    for producer_id, epoch, unknown_to, *last in zip(
        *(column.to_pylist() for column in table.columns), strict=True
    ):
        ensure(
            producer_id is not None and epoch is not None and unknown_to is not None, producer_id
        )
        entries[producer_id] = ProducerEntry(
            producer_epoch=ProducerEpoch(epoch),
            last=None if last[0] is None else LastAppend(**dict(zip(_LAST, last, strict=True))),
            unknown_to=unknown_to,
        )
    ensure(len(entries) == table.num_rows, "a producer has two entries")
    return entries
