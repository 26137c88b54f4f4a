"""Kafka's record batches, from and to columns of records (magic 2).

Source: DefaultRecordBatch, DefaultRecord.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from crc32c import crc32c

from kafka_on_spark.base.errors import CorruptLogError, InvalidRecordError
from kafka_on_spark.log.reading import header_pairs
from kafka_on_spark.log.segments import HEADERS, TIMESTAMP
from kafka_on_spark.produce.records import INPUT_SCHEMA

# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and last
# time, producer's id, epoch and sequence, count
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OF_CRC: Final = 21
"""Where begins what the CRC is of: the attributes. What is before it a broker may set."""

_LOG_APPEND_TIME: Final = 0x08
_NOBODY: Final = -1
BATCH_BYTES_MAX: Final = 1 << 20


def batch_in(content: bytes) -> DefaultRecordBatch:
    """Return the one batch that a produce request has for a partition.

    Raises:
        CorruptLogError: Its CRC or its length is wrong.
        InvalidRecordError: It is none or several, of an older format, or of a transaction.
    """
    if len(content) < _HEADER.size:
        raise CorruptLogError("a record batch is cut short")
    _, length, _, magic, *_, count = _HEADER.unpack_from(content)
    if magic != 2:
        raise InvalidRecordError(
            f"record batches of magic {magic} are not taken: use a client of Kafka 0.11 or later"
        )
    if length + 12 != len(content):
        many = _HEADER.size <= length + 12 < len(content)
        words = "a request has several batches" if many else "a record batch is cut short"
        raise InvalidRecordError(f"{words} for one partition") if many else CorruptLogError(words)
    batch = DefaultRecordBatch(content)
    if not batch.validate_crc():
        raise CorruptLogError("the CRC of a record batch does not match")
    if batch.is_transactional or batch.is_control_batch:
        raise InvalidRecordError("transactions are not supported: unset transactional.id")
    if count <= 0:
        raise InvalidRecordError("a record batch has no records")
    return batch


def rows_of(partition: int, batch: DefaultRecordBatch) -> pa.RecordBatch:
    """Return the records of a batch as INPUT_SCHEMA.

    Raises:
        CorruptLogError, InvalidRecordError: A record can't be read.
    """
    times: list[int] = []
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[list[tuple[str, bytes | None]] | None] = []
    try:
        for record in batch:
            times.append(record.timestamp * 1000)
            keys.append(record.key)
            values.append(record.value)
            headers.append(record.headers or None)
        columns = [
            pa.array(times, pa.int64()).cast(TIMESTAMP),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(headers, HEADERS),
            pa.array(np.full(len(times), partition, np.int32)),
        ]
    except (UnsupportedCodecError, UnicodeDecodeError) as error:
        raise InvalidRecordError(f"a record batch can't be read: {error}") from error
    except Exception as error:  # whatever bytes a client sends: the codecs have errors of their own
        raise CorruptLogError(f"a record batch can't be read: {error!r}") from error
    return pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


def encoded(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Yield batches with the records of rows, which have epochs, in offset order: a batch has the
    records of one leadership and, if the time of their append counts, of one time."""
    epochs = rows.column("leaderEpoch").to_numpy()
    kinds = rows.column("timestampType").to_numpy()
    times = rows.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    parts = (epochs[1:] != epochs[:-1]) | (kinds[1:] != kinds[:-1])
    parts |= (kinds[1:] == 1) & (times[1:] != times[:-1])
    starts = [0, *(np.flatnonzero(parts) + 1).tolist(), rows.num_rows]
    for start, end in pairwise(starts):
        part = rows.slice(start, end - start)
        for batch in _built(part, times[start:end].tolist()):
            yield _headed(batch, epoch=int(epochs[start]), is_append_time=kinds[start] == 1)


def _built(rows: pa.RecordBatch, times: list[int]) -> Iterator[tuple[int, bytearray]]:
    """Yield base offsets and batches of records, of BATCH_BYTES_MAX or one record."""
    names = ("offset", "key", "value", "headers")
    columns = (rows.column(name).to_pylist() for name in names)
    builder, base = None, 0
    for time, offset, key, value, pairs in zip(times, *columns, strict=True):
        headers = header_pairs(pairs) if pairs else []
        if builder is None or builder.append(offset - base, time, key, value, headers) is None:
            if builder is not None:
                yield base, builder.build()
            builder, base = _builder(), offset
            builder.append(0, time, key, value, headers)
    if builder is not None:
        yield base, builder.build()


def _builder() -> Any:
    return DefaultRecordBatchBuilder(2, 0, 0, _NOBODY, _NOBODY, _NOBODY, BATCH_BYTES_MAX)


def _headed(built: tuple[int, bytearray], *, epoch: int, is_append_time: bool) -> bytes:
    base, batch = built
    struct.pack_into(">q", batch, 0, base)
    struct.pack_into(">i", batch, 12, epoch)
    if is_append_time:
        [attributes] = struct.unpack_from(">h", batch, _OF_CRC)
        struct.pack_into(">h", batch, _OF_CRC, attributes | _LOG_APPEND_TIME)
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[_OF_CRC:]))
    return bytes(batch)


def end_of(batch: bytes) -> int:
    """Return the offset behind an encoded batch."""
    base, *_, last_delta = _HEADER.unpack_from(batch)[:7]
    return int(base) + int(last_delta) + 1


def empty(base_offset: int, end_offset: int, epoch: int) -> bytes:
    """Return a batch that says that nothing is left of ``[base_offset, end_offset)``: a consumer
    goes on behind it. Source: MemoryRecords.filterTo, which keeps one where compaction took all."""
    length = _HEADER.size - 12
    values = (0, end_offset - base_offset - 1, 0, 0, _NOBODY, _NOBODY, _NOBODY, 0)
    content = bytearray(_HEADER.pack(base_offset, length, epoch, 2, 0, *values))
    struct.pack_into(">I", content, 17, crc32c(memoryview(content)[_OF_CRC:]))
    return bytes(content)
