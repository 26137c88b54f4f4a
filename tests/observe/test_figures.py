"""Figures of the metadata, of its quorum, and of logs with their upkeep: what each counts."""

import pytest

from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.partition import GroupOffset
from kafka_on_spark.observe.figures import log_metrics, quorum_metrics, state_metrics
from kafka_on_spark.observe.replicas import CompactedPart, LogDescription
from kafka_on_spark.store.counts import HELP
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.observe.quorums import quorum_of


def figures(*partitions, is_controller=False, **fields):
    metrics = state_metrics(image_of(*partitions, **fields), is_controller=is_controller)
    assert {(each.type, each.name) for each in metrics} <= HELP.keys()
    return {(each.name, *each.labels.values()): each.value for each in metrics}


@pytest.mark.parametrize(
    "state, counted",
    [
        ("1 2 3", {}),
        (("1 2 3", "1 2"), {"UnderReplicatedPartitions"}),
        (("1 2 3", "1"), {"UnderReplicatedPartitions", "AtMinIsrPartitionCount"}),
        (("1 2 3", "2 3", 2), {"UnderReplicatedPartitions", "PreferredReplicaImbalanceCount"}),
        (partition("1 2 3", "1 2", adding="3"), {"ReassigningPartitions"}),
    ],
)
def test_a_partition_counts_where_it_is_not_well(state, counted):
    given = (state,) if isinstance(state, str) else state
    found = figures(partition(*given) if isinstance(given, tuple) else given)

    names = {
        *("UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount"),
        *("OfflinePartitionsCount", "PreferredReplicaImbalanceCount", "OfflineReplicaCount"),
        "ReassigningPartitions",
    }
    assert {name for name in names if found[(name,)]} == set(counted)


def test_a_partition_without_a_leader_is_offline_and_below_its_minimum():
    lost = partition("1 2 3", "", None, elr="1")
    found = figures(lost, fenced="1 2 3", configs={"min.insync.replicas": "2"})

    assert found["OfflinePartitionsCount",] == 1
    assert found["UnderMinIsrPartitionCount",] == 1
    assert found["OfflineReplicaCount",] == 3
    assert found["FencedBrokerCount",] == 3
    assert found["ActiveBrokerCount",] == 0


def test_a_groups_lag_is_summed_by_topic_and_leaves_out_what_is_deleted():
    at = {
        ("g", PartitionKey(TOPIC_ID, 0)): GroupOffset(offset=Offset(2), leader_epoch=None),
        ("g", PartitionKey(TOPIC_ID, 1)): GroupOffset(offset=Offset(1), leader_epoch=None),
        ("g", PartitionKey(TOPIC_ID, 9)): GroupOffset(offset=Offset(1), leader_epoch=None),
    }
    found = figures(partition("1", hw=10, start=5), partition("1", hw=2), group_offsets=at)

    assert found["lag", "g", TOPIC] == 6
    assert found["max-lag", "g", TOPIC] == 5


def test_groups_are_counted_by_state_and_their_members_by_group():
    members = {
        each: GroupMember(
            member_id=each, instance_id=None, subscribed_topics=(TOPIC,), assignor=None
        )
        for each in ("a", "b")
    }
    saved = {("old", PartitionKey(TOPIC_ID, 0)): GroupOffset(offset=Offset(2), leader_epoch=None)}
    groups = {
        "new": ConsumerGroup(group_epoch=2, target_epoch=1, members=members),
        "settled": ConsumerGroup(group_epoch=1, target_epoch=1, members={"a": members["a"]}),
    }
    found = figures(partition("1"), group_offsets=saved, consumer_groups=groups)

    assert (found["members", "new"], found["members", "settled"]) == (2, 1)
    states = ("empty", "assigning", "reconciling", "stable")
    assert [found["consumer-group-count", each] for each in states] == [1, 1, 0, 1]


def test_no_figure_has_a_label_of_partitions():
    few = figures(*[partition("1 2 3")] * 2)
    many = figures(*[partition("1 2 3")] * 50)

    assert few.keys() == many.keys()
    assert many["GlobalPartitionCount",] == 50
    assert many["GlobalTopicCount",] == 1
    assert [many["PartitionCount", each] for each in (1, 2, 3)] == [50, 50, 50]
    assert [many["LeaderCount", each] for each in (1, 2, 3)] == [50, 0, 0]


def quorum_figures(quorum, *, is_controller):
    metrics = list(quorum_metrics(quorum, is_controller=is_controller))
    assert {(each.type, each.name) for each in metrics} <= HELP.keys()
    return {each.name: each.value for each in metrics}


def test_the_controller_tells_of_voters_that_are_lost_or_behind():
    found = quorum_figures(quorum_of(0, 4, None), is_controller=True)

    assert (found["current-leader"], found["number-of-voters"]) == (1, 3)
    assert (found["lost-voters"], found["max-follower-lag"]) == (1, 4)


def test_who_asks_few_voters_tells_of_none_how_it_is():
    found = quorum_figures(quorum_of(0, None, None), is_controller=False)

    assert found.keys() == {"current-leader", "current-epoch", "high-watermark", "number-of-voters"}


def log(broker_id, **fields):
    given = {"plain_segments": 3, "plain_bytes": 300, "merged_segments": 1, "merged_bytes": 50}
    return LogDescription(topic=TOPIC, partition=0, broker_id=broker_id, **{**given, **fields})


def compacted(ratio):
    return CompactedPart(
        cleaner_offset=0,
        target_offset=0,
        tombstones_below=0,
        first_dirty_offset=0,
        first_uncleanable_offset=0,
        clean_bytes=0,
        dirty_bytes=0,
        cleanable_ratio=ratio,
    )


def log_figures(logs):
    metrics = list(log_metrics(logs))
    assert {(each.type, each.name) for each in metrics} <= HELP.keys()
    found = {
        (each.name, *(str(value) for value in each.labels.values())): each.value for each in metrics
    }
    assert len(found) == len(metrics), "names and labels tell each figure from all others"
    return found


def test_a_log_has_kafkas_figures_and_ours():
    found = log_figures([log(1, log_start_offset=5, log_end_offset=9)])

    assert found["Size", TOPIC, "0", "1"] == 350
    assert found["NumLogSegments", TOPIC, "0", "1"] == 4
    assert found["NumMergedSegments", TOPIC, "0", "1"] == 1
    assert found["LogStartOffset", TOPIC, "0", "1"] == 5
    assert found["LogEndOffset", TOPIC, "0", "1"] == 9


def test_a_log_that_could_not_be_looked_at_is_a_figure_and_no_zeros():
    found = log_figures([log(1, error="away")])

    assert found["Unreadable", TOPIC, "0", "1", "away"] == 1
    assert ("Size", TOPIC, "0", "1") not in found
    assert not any(TOPIC in name for name in log_figures([log(1, is_made=False)]))


def test_a_broker_has_the_ratio_of_its_dirtiest_log():
    logs = [log(1, compacted=compacted(0.25)), log(2, compacted=compacted(0.5)), log(3)]

    found = log_figures(logs)

    assert [found["max-dirty-percent", str(each)] for each in (1, 2, 3)] == [25, 50, 0]
