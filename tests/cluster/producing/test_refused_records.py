"""A producer's records that their topic does not allow any more: they fail alone."""

from dataclasses import replace

from kafka_on_spark.base.errors import (
    InvalidTimestampError,
    MessageTooLargeError,
)
from kafka_on_spark.produce import sender
from kafka_on_spark.produce.accumulator import TRY_MS_MIN
from kafka_on_spark.store.deadlines import SystemClock
from tests.cluster.disks import values_of
from tests.cluster.producing.sending import ANSWER, send


def test_a_record_that_another_process_has_its_topic_refuse_fails_alone(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    other = disks.open()
    with disks.cluster.producer(linger_ms=60_000, delivery_timeout_ms=60_000) as producer:
        send(producer, "orders", b"before", partition=0)
        producer.flush()
        small, large, last = send(producer, "orders", b"s", b"l" * 5000, b"e", partition=0)
        other.alter_topic_configs("orders", {"max.message.bytes": 1000})
        producer.flush()

    assert isinstance(large.exception(0), MessageTooLargeError)
    assert [small.result(0).offset, last.result(0).offset] == [1, 2]
    assert values_of(disks.cluster, "orders") == [b"before", b"s", b"e"]


def test_one_wrong_partition_of_many_is_found_in_the_time_of_one_try(
    cluster, new_topic, monkeypatch
):
    topic = new_topic(partitions=16, replication_factor=1)
    timeouts = []

    class Clock(SystemClock):
        """By which each append takes a while."""

        def monotonic_ms(self):
            return super().monotonic_ms() + 300 * len(timeouts)

    def answer(node, appends, take):
        timeouts.append(appends[0][0].timeout_ms)
        if any(row.partition == 5 for _, rows in appends for row in rows):
            raise InvalidTimestampError("refused here, though allowed when it was checked")
        ANSWER(node, [(replace(plan, timeout_ms=60_000), rows) for plan, rows in appends], take)

    monkeypatch.setattr(sender, "answer_staged", answer)
    monkeypatch.setattr(cluster._node, "clock", Clock())
    with cluster.producer(linger_ms=60_000, delivery_timeout_ms=600_000) as producer:
        futures = [producer.send(topic, None, b"v", partition=each) for each in range(16)]

    assert isinstance(futures.pop(5).exception(0), InvalidTimestampError)
    assert {each.result(0).offset for each in futures} == {0}
    assert len(timeouts) == 17
    left = [max(TRY_MS_MIN - 300 * place, 1) for place in range(17)]
    assert all(given <= most for given, most in zip(timeouts, left, strict=True))
