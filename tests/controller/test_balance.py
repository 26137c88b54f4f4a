"""Planned replicas: in balance, racks apart, few bytes moved, and leaders as even as can be."""

import random
from collections import Counter
from itertools import combinations, product

import pytest

from kafka_on_spark.base.errors import InvalidReplicationFactorError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.reassignment_plan import balance
from tests.builders import TOPIC_ID, brokers

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def keys(count):
    return [PartitionKey(TOPIC_ID, number) for number in range(count)]


def assignment(*texts):
    return dict(zip(keys(len(texts)), map(brokers, texts), strict=True))


def spread(counts):
    return max(counts) - min(counts)


def counts(assigned, allowed):
    held = Counter(each for replicas in assigned.values() for each in replicas)
    return [held[each] for each in allowed]


def leads(assigned, allowed):
    first = Counter(replicas[0] for replicas in assigned.values())
    return [first[each] for each in allowed]


def bytes_moved(before, after, sizes):
    return sum(sizes.get(key, 0) * len(set(after[key]) - set(before[key])) for key in before)


def test_the_smallest_replicas_are_the_ones_that_move():
    before = assignment("1", "1", "1", "1")
    sizes = dict(zip(before, [40, 10, 30, 20], strict=True))

    after = balance(before, dict.fromkeys(brokers("1 2")), sizes)

    assert after == assignment("1", "2", "1", "2")


def test_a_replica_that_stays_keeps_its_place_and_one_that_comes_takes_that_of_one_that_goes():
    assert balance(assignment("1 2 3"), dict.fromkeys(brokers("1 3 4")), {}) == assignment("1 4 3")


def test_more_replicas_than_brokers_are_refused():
    with pytest.raises(InvalidReplicationFactorError, match=r"3 replicas .* on 2 brokers"):
        balance(assignment("1 2 3"), dict.fromkeys(brokers("1 2")), {})


def small_clusters(count):
    """Yield random assignments of up to 4 partitions, brokers to move them to, and sizes."""
    rng = random.Random(5)
    for _ in range(count):
        allowed = sorted(rng.sample(range(1, 5), rng.randint(2, 4)))
        replica_count = rng.randint(1, min(3, len(allowed)))
        before = {
            key: tuple(rng.sample(range(1, 5), replica_count)) for key in keys(rng.randint(1, 4))
        }
        yield before, allowed, {key: rng.choice([1, 2, 5]) for key in before}


def fewest_bytes(before, allowed, sizes):
    """Return the fewest bytes of all balanced assignments that there are."""
    replica_count = len(next(iter(before.values())))
    return min(
        bytes_moved(before, after, sizes)
        for sets in product(combinations(allowed, replica_count), repeat=len(before))
        for after in [dict(zip(before, sets, strict=True))]
        if spread(counts(after, allowed)) <= 1
    )


def evenest_leads(after, allowed):
    """Return the smallest spread of leaders that any order of the same replicas has."""
    return min(
        spread([Counter(leaders)[each] for each in allowed]) for leaders in product(*after.values())
    )


def test_against_every_balanced_assignment_of_small_clusters():
    wasteful = 0
    for before, allowed, sizes in small_clusters(300):
        after = balance(before, dict.fromkeys(allowed), sizes)

        assert all(len(set(after[key])) == len(before[key]) for key in before)
        assert all(set(replicas) <= set(allowed) for replicas in after.values())
        assert spread(counts(after, allowed)) <= 1
        assert spread(leads(after, allowed)) <= max(1, evenest_leads(after, allowed))
        fewest = fewest_bytes(before, allowed, sizes)
        moved = bytes_moved(before, after, sizes)
        assert moved <= fewest + max(sizes.values())
        wasteful += moved > fewest
    assert wasteful <= 6  # one in fifty: it goes step by step, and never back


def test_racks_are_kept_apart_and_brokers_of_equal_racks_in_balance():
    rng = random.Random(7)
    for _ in range(200):
        replica_count = rng.randint(1, 5)
        before = {key: tuple(rng.sample(sorted(RACKS), replica_count)) for key in keys(12)}

        after = balance(before, RACKS, {})

        for replicas in after.values():
            in_racks = Counter(RACKS[each] for each in replicas)
            assert len(in_racks) == min(3, replica_count)
            assert max(in_racks.values()) <= -(-replica_count // 3)
        assert spread(counts(after, sorted(RACKS))) <= 1
        assert spread(leads(after, sorted(RACKS))) <= 1


def test_a_rack_with_too_few_brokers_takes_what_it_can():
    racks = {1: "a", 2: "b", 3: "b", 4: "b"}

    after = balance(assignment("2 3 4", "2 3 4"), racks, {})

    assert all(1 in replicas for replicas in after.values())


def test_what_is_in_balance_is_left_alone_and_planning_twice_moves_nothing_more():
    for before, allowed, sizes in small_clusters(100):
        after = balance(before, dict.fromkeys(allowed), sizes)
        assert balance(after, dict.fromkeys(allowed), sizes) == after
    racked = balance(dict.fromkeys(keys(12), brokers("1 3 5")), RACKS, {})
    assert balance(racked, RACKS, {}) == racked
