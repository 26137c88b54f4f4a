"""The checker finds every anomaly, planted once each, and nothing in a history that is as it
should be."""

import pytest

from tests.rigs.torturing.checks.anomalies import CHECKS, STUCK_NS_MAX, find_anomalies
from tests.rigs.torturing.history import FAIL, INFO, OK
from tests.torture.stories import KEY, Story


def good_story() -> Story:
    """Two clients, a reader, a stream, refusals, unknown outcomes: all as it should be."""
    story = Story()
    story.append("a0", "a1", base=0)
    story.append("b0", base=2, process="b.1", seq=0)
    story.poll((0, "a0"), (1, "a1"), (2, "b0"))
    story.ask_end(3)
    story.append("a2", kind=FAIL)
    story.append("a3", kind=INFO)
    index = story.send("b1", "b2", process="b.1", seq=1)
    story.crash("b.1")
    story.append("b1", "b2", base=3, process="b.2", seq=1)
    story.poll((3, "b1"), (4, "b2"), start=3)
    story.poll(*enumerate(["a0", "a1", "b0", "b1", "b2"]), assign=1)
    story.poll((0, "a0"), (1, "a1"), process="s.1", stream_batch=0, is_fresh=False)
    story.poll((0, "a0"), (1, "a1"), process="s.2", stream_batch=0, is_fresh=False)
    story.poll((2, "b0"), start=2, process="s.2", stream_batch=1, is_fresh=False, assign=1)
    story.append("a4", base=0, acks="1")  # promised nothing, and was cut
    story.heal()
    story.append("a5", base=5)
    story.end()
    story.read_log("a0", "a1", "b0", "b1", "b2", "a5")
    assert index
    return story


def test_a_history_that_is_as_it_should_be_has_no_anomaly():
    assert find_anomalies(good_story().facts) == []


def inconsistent_offsets(story: Story) -> None:
    story.send("b0", process="b.1")
    story.append("a0", base=0)
    story.poll((0, "b0"))


def duplicate_of_an_idempotent_append(story: Story) -> None:
    story.append("a0", kind=INFO, seq=0)
    story.append("a0", base=1, seq=0)
    story.poll((0, "a0"), (1, "a0"))


def lost_write(story: Story) -> None:
    story.append("a0", base=0)
    story.append("a1", base=1)
    story.poll((1, "a1"), start=1)


def lost_half_of_an_unanswered_batch(story: Story) -> None:
    story.append("a0", "a1", kind=INFO)
    story.append("b0", base=2, process="b.1")
    story.poll((0, "a0"), is_fresh=False)
    story.poll((2, "b0"), start=2, assign=1)


def unseen(story: Story) -> None:
    story.append("a0", base=0)
    story.append("a1", base=1)
    story.read_log("a0")


def vanished(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.poll((0, "a0"))
    story.read_log()


def aborted_read(story: Story) -> None:
    story.append("a0", kind=FAIL)
    story.poll((0, "a0"))


def phantom(story: Story) -> None:
    story.poll((0, "nobody sent it"))


def gap(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((0, "a0"), (2, "a1"), is_final=True)


def inner_poll_skip(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((0, "a0"), (2, "a1"))


def inner_poll_begins_late(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.poll((4, "a0"), start=3)


def inner_nonmonotonic_poll(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((1, "a1"), (0, "a0"), start=1)


def poll_skip(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((0, "a0"))
    story.poll((2, "a1"), start=2)


def nonmonotonic_poll(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((0, "a0"), (1, "a1"))
    story.poll((1, "a1"), start=1)


def inner_send_order(story: Story) -> None:
    story.append("a0", "a1", kind=INFO)
    story.poll((1, "a0"), start=1)
    story.poll((0, "a1"), assign=1, is_fresh=False)


def nonmonotonic_send(story: Story) -> None:
    first = story.send("a0", seq=0)
    second = story.send("a1", process="a.2", seq=1)
    story.answer(second, base=0, process="a.2")
    story.answer(first, base=1)


def realtime_order(story: Story) -> None:
    story.append("a0", base=1)
    story.append("b0", base=0, process="b.1")


def stale_end_told(story: Story) -> None:
    story.append("a0", base=0)
    story.ask_end(0)


def stale_end_of_a_read(story: Story) -> None:
    story.append("a0", base=0)
    story.poll()


def stale_end_after_another_read(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.poll((0, "a0"))
    story.ask_end(0, process="other.1")


def hw_regress(story: Story) -> None:
    story.ask_end(7)
    story.ask_end(6)


def stream_skip(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.append("a1", kind=INFO)
    story.poll((0, "a0"), process="s.1", stream_batch=0)
    story.poll((2, "a1"), start=2, process="s.2", stream_batch=1)


def stream_begins_late(story: Story) -> None:
    story.append("a0", kind=INFO)
    story.poll((1, "a0"), start=1, process="s.1", stream_batch=0)


def torn_batch(story: Story) -> None:
    story.append("a0", "a1", kind=INFO)
    story.read_log("a0")


def epoch_regress(story: Story) -> None:
    story.append("a0", "a1", base=0)
    story.poll((0, "a0", 2), (1, "a1", 1))


def stuck_call(story: Story) -> None:
    story.heal()
    story.append("a0", base=0)
    story.send("a1")
    story.at_ns += STUCK_NS_MAX + 1
    story.end()


def stuck_partition(story: Story) -> None:
    story.append("a0", base=0)
    story.heal()
    story.end()


# Of one fault, several promises may be broken at once: the second set.
# fmt: off
PLANTS = [
    ("inconsistent-offsets",  {"lost-write"},    inconsistent_offsets),
    ("duplicate",             set(),             duplicate_of_an_idempotent_append),
    ("lost-write",            set(),             lost_write),
    ("lost-write",            set(),             lost_half_of_an_unanswered_batch),
    ("unseen",                {"stale-end"},     unseen),
    ("vanished",              {"stale-end"},     vanished),
    ("aborted-read",          set(),             aborted_read),
    ("phantom",               set(),             phantom),
    ("gap",                   {"int-poll-skip"}, gap),
    ("int-poll-skip",         set(),             inner_poll_skip),
    ("int-poll-skip",         set(),             inner_poll_begins_late),
    ("int-nonmonotonic-poll", set(),             inner_nonmonotonic_poll),
    ("poll-skip",             set(),             poll_skip),
    ("nonmonotonic-poll",     set(),             nonmonotonic_poll),
    ("int-send-order",        set(),             inner_send_order),
    ("nonmonotonic-send",     set(),             nonmonotonic_send),
    ("realtime-order",        set(),             realtime_order),
    ("stale-end",             set(),             stale_end_told),
    ("stale-end",             set(),             stale_end_of_a_read),
    ("stale-end",             set(),             stale_end_after_another_read),
    ("hw-regress",            set(),             hw_regress),
    ("stream-skip",           set(),             stream_skip),
    ("stream-skip",           set(),             stream_begins_late),
    ("torn-batch",            set(),             torn_batch),
    ("epoch-regress",         set(),             epoch_regress),
    ("stuck",                 set(),             stuck_call),
    ("stuck",                 set(),             stuck_partition),
]
# fmt: on


@pytest.mark.parametrize("name,others,plant", PLANTS, ids=[row[2].__name__ for row in PLANTS])
def test_a_planted_anomaly_is_found_and_no_other(name, others, plant):
    story = Story()
    plant(story)

    assert set(story.anomalies) == {name, *others}


def test_every_anomaly_is_planted():
    assert {name for name, _, _ in PLANTS} == set(CHECKS)


def test_a_run_without_an_end_is_an_anomaly():
    story = Story()
    story.append("a0", base=0)

    assert [each.name for each in find_anomalies(story.facts)] == ["stuck"]


def test_an_append_that_began_before_the_other_was_acknowledged_may_stand_before_it():
    story = Story()
    early = story.send("b0", process="b.1")
    story.append("a0", base=1)
    story.answer(early, base=0, process="b.1")

    assert story.anomalies == []


def test_a_refusal_after_an_unknown_try_does_not_make_the_append_a_refused_one():
    story = Story()
    story.append("a0", kind=INFO, seq=0)
    story.append("a0", kind=FAIL, seq=0)
    story.poll((0, "a0"))

    assert story.anomalies == []


def test_a_sequence_that_two_runs_tried_with_values_of_their_own_are_two_appends():
    story = Story()
    story.append("old", process="a.1", seq=4, kind=FAIL)
    story.append("new", process="a.2", seq=4, base=0)
    story.poll((0, "old"))

    assert "aborted-read" in story.anomalies


@pytest.mark.parametrize("kind", [OK, INFO, FAIL])
def test_outcome_of_an_append_is_the_best_that_any_try_was_told(kind):
    story = Story()
    story.append("a0", kind=FAIL, seq=0)
    story.append("a0", kind=kind, seq=0, base=0)

    [batch] = story.facts.of(KEY)

    assert batch.outcome == kind
