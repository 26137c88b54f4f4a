"""The tables of the page are what the image, the history and the answers say, and are JSON."""

import json
from array import array
from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import GroupIdNotFoundError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.console.answers import (
    forecast_view,
    group_view,
    groups_view,
    topic_view,
)
from kafka_on_spark.console.timeline import (
    History,
    moments_view,
    timeline_view,
)
from kafka_on_spark.metadata.image import ConsumerGroup, GroupMember, MetadataImage
from kafka_on_spark.metadata.partition import GroupOffset
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.history import BrokerEvent
from kafka_on_spark.observe.what_if import forecast
from tests.builders import KEY, TOPIC_ID, image_of, partition
from tests.observe.histories import LOSS_AND_RETURN, at, entry

NOW_MS = round(at(30).timestamp() * 1000)
ADDED = PartitionKey(TOPIC_ID, 1)


def plain(view):
    return json.loads(json.dumps(view))


def test_a_topic_has_its_size_its_settings_and_its_groups():
    image = image_of(
        partition("1 2 3", hw=10, start=4, leo=12),
        partition("2 3", hw=5),
        configs={"min.insync.replicas": "2"},
        group_offsets={("billing", KEY): GroupOffset(offset=Offset(7), leader_epoch=None)},
    )

    view = plain(topic_view(image, "orders"))

    assert (view["partitions"], view["replicas"], view["minIsr"]) == (2, 3, 2)
    assert (view["records"], view["uncommitted"], view["groups"]) == (11, 2, ["billing"])
    assert view["configs"] == [["min.insync.replicas", "2"]]
    with pytest.raises(UnknownTopicOrPartitionError):
        topic_view(image, "payments")


def test_groups_have_their_lag_by_topic_and_members_with_what_they_own():
    member = GroupMember(
        member_id="m1",
        instance_id=None,
        subscribed_topics=("orders",),
        assignor=None,
        owned=frozenset({KEY}),
        target=frozenset({KEY, ADDED}),
    )
    image = image_of(
        partition("1", hw=10),
        partition("1", hw=5),
        ids="1",
        group_offsets={
            ("billing", KEY): GroupOffset(offset=Offset(7), leader_epoch=None),
            ("billing", ADDED): GroupOffset(offset=Offset(0), leader_epoch=None),
        },
        consumer_groups={"reading": ConsumerGroup(group_epoch=1, members={"m1": member})},
    )

    view = plain(groups_view(image))

    lag = {"topic": "orders", "partitions": 2, "lag": 8, "most": 5}
    assert view["groups"] == [
        {"name": "billing", "members": 0, "topics": [lag]},
        {"name": "reading", "members": 1, "topics": []},
    ]
    assert group_view(image, "billing")["places"] == [
        ["orders", 0, 7, 0, 10, 3],
        ["orders", 1, 0, 0, 5, 5],
    ]
    [seen] = group_view(image, "reading")["members"]
    assert seen["owned"] == {"count": 1, "first": ["orders-0"]}
    assert seen["target"] == {"count": 2, "first": ["orders-0", "orders-1"]}
    with pytest.raises(GroupIdNotFoundError):
        group_view(image, "nobody")


def test_a_forecast_lists_the_worst_first_and_counts_all():
    image = image_of(
        partition("1 2 3", hw=9), partition("1", hw=4), configs={"min.insync.replicas": "1"}
    )

    view = plain(forecast_view(forecast(image, frozenset({BrokerId(1)}))))

    assert [each["name"] for each in view["partitions"]] == ["orders-1", "orders-0"]
    assert view["partitions"][0]["words"] == ["no leader"]
    assert view["partitions"][1]["leader"] == [1, 2]
    counts = dict(view["counts"])
    assert counts["partitions without a leader"] == 1
    assert counts["leaderships that would move"] == 1
    assert counts["records at risk"] == 4


def history(entries, events=(), ends=None):
    numbered = [replace(each, metadata_offset=Offset(n)) for n, each in enumerate(entries, 4)]
    ends = array("q", ends or (each.metadata_offset + 1 for each in numbered))
    return History(entries=numbered, events=list(events), ends=ends, image=MetadataImage())


def test_the_timeline_has_lanes_and_decisions_of_the_partitions_that_are_asked_for():
    other = [entry(5, 1, 0, "1", "created", partition=1, replicas="1")]
    known = history([*LOSS_AND_RETURN, *other])

    view = plain(timeline_view(known, topic="orders", partition=0, now_ms=NOW_MS))

    [lane] = view["lanes"]
    assert lane["name"] == "orders-0"
    first = dict(map(tuple, [(broker, spans) for broker, spans in lane["replicas"]]))[1]
    assert [(epoch, is_in_sync) for _, _, epoch, is_in_sync in first] == [
        (0, True),
        (None, False),
        (None, True),
        (2, True),
    ]
    assert first[-1][1] == NOW_MS
    assert [each[5] for each in view["decisions"]] == [
        "preferred leader",
        "broker 1: caught up",
        "broker 1: probe failed",
        "created",
    ]
    assert len(timeline_view(known, topic=None, partition=None, now_ms=NOW_MS)["lanes"]) == 2


def test_a_moment_is_behind_a_whole_decision():
    fenced = BrokerEvent(
        time=at(10),
        broker_id=BrokerId(1),
        state=BrokerState.FENCED,
        cause="probe failed",
        metadata_offset=Offset(5),
    )
    known = history(LOSS_AND_RETURN, [fenced], ends=[4, 5, 9])

    moments = plain(moments_view(known))["moments"]
    shown = plain(timeline_view(known, topic=None, partition=None, now_ms=NOW_MS))

    # The records at 5 (twice), 6 and 7 are of one decision, which ends at 9.
    assert [(end, cause) for end, _, cause in moments] == [
        (5, "created"),
        (9, "broker 1: probe failed"),
    ]
    assert [each[-1] for each in shown["decisions"]] == [9, 9, 9, 5]
    assert [each[-1] for each in shown["brokers"]] == [9]
