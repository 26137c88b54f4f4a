"""A reassignment at each of whose steps a broker fails and returns."""

from itertools import permutations, product

from kafka_on_spark.controller.brokers import fence_broker, unfence_broker
from kafka_on_spark.controller.reassignment import advance_reassignments, cancel_reassignments
from tests.builders import KEY, brokers, image_of, partition, subsets
from tests.controller.move_steps import changed, finished, only, replay, start


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
