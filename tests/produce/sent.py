"""Builds records as a producer's `send` makes them, settings, and what an append has answered."""

from threading import Condition

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.produce.delivery import AppendNumber, PendingPart
from kafka_on_spark.produce.sent_record import SentRecord
from kafka_on_spark.produce.settings import producer_settings
from kafka_on_spark.produce.stages import AnsweredPart

TOPIC_ID = TopicId("t1")
RUN = "a-run"


def settings(**given):
    chosen = {
        "acks": "all",
        "linger_ms": 5,
        "batch_size": 1000,
        "buffer_memory": 10_000,
        "max_block_ms": 100,
        "delivery_timeout_ms": 1000,
        "max_in_flight": 1,
        "transactional_id": None,
    }
    return producer_settings(**{**chosen, **given})


def record(name=b"v", *, deadline_ms=1000, size_bytes=10, partition=None, timestamp_us=0, key=None):
    return SentRecord(
        key, name, None, timestamp_us, partition, size_bytes, None, Condition(), deadline_ms
    )


def key(partition=0):
    return PartitionKey(TOPIC_ID, partition)


def part(*records, partition=0, sequence=7):
    number = AppendNumber(RUN, sequence)
    return PendingPart(topic="t", key=key(partition), number=number, records=list(records))


def stands(partition=0, base_offset=0, record_count=1, append_time_ms=None):
    return AnsweredPart(
        key=key(partition),
        base_offset=base_offset,
        record_count=record_count,
        append_time_ms=append_time_ms,
    )


def failed(error, partition=0):
    return AnsweredPart(key=key(partition), error=error)
