"""A group as large as groups may be: its members come to own each partition once, and then commit
offsets alone."""

import pytest

from kafka_on_spark.controller.groups.checks import Membership
from kafka_on_spark.controller.groups.membership import fence, join
from kafka_on_spark.controller.groups.sharing import is_to_share, share_out
from kafka_on_spark.errors import GroupMaxSizeReachedError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.records import OffsetCommitRecord
from kafka_on_spark.query.consuming.standing import Standing
from kafka_on_spark.query.offsets.following import follow_target, save_positions
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay

MEMBERS_MAX = 200
JOINED_BETWEEN_TARGETS = 40
PARTITIONS = 500
KEYS = {PartitionKey(TOPIC_ID, number) for number in range(PARTITIONS)}


def members_of(image):
    return image.consumer_groups["g"].members


def told(image, name):
    return Membership(name, members_of(image)[name].member_epoch)


def joined(image, name):
    return join(image, "g", member_id=name, topics=[TOPIC])


def followed(image):
    """Return the image once each member has done all that is due, and how many commits that took.

    A member gives up at once what it shall, and so hands out what is left."""
    commits = 0
    is_moving = True
    while is_moving:
        is_moving = False
        for name in list(members_of(image)):
            member = members_of(image)[name]
            result = follow_target(
                image,
                "g",
                told(image, name),
                held=member.owned - member.to_give_up,
                processed={key: Standing(5, 0) for key in member.to_give_up},
                begins_at="earliest",
                now_ms=0,
            )
            if result.records:
                image, is_moving, commits = replay(image, result), True, commits + 1
    return image, commits


def check_owned_once(image):
    owned = [key for each in members_of(image).values() for key in each.owned]
    assert len(owned) == PARTITIONS
    assert set(owned) == KEYS


@pytest.fixture(scope="module")
def full():
    """An image of a group that is full, whose members have joined some at a time."""
    image = image_of(*[partition("1", hw=8)] * PARTITIONS)
    for number in range(MEMBERS_MAX):
        image = replay(image, joined(image, f"m{number:03d}"))
        if number % JOINED_BETWEEN_TARGETS == JOINED_BETWEEN_TARGETS - 1:
            image, _ = followed(replay(image, share_out(image, "g")))
            check_owned_once(image)
    return image


def test_a_full_group_reaches_one_target_in_which_shares_are_even(full):
    group = full.consumer_groups["g"]

    assert len(group.members) == MEMBERS_MAX
    assert not is_to_share(full, group)
    assert {len(each.owned) for each in group.members.values()} == {2, 3}
    assert all(each.owned == each.target for each in group.members.values())
    with pytest.raises(GroupMaxSizeReachedError):
        joined(full, "one too many")


def saved(image, offset):
    """Return the image once each member has saved its offsets, and the types of all records."""
    types = set()
    for name, member in members_of(image).items():
        positions = {key: Standing(offset, 0) for key in member.owned}
        result = save_positions(image, "g", positions, told(image, name), 0)
        types |= {type(each) for each in result.records}
        image = replay(image, result)
    return image, types


def test_a_full_group_at_rest_commits_offsets_alone(full):
    told_all, _ = saved(full, 6)
    assert {each.member_epoch for each in members_of(told_all).values()} == {
        full.consumer_groups["g"].target_epoch
    }

    image, types = saved(told_all, 7)

    assert types == {OffsetCommitRecord}
    assert followed(image) == (image, 0)
    assert {key for name, key in image.groups if name == "g"} == KEYS


def test_a_member_that_is_fenced_has_few_others_move(full):
    image = replay(full, fence(full, "g", {"m000": 45_000}))

    image, commits = followed(replay(image, share_out(image, "g")))

    check_owned_once(image)
    # A member gives up, and takes what others have given up before it.
    assert commits <= 2 * MEMBERS_MAX
    moved = [
        name
        for name, each in members_of(image).items()
        if each.owned != members_of(full)[name].owned
    ]
    assert len(moved) <= len(members_of(full)["m000"].owned)
