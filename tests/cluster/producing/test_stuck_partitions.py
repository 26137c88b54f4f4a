"""A producer with partitions that can't be appended to: they are tried again, and the others go on."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark.base.errors import (
    InvalidTimestampError,
    KafkaStorageError,
    RequestTimedOutError,
)
from kafka_on_spark.produce import sender
from tests.cluster.producing.sending import ANSWER, WAIT_S, send, wait_until


@pytest.fixture
def stuck(monkeypatch):
    """Gives a way to have appends to partitions fail before they are done, until it is opened: the
    first try at once, later ones while they wait."""

    def stick(*numbers):
        opened, tries = threading.Event(), []

        def answer(node, appends, take):
            met = {row.partition for _, rows in appends for row in rows} & set(numbers)
            if met:
                is_retry = not met.isdisjoint(tries)
                tries.extend(met)
                if is_retry:
                    assert opened.wait(WAIT_S)
                if not opened.is_set():
                    raise KafkaStorageError("away")
            ANSWER(node, appends, take)

        monkeypatch.setattr(sender, "answer_staged", answer)
        return opened

    return stick


def test_other_partitions_go_on_while_one_is_stuck_and_its_records_keep_their_order(
    cluster, new_topic, stuck
):
    topic = new_topic(partitions=2)
    with cluster.producer(linger_ms=0) as producer:
        opened = stuck(1)
        late = send(producer, topic, b"0", partition=1)
        wait_until(lambda: producer._sender._muted)
        for number in range(1, 20):
            late += send(producer, topic, b"%d" % number, partition=1)
            taken = producer.send(topic, None, b"taken", partition=0)
            assert taken.result(WAIT_S).offset == number - 1
        keyless = producer.send(topic, None, b"keyless")
        assert keyless.result(WAIT_S).partition == 0
        assert not any(each.done() for each in late)

        opened.set()
        producer.flush()

        assert [each.result(0).offset for each in late] == list(range(20))
        assert producer._sender._gathering.used_bytes == 0
    rows = [row for row in cluster.read(topic).to_pylist() if row["partition"] == 1]
    assert [row["value"] for row in rows] == [b"%d" % number for number in range(20)]


def behind_count(producer):
    return sum(len(each.behind) for each in list(producer._sender._muted.values()))


def test_a_waiting_record_that_has_become_too_old_fails_alone(cluster, new_topic, stuck):
    topic = new_topic(partitions=2)
    with cluster.producer(linger_ms=60_000_000, delivery_timeout_ms=600_000_000) as producer:
        opened = stuck(1)
        send(producer, topic, b"tried", partition=1)
        with pytest.raises(RequestTimedOutError):
            producer.flush(0)
        wait_until(lambda: producer._sender._muted)
        hours_ago = datetime.now(UTC) - timedelta(hours=9)
        old = producer.send(topic, None, b"old", partition=1, timestamp=hours_ago)
        late = producer.send(topic, None, b"late", partition=1)
        with pytest.raises(RequestTimedOutError):
            producer.flush(0)
        wait_until(lambda: behind_count(producer) == 2)
        cluster.alter_topic_configs(topic, {"message.timestamp.before.max.ms": 3_600_000})
        other = producer.send(topic, None, b"other", partition=0)  # goes with what has waited
        opened.set()

        assert other.result(WAIT_S).offset == 0
        assert late.result(WAIT_S).offset == 1
        assert isinstance(old.exception(WAIT_S), InvalidTimestampError)


@pytest.mark.parametrize("reason", ["the most threads are at work", "the process has no more"])
def test_without_another_thread_the_first_one_tries_again(
    cluster, topic, stuck, monkeypatch, reason
):
    start = threading.Thread.start

    def refused(thread):
        if thread.name == "producer-retries":
            raise RuntimeError("can't start new thread")
        start(thread)

    if reason == "the process has no more":
        monkeypatch.setattr(threading.Thread, "start", refused)
    else:
        monkeypatch.setattr(sender, "THREADS_MAX", 0)
    with cluster.producer(linger_ms=0) as producer:
        opened = stuck(0)
        [tried] = send(producer, topic, b"tried", partition=0)
        wait_until(lambda: producer._sender._muted)
        [later] = send(producer, topic, b"later", partition=0)
        opened.set()
        producer.flush()

        assert producer._sender._retriers == []
    assert [tried.result(0).offset, later.result(0).offset] == [0, 1]


def test_a_flush_ends_that_begins_when_what_was_stuck_has_its_answers_and_is_still_muted(
    cluster, topic, monkeypatch
):
    flushes = []

    def fail(node, appends, take):
        raise KafkaStorageError("away")

    monkeypatch.setattr(sender, "answer_staged", fail)
    with ThreadPoolExecutor(1) as thread, cluster.producer(linger_ms=0) as producer:

        def warn(text, *_):
            if "tries again" in text:
                return
            flushes.append(thread.submit(producer.flush, WAIT_S * 1000))
            wait_until(flushes[0].done)

        monkeypatch.setattr(sender.log, "warning", warn)
        stuck = producer.send(topic, None, b"a", partition=0)
        wait_until(lambda: producer._sender._muted)
        stuck.deadline_ms = 0
        wait_until(lambda: flushes)

        flushes[0].result()

    assert isinstance(stuck.exception(0), RequestTimedOutError)
