"""Moves of replicas: steps, cancelling, what is refused, and the balanced plan."""

import random
from collections import Counter
from dataclasses import replace
from itertools import combinations, count, permutations, product

import pytest

from kafka_on_spark.base.errors import (
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    ReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.isr import may_join
from kafka_on_spark.controller.reassignment import (
    COPY_BYTES_PER_S,
    Reassignment,
    ReassignmentStatus,
    advance_reassignments,
    balance,
    cancel_reassignments,
    check_throttle,
    list_reassignments,
    partitions_of,
    plan_reassignment,
    start_of_move,
    start_reassignments,
    status_of,
)
from kafka_on_spark.metadata.image import ControllerResult
from tests.builders import (
    KEY,
    TOPIC,
    TOPIC_ID,
    brokers,
    image_of,
    image_of_topics,
    partition,
    report,
    seen,
    subsets,
)
from tests.controller.move_steps import changed, finished, in_sync, only, replay, start

SIX = "1 2 3 4 5 6"


def test_replica_that_goes_stays_out_once_the_target_is_in_sync():
    left = partition("4 1", isr="4", leader=4, adding="4", removing="1")
    waiting = partition("4 5 1", isr="4", leader=4, adding="4 5", removing="1")

    for under_way, expected in [(left, False), (waiting, True)]:
        image = image_of(under_way, ids=SIX)
        assert may_join(image, under_way, report(seen(4), seen(1)), seen(1)) is expected


MOVING = partition("2 4 1", isr="1 2", leader=1, adding="4", removing="1")


def test_one_reassignment_at_a_time_and_none_to_cancel_where_there_is_none():
    image = image_of(MOVING, partition("1 2"), ids=SIX)

    with pytest.raises(
        ReassignmentInProgressError, match=r"orders-0 is being reassigned to \[2, 4\]"
    ):
        start(image, 5, 6)
    with pytest.raises(NoReassignmentInProgressError, match="orders-1 is not"):
        cancel_reassignments(image, [PartitionKey(TOPIC_ID, 1)], cause="")
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 7"):
        cancel_reassignments(image, [PartitionKey(TOPIC_ID, 7)], cause="")


def test_cancelling_is_refused_where_nobody_in_sync_would_be_left():
    image = image_of(partition("4 1", isr="4", leader=4, adding="4", removing="1"), ids=SIX)

    with pytest.raises(InvalidReplicaAssignmentError, match="records would be lost"):
        cancel_reassignments(image, [KEY], cause="")


def test_listed_and_verified():
    image = image_of(MOVING, partition("1 2"), ids=SIX)
    second, gone = PartitionKey(TOPIC_ID, 1), PartitionKey(TOPIC_ID, 7)

    [listed] = list_reassignments(image)
    targets = {KEY: [2, 4], second: [1, 2], gone: [1]}
    status = {key: status_of(image.partition(key), target) for key, target in targets.items()}

    assert listed == Reassignment(
        key=KEY, name=(TOPIC, 0), target=(2, 4), adding=(4,), removing=(1,), waits_for=(4,)
    )
    assert status == {
        KEY: ReassignmentStatus.IN_PROGRESS,
        second: ReassignmentStatus.COMPLETE,
        gone: ReassignmentStatus.NOT_THERE,
    }
    assert status_of(image.partition(second), [2, 1]) is ReassignmentStatus.ELSEWHERE


# fmt: off
RATES = [  # target   rate
    pytest.param([1, 2, 3], 700,  id="a replica comes"),
    pytest.param([1],       700,  id="a replica goes"),
    pytest.param([1, 3],    700,  id="one comes and one goes"),
    pytest.param([2, 1],    None, id="nothing is copied where the order changes alone"),
]

# fmt: on


@pytest.mark.parametrize("target, rate", RATES)
def test_a_move_keeps_to_its_rate_while_it_is_under_way(target, rate):
    image = image_of(partition("1 2"))

    result = start_reassignments(
        image, {KEY: target}, new_uuid=lambda: "new", cause="", throttle_bytes_per_s=700
    )

    [record] = result.records
    assert image.partition(KEY).merge(record.change).throttle_bytes_per_s == rate


@pytest.mark.parametrize("rate", [0, -1, True, 1.5, "7"])
def test_a_rate_of_a_move_is_a_whole_number_from_1_on(rate):
    with pytest.raises(InvalidRequestError, match="give a whole number of at least 1"):
        check_throttle(rate)


def row(image):
    one = only(image)
    lists = (one.replicas, one.adding_replicas, one.removing_replicas, sorted(one.isr))
    replicas, adding, removing, isr = (" ".join(map(str, each)) for each in lists)
    return replicas, adding, removing, one.leader, isr


def test_rows_of_the_table():
    image = image_of(partition("1 2 3"), ids=SIX)
    assert row(image) == ("1 2 3", "", "", 1, "1 2 3")

    image = replay(image, start(image, 4, 5, 6))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 1, "1 2 3")  # A
    assert advance_reassignments(image).records == []

    image = in_sync(image, "1 2 3 4 5")
    assert advance_reassignments(image).records == []

    image = in_sync(image, SIX)
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 1, SIX)  # B

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 4, SIX)  # B3
    assert only(image).leader_epoch == 6

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6 1 2 3", "4 5 6", "1 2 3", 4, "4 5 6")  # B4
    assert only(image).leader_epoch == 6

    image = replay(image, advance_reassignments(image))
    assert row(image) == ("4 5 6", "", "", 4, "4 5 6")  # B6
    assert only(image).leader_epoch == 7  # who holds the old list of replicas is fenced
    assert advance_reassignments(image).records == []


# fmt: off
WAITS = [  # under way, and what holds it up
    pytest.param(partition("4 1 2", isr="1 2", leader=1, adding="4", removing="2"),             "",    id="who-comes-is-not-in-sync"),
    pytest.param(partition("4 1 2", isr="2 4", leader=2, adding="4", removing="2"),             "",    id="who-stays-is-not-in-sync"),
    pytest.param(partition("4 1", leader=1, adding="4", removing="1"),                          "4",   id="target-may-not-lead-now"),
    pytest.param(partition("1 2 3", isr="1", leader=None, lost="1", removing="2 3"),            "",    id="target-is-a-lost-replica"),
    pytest.param(partition("1 2", isr="1", leader=None, removing="2"),                          "1",   id="target-has-failed"),
]

# fmt: on


@pytest.mark.parametrize("under_way, fenced", WAITS)
def test_waits(under_way, fenced):
    assert advance_reassignments(image_of(under_way, ids=SIX, fenced=fenced)).records == []


# fmt: off
REPLACED = [  # another target                replicas       adding   removing    at the end
    pytest.param((5, 6),                      "5 6 1 2 4",   "5 6",   "1 2 4",    "5 6",     id="elsewhere"),
    pytest.param((4, 2),                      "4 2 1",       "",      "1",        "4 2",     id="another-order"),
    pytest.param((1, 2),                      "1 2 4",       "",      "4",        "1 2",     id="back"),
]

# fmt: on


@pytest.mark.parametrize("target, replicas, adding, removing, last", REPLACED)
def test_replaced_when_told_to(target, replicas, adding, removing, last):
    image = image_of(MOVING, ids=SIX)

    change = start_of_move(only(image), target, count().__next__)
    image = replay(image, ControllerResult([change_record(image, KEY, only(image), change, "")], 0))

    assert row(image)[:3] == (replicas, adding, removing)
    everyone = frozenset(only(image).replicas)
    assert row(finished(changed(image, isr=everyone)))[0] == last


def check_register(one):
    """Check what must hold of a register at any time."""
    assert one.isr, one
    assert set(one.adding_replicas).isdisjoint(one.removing_replicas)
    assert one.target_replicas
    assert len(set(one.replica_uuids)) == len(one.replicas)


def test_every_small_move_with_every_way_of_catching_up():
    """From and to all assignments of three brokers, in all orders in which replicas catch up."""
    moves = 0
    assignments = [each for size in (1, 2, 3) for each in permutations(brokers("1 2 3"), size)]
    for before, target in product(assignments, assignments):
        started = image_of(partition(" ".join(map(str, before))), ids="1 2 3")
        started = replay(started, start(started, *target))
        for order in permutations(only(started).adding_replicas):
            image = started
            for each in order:
                assert only(finished(image)) == only(image)
                image = changed(image, isr=only(image).isr | {each})
                check_register(only(image))
            # Whichever process goes on at whichever row, it ends the same.
            image = finished(image)
            check_register(only(image))
            one = only(image)
            assert (one.replicas, one.isr) == (target, set(target))
            assert one.leader in target
            assert not one.is_reassigning
            moves += 1
    assert moves == 15 * 15 + EXTRA


# Where two brokers come, there are two orders: from one of the three to three (6 orders each), or
# to the other two (2 orders each).
EXTRA = 3 * (6 + 2)


def test_every_row_survives_every_failure_and_cancels_or_ends():
    """At each row any broker fails and returns; then the move ends, or is cancelled."""
    checked = 0
    for catching_up in subsets(brokers("3 4")):
        image = image_of(partition("1 2"), ids="1 2 3 4")
        image = replay(image, start(image, 3, 4))
        image = changed(image, isr=only(image).isr | catching_up)
        while True:
            for failing in brokers("1 2 3 4"):
                failed = replay(image, fence_broker(image, failing, "fails"))
                failed = finished(failed)
                check_register(only(failed))
                back = finished(replay(failed, unfence_broker(failed, failing, "returns")))
                every = frozenset(only(back).replicas)
                ended = finished(changed(back, isr=every))
                assert only(ended).replicas == (3, 4)
                if only(failed).is_reassigning and only(failed).isr & {1, 2}:
                    cancelled = replay(failed, cancel_reassignments(failed, [KEY], cause="c"))
                    check_register(only(cancelled))
                    assert only(cancelled).replicas == (1, 2)
                checked += 1
            result = advance_reassignments(image)
            if not result.records:
                break
            image = replay(image, result)
    assert checked == 4 * (3 + 4)


KEYS = [PartitionKey(TOPIC_ID, number) for number in (0, 1)]

SIZES = {KEYS[0]: 700, KEYS[1]: None}


def planned(*partitions, brokers=(3, 4), **arguments):
    image = image_of(*partitions, ids="1 2 3 4", draining="2")
    keys = KEYS[: len(partitions)]
    return plan_reassignment(image, keys, brokers=brokers, sizes=SIZES, **arguments)


def test_a_plan_counts_the_bytes_of_each_replica_that_comes():
    plan = planned(partition("1 3"), partition("1 2"))

    assert [each.bytes_moved for each in plan.moves] == [700, 0]
    assert plan.bytes_moved == 700
    assert {each: set(numbers) for each, numbers in plan.targets.items()} == {
        ("orders", 0): {3, 4},
        ("orders", 1): {3, 4},
    }
    assert [str(each) for each in plan.unmeasured] == ["orders-1"]


def test_a_replica_that_moves_already_counts_where_it_goes_and_is_left_alone():
    moving = partition("1 3", adding="3", removing="1")

    assert planned(moving, brokers=(4,)).moves == ()


# fmt: off
PLAN_RATES = [  # throttle  cluster's  bytes a second    is known
    pytest.param(None, None,      COPY_BYTES_PER_S, False, id="nothing says so"),
    pytest.param(350,  None,      350,              True,  id="a throttle"),
    pytest.param(None, "500",     500,              True,  id="a setting"),
    pytest.param(350,  "500",     350,              True,  id="the lower of two"),
]

# fmt: on


@pytest.mark.parametrize("throttle, setting, rate, is_known", PLAN_RATES)
def test_the_time_is_reckoned_by_what_limits_it(throttle, setting, rate, is_known):
    image = image_of(partition("1"), ids="1 3")
    if setting is not None:
        image = replace(image, configs={"follower.replication.throttled.rate": setting})

    plan = plan_reassignment(
        image, KEYS[:1], brokers=[3], sizes=SIZES, throttle_bytes_per_s=throttle
    )

    assert (plan.bytes_per_s, plan.is_rate_known) == (rate, is_known)
    assert plan.estimated_seconds == 700 / rate
    assert COPY_BYTES_PER_S == 100 * 1024 * 1024


@pytest.mark.parametrize("brokers", [(), (2,), (3, 9)])
def test_replicas_are_planned_on_active_brokers_alone(brokers):
    with pytest.raises(
        InvalidReplicaAssignmentError, match=r"name active ones, some of \[1, 3, 4\]"
    ):
        planned(partition("1"), brokers=brokers)


@pytest.mark.parametrize(
    "topics, expected",
    [
        (None, ["a-0", "b-0", "b-1"]),
        (["b"], ["b-0", "b-1"]),
        (["b", "a", "b"], ["b-0", "b-1", "a-0"]),
        ([], []),
    ],
)
def test_a_plan_is_for_topics_or_for_all(topics, expected):
    image = image_of_topics({"a": [partition("1")], "b": [partition("1"), partition("1")]})

    assert [str(image.name_of(each)) for each in partitions_of(image, topics)] == expected


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
