"""Kafka's own clients, as users have them, against a gateway."""

import asyncio
import shutil
import subprocess

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 300


@pytest.fixture
def address(gateway):
    return f"{gateway.host}:{gateway.port}"


def given(number):
    return f"key {number % 7}".encode(), f"value {number}".encode() * (number % 50)


def by_confluent(address, topic, codec, *, is_idempotent):
    reports = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "compression.type": codec,
            "enable.idempotence": is_idempotent,
            "linger.ms": 5,
            "batch.num.messages": 40,
        }
    )
    for number in range(COUNT):
        key, value = given(number)
        producer.produce(
            topic,
            value,
            key,
            headers={"n": str(number).encode()},
            on_delivery=lambda error, message: reports.append(
                (error, message.partition(), message.offset())
            ),
        )
    assert producer.flush(30) == 0
    assert not [each for each in reports if each[0]]
    return {(partition, offset) for _, partition, offset in reports}


def by_kafka_python(address, topic, codec, *, is_idempotent):
    producer = kafka.KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=is_idempotent,
    )
    sent = []
    for number in range(COUNT):
        key, value = given(number)
        headers = [("n", str(number).encode())]
        sent.append(producer.send(topic, key=key, value=value, headers=headers))
    found = {(each.partition, each.offset) for each in (future.get(30) for future in sent)}
    producer.close()
    return found


def by_aiokafka(address, topic, codec, *, is_idempotent):
    async def run():
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=is_idempotent,
            acks="all",
        )
        async with producer:
            sent = []
            for number in range(COUNT):
                key, value = given(number)
                headers = [("n", str(number).encode())]
                sent.append(await producer.send(topic, key=key, value=value, headers=headers))
            return {(each.partition, each.offset) for each in await asyncio.gather(*sent)}

    return asyncio.run(run())


def read_by_confluent(address, topic):
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in (0, 1)])
    found = []
    while len(found) < COUNT:
        for each in consumer.consume(COUNT, 1.0):
            assert each.error() is None
            found.append(
                (each.partition(), each.offset(), each.key(), each.value(), each.headers())
            )
    consumer.close()
    return found


def read_by_kafka_python(address, topic):
    consumer = kafka.KafkaConsumer(bootstrap_servers=address)
    consumer.assign([kafka.TopicPartition(topic, each) for each in (0, 1)])
    consumer.seek_to_beginning()
    found = []
    while len(found) < COUNT:
        for records in consumer.poll(1000).values():
            found += [
                (each.partition, each.offset, each.key, each.value, [*each.headers])
                for each in records
            ]
    consumer.close()
    return found


def read_by_aiokafka(address, topic):
    async def run():
        async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
            consumer.assign([TopicPartition(topic, each) for each in (0, 1)])
            await consumer.seek_to_beginning()
            found = []
            while len(found) < COUNT:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [
                        (each.partition, each.offset, each.key, each.value, [*each.headers])
                        for each in records
                    ]
            return found

    return asyncio.run(run())


PRODUCERS = {"confluent": by_confluent, "kafka-python": by_kafka_python, "aiokafka": by_aiokafka}
CONSUMERS = {
    "confluent": read_by_confluent,
    "kafka-python": read_by_kafka_python,
    "aiokafka": read_by_aiokafka,
}


SENT = [(name, codec) for name in PRODUCERS for codec in CODECS]
# Its other codecs are packages of their own.
SENT = [each for each in SENT if each[0] != "kafka-python" or each[1] in ("none", "gzip")]


@pytest.mark.parametrize("name, codec", SENT)
def test_what_a_client_sends_stands_once_where_it_was_told(cluster, topic, address, name, codec):
    is_idempotent = codec != "gzip"
    told = PRODUCERS[name](address, topic, codec, is_idempotent=is_idempotent)

    rows = cluster.read(topic).to_pylist()
    assert {(each["partition"], each["offset"]) for each in rows} == told
    numbers = [int(each["headers"][0]["value"]) for each in rows]
    assert sorted(numbers) == [*range(COUNT)]
    assert all(
        (each["key"], each["value"]) == given(n) for n, each in zip(numbers, rows, strict=True)
    )
    for partition in (0, 1):
        of_one = [
            n for n, each in zip(numbers, rows, strict=True) if each["partition"] == partition
        ]
        assert of_one == sorted(of_one)


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_client_reads_what_users_of_python_read(cluster, topic, address, name):
    cluster.append(
        topic,
        [
            {"key": key, "value": value, "partition": n % 2, "headers": [("n", str(n).encode())]}
            for n, (key, value) in enumerate(map(given, range(COUNT)))
        ],
    )

    found = CONSUMERS[name](address, topic)

    expected = [
        (
            each["partition"],
            each["offset"],
            each["key"],
            each["value"],
            [(h["key"], h["value"]) for h in each["headers"]],
        )
        for each in cluster.read(topic).to_pylist()
    ]
    assert sorted(found, key=lambda each: each[:2]) == expected


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_sends_and_reads(topic, address):
    sent = subprocess.run(
        ["kcat", "-b", address, "-t", topic, "-P"], input=b"a\nb\n", timeout=30, check=False
    )
    read = subprocess.run(
        ["kcat", "-b", address, "-t", topic, "-C", "-e", "-q"],
        capture_output=True,
        timeout=30,
        check=False,
    )

    assert (sent.returncode, sorted(read.stdout.split())) == (0, [b"a", b"b"])
