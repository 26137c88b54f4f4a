"""What a reader says in a worker's log: once, however often Spark makes the reader anew."""

import logging

from kafka_on_spark.consume.options import parse_source
from kafka_on_spark.spark.source import Reading

CANARY = "canary-Zr8mQe4T"


def test_options_of_kafkas_client_are_named_once_and_without_their_values(caplog):
    options = {
        "cluster": "/c",
        "subscribe": "t",
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.sasl.jaas.config": CANARY,
        "maxoffsetspertrigger": "5",
    }

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            Reading(parse_source(options, is_stream=False))

    assert [record.message for record in caplog.records] == [
        "options of Kafka's client mean nothing here and are ignored: kafka.bootstrap.servers,"
        " kafka.sasl.jaas.config",
        "maxOffsetsPerTrigger option ignored in batch queries",
    ]
