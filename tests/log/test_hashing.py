"""Hashes of whole columns, against Kafka's vectors and plain-Python references."""

import struct
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from kafka_on_spark.log.hashing import (
    add_digests,
    murmur2,
    murmur64a,
    partitions_of_keys,
    record_digests,
    sum_digests,
)
from kafka_on_spark.log.segments import RECORD_SCHEMA

M32, M64 = 2**32 - 1, 2**64 - 1


def murmur2_of(data):
    """Utils.murmur2, line by line, as a signed number."""
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for place in range(0, whole, 4):
        k = int.from_bytes(data[place : place + 4], "little") * m & M32
        k = (k ^ k >> 24) * m & M32
        h = (h * m & M32) ^ k
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & M32
    h = (h ^ h >> 13) * m & M32
    return (h ^ h >> 15 ^ 2**31) - 2**31


def murmur64a_of(data, seed=0):
    """Austin Appleby's MurmurHash64A, line by line."""
    m, h = 0xC6A4A7935BD1E995, seed ^ (len(data) * 0xC6A4A7935BD1E995 & M64)
    whole = len(data) // 8 * 8
    for place in range(0, whole, 8):
        k = int.from_bytes(data[place : place + 8], "little") * m & M64
        k = (k ^ k >> 47) * m & M64
        h = (h ^ k) * m & M64
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & M64
    h = (h ^ h >> 47) * m & M64
    return h ^ h >> 47


def random_bytes(random, count, length_max):
    return [random.randbytes(random.randint(0, length_max)) for _ in range(count)]


def test_reference_of_murmur64a_passes_smhashers_verification():
    """SMHasher's check of an implementation: hashes of hashes of 256 keys end in this number."""
    hashes = b"".join(
        struct.pack("<Q", murmur64a_of(bytes(range(length)), seed=256 - length))
        for length in range(256)
    )

    assert murmur64a_of(hashes) & M32 == 0x1F0D3804


@pytest.mark.parametrize("length_max", [0, 1, 3, 4, 5, 7, 8, 9, 40, 300])
def test_columns_hash_as_their_rows(length_max):
    data = random_bytes(Random(length_max), 200, length_max)
    column = pa.array(data, pa.binary())

    assert murmur2(column).tolist() == [murmur2_of(each) for each in data]
    assert murmur64a(column).tolist() == [murmur64a_of(each) for each in data]


def test_long_rows_among_short_ones_hash_as_they_do_alone():
    """Some are longer than what Python takes at once."""
    data = random_bytes(Random(1), 66, 50)
    data[33], data[-1] = Random(0).randbytes(2**19 + 2**18 + 5), Random(1).randbytes(1003)
    column = pa.array(data, pa.binary())

    assert murmur2(column).tolist() == [murmur2_of(each) for each in data]
    assert murmur64a(column).tolist() == [murmur64a_of(each) for each in data]


def test_column_without_rows_or_bytes():
    assert murmur2(pa.array([], pa.binary())).tolist() == []
    assert murmur2(pa.array([b"", b""], pa.binary())).tolist() == [murmur2_of(b"")] * 2
    assert murmur64a(pa.array([b"", b""], pa.binary())).tolist() == [0, 0]


@pytest.mark.parametrize("partition_count", [1, 2, 3, 7, 1000])
def test_partition_of_a_key_is_kafkas(partition_count):
    data = random_bytes(Random(2), 300, 12)

    numbers = partitions_of_keys(pa.array(data, pa.binary()), partition_count)

    assert numbers.tolist() == [(murmur2_of(each) & 0x7FFFFFFF) % partition_count for each in data]


def digest_of(record):
    """Return the digest by hand: length-prefixed key, value and headers, then the timestamp if it was given."""

    def sized(value):
        return struct.pack("<i", -1) if value is None else struct.pack("<i", len(value)) + value

    headers = record["headers"] or []
    content = sized(record["key"]) + sized(record["value"]) + struct.pack("<i", len(headers))
    for header in headers:
        content += sized(header["key"].encode()) + sized(header["value"])
    if record["timestamp"] is not None:
        content += struct.pack("<q", record["timestamp"])
    return murmur64a_of(content)


def random_records(random, count):
    def maybe(value):
        return None if random.random() < 0.3 else value

    return [
        {
            "timestamp": maybe(random.randint(-(2**50), 2**50)),
            "key": maybe(random.randbytes(random.randint(0, 10))),
            "value": maybe(random.randbytes(random.randint(0, 30))),
            "headers": maybe(
                [
                    {"key": random.choice(["", "h", "é"]), "value": maybe(random.randbytes(3))}
                    for _ in range(random.randint(0, 3))
                ]
            ),
        }
        for _ in range(count)
    ]


def columns(records):
    return pa.RecordBatch.from_pylist(records, RECORD_SCHEMA)


@pytest.mark.parametrize("start, length", [(0, 60), (0, 0), (3, 5), (59, 1), (60, 0), (1, 59)])
def test_records_digest_as_the_format_says_also_of_a_slice(start, length):
    records = random_records(Random(7), 60)

    digests = record_digests(columns(records).slice(start, length))

    expected = records[start : start + length]
    assert digests.tolist() == [digest_of(each) for each in expected]


def test_records_without_any_header_digest_as_the_format_says():
    records = [{**each, "headers": None} for each in random_records(Random(3), 5)]

    assert record_digests(columns(records)).tolist() == [digest_of(each) for each in records]


def test_null_and_empty_are_different_records():
    fields = {"timestamp": 0, "key": None, "value": b"", "headers": None}
    records = [
        fields,
        {**fields, "key": b""},
        {**fields, "value": None},
        {**fields, "headers": [{"key": "", "value": None}]},
    ]

    assert len(set(record_digests(columns(records)).tolist())) == 4


@pytest.mark.parametrize("seed", range(2))
def test_sum_depends_on_no_order_and_no_split(seed):
    random = Random(seed)
    records = random_records(random, 40)
    whole = sum_digests(record_digests(columns(records)))

    random.shuffle(records)
    cut = random.randint(0, 40)
    parts = [record_digests(columns(part)) for part in (records[:cut], records[cut:])]

    assert add_digests(*map(sum_digests, parts)) == whole
    assert -(2**63) <= whole < 2**63


@pytest.mark.parametrize(
    "numbers", [[], [0], [2**63], [2**64 - 1, 1], [2**63, 2**63], [2**64 - 1] * 3]
)
def test_sum_is_signed_and_modulo_two_to_the_64(numbers):
    total = sum_digests(np.array(numbers, np.uint64))

    assert total == (sum(numbers) + 2**63) % 2**64 - 2**63
