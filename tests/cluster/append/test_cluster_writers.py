"""Transactional ids: the newest writer fences the others, and a retry stays a retry."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest

from kafka_on_spark.base.errors import ProducerFencedError, UnexpectedOffsetError
from kafka_on_spark.produce.append_rounds import AppendRounds
from kafka_on_spark.produce.idempotence import ProducerRuns
from kafka_on_spark.produce.records import Record
from tests.cluster.disks import values_of

NAME = {"transactional_id": "etl"}


@pytest.fixture
def orders(disks):
    """A topic, and two handles that share a transactional id: the older one and the newer."""
    disks.cluster.create_topic("orders", partitions=2, replication_factor=3)
    return disks


def at(partition: int, value: bytes) -> list[Record]:
    return [Record(None, value, partition=partition)]


def test_the_older_of_two_writers_is_fenced_at_its_next_append(orders):
    older, newer = orders.cluster, orders.open()
    older.append("orders", at(0, b"a"), **NAME)
    newer.append("orders", at(0, b"b"), **NAME)

    with pytest.raises(ProducerFencedError, match=r"'etl' was taken over by a newer writer.*stop"):
        older.append("orders", at(0, b"c"), **NAME)

    newer.append("orders", at(0, b"d"), **NAME)
    assert values_of(newer, "orders") == [b"a", b"b", b"d"]


def test_a_writer_that_begins_again_takes_over_and_its_retry_is_the_same_append(orders):
    older, newer = orders.cluster, orders.open()
    first = older.append("orders", at(0, b"a"), sequence=0, **NAME)

    again = newer.append("orders", at(0, b"a"), sequence=0, **NAME)
    newer.append("orders", at(0, b"b"), sequence=1, **NAME)

    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    assert values_of(newer, "orders") == [b"a", b"b"]


IDS = [
    pytest.param([NAME, NAME], id="writer"),
    pytest.param([{"producer_id": "p", "sequence": each} for each in (0, 1)], id="producer"),
]


@pytest.mark.parametrize("given", IDS)
def test_threads_that_use_an_id_at_the_same_time_are_one_writer(orders, monkeypatch, given):
    cluster, both = orders.cluster, Barrier(2)
    metadata = cluster._node.part(ProducerRuns)._metadata
    submit = metadata.submit

    def submit_together(*arguments, **named):
        with suppress(BrokenBarrierError):  # a thread that waits for the other one's run
            both.wait(timeout=1)
        return submit(*arguments, **named)

    monkeypatch.setattr(metadata, "submit", submit_together)
    with ThreadPoolExecutor(2) as threads:
        appends = [
            threads.submit(cluster.append, "orders", at(number, b"%d" % number), **each)
            for number, each in enumerate(given)
        ]
        assert [each.result().is_duplicate for each in appends] == [False, False]

    assert [*cluster.image.producers.values()] == [0]
    assert values_of(cluster, "orders") == [b"0", b"1"]


def test_a_race_that_is_lost_after_the_check_is_told_by_partition(orders, monkeypatch):
    loser, winner = orders.cluster, orders.open()
    commit = AppendRounds._round
    both = [*at(0, b"a"), *at(1, b"b")]

    def overtaken(*arguments, **named):
        monkeypatch.undo()
        winner.append("orders", at(1, b"first"))
        return commit(*arguments, **named)

    monkeypatch.setattr(AppendRounds, "_round", overtaken)
    with pytest.raises(UnexpectedOffsetError, match="ends at 1, not at the expected 0") as caught:
        loser.append("orders", both, expected_offsets={0: 0, 1: 0})

    assert caught.value.context["failed"] == [1]
    assert caught.value.context["acknowledged"] == [0]
    assert values_of(winner, "orders") == [b"a", b"first"]
