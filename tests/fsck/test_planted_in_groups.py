"""I30: what no member of a group would commit, planted in the metadata log, is found."""

from functools import partial

import pytest

from kafka_on_spark.audit.metadata.group_checks import GroupReplay
from kafka_on_spark.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.group_records import (
    GroupAssignmentRecord,
    GroupMemberRecord,
    GroupTargetEpochRecord,
    RemoveGroupMemberRecord,
)
from kafka_on_spark.metadata.records import (
    OffsetCommitRecord,
    RemovePartitionRecord,
    RemoveTopicRecord,
)
from tests.fsck.lives import TOPIC, key_of
from tests.fsck.plants import commit_records, found

KEY = PartitionKey(TopicId("4" * 32), 0)
OTHER = PartitionKey(KEY.topic_id, 1)


def joins(member, epoch=1):
    return GroupMemberRecord(
        group="g",
        group_epoch=epoch,
        member_id=member,
        instance_id=None,
        subscribed_topics=(TOPIC,),
        assignor=None,
    )


def goes(member, epoch):
    return RemoveGroupMemberRecord(group="g", group_epoch=epoch, member_id=member)


def owns(member, *keys):
    return GroupAssignmentRecord(
        group="g", member_id=member, member_epoch=1, partitions=frozenset(keys)
    )


def saves(offset, key=KEY):
    return OffsetCommitRecord(
        group="g", topic_id=key.topic_id, partition=key.partition, offset=offset, leader_epoch=None
    )


removed = RemovePartitionRecord(topic=TOPIC, topic_id=KEY.topic_id, partition=KEY.partition)
deleted = RemoveTopicRecord(topic_id=KEY.topic_id)
target = partial(GroupTargetEpochRecord, group="g", partitions=frozenset())


def flaws(*batches):
    """Return what is wrong with the last of these commits; with those before nothing is."""
    replay, at = GroupReplay(), 0
    told = []
    for batch in batches:
        assert told == []
        told = list(replay.replay([(at + place, each) for place, each in enumerate(batch)]))
        at += len(batch)
    return told


# fmt: off
SOUND = {
    "a life of a member":           [[joins("a")], [target(target_epoch=1)], [owns("a", KEY), saves(0)], [saves(5)], [saves(7), goes("a", 2)]],
    "given up, then taken":         [[joins("a"), owns("a", KEY), saves(0)], [joins("b", 2)], [saves(3), owns("a")], [owns("b", KEY)], [saves(4)]],
    "a static member comes back":   [[joins("a"), owns("a", KEY)], [joins("b"), owns("b", KEY), goes("a", 1)]],
    "a partition is added":         [[joins("a")], [saves(0), target(target_epoch=2)], [joins("b", 3)]],
    "nobody is a member":           [[saves(1)], [saves(2)], [saves(None)]],
    "the group is new again":       [[joins("a", 9)], [goes("a", 10)], [joins("b", 1)]],
    "kept as the last one goes":    [[saves(3)], [joins("a"), owns("a", OTHER)], [saves(3), goes("a", 2)], [saves(4)]],
    "it was removed, and added":    [[joins("a"), owns("a", KEY), saves(5)], [removed], [owns("a")], [saves(0)]],
    "its topic was removed":        [[joins("a"), owns("a", KEY), saves(5)], [deleted], [owns("a")], [saves(0)]],
    "it has offsets from before":   [[saves(3)], [joins("a"), owns("a", KEY)], [saves(2)]],
}
WRONG = {
    "two owners":                   ([[joins("a"), owns("a", KEY)], [joins("b", 2), owns("b", KEY)]], 3, "two owners of a partition, a and b"),
    "an offset of nobody's":        ([[joins("a"), owns("a", KEY), saves(0)], [owns("a")], [saves(4)]], 4, "none of them owns"),
    "the offset of a fenced one":   ([[joins("a"), owns("a", KEY), saves(0)], [joins("b", 2)], [goes("a", 3)], [saves(4)]], 5, "none of them owns"),
    "moved as the last one goes":   ([[saves(3)], [joins("a"), owns("a", OTHER)], [saves(4), goes("a", 2)]], 3, "none of them owns"),
    "kept as another one goes":     ([[saves(3)], [joins("a"), owns("a", OTHER), joins("b", 2)], [saves(3), goes("a", 3)]], 4, "none of them owns"),
    "another one was removed":      ([[joins("a"), owns("a", KEY), saves(5)], [removed], [owns("a"), saves(0, OTHER)], [saves(0, OTHER)]], 6, "none of them owns"),
    "removed by nobody":            ([[saves(3)], [joins("a")], [saves(None)]], 2, "none of them owns"),
    "an epoch that falls":          ([[joins("a", 3)], [joins("b", 2)]], 1, "epoch 2 of group 'g' comes after 3"),
    "a target that falls":          ([[joins("a")], [target(target_epoch=2)], [target(target_epoch=1)]], 2, "epoch 1 of group 'g' comes after 2"),
}
# fmt: on


@pytest.mark.parametrize("name", SOUND)
def test_what_members_do_is_sound(name):
    assert flaws(*SOUND[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_no_member_does_is_found(name):
    batches, place, words = WRONG[name]

    [(sentence, at, _)] = flaws(*batches)

    assert at == place
    assert words in sentence


def test_i30_two_owners_in_a_real_log(life):
    key = key_of(life.disks.image)
    offset = commit_records(life, joins("a"), owns("a", key), joins("b", 2), owns("b", key))

    report = life.fsck()

    finding = found(report, "I30", metadata_offset=offset + 3, partition=(TOPIC, 0))
    assert "has two owners" in finding.sentence
    assert report.invariants == {"I30"}
