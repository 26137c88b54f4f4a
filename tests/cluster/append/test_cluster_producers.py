"""Retries, runs that fence each other, conditional appends and races."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    DuplicateSequenceError,
    ProducerFencedError,
    UnexpectedOffsetError,
)
from kafka_on_spark.produce.records import Record
from tests.cluster.disks import records, values_of


def test_a_retry_is_a_duplicate_and_gets_the_first_appends_offsets(cluster, new_topic):
    topic = new_topic(partitions=3)
    given = [(str(n).encode(), b"v") for n in range(20)]
    cluster.append(topic, [(b"other", b"v")])

    first = cluster.append(topic, given, producer_id="retries", sequence=0)
    again = cluster.append(topic, given, producer_id="retries", sequence=0)

    def bases(result):
        return {number: each.base_offset for number, each in result.partitions.items()}

    assert not first.is_duplicate
    assert again.is_duplicate
    assert bases(again) == bases(first)
    assert len(values_of(cluster, topic)) == 21


def test_a_retry_in_another_process_and_under_another_leader_is_a_duplicate(disks):
    disks.cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
    first = disks.cluster.append("orders", records(b"a"), producer_id="p", sequence=4)
    disks.take_away(1)
    disks.cluster.run_controller()

    again = disks.open().append("orders", records(b"a"), producer_id="p", sequence=4)

    assert again.is_duplicate
    assert again.partitions[0].base_offset == first.partitions[0].base_offset
    assert values_of(disks.cluster, "orders") == [b"a"]


def test_a_retry_with_other_records_is_refused(cluster, topic):
    cluster.append(topic, [Record(b"k", b"v")], producer_id="changes", sequence=0)

    for others in (
        [Record(b"k", b"other")],
        [Record(b"k", b"v"), Record(b"k", b"v")],
        [Record(b"k", b"v", headers=[("a", b"1")])],
    ):
        with pytest.raises(DuplicateSequenceError, match="nothing was appended now"):
            cluster.append(topic, others, producer_id="changes", sequence=0)

    assert values_of(cluster, topic) == [b"v"]


def test_a_newer_run_of_a_producer_fences_the_older(disks):
    older, newer = disks.cluster, disks.open()
    older.create_topic("orders", replication_factor=3)
    older.append("orders", records(b"a"), producer_id="p", sequence=0)

    newer.append("orders", records(b"b"), producer_id="p", sequence=1)

    with pytest.raises(ProducerFencedError, match="taken over by a newer run"):
        older.append("orders", records(b"c"), producer_id="p", sequence=2)
    assert values_of(newer, "orders") == [b"a", b"b"]


def test_the_older_of_two_writers_of_a_transactional_id_is_fenced_and_a_retry_is_the_same_append(
    disks,
):
    older, newer, name = disks.cluster, disks.open(), {"transactional_id": "etl"}
    older.create_topic("orders", replication_factor=3)
    first = older.append("orders", records(b"a"), sequence=0, **name)

    again = newer.append("orders", records(b"a"), sequence=0, **name)
    newer.append("orders", records(b"b"), sequence=1, **name)

    assert (first.is_duplicate, again.is_duplicate) == (False, True)
    with pytest.raises(ProducerFencedError, match=r"'etl' was taken over by a newer writer.*stop"):
        older.append("orders", records(b"c"), sequence=1, **name)
    assert values_of(newer, "orders") == [b"a", b"b"]


@pytest.mark.parametrize("expected", [0, 2], ids=["too low", "too high"])
def test_a_conditional_append_elsewhere_appends_nothing(cluster, new_topic, expected):
    topic = new_topic(partitions=2)
    cluster.append(topic, [Record(None, b"a", partition=0)])
    both = [Record(None, b"b", partition=number) for number in (0, 1)]

    with pytest.raises(UnexpectedOffsetError, match=f"ends at 1, not at the expected {expected}"):
        cluster.append(topic, both, expected_offsets={0: expected, 1: 0})

    assert values_of(cluster, topic) == [b"a"]


def test_of_racing_conditional_appends_one_wins_and_the_others_are_told(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    clusters = [disks.cluster, *(Cluster.open(disks.metadata_root) for _ in range(3))]
    disks.opened.extend(clusters[1:])

    def race(number):
        try:
            clusters[number].append("orders", records(b"%d" % number), expected_offsets={0: 0})
        except UnexpectedOffsetError:
            return None
        return b"%d" % number

    with ThreadPoolExecutor(4) as racers:
        winners = [each for each in racers.map(race, range(4)) if each is not None]

    assert values_of(disks.cluster, "orders") == winners
    assert len(winners) == 1
