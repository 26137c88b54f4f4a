"""A producer's records as columns, and the partitions that they go to."""

from itertools import count
from threading import Condition

import pyarrow as pa

from kafka_on_spark.produce.accumulator import SentRecord
from kafka_on_spark.produce.records import INPUT_SCHEMA
from kafka_on_spark.produce.sender import batch_of, split_by_partition

_TIMES = count(1_000_000)


def sent(key=None, value=b"v", headers=None, partition=None):
    return SentRecord("t", key, value, headers, next(_TIMES), partition, None, Condition())


def test_records_of_a_partition_keep_their_order():
    records = [sent(str(n % 7).encode(), str(n).encode()) for n in range(100)]

    split = split_by_partition(records, 3, sticky=0)

    assert sum(map(len, split.values())) == 100
    for part in split.values():
        assert [int(each.value) for each in part] == sorted(int(each.value) for each in part)


def test_a_batch_has_the_columns_of_an_append():
    first = sent(b"k", None, [("h", b"1"), ("n", None)], partition=1)
    second = sent(None, b"v")

    batch = batch_of([(1, [first]), (3, [second])])

    assert batch.schema == INPUT_SCHEMA
    assert batch.column("key").to_pylist() == [b"k", None]
    assert batch.column("value").to_pylist() == [None, b"v"]
    assert batch.column("partition").to_pylist() == [1, 3]
    assert batch.column("headers").to_pylist() == [
        [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
        None,
    ]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [
        first.timestamp_us,
        second.timestamp_us,
    ]


def test_a_batch_without_headers_has_none():
    assert batch_of([(0, [sent(), sent()])]).column("headers").null_count == 2
