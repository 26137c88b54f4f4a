"""Sends records for tests, and waits for what becomes of them."""

import time

from kafka_on_spark.produce import append

ANSWER = append.answer_staged
WAIT_S = 120


def send(producer, topic, *values, **given):
    return [producer.send(topic, None, each, **given) for each in values]


def wait_until(condition):
    last = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < last, "it takes too long"
        time.sleep(0.01)
