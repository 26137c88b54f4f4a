"""Any timeline of events on a small cluster: what must hold holds after each commit, the log gives
the image again, nothing is decided twice, and a process that goes on from any commit ends alike."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.commands import answer
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.reassignment import _only
from kafka_on_spark.metadata.image import ControllerResult, snapshot_records
from kafka_on_spark.metadata.records import ConfigRecord, UnregisterBrokerRecord
from tests.controller import timeline_events, timelines
from tests.controller.timeline_events import EVENTS
from tests.controller.timelines import Timeline, check_replay, shape
from tests.examples import many

NUMBERS = st.integers(0, 11)
STEPS = st.lists(st.tuples(st.sampled_from(EVENTS), NUMBERS, NUMBERS, st.booleans()), max_size=16)
BEGINNING = (
    (timeline_events.create, 2, 2, False),
    (timeline_events.make, 0, 0, False),
    (timeline_events.append, 0, 0, False),
)


def gone(steps):
    timeline = Timeline()
    for event, a, b, through_log in (*BEGINNING, *steps):
        event(timeline, a, b, through_log)
    return timeline


@settings(max_examples=many(300))
@given(steps=STEPS)
@example(steps=[(timeline_events.remove, 0, 1, False), (timeline_events.add, 0, 2, False)])
def test_any_course_keeps_what_must_hold_and_is_replayed_to_the_same_image(steps):
    """What must hold is checked at each commit, and that nothing is decided twice."""
    check_replay(gone(steps))


@settings(max_examples=many(150))
@given(steps=STEPS)
@example(steps=[(timeline_events.reassign, 0, 2, False), (timeline_events.drain, 0, 0, False)])
@example(steps=[(timeline_events.fence, 0, 0, False), (timeline_events.reassign, 0, 2, False)])
def test_a_controller_that_dies_after_any_commit_leaves_what_the_next_one_ends_alike(steps):
    timeline = gone(steps)
    whole = timeline.copy()
    whole.run_until_stable()

    cut = timeline.copy()
    for stop, _ in enumerate(cut.pass_once()):
        next_one = cut.copy()
        next_one.run_until_stable()
        assert shape(next_one.image) == shape(whole.image), stop

    assert whole.commit_until_done(timelines.advance_reassignments) == 0


def some_course(seed):
    rng = random.Random(seed)
    return [
        (rng.choice(EVENTS), rng.randrange(12), rng.randrange(12), rng.random() < 0.5)
        for _ in range(16)
    ]


def advance_at_once(image):
    """Row B6 without B: the added replica need not be in sync."""
    records = [
        change_record(image, key, partition, _only(partition, target, leader=leader), "")
        for key, partition in image.partitions()
        if partition.is_reassigning
        and (target := partition.target_replicas)
        and (leader := partition.leader) in target
    ]
    return ControllerResult(records, [])


def fence_in_two(image, broker_id, cause):
    """A fenced broker whose partitions fail over later."""
    result = fence_broker(image, broker_id, cause)
    return ControllerResult(result.records[:1], result.response)


def answer_without_result(image, record, id_source):
    result = answer(image, record, id_source)
    return ControllerResult(result.records[:-1] or result.records, result.response)


def snapshot_without(kind):
    return lambda image: [each for each in snapshot_records(image) if type(each) is not kind]


MUTANTS = [
    pytest.param("advance_reassignments", advance_at_once, id="done before all are in sync"),
    pytest.param("fence_broker", fence_in_two, id="a fence and a failover in two commits"),
    pytest.param("answer", answer_without_result, id="a decision without its result"),
    pytest.param(
        "snapshot_records", snapshot_without(ConfigRecord), id="a snapshot without configs"
    ),
    pytest.param(
        "snapshot_records",
        snapshot_without(UnregisterBrokerRecord),
        id="a snapshot without past brokers",
    ),
]


@pytest.mark.parametrize("name, mutant", MUTANTS)
def test_a_rule_that_is_broken_is_seen(monkeypatch, name, mutant):
    for module in (timelines, timeline_events):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, mutant)

    def breaks(seed):
        try:
            check_replay(gone(some_course(seed)))
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in range(300))
