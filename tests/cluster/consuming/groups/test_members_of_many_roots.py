"""Members are heard by clusters that were given different metadata roots."""

from contextlib import ExitStack

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.groups.liveness import SILENCE_MS, SilentGroups
from kafka_on_spark.node.node import heartbeats
from tests.cluster.consuming.groups.members import member
from tests.cluster.disks import FAST
from tests.cluster.folders import quick_folder, roots_in
from tests.fakes import FakeClock

SILENT = {
    "group.consumer.session.timeout.ms": str(SILENCE_MS),
    "group.consumer.heartbeat.interval.ms": str(SILENCE_MS // 4),
}
"""For members that beat as they join, and then no more but by request."""


@pytest.fixture
def given_one_root_each():
    """A cluster of three metadata roots, opened by the first and by the second of them."""
    with quick_folder() as folder, ExitStack() as stack:
        roots = roots_in(folder)
        configs = {**FAST, **SILENT}
        created = stack.enter_context(Cluster.create(roots, {1: folder / "1"}, configs=configs))
        created.create_topic("orders", partitions=4)
        yield roots, [stack.enter_context(Cluster.open(each)) for each in roots[:2]]


def test_members_that_were_given_different_roots_hear_each_other(given_one_root_each):
    roots, clusters = given_one_root_each
    heard = [each._node.part(heartbeats) for each in clusters]
    with member(clusters[0]) as first, member(clusters[1]) as second:
        for consumer in (first, second):
            consumer.poll(0)
        ids = [each.member_id for each in clusters[0].describe_group_members("g").members]
        assert len(ids) == 2
        for each in heard:
            assert all(any(found.values()) for found in each.contents("g", ids))

        roots[0].rename(roots[0].with_name("away"))
        heard[0].beat("g", ids[0], 1_000_000)

        [found] = heard[1].contents("g", ids[:1])
        assert any(b" 1000000\n" in (each or b"") for each in found.values())
        roots[0].with_name("away").rename(roots[0])


def test_a_controller_that_was_given_another_root_fences_nobody_who_beats(given_one_root_each):
    _, clusters = given_one_root_each
    clock, fenced = FakeClock(), []
    silent_groups = SilentGroups(clusters[1]._node.part(heartbeats), clock)
    with member(clusters[0]) as consumer:
        consumer.poll(0)
        clusters[1].describe_group_members("g")
        [member_id] = clusters[1].image.consumer_groups["g"].members

        for count in range(2 * SILENCE_MS // 60_000):
            clusters[0]._node.part(heartbeats).beat("g", member_id, 1_000_000 + count)
            silent_groups.run(clusters[1].image, fenced.append)
            clock.advance(60_000)

    assert not fenced
