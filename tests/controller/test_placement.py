"""Where replicas go: properties of striping, for many clusters and draws."""

from itertools import product
from random import Random

from kafka_on_spark.controller.topics import place_partitions
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


def test_one_broker_takes_any_number_of_partitions():
    """Its turn comes again though nobody else had one (Kafka: `numUnfencedBrokers > 1`)."""
    assert place("7", partitions=5, factor=1) == [(7,)] * 5


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


def test_with_racks_neighbours_are_in_different_racks():
    placed = place_partitions(
        cluster_of("0 1 2 3 4 5", racks="a a b b c c").values(),
        partition_count=3,
        replication_factor=3,
        random_below=draws([]),
    )

    assert placed == [(0, 2, 4), (3, 5, 1), (4, 0, 2)]
