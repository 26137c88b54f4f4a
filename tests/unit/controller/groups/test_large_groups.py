"""The largest group that there may be: it settles within few commits a member, whatever changes."""

from collections import Counter

import pytest

from kafka_on_spark.controller.groups.membership import fence, join
from kafka_on_spark.controller.groups.sharing import reconcile, share_out
from kafka_on_spark.errors import GroupMaxSizeReachedError
from tests.builders import TOPIC, image_of, partition
from tests.committing import replay

MEMBERS = 200
"""As group.consumer.max.size allows."""

PARTITIONS = 10_000
COMMITS_A_MEMBER_MAX = 2
"""For a change of the group: a member gives up, and takes what others have given up before it; who
comes too early for that takes it later."""


def names(first, end):
    return [f"member-{number:03}" for number in range(first, end)]


def joined(image, member_ids):
    for member_id in member_ids:
        image = replay(image, join(image, "g", member_id=member_id, topics=[TOPIC]))
    return image


def settled(image):
    """Decide the targets, and have each member follow them in turn, until none has anything to do;
    return the image, and how many commits that took."""
    image = replay(image, share_out(image, "g"))
    commits = 1
    for _ in range(COMMITS_A_MEMBER_MAX + 1):
        before = commits
        for member_id in sorted(image.consumer_groups["g"].members):
            member = image.consumer_groups["g"].members[member_id]
            result = reconcile(image, "g", member_id, member.member_epoch, member.to_give_up)
            if result.records:
                image, commits = replay(image, result), commits + 1
        if commits == before:
            break
    assert commits == before, "a member that had followed its target has something to do"
    assert share_out(image, "g").records == []
    return image, commits


def check_each_partition_has_one_owner(image):
    """Check it, and that no member has two more than another."""
    members = image.consumer_groups["g"].members.values()
    owners = Counter(key for each in members for key in each.owned)
    counts = [len(each.owned) for each in members]
    assert len(owners) == PARTITIONS
    assert set(owners.values()) == {1}
    assert max(counts) - min(counts) <= 1


def test_two_hundred_members_settle_within_two_commits_each():
    most = 1 + COMMITS_A_MEMBER_MAX * MEMBERS
    image = joined(image_of(*[partition("1")] * PARTITIONS), names(0, 150))
    image, commits = settled(image)
    check_each_partition_has_one_owner(image)
    assert commits <= most

    image, commits = settled(joined(image, names(150, MEMBERS)))
    check_each_partition_has_one_owner(image)
    assert commits <= most

    with pytest.raises(GroupMaxSizeReachedError):
        join(image, "g", member_id="one-more", topics=[TOPIC])

    dead = dict.fromkeys(names(0, 3), 45_000)
    image, commits = settled(replay(image, fence(image, "g", dead)))
    check_each_partition_has_one_owner(image)
    assert len(image.consumer_groups["g"].members) == MEMBERS - len(dead)
    assert commits <= most
