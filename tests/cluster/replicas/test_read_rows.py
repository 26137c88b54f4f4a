"""A range's records as rows: decoded a few at once, each once, from whichever replica has them."""

from dataclasses import replace

import pyarrow as pa
import pytest

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.base.ids import Offset
from kafka_on_spark.log import reading
from kafka_on_spark.log.read_order import plan_reads
from kafka_on_spark.log.reading import read_rows
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import records

OPTIONS = StorageOptions()
VALUES = [b"%d" % number for number in range(9)]
TIMES = ["CreateTime", "LogAppendTime"]


@pytest.fixture(params=TIMES)
def kind(request):
    return request.param


@pytest.fixture
def order(disks, kind, monkeypatch):
    """Segments of five and of four records on brokers 1 (leader) and 2, decoded two at once."""
    disks.cluster.create_topic(
        "orders",
        replica_assignment={0: [1, 2]},
        configs={"message.timestamp.type": kind},
    )
    disks.cluster.append("orders", records(*VALUES[:5]))
    disks.cluster.append("orders", records(*VALUES[5:]))
    monkeypatch.setattr(reading, "BATCH_ROWS_MAX", 2)
    [order] = plan_reads(disks.cluster.image, "orders")
    return order


def read(order, **named):
    return list(read_rows(order, replica_store(OPTIONS), OPTIONS, **named))


def test_each_record_of_a_range_is_read_once_and_no_other(order):
    for start in range(10):
        for end in range(start, 10):
            part = replace(order, start_offset=Offset(start), end_offset=Offset(end))
            rows = pa.Table.from_batches(read(part), reading.ROW_SCHEMA_WITH_HEADERS)

            assert rows.column("offset").to_pylist() == list(range(start, end))
            assert rows.column("value").to_pylist() == VALUES[start:end]


def test_a_range_of_few_offsets_takes_no_memory_for_a_full_batch(order, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_ROWS_MAX", 2**16)
    before = pa.total_allocated_bytes()
    rows = read_rows(order, replica_store(OPTIONS), OPTIONS)

    assert next(rows).num_rows
    assert pa.total_allocated_bytes() - before < 2**16


def test_a_replica_that_fails_after_some_rows_of_a_segment_is_gone_on_from_by_the_next(
    order, monkeypatch
):
    decode, noted = reading.segment_batches, []

    def fail(address, segment, *arguments):
        batches = decode(address, segment, *arguments)
        yield next(batches)
        if address.broker_id == 1 and segment.record_count == 4:
            raise KafkaStorageError("there is too little memory")
        yield from batches

    monkeypatch.setattr(reading, "segment_batches", fail)
    rows = read(order, note=lambda address, segment, error: noted.append(address.broker_id))

    assert [value for batch in rows for value in batch.column("value").to_pylist()] == VALUES
    assert noted == [1]
