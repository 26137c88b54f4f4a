"""Whatever the sequence of rounds, each partition is inspected within the interval."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.controller.scheduler import (
    AGAIN_MAX,
    FIRST,
    SweepPosition,
    begin_round,
)
from tests.controller.sweep_rounds import (
    INTERVAL_MS,
    Rounds,
    ring_of,
)
from tests.examples import many

# The ring


# A round's part of it


@pytest.mark.parametrize(
    "at_ms", [1000 - INTERVAL_MS - 1, 1001], ids=["too old", "from the future"]
)
def test_a_hint_that_can_not_be_true_is_none(at_ms):
    ring = ring_of(a=4)
    rounds = Rounds(ring)
    rounds.position = SweepPosition(at_ms=at_ms, begins_at=FIRST, owed=0.0, ring=4)

    keys = rounds.run(1000, count_max=1)

    assert len(keys) == 1
    assert rounds.not_inspected_count() == 3


pauses = st.integers(1, INTERVAL_MS)
rings = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 20), min_size=1)


@settings(max_examples=many(200))
@example(
    [
        (545_282, {"a": 1, "b": 19, "c": 6}),
        (45_450, None),
        (341_962, None),
        (296_464, {"a": 4, "b": 11, "c": 10, "d": 13}),
    ]
)
@given(st.lists(st.tuples(pauses, st.none() | rings), min_size=1, max_size=40))
def test_a_process_that_goes_on_inspects_each_partition_within_the_interval(turns):
    """So do cron jobs: what a process remembers is what the hint tells the next one. Topics come
    and go, with partitions that nobody has to have inspected before."""
    rounds = Rounds(ring_of(a=7, b=8))
    now_ms = 0
    rounds.run(now_ms)

    for pause_ms, ring in turns:
        now_ms += pause_ms
        if ring is not None:
            rounds.ring = ring_of(**ring)
            seen_ms = rounds.inspected_ms
            rounds.inspected_ms = {key: seen_ms.get(key, now_ms) for key in rounds.ring}
        rounds.run(now_ms)

        assert rounds.late(now_ms) == set()
        assert rounds.not_inspected_count() == 0


@settings(max_examples=many(200))
@given(
    st.integers(1, 40),
    st.lists(
        st.tuples(st.integers(1, INTERVAL_MS), st.integers(0, 12), st.sets(st.integers(0, 39)))
    ),
)
def test_what_was_not_inspected_is_known_to_be_so(count, turns):
    """With slices cut short by their time, and with inspections that fail."""
    ring = ring_of(a=count // 3, b=count - count // 3)
    rounds = Rounds(ring)
    now_ms = 0

    for pause_ms, count_max, failing in turns:
        now_ms += pause_ms
        failed = {ring[place] for place in failing if place < count}
        known = () if rounds.position is None else rounds.position.again[:AGAIN_MAX]
        seen = {*rounds.run(now_ms, failed=failed, count_max=count_max), *known}
        for key in failed & seen:
            rounds.inspected_ms.pop(key, None)

        assert len(rounds.late(now_ms)) <= rounds.not_inspected_count()


def test_a_failed_inspection_of_what_is_gone_or_not_asked_for_is_not_made_again():
    rounds = Rounds(ring_of(a=2, b=2, c=2))
    rounds.run(0, failed={PartitionKey(TopicId("b"), 0), PartitionKey(TopicId("c"), 1)})
    rounds.ring = ring_of(a=2, c=1)

    position = begin_round(
        rounds.ring,
        rounds.position,
        now_ms=1,
        interval_ms=INTERVAL_MS,
        random_below=lambda below: 0,
    )

    assert position.again == ()
