"""Where replicas go: properties of striping, for many clusters and draws."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from kafka_on_spark.controller.topics.placement import place_partitions
from kafka_on_spark.errors import InvalidReplicationFactorError
from tests.builders import cluster_of


def place(ids, *, partitions, factor, fenced="", racks="", seed=0):
    return place_partitions(
        cluster_of(ids, fenced=fenced, racks=racks).values(),
        partition_count=partitions,
        replication_factor=factor,
        random_below=Random(seed).randrange,
    )


def draws(script):
    """Return a source of draws that gives these numbers, then zeros."""
    numbers = iter(script)
    return lambda bound: next(numbers, 0) % bound


def test_without_racks_replicas_are_striped_over_brokers():
    """Begin at broker 0: each partition starts one further (Source: StripedReplicaPlacer)."""
    placed = place_partitions(
        cluster_of("0 1 2 3").values(),
        partition_count=4,
        replication_factor=3,
        random_below=draws([]),
    )

    assert placed == [(0, 1, 2), (1, 2, 3), (2, 3, 0), (3, 0, 1)]


def test_with_racks_neighbours_are_in_different_racks():
    placed = place_partitions(
        cluster_of("0 1 2 3 4 5", racks="a a b b c c").values(),
        partition_count=3,
        replication_factor=3,
        random_below=draws([]),
    )

    assert placed == [(0, 2, 4), (3, 5, 1), (4, 0, 2)]


def test_rack_without_an_active_broker_gives_its_turn_to_the_next():
    placed = place_partitions(
        cluster_of("0 1 2", fenced="1", racks="a b c").values(),
        partition_count=2,
        replication_factor=2,
        random_below=draws([]),
    )

    assert placed == [(0, 1), (2, 1)]


def test_one_broker_takes_any_number_of_partitions():
    """Its turn comes again though nobody else had one (Kafka: `numUnfencedBrokers > 1`)."""
    assert place("7", partitions=5, factor=1) == [(7,)] * 5


def test_one_active_broker_leads_all_and_the_fenced_follow():
    placed = place("1 2 3", partitions=7, factor=2, fenced="2 3")

    assert {replicas[0] for replicas in placed} == {1}
    assert {replicas[1] for replicas in placed} == {2, 3}


# fmt: off
REFUSED = [  # brokers fenced factor  words
    pytest.param("1 2 3", "",      0,  "at least 1",      id="none"),
    pytest.param("1 2 3", "",      -1, "at least 1",      id="negative"),
    pytest.param("1 2 3", "",      4,  "brokers, 3",      id="more-than-brokers"),
    pytest.param("1 2 3", "1 2 3", 2,  "all brokers are", id="all-fenced"),
    pytest.param("",      "",      1,  "brokers, 0",      id="no-brokers"),
]
# fmt: on


@pytest.mark.parametrize("ids, fenced, factor, words", REFUSED)
def test_factor_is_refused(ids, fenced, factor, words):
    with pytest.raises(InvalidReplicationFactorError, match=words):
        place(ids, partitions=1, factor=factor, fenced=fenced)


def test_every_small_cluster_is_placed_soundly():
    """Up to five brokers, each pattern of fences and of two racks or none, each factor."""
    checked = 0
    for count, seed in product(range(1, 6), range(2)):
        ids = " ".join(map(str, range(count)))
        for bits, racks in product(range(2**count - 1), ("", " ".join("aabab"[:count]))):
            fenced = [each for each in range(count) if bits >> each & 1]
            active = set(range(count)) - set(fenced)
            for factor in range(1, count + 1):
                placed = place(
                    ids,
                    partitions=7,
                    factor=factor,
                    fenced=" ".join(map(str, fenced)),
                    racks=racks,
                    seed=seed,
                )
                checked += 1
                assert len(placed) == 7
                for replicas in placed:
                    assert len(set(replicas)) == len(replicas) == factor
                    assert set(replicas) <= set(range(count))
                    assert replicas[0] in active
                    if not racks and factor <= len(active):
                        assert set(replicas) <= active
    assert checked == 972


@pytest.mark.parametrize("racks", ["", "a b c", "a a b b c c"])
def test_leaders_and_replicas_are_balanced(racks):
    ids = "0 1 2" if racks == "a b c" else "0 1 2 3 4 5"
    count = len(ids.split())

    placed = place(ids, partitions=20 * count, factor=3, racks=racks, seed=3)

    leaders = Counter(replicas[0] for replicas in placed)
    everywhere = Counter(broker for replicas in placed for broker in replicas)
    assert max(leaders.values()) - min(leaders.values()) <= 0.4 * 20
    assert max(everywhere.values()) - min(everywhere.values()) <= 0.4 * 60


def test_as_many_partitions_as_brokers_give_each_one_leadership():
    placed = place("0 1 2 3 4", partitions=5, factor=2, seed=9)

    assert sorted(replicas[0] for replicas in placed) == [0, 1, 2, 3, 4]


def test_each_rack_has_a_replica_where_there_are_enough():
    rack_of = dict(enumerate("aabbcc"))

    placed = place("0 1 2 3 4 5", partitions=60, factor=3, racks="a a b b c c", seed=5)

    assert all({rack_of[each] for each in replicas} == set("abc") for replicas in placed)


def test_same_draws_place_alike_and_others_otherwise():
    one, again, other = (
        place("0 1 2 3 4 5", partitions=30, factor=3, racks="a a b b c c", seed=seed)
        for seed in (1, 1, 2)
    )

    assert one == again
    assert one != other
