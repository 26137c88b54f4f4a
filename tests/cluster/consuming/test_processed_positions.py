"""What stays committed, and what comes next, when a consumer fails, is woken, or reads others."""

import pytest

from kafka_on_spark import Record
from tests.cluster.consuming.polled import SOON
from tests.cluster.disks import records


def consumer_of(cluster, topic, *, is_member, **options):
    what = {"topics": topic} if is_member else {"partitions": [(topic, 0)]}
    return cluster.consumer(**what, group=topic, auto_offset_reset="earliest", **options)


# fmt: off
COMMITS = [  # what is committed by request, of three records     where a group stands then: after a poll, a loop
    pytest.param(None, 3, 3, id="the positions"),
    pytest.param(3,    3, 3, id="the end of what is in hand"),
    pytest.param(2,    2, 2, id="an offset in what is in hand"),
    pytest.param(0,    0, 2, id="an offset below what is in hand"),
]
# fmt: on


@pytest.mark.parametrize("is_member", [True, False], ids=["member", "no member"])
@pytest.mark.parametrize("committed, after_poll, after_loop", COMMITS)
def test_what_was_committed_by_request_stays_so_when_the_consumer_fails(
    cluster, new_topic, committed, after_poll, after_loop, is_member
):
    def commit_and_fail(topic, ask):
        with consumer_of(cluster, topic, is_member=is_member) as consumer:
            ask(consumer)
            assert consumer.position((topic, 0)) == 3
            consumer.commit(None if committed is None else {(topic, 0): committed})
            raise RuntimeError("it fails")

    def offset_after(ask):
        topic = new_topic()
        cluster.append(topic, records(b"a", b"b", b"c"))
        with pytest.raises(RuntimeError, match="it fails"):
            commit_and_fail(topic, ask)
        return cluster.describe_group(topic)[0].offset

    assert offset_after(lambda consumer: consumer.poll(SOON)) == after_poll
    assert offset_after(lambda consumer: [next(consumer) for _ in range(3)]) == after_loop


@pytest.fixture
def halves(cluster, new_topic):
    """A topic of two partitions, with the records a0 to a3 and b0 to b3."""
    topic = new_topic(partitions=2)
    rows = [
        Record(None, f"{letter}{each}", partition=place)
        for place, letter in enumerate("ab")
        for each in range(4)
    ]
    cluster.append(topic, rows)
    return [(topic, 0), (topic, 1)]


def values(table):
    return [each.decode() for each in table.column("value").to_pylist()]


@pytest.mark.parametrize("is_loop", [False, True], ids=["poll", "loop"])
def test_nothing_of_a_partition_comes_that_is_not_assigned_any_more(cluster, halves, is_loop):
    a, b = halves

    def ask(consumer):
        return [next(consumer).value.decode()] if is_loop else values(consumer.poll(SOON))

    with cluster.consumer(
        partitions=[a], auto_offset_reset="earliest", max_poll_records=1
    ) as consumer:
        assert ask(consumer) == ["a0"]
        consumer.assign([b])
        assert ask(consumer) + ask(consumer) == ["b0", "b1"]
        consumer.assign([a, b])
        assert consumer.position(b) == 2, "what stays assigned goes on"
        consumer.pause([b])
        assert ask(consumer) + ask(consumer) == ["a0", "a1"], "what comes back begins anew"


def test_what_was_processed_is_committed_before_other_partitions_are_assigned(cluster, halves):
    a, b = halves
    options = {"group": a[0], "auto_offset_reset": "earliest"}

    with cluster.consumer(partitions=[a], **options) as consumer:
        assert len(consumer.poll(SOON)) == 4
        consumer.assign([b])
        assert consumer.committed([a, b]) == {a: 4, b: None}

    with cluster.consumer(partitions=[b], enable_auto_commit=False, **options) as consumer:
        assert len(consumer.poll(SOON)) == 4
        consumer.assign([a])
        assert consumer.committed([b]) == {b: None}, (
            "without automatic commits it is for the caller"
        )
