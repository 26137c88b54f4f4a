"""A producer while roots are away, metadata fails, topics go, and outcomes are unknown."""

import logging
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    CommitOutcomeUnknownError,
    KafkaStorageError,
    RecordExpiredError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.produce import sender
from tests.cluster.disks import values_of
from tests.cluster.producing.sending import ANSWER, WAIT_S, send, wait_until

SHORT_MS = 1500
"""A delivery timeout that is waited for: a try takes a second at least. Only records have it that are
to expire; the time of all others is longer than a busy machine needs."""


@pytest.fixture
def answers(monkeypatch):
    """Gives a way to have appends fail, before or after they are done: one error a try."""

    def fail_with(*errors, is_after):
        left = list(errors)

        def answer(node, appends, take):
            error = left.pop(0) if left else None
            if error is None:
                return ANSWER(node, appends, take)
            if is_after:
                ANSWER(node, appends, [].append)
            raise error

        monkeypatch.setattr(sender, "answer_staged", answer)
        return left

    return fail_with


@contextmanager
def expiring(producer):
    """Have the records expire soon that are sent in the block."""
    sender, settings = producer._sender, producer._sender._settings
    sender._settings = replace(settings, delivery_timeout_ms=SHORT_MS)
    try:
        yield
    finally:
        sender._settings = settings


def expire(record):
    """Have the time of a record be over that some try has met, however late the tries are."""
    record.deadline_ms = 0


@pytest.mark.parametrize("error", [CommitOutcomeUnknownError("?"), RequestTimedOutError("?")])
def test_an_append_of_unknown_outcome_is_tried_again_and_stands_once(
    cluster, new_topic, answers, error
):
    topic = new_topic(partitions=3)
    left = answers(error, error, is_after=True)
    with cluster.producer(linger_ms=20) as producer:
        futures = [producer.send(topic, str(n), str(n)) for n in range(30)]
        producer.flush()
        later = producer.send(topic, None, b"later", partition=0)

    assert left == []
    rows = {
        (row["partition"], row["offset"]): row["value"] for row in cluster.read(topic).to_pylist()
    }
    assert len(rows) == 31
    for number, future in enumerate(futures):
        metadata = future.result(0)
        assert rows[metadata.partition, metadata.offset] == str(number).encode()
    assert rows[0, later.result(0).offset] == b"later"


def test_an_outcome_that_stays_unknown_fails_its_records_and_those_behind_go_on_in_order(
    cluster, topic, answers, caplog
):
    left = answers(*[RequestTimedOutError("?")] * 100, is_after=True)
    with caplog.at_level(logging.WARNING), cluster.producer(linger_ms=0) as producer:
        [first] = send(producer, topic, b"first", partition=0)
        wait_until(lambda: len(left) < 100)
        expire(first)
        with pytest.raises(RequestTimedOutError, match="read the topic before you send it again"):
            first.result(WAIT_S)
        left.clear()
        [second] = send(producer, topic, b"second", partition=0)
        producer.flush()

    assert second.result(0).offset == 1
    assert values_of(cluster, topic) == [b"first", b"second"]
    assert "whether it will be committed is unknown" in caplog.text


def test_with_all_roots_away_records_expire_and_later_ones_are_sent(disks):
    disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
    with disks.cluster.producer(linger_ms=0) as producer:
        send(producer, "orders", b"before")
        producer.flush()
        errors = []
        disks.take_away(1, 2, 3)
        with expiring(producer):
            lost = send(
                producer, "orders", b"a", b"b", b"c", callback=lambda _, error: errors.append(error)
            )
        producer.flush()

        assert [type(each.exception(0)) for each in lost] == [RecordExpiredError] * 3
        assert [type(each) for each in errors] == [RecordExpiredError] * 3
        disks.give_back(1, 2, 3)
        [after] = send(producer, "orders", b"after")
        assert after.result(WAIT_S) is not None

    assert sorted(values_of(disks.cluster, "orders")) == [b"after", b"before"]


def test_a_bug_in_an_append_fails_its_records_and_not_the_producer(cluster, topic, answers, caplog):
    answers(ZeroDivisionError("a bug"), is_after=False)
    with cluster.producer(linger_ms=0) as producer:
        first = producer.send(topic, None, b"a")
        assert isinstance(first.exception(WAIT_S), ZeroDivisionError)
        second = producer.send(topic, None, b"b")

    assert second.result(0).offset == 0
    assert "a producer's append failed" in caplog.text


def test_records_wait_for_a_metadata_root_that_is_away_or_expire(disks):
    cluster = disks.cluster
    cluster.create_topic("orders", replication_factor=3)
    away = disks.base / "meta-away"
    with cluster.producer(linger_ms=0) as producer:
        producer.send("orders", None, b"before").result(WAIT_S)
        disks.metadata_root.rename(away)
        with expiring(producer):
            lost = producer.send("orders", None, b"lost")
        assert isinstance(lost.exception(WAIT_S), RecordExpiredError)
        waits = producer.send("orders", None, b"waits")
        away.rename(disks.metadata_root)

        assert waits.result(WAIT_S).offset == 1

    assert values_of(cluster, "orders") == [b"before", b"waits"]


def test_a_bug_in_a_retry_leaves_no_record_without_an_answer(cluster, new_topic, monkeypatch):
    gone, stays = new_topic(), new_topic()

    def fail(node, appends, take):
        cluster.delete_topic(gone)
        monkeypatch.setattr(sender, "plan_stage", plan)
        raise KafkaStorageError("away")

    def plan(*_, **given):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(sender, "answer_staged", fail)
    with cluster.producer(linger_ms=60_000, delivery_timeout_ms=60_000) as producer:
        lost, kept = (producer.send(each, None, b"v") for each in (gone, stays))

    assert isinstance(lost.exception(0), UnknownTopicOrPartitionError)
    assert isinstance(kept.exception(0), ZeroDivisionError)
