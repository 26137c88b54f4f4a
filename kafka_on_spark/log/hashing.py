"""Hashes of whole Arrow columns: Kafka's murmur2 of keys, digests of payloads and of content.

All rows are processed together, one machine word of each at a time, longest rows first, so that the
rows with words left are always a prefix. Where few rows are much longer than the others, what is
more of each goes through Python by itself.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from kafka_on_spark.store import arrow_compute as pc

UInt64 = npt.NDArray[np.uint64]
Int64 = npt.NDArray[np.int64]

_MURMUR2_SEED: Final = np.uint32(0x9747B28C)
_MURMUR2_M: Final = np.uint32(0x5BD1E995)
_MURMUR2_UNDONE: Final = np.uint32(pow(0x5BD1E995, -1, 2**32))
"""Takes a product with the factor back."""

_MURMUR64A_M: Final = np.uint64(0xC6A4A7935BD1E995)

_ALONE_MAX: Final = 64
"""Rows that go through Python by themselves, at most."""

_TURN_WORDS: Final = 150
"""Words that Python takes alone in the time of a turn for the words of several rows, about."""

_ROW_WORDS: Final = 120
"""The same of what a row costs that is taken alone, however short."""

_WORDS_AT_ONCE: Final = 2**16
"""Words of one row that are Python's numbers at once."""


def murmur2(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return Kafka's 32-bit murmur2 of each row of a binary array without nulls.

    Source: org.apache.kafka.common.utils.Utils.murmur2.
    """
    offsets, every = _words_of(column, np.dtype(np.uint32))
    # It multiplies before each word: after the last one that is taken back.
    begun = (_MURMUR2_SEED ^ np.diff(offsets).astype(np.uint32)) * _MURMUR2_M
    hashes = _with_words(begun, offsets, every, _MURMUR2_M, np.uint32(24)) * _MURMUR2_UNDONE
    return _ended(hashes, offsets, every, _MURMUR2_M, np.uint32(13), np.uint32(15)).view(np.int32)


def murmur64a(column: pa.Array) -> UInt64:
    """Return MurmurHash64A (seed 0) of each row of a binary array without nulls."""
    offsets, every = _words_of(column, np.dtype(np.uint64))
    begun = np.diff(offsets).astype(np.uint64) * _MURMUR64A_M
    shift = np.uint64(47)
    hashes = _with_words(begun, offsets, every, _MURMUR64A_M, shift)
    return _ended(hashes, offsets, every, _MURMUR64A_M, shift, shift)


def _words_of(column: pa.Array, dtype: np.dtype[Any]) -> tuple[Int64, npt.NDArray[Any]]:
    """Return the offsets of a binary array without nulls, and the word that begins at each byte:
    zeros stand after the last row, beyond whose end it may be read."""
    assert pa.types.is_binary(column.type), column.type
    _, offsets_buffer, data_buffer = column.buffers()
    count, data = len(column), np.zeros(8, np.uint8)
    offsets = np.zeros(count + 1, np.int64)
    if offsets_buffer is not None and data_buffer is not None and count:
        offsets += np.frombuffer(offsets_buffer, np.int32)[column.offset :][: count + 1]
        given = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
        data = np.concatenate([given, data])
        offsets -= offsets[0]
    shape = (len(data) - dtype.itemsize + 1,)
    words = np.ndarray(shape, dtype.newbyteorder("<"), buffer=data.data, strides=(1,))
    return offsets, words


def _with_words(
    hashes: npt.NDArray[Any], offsets: Int64, every: npt.NDArray[Any], factor: Any, shift: Any
) -> npt.NDArray[Any]:
    """Return the hashes with the whole words of each row: of both murmurs, the one step."""

    def mixed(words: npt.NDArray[Any]) -> npt.NDArray[Any]:
        words = words * factor
        words ^= words >> shift
        words *= factor
        return words

    width, lengths = factor.itemsize, np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    counts, starts, hashes = lengths[order] // width, offsets[:-1][order], hashes[order]
    together = _places_together(counts)
    for place in range(together):
        count = int(np.searchsorted(-counts, -place, side="left"))
        words = mixed(every[starts[:count] + place * width])
        hashes[:count] = (hashes[:count] ^ words) * factor
    product, mask = int(factor), 2 ** (8 * width) - 1
    for row in range(int(np.sum(counts > together))):
        found, size = int(hashes[row]), _WORDS_AT_ONCE * width
        begin, end = (int(starts[row] + width * place) for place in (together, counts[row]))
        for first in range(begin, end, size):
            for word in mixed(every[first : min(first + size, end) : width]).tolist():
                found = (found ^ word) * product & mask
        hashes[row] = found
    result = np.empty_like(hashes)
    result[order] = hashes
    return result


def _places_together(word_counts: Int64) -> int:
    """Return how many words of each row, longest first, to process together: what takes the least
    time."""
    longest = np.append(word_counts[: _ALONE_MAX + 1], 0)[: _ALONE_MAX + 1]
    alone = np.arange(len(longest))
    words_alone = np.cumsum(longest) - longest - alone * longest
    return int(longest[np.argmin(longest * _TURN_WORDS + alone * _ROW_WORDS + words_alone)])


def _ended(
    hashes: npt.NDArray[Any],
    offsets: Int64,
    every: npt.NDArray[Any],
    factor: Any,
    first_shift: Any,
    last_shift: Any,
) -> npt.NDArray[Any]:
    """Return the hashes with the bytes after each row's last whole word, and finished."""
    rests = (np.diff(offsets) % factor.itemsize).astype(factor.dtype)
    one, eight = factor.dtype.type(1), factor.dtype.type(8)
    words = every[offsets[1:] - rests.astype(np.int64)]
    tails = words & ((one << rests * eight) - one)
    hashes = np.where(rests > 0, (hashes ^ tails) * factor, hashes)
    hashes ^= hashes >> first_shift
    hashes *= factor
    hashes ^= hashes >> last_shift
    return hashes


def partitions_of_keys(keys: pa.Array, partition_count: int) -> npt.NDArray[np.int32]:
    """Return the partition of each key, as Kafka's default partitioner does.

    Source: BuiltInPartitioner.partitionForKey: toPositive(murmur2(key)) modulo partitions.
    """
    return to_positive(murmur2(keys)) % np.int32(partition_count)


def to_positive(hashes: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return `hashes` with the sign bit cleared, which is not the absolute value.

    Source: org.apache.kafka.common.utils.Utils.toPositive.
    """
    return hashes & np.int32(0x7FFFFFFF)


def record_digests(records: pa.RecordBatch) -> UInt64:
    """Return the payload digest of each record, which tells a retry from another append.

    MurmurHash64A of key, value and headers, each as int32 length (-1 for null) and bytes,
    headers preceded by their count; then the timestamp as int64 µs, if the caller gave one: one
    that is filled in differs in a retry.
    """
    timestamps = records.column("timestamp")
    numbers = pc.fill_null(timestamps.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    given = pc.if_else(pc.is_valid(timestamps), _fixed(numbers, "<i8"), pa.scalar(b"", pa.binary()))
    return murmur64a(_join([*_payload(records), given]))


def content_digests(records: pa.RecordBatch, base_offset: int) -> UInt64:
    """Return the content digest of each record of a segment that begins at `base_offset`.

    As the payload digest of a record with a timestamp; then the record's offset as int64.
    """
    timestamps = records.column("timestamp").cast(pa.int64()).to_numpy(zero_copy_only=False)
    offsets = records.column("offset_delta").to_numpy(zero_copy_only=False) + np.int64(base_offset)
    both = [_fixed(timestamps, "<i8"), _fixed(offsets, "<i8")]
    return murmur64a(_join([*_payload(records), *both]))


def key_hashes(keys: pa.Array) -> tuple[UInt64, UInt64]:
    """Return the halves of each key's hash of 128 bits (xxh3); of a null, zeros."""
    empty = bytes(16)
    digest = xxhash.xxh3_128_digest
    joined = b"".join([empty if key is None else digest(key) for key in keys.to_pylist()])
    halves = np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)
    return halves[:, 0], halves[:, 1]


def _payload(records: pa.RecordBatch) -> list[pa.Array]:
    return [
        *_with_length(records.column("key")),
        *_with_length(records.column("value")),
        *_headers(records.column("headers")),
    ]


def sum_digests(digests: UInt64) -> int:
    """Return the sum modulo 2^64 as a signed integer: it depends on no order and no split."""
    return int(np.sum(digests, dtype=np.uint64).astype(np.int64))


def add_digests(first: int, second: int) -> int:
    return (first + second + 2**63) % 2**64 - 2**63


def _join(parts: list[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(
        *parts, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=b""
    )


def _fixed(values: npt.NDArray[Any], dtype: str) -> pa.Array:
    numbers = np.ascontiguousarray(values, dtype)
    width = numbers.dtype.itemsize
    offsets = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


def _with_length(column: pa.Array) -> list[pa.Array]:
    """Return the columns "length" and "bytes" of a binary column."""
    lengths = pc.fill_null(pc.binary_length(column), -1)
    return [_fixed(lengths.to_numpy(zero_copy_only=False), "<i4"), column]


def _headers(column: pa.Array) -> list[pa.Array]:
    """Return the columns "count" and "all headers' bytes" of a headers column.

    Null headers count as none.
    """
    counts = pc.fill_null(pc.list_value_length(column), 0)
    count_bytes = _fixed(counts.to_numpy(zero_copy_only=False), "<i4")
    flat = column.flatten()
    if len(flat) == 0:
        return [count_bytes]
    keys, values = pc.struct_field(flat, [0]), pc.struct_field(flat, [1])
    each = _join([*_with_length(keys.cast(pa.binary())), *_with_length(values)])
    offsets = np.concatenate([[0], np.cumsum(counts.to_numpy(zero_copy_only=False))])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), each)
    return [count_bytes, pc.binary_join(lists, b"")]
