"""Fetches that are refused: by which replica and why, and what the metadata says to it."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    NO_ERROR,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.controller.fetch_plan import refusal_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.reports import ReplicaReport
from tests.builders import image_of, partition
from tests.log.two_replicas import FOLLOWER, LEADER, ORDER, Two

# What a fetch meets, in Kafka's words. The answers are in the decisions: who is bad is taken out
# and another replica serves; the rest is asked again, or waits for the metadata.


def follower_has_heard_of_a_later_leadership(two):
    two.write(FOLLOWER, "5:a", 6)


def leader_has_heard_of_a_later_leadership(two):
    two.write(LEADER, "5:abc", 6)


def follower_does_not_answer(two):
    two.roots[FOLLOWER.root].is_offline = True


def leader_does_not_answer(two):
    two.roots[LEADER.root].is_offline = True


def leaders_segment_is_damaged(two):
    [files] = two.roots[LEADER.root].files.values()
    files[next(iter(reversed(files)))] = b"rot"


def follower_is_gone(two):
    two.roots[FOLLOWER.root].tables.clear()


def leaders_table_is_another_topics(two):
    [table] = two.roots[LEADER.root].tables.values()
    table.identity = replace(table.identity, topic_id="2" * 32)


def leader_was_rolled_back_behind_its_follower(two):
    two.write(FOLLOWER, "5:abc", 5)
    two.roots[LEADER.root].roll_back(1)


# fmt: off
REFUSALS = [  # what happened                              refused, why                       bad
    pytest.param(follower_has_heard_of_a_later_leadership, 2, FencedLeaderEpochError,         False, id="follower-fenced"),
    pytest.param(leader_has_heard_of_a_later_leadership,   1, FencedLeaderEpochError,         False, id="leader-fenced"),
    pytest.param(follower_does_not_answer,                 2, KafkaStorageError,              False, id="follower-storage"),
    pytest.param(leader_does_not_answer,                   1, KafkaStorageError,              False, id="leader-storage"),
    pytest.param(leaders_segment_is_damaged,               1, CorruptLogError,                True,  id="corrupt-source-is-the-leaders"),
    pytest.param(follower_is_gone,                         2, ReplicaLostError,               True,  id="lost"),
    pytest.param(leaders_table_is_another_topics,          1, InconsistentTopicIdError,       True,  id="inconsistent-topic-id"),
    pytest.param(leader_was_rolled_back_behind_its_follower,  2, CorruptLogError,                False, id="out-of-range-above-and-it-stands"),
]
# fmt: on


@pytest.mark.parametrize("happens, broker_id, error, is_bad", REFUSALS)
def test_a_refusal_says_which_replica_refuses_and_why(happens, broker_id, error, is_bad):
    two = Two("5:ab", "5:a")
    two.write(LEADER, "5:abc", 5)
    happens(two)

    report = two.fetch(partition("1 2"))

    refused = [each for each in (report.leader, *report.followers) if each.error_code != NO_ERROR]
    assert report.leader.broker_id == 1
    assert {each.broker_id for each in report.followers} <= {2}
    assert [(each.broker_id, each.error_code) for each in refused] == [(broker_id, error.code)]
    assert refused[0].is_bad is is_bad
    if broker_id == 2:
        assert report.leader.counts_in(5)  # the follower's failure is not the leader's


@pytest.mark.parametrize(
    "fence, error", [(4, UnknownLeaderEpochError), (6, FencedLeaderEpochError)]
)
def test_a_state_of_the_leader_under_another_leadership_is_refused(fence, error):
    two = Two("5:abc", "5:a")
    seen = replace(two.replicas.open(LEADER).load(), leader_epoch=fence)

    report = two.fetch(partition("1 2"), leader_state=seen)

    assert (report.leader.error_code, report.leader.is_bad) == (error.code, False)
    assert two.replicas.open(FOLLOWER).load().log_end_offset == 1


OFFLINE = ReplicaReport(broker_id=2, replica_uuid="uuid2", error_code=56, error="no answer")

# fmt: off
MEANWHILE = [  # the metadata when the answer came            why the fetch was refused
    pytest.param(image_of(partition("1 2")),                  KafkaStorageError,            id="unchanged"),
    pytest.param(MetadataImage(),                             UnknownTopicIdError,          id="topic-deleted"),
    pytest.param(image_of(),                                  UnknownTopicOrPartitionError, id="partition-removed"),
    pytest.param(image_of(partition("3 2", epoch=6)),         UnknownTopicOrPartitionError, id="leader-moved-away"),
    pytest.param(image_of(partition("1 2", leader=2, epoch=6)), FencedLeaderEpochError,     id="another-leads"),
    pytest.param(image_of(partition("1 2", leader=None, epoch=6)), FencedLeaderEpochError,  id="epoch-before-role"),
    pytest.param(image_of(partition("1 2", epoch=4)),         UnknownLeaderEpochError,      id="image-is-behind"),
    pytest.param(image_of(partition("1 2", leader=2)),        NotLeaderOrFollowerError,     id="another-leads-under-the-same-epoch"),
    pytest.param(image_of(partition("1 3")),                  UnknownLeaderEpochError,      id="follower-not-assigned-as-far-as-is-known"),
]
# fmt: on


@pytest.mark.parametrize("image, error", MEANWHILE)
def test_what_the_metadata_says_comes_before_what_the_fetch_met(image, error):
    assert refusal_of(image, ORDER, OFFLINE)[0] == error.code
