"""Assignors, by their properties: all is given out, evenly, and as little moves as possible."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.groups.membership import ASSIGNORS, Sharing, range_assignor, uniform_assignor


def sharing(members, current=None, **counts):
    """Return members by name ("a": "xy", the topics) that share topics of so many partitions."""
    return Sharing(
        members={name: frozenset(topics) for name, topics in members.items()},
        partitions={
            topic: [PartitionKey(topic, number) for number in range(count)]
            for topic, count in counts.items()
        },
        current=current or {},
    )


def numbers(assigned):
    """Return an assignment as a text by member: "x0 x1 y0"."""
    return {
        name: " ".join(f"{topic}{number}" for topic, number in sorted(keys))
        for name, keys in assigned.items()
    }


@st.composite
def sharings(draw, *, is_uniform=False):
    topics = draw(st.lists(st.sampled_from("uvwxyz"), min_size=1, unique=True))
    names = draw(st.lists(st.sampled_from("abcdefg"), min_size=1, unique=True))
    subscribed = {
        name: frozenset(topics if is_uniform else draw(st.sets(st.sampled_from(topics))))
        for name in names
    }
    counts = {
        topic: draw(st.integers(0, 9))
        for topic in topics
        if any(topic in each for each in subscribed.values())
    }
    given_ = sharing(subscribed, **counts)
    keys = [key for each in given_.partitions.values() for key in each]
    holders = {key: draw(st.sampled_from([None, "gone", *names])) for key in keys}
    current = {
        name: frozenset(key for key, holder in holders.items() if holder == name) for name in names
    }
    return sharing(subscribed, current, **counts)


def loads(assigned):
    return {name: len(keys) for name, keys in assigned.items()}


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@settings(max_examples=30)
@given(sharings())
def test_each_partition_goes_to_one_member_that_asked_for_its_topic(assign, given_):
    assigned = assign(given_)

    owners = Counter(key for keys in assigned.values() for key in keys)
    assert owners == Counter(key for keys in given_.partitions.values() for key in keys)
    assert all(
        {key.topic_id for key in keys} <= given_.members[name] for name, keys in assigned.items()
    )
    assert assigned.keys() == given_.members.keys()


@settings(max_examples=40)
@given(sharings())
def test_uniform_leaves_nobody_two_more_than_one_who_could_have_one_of_them(given_):
    assigned = uniform_assignor(given_)

    for keys in assigned.values():
        for taker, topics in given_.members.items():
            if any(key.topic_id in topics for key in keys):
                assert len(keys) <= len(assigned[taker]) + 1


@settings(max_examples=40)
@given(sharings(is_uniform=True))
def test_uniform_gives_equal_members_as_many_and_moves_no_more_than_that_takes(given_):
    before = {name: len(keys) for name, keys in given_.current.items()}

    assigned = uniform_assignor(given_)

    total = sum(len(keys) for keys in given_.partitions.values())
    least, longer = divmod(total, len(given_.members))
    assert sorted(loads(assigned).values()) == sorted(
        [least + 1] * longer + [least] * (len(given_.members) - longer)
    )
    # Those that have the most may keep one more, as many as there are.
    allowed = [least + (place < longer) for place in range(len(before))]
    least_moved = sum(
        max(had - may, 0)
        for had, may in zip(sorted(before.values(), reverse=True), allowed, strict=True)
    )
    moved = sum(len(keys - assigned[name]) for name, keys in given_.current.items())
    assert moved == least_moved


@settings(max_examples=30)
@given(sharings())
def test_uniform_leaves_what_it_has_decided_as_it_is(given_):
    assigned = uniform_assignor(given_)

    again = sharing(
        given_.members,
        assigned,
        **{topic: len(keys) for topic, keys in given_.partitions.items()},
    )
    assert uniform_assignor(again) == assigned


def test_range_gives_runs_and_the_same_numbers_of_several_topics_together():
    members = {"a": "xy", "b": "xy", "c": "x"}

    assert numbers(range_assignor(sharing(members, x=4, y=2))) == {
        "a": "x0 x1 y0",
        "b": "x2 y1",
        "c": "x3",
    }
    assert numbers(range_assignor(sharing({"a": "xy", "b": "xy"}, x=3, y=3))) == {
        "a": "x0 x1 y0 y1",
        "b": "x2 y2",
    }
