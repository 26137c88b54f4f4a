"""Groups with members in one process: what they share, give up, are told and are refused."""

import os
from contextlib import ExitStack
from itertools import chain

import pytest

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    UnreleasedInstanceIdError,
)
from tests.cluster.consuming.groups.members import append, lag_of, member, polled, shares, values


def test_two_members_share_the_partitions_and_one_takes_over_what_the_other_leaves(disks):
    cluster = disks.cluster
    append(cluster, 0, 40)
    told = []
    first = member(
        cluster,
        on_assigned=lambda names: told.append(("+", names)),
        on_revoked=lambda names: told.append(("-", names)),
    )
    with first:
        early = values(first.poll(0))
        with member(cluster) as second:
            begun = polled(lambda: shares(first, second) == [2, 2], first, second)
            assert not set(first.assignment()) & set(second.assignment())
            append(cluster, 40, 40)
            late = polled(lambda: lag_of(first, second) == 0, first, second)
            assert sorted(chain(early, *begun, *late)) == list(range(80)), "each is handed out once"
        polled(lambda: shares(first) == [4], first)
    assert [kind for kind, _ in told] == ["+", "-", "+", "-"]
    assert cluster.describe_group_members("g").members == ()
    assert os.listdir(disks.metadata_root / "groups") == []
    assert sum(each.lag for each in cluster.describe_group("g")) == 0


def test_a_callback_commits_what_is_given_up_and_asks_for_no_records(cluster):
    append(cluster, 0, 40)
    refused = []

    def give_up(names):
        first.commit({name: first.position(name) for name in names})
        with pytest.raises(InvalidRequestError, match="do it after the poll") as error:
            first.poll(0)
        refused.append(error)

    options = {"enable_auto_commit": False}
    with member(cluster, on_revoked=give_up, **options) as first, member(cluster, **options) as two:
        early = polled(lambda: first.current_lag(("orders", 0)) == 0, first)[0]
        found = polled(lambda: shares(first, two) == [2, 2], first, two)
        later = polled(lambda: lag_of(first, two) == 0, first, two)
        assert sorted([*early, *found[0], *found[1], *later[0], *later[1]]) == list(range(40))
    assert refused


def test_an_error_of_a_callback_is_told_once_and_the_member_goes_on(cluster):
    def fail(names):
        raise RuntimeError("the callback fails")

    append(cluster, 0, 4)
    with member(cluster, on_assigned=fail) as consumer:
        with pytest.raises(RuntimeError, match="the callback fails"):
            consumer.poll(0)
        # A poll goes on to the next partition for some moments only.
        assert sorted(polled(lambda: lag_of(consumer) == 0, consumer)[0]) == [0, 1, 2, 3]


def test_a_static_member_comes_back_to_its_partitions_and_has_one_place(cluster):
    append(cluster, 0, 8)
    with member(cluster) as other, ExitStack() as stack:
        static = stack.enter_context(member(cluster, group_instance_id="one"))
        polled(lambda: shares(static, other) == [2, 2], static, other)
        mine = static.assignment()
        stack.close()
        before = cluster.describe_group_members("g")
        assert [each.is_away for each in before.members if each.instance_id == "one"] == [True]

        with member(cluster, group_instance_id="one") as again:
            again.poll(0)
            assert again.assignment() == mine
            assert cluster.describe_group_members("g").group_epoch == before.group_epoch
            with (
                member(cluster, group_instance_id="one") as third,
                pytest.raises(UnreleasedInstanceIdError),
            ):
                polled(lambda: False, third)


def test_partitions_and_topics_that_come_and_go_are_taken_and_given_up(cluster):
    cluster.create_topic("returns", partitions=1)
    with cluster.consumer(pattern="orders|ret.*", group="g") as one:
        one.poll(0)
        assert len(one.assignment()) == 5
        cluster.add_partitions("orders", to=6)
        cluster.append("orders", [{"key": None, "value": b"1", "partition": 5}])
        assert polled(lambda: len(one.assignment()) == 7, one) in ([[]], [[1]])
        cluster.delete_topic("returns")
        polled(lambda: len(one.assignment()) == 6, one)
        cluster.create_topic("retained", partitions=2)
        polled(lambda: len(one.assignment()) == 8, one)
        one.commit()
    [place] = [each for each in cluster.describe_group("g") if each.name == ("orders", 5)]
    assert place.offset == 1
