"""Transactional ids: the newest writer fences the others, and a retry stays a retry."""

import pytest

from kafka_on_spark.base.errors import ProducerFencedError
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
