"""A producer against a real cluster: order, futures, callbacks, flush, room and wrong records."""

import threading
from collections import defaultdict
from datetime import UTC, datetime

import numpy as np
import pytest

from kafka_on_spark.base.errors import (
    BufferExhaustedError,
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import EPOCH
from kafka_on_spark.produce import sender
from tests.cluster.disks import values_of
from tests.cluster.producing.sending import ANSWER

NAIVE = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)
PATIENT = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000}


def by_place(cluster, topic):
    rows = cluster.read(topic).to_pylist()
    return {(row["partition"], row["offset"]): row for row in rows}


@pytest.mark.smoke
def test_records_of_several_threads_keep_the_order_of_each_partition(cluster, new_topic):
    topic = new_topic(partitions=3)

    def send(thread):
        for number in range(1000):
            producer.send(topic, f"{thread}-{number % 5}", f"{thread} {number}")

    with cluster.producer(linger_ms=1) as producer:
        threads = [threading.Thread(target=send, args=(each,)) for each in range(5)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    seen = defaultdict(list)
    for value in values_of(cluster, topic):  # by partition and offset
        thread, number = map(int, value.split())
        seen[thread, number % 5].append(number)
    assert len(seen) == 25
    assert all(numbers == sorted(numbers) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 5000 == len(values_of(cluster, topic))


def test_a_future_tells_where_its_record_stands(cluster, new_topic):
    topic, other = new_topic(partitions=4), new_topic()
    moment = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    sent = []
    with cluster.producer() as producer:
        for number in range(200):
            key = None if number % 3 == 0 else str(number)
            future = producer.send(
                topic if number % 4 else other,
                key,
                None if number % 7 == 0 else f"value {number}".encode(),
                {"n": str(number).encode()} if number % 2 else (),
                moment if number % 5 == 0 else None,
            )
            sent.append((number, key, future))

    rows = {name: by_place(cluster, name) for name in (topic, other)}
    assert sum(map(len, rows.values())) == 200
    for number, key, future in sent:
        metadata = future.result(0)
        assert metadata.topic == (topic if number % 4 else other)
        row = rows[metadata.topic][metadata.partition, metadata.offset]
        assert row["key"] == (None if key is None else key.encode())
        assert row["value"] == (None if number % 7 == 0 else f"value {number}".encode())
        assert row["timestamp"] == metadata.timestamp
        assert number % 5 or metadata.timestamp == moment
        expected = [{"key": "n", "value": str(number).encode()}] if number % 2 else None
        assert row["headers"] == expected


def test_a_future_has_the_time_of_the_append_where_that_counts(cluster, new_topic):
    topic = new_topic(configs={"message.timestamp.type": "LogAppendTime"})
    with cluster.producer() as producer:
        future = producer.send(topic, None, b"v", timestamp=EPOCH)

    [row] = cluster.read(topic).to_pylist()

    assert future.result(0).timestamp == row["timestamp"] > EPOCH


def test_what_gathers_for_all_topics_goes_with_one_append(cluster, new_topic, monkeypatch):
    topics, appends = [new_topic(partitions=2) for _ in range(3)], []

    def answer(node, given, take):
        appends.append({plan.topic for plan, _ in given})
        ANSWER(node, given, take)

    monkeypatch.setattr(sender, "answer_staged", answer)
    with cluster.producer(**PATIENT) as producer:
        for number in range(60):
            producer.send(topics[number % 3], str(number), b"v")

    assert appends == [set(topics)]
    assert [cluster.read(each).num_rows for each in topics] == [20, 20, 20]


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_callbacks_run_in_the_order_of_sends_and_one_that_fails_stops_nothing(
    cluster, topic, caplog, kind
):
    seen = []

    def note(number):
        def callback(metadata, error):
            assert error is None
            seen.append((number, metadata.offset))
            if number == 3:
                raise kind("a callback's own fault")

        return callback

    def fail(_):
        raise kind("a future's callback's own fault")

    with cluster.producer(linger_ms=1) as producer:
        for number in range(50):
            future = producer.send(topic, None, b"v", partition=0, callback=note(number))
            if number == 30:
                future.add_done_callback(fail)

    assert seen == [(number, number) for number in range(50)]
    assert "a callback's own fault" in caplog.text


def test_a_callback_may_send_and_may_not_flush(cluster, topic):
    refused = []

    def again(metadata, error):
        producer.send(topic, None, b"second")
        with pytest.raises(InvalidRequestError, match="call flush elsewhere") as caught:
            producer.flush()
        refused.append(caught.value)

    with cluster.producer() as producer:
        producer.send(topic, None, b"first", callback=again)
        producer.flush()
        producer.flush()

    assert values_of(cluster, topic) == [b"first", b"second"]
    assert len(refused) == 1


def test_a_send_without_room_is_refused_after_max_block_ms(cluster, topic):
    hold = threading.Event()
    with cluster.producer(linger_ms=0, buffer_memory=200, max_block_ms=50) as producer:
        # A callback that takes long keeps the only thread that makes room.
        first = producer.send(topic, None, b"a" * 100, callback=lambda *_: hold.wait(60))
        with pytest.raises(BufferExhaustedError, match=r"buffer\.memory \(200\) is full"):
            producer.send(topic, None, b"b" * 100)
        hold.set()
        assert first.result(30).offset == 0
        producer.flush()
        producer.send(topic, None, b"c" * 100)

    assert [each[:1] for each in values_of(cluster, topic)] == [b"a", b"c"]


def test_a_callback_is_refused_at_once_where_its_send_would_wait_for_room(cluster, topic):
    errors = []

    def again(metadata, error):
        try:
            producer.send(topic, None, b"b" * 100)
        except BufferExhaustedError as caught:
            errors.append(caught)

    with cluster.producer(linger_ms=0, buffer_memory=200, max_block_ms=10**6) as producer:
        producer.send(topic, None, b"a" * 100, callback=again)
        producer.flush()

    assert len(errors) == 1


# fmt: off
WRONG = [
    ({"value": 5},                                  InvalidRequestError,   "'value' can't be 5, a int"),
    ({"key": 1.5},                                  InvalidRequestError,   "'key' can't be 1.5"),
    ({"key": "\ud800"},                             InvalidRequestError,   "no text that UTF-8 has"),
    ({"headers": [("a",)]},                         InvalidRequestError,   "pairs of a str and bytes"),
    ({"headers": [("a", "text")]},                  InvalidRequestError,   "pairs of a str and bytes"),
    ({"headers": 5},                                InvalidRequestError,   "pairs of a str and bytes"),
    ({"timestamp": 1.7},                            InvalidRequestError,   "a datetime with a time zone"),
    ({"timestamp": NAIVE},           InvalidRequestError,   "no time zone"),
    ({"timestamp": datetime(9000, 1, 1, tzinfo=UTC)}, InvalidTimestampError, "after.max.ms"),
    ({"partition": 1.0},                            InvalidRequestError,   "whole number"),
    ({"partition": 1},                              InvalidRecordError,    r"not in the range \[0, 1\)"),
    ({"value": b"v" * 2000},                        MessageTooLargeError,  "max.message.bytes=1000"),
    ({"topic": "nowhere"},                          UnknownTopicOrPartitionError, "nowhere"),
]
# fmt: on


@pytest.fixture(scope="module")
def narrow(shared_disks):
    name = "narrow"
    shared_disks.cluster.create_topic(name, partitions=1, configs={"max.message.bytes": 1000})
    with shared_disks.cluster.producer() as producer:
        yield producer, name


@pytest.mark.parametrize("given, kind, said", WRONG)
def test_a_wrong_record_raises_where_it_is_sent(narrow, given, kind, said):
    producer, name = narrow

    with pytest.raises(kind, match=said):
        producer.send(**{"topic": name, "key": None, "value": b"v", **given})


def test_other_kinds_of_bytes_and_numbers_are_taken(cluster, new_topic):
    topic = new_topic(partitions=2)
    with cluster.producer() as producer:
        producer.send(topic, bytearray(b"k"), memoryview(b"v"), partition=np.int64(1))

    [row] = cluster.read(topic).to_pylist()
    assert (row["key"], row["value"], row["partition"]) == (b"k", b"v", 1)


def test_a_producer_sees_partitions_and_settings_that_were_changed(cluster, new_topic):
    topic = new_topic(partitions=1, configs={"max.message.bytes": 1000})
    with cluster.producer() as producer:
        producer.send(topic, None, b"v").result()
        cluster.add_partitions(topic, to=3)
        cluster.alter_topic_configs(topic, {"max.message.bytes": 5000})

        large = producer.send(topic, None, b"v" * 3000, partition=2)

        assert (large.result().partition, large.result().offset) == (2, 0)
        keyed = [producer.send(topic, str(number), b"v") for number in range(20)]
        assert {each.result().partition for each in keyed} == {0, 1, 2}
