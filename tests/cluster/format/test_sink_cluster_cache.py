"""Batch writes one after the other in the same processes of Spark's, which keep clusters open."""

import pytest

from kafka_on_spark.spark import sink
from tests.cluster.disks import new_disks, values_of
from tests.cluster.format.sinks import write_batch


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("one", replication_factor=2)
        yield disks
        forget()


def forget():
    """Close what these processes keep, as Spark does when it lets them go."""
    for each in sink._open.values():
        each.close()
    sink._open.clear()


def rows(*values):
    return [[{"value": value} for value in values]]


def test_what_others_have_done_between_two_writes_is_known_to_the_second(disks, monkeypatch):
    write_batch(disks, rows(b"a"), monkeypatch, topic="one")
    disks.cluster.append("one", [{"value": b"b"}])
    disks.cluster.create_topic("two", replication_factor=2)

    write_batch(disks, rows(b"c"), monkeypatch, topic="one")
    write_batch(disks, rows(b"d"), monkeypatch, topic="two")

    assert values_of(disks.cluster, "one") == [b"a", b"b", b"c"]
    assert values_of(disks.cluster, "two") == [b"d"]
