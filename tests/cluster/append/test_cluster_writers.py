"""Transactional ids: the newest writer fences the others, and a retry stays a retry."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest

from kafka_on_spark.errors import InvalidRequestError, ProducerFencedError, UnexpectedOffsetError
from kafka_on_spark.storage.staging.records import Record
from tests.cluster.disks import records, values_of

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


def test_it_is_fenced_on_partitions_and_topics_that_the_newer_has_not_come_to(orders):
    older, newer = orders.cluster, orders.open()
    older.create_topic("others")
    older.append("orders", at(1, b"a"), **NAME)
    newer.append("orders", at(0, b"b"), **NAME)

    for topic, partition in (("orders", 1), ("others", 0)):
        with pytest.raises(ProducerFencedError):
            older.append(topic, at(partition, b"c"), **NAME)

    assert values_of(newer, "orders") == [b"b", b"a"]
    assert values_of(newer, "others") == []


def test_an_append_that_was_staged_before_the_take_over_is_fenced(orders, monkeypatch):
    older, newer = orders.cluster, orders.open()
    older.append("orders", at(0, b"a"), **NAME)
    begin = older._services.appends._appender.append

    def overtaken(*arguments, **named):
        newer.append("orders", at(0, b"b"), **NAME)
        return begin(*arguments, **named)

    # After the metadata was read last: only the leader's table shows the take-over.
    monkeypatch.setattr(older._services.appends._appender, "append", overtaken)
    with pytest.raises(ProducerFencedError, match="newer writer"):
        older.append("orders", at(0, b"c"), **NAME)

    assert values_of(newer, "orders") == [b"a", b"b"]


def test_a_writer_that_is_fenced_stays_so_under_a_new_leader(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    older, newer = disks.cluster, disks.open()
    older.append("orders", records(b"a"), **NAME)
    newer.append("orders", records(b"b"), **NAME)
    disks.take_away(1)
    newer.run_controller()

    with pytest.raises(ProducerFencedError):
        older.append("orders", records(b"c"), **NAME)
    newer.append("orders", records(b"d"), **NAME)

    assert values_of(newer, "orders") == [b"a", b"b", b"d"]


def test_a_writer_that_begins_again_takes_over_and_its_retry_is_the_same_append(orders):
    older, newer = orders.cluster, orders.open()
    first = older.append("orders", at(0, b"a"), sequence=0, **NAME)

    again = newer.append("orders", at(0, b"a"), sequence=0, **NAME)
    newer.append("orders", at(0, b"b"), sequence=1, **NAME)

    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    assert values_of(newer, "orders") == [b"a", b"b"]


def test_the_producer_of_an_append_may_be_another_than_its_writer(orders):
    older, newer = orders.cluster, orders.open()
    for cluster, producer, value in ((older, "one", b"a"), (newer, "two", b"b")):
        cluster.append("orders", at(0, value), producer_id=producer, sequence=0, **NAME)

    with pytest.raises(ProducerFencedError, match="transactional id 'etl'"):
        older.append("orders", at(0, b"c"), producer_id="one", sequence=1, **NAME)

    # The producer itself is nobody else's, and goes on without the transactional id.
    older.append("orders", at(0, b"d"), producer_id="one", sequence=1)
    assert values_of(newer, "orders") == [b"a", b"b", b"d"]


def test_writers_under_other_ids_and_without_one_are_left_alone(orders):
    older, newer = orders.cluster, orders.open()
    older.append("orders", at(0, b"a"), transactional_id="one")
    newer.append("orders", at(0, b"b"), transactional_id="two")
    newer.append("orders", at(0, b"c"), producer_id="one", sequence=0)
    older.append("orders", at(0, b"d"), transactional_id="one")
    older.append("orders", at(0, b"e"))

    assert values_of(newer, "orders") == [b"a", b"b", b"c", b"d", b"e"]


IDS = [
    pytest.param([NAME, NAME], id="writer"),
    pytest.param([{"producer_id": "p", "sequence": each} for each in (0, 1)], id="producer"),
]


@pytest.mark.parametrize("given", IDS)
def test_threads_that_use_an_id_at_the_same_time_are_one_writer(orders, monkeypatch, given):
    cluster, both = orders.cluster, Barrier(2)
    metadata = cluster._services.producers._metadata
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


def test_a_writer_commits_its_epoch_once(orders):
    cluster = orders.cluster
    cluster.append("orders", at(0, b"a"), **NAME)
    before = cluster.image.offset

    cluster.append("orders", at(0, b"b"), **NAME)

    # One record moved, the partition's high watermark.
    assert cluster.image.offset == before + 1


@pytest.mark.parametrize("given", ["", 5])
def test_a_transactional_id_is_a_text(orders, given):
    before = orders.cluster.image.offset

    with pytest.raises(InvalidRequestError, match="transactional_id can't be"):
        orders.cluster.append("orders", at(0, b"a"), transactional_id=given)

    assert orders.cluster.image.offset == before


def test_a_race_that_is_lost_after_the_check_is_told_by_partition(orders, monkeypatch):
    loser, winner = orders.cluster, orders.open()
    commit = loser._services.appends._appender._round
    both = [*at(0, b"a"), *at(1, b"b")]

    def overtaken(*arguments, **named):
        monkeypatch.undo()
        winner.append("orders", at(1, b"first"))
        return commit(*arguments, **named)

    monkeypatch.setattr(loser._services.appends._appender, "_round", overtaken)
    with pytest.raises(UnexpectedOffsetError, match="ends at 1, not at the expected 0") as caught:
        loser.append("orders", both, expected_offsets={0: 0, 1: 0})

    assert caught.value.context["failed"] == [1]
    assert caught.value.context["acknowledged"] == [0]
    assert values_of(winner, "orders") == [b"a", b"first"]
