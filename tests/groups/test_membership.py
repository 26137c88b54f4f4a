"""The members of a group: what joins, returns, leaves and fences make of them, and what is refused."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kafka_on_spark.base.ids import AWAY, PartitionKey
from kafka_on_spark.groups.membership import (
    check_not_replaced,
    describe_members,
    fence,
    join,
    leave,
    reconcile,
    share_out,
    subscribe,
)
from kafka_on_spark.groups.offsets import (
    Membership,
    Position,
    alter_group_offsets,
    check_may_commit,
    delete_group,
    describe_group,
    member_of,
    save_offsets,
    saved_positions,
)
from kafka_on_spark.metadata.records import MemberClient
from tests.builders import KEY, TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay

ONE = PartitionKey(TOPIC_ID, 1)
EMPTY = image_of(partition("1", hw=8), partition("1", hw=8))


def joined(image, member_id, instance=None, **options):
    asked = {"topics": [TOPIC]} | options
    return replay(image, join(image, "g", member_id=member_id, instance_id=instance, **asked))


def settled(image, *member_ids):
    """Return the image once the targets are decided, and these members have followed them."""
    image = replay(image, share_out(image, "g"))
    for member_id in member_ids:
        member = member_of(image, "g", member_id)
        result = reconcile(image, "g", member_id, member.member_epoch, member.to_give_up)
        image = replay(image, result)
    return image


def group(image):
    return image.consumer_groups["g"]


def test_a_join_takes_the_next_epoch_of_its_group_and_no_partition():
    one = joined(EMPTY, "a", topics=["z", TOPIC, TOPIC], assignor="range")
    two = joined(one, "b")

    assert (group(one).group_epoch, group(two).group_epoch) == (1, 2)
    assert group(two).target_epoch == 0
    [a, b] = group(two).members.values()
    assert (a.subscribed_topics, a.assignor) == ((TOPIC, "z"), "range")
    assert (b.member_epoch, b.owned, b.target) == (0, frozenset(), frozenset())
    result = join(EMPTY, "g", member_id="a", topics=[TOPIC])
    assert result.records[0].cause == "member a has joined 'g'"


def test_a_join_that_is_decided_again_is_no_record():
    assert join(joined(EMPTY, "a"), "g", member_id="a", topics=[TOPIC]).records == []


@pytest.mark.parametrize(
    "asked, error",
    [
        ({"assignor": "sticky"}, UnsupportedAssignorError),
        ({"member_id": "c"}, GroupMaxSizeReachedError),
        ({"instance_id": "i"}, UnreleasedInstanceIdError),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else next(iter(each)),
)
def test_a_join_is_refused(asked, error):
    image = replace(joined(EMPTY, "a", "i"), configs={"group.consumer.max.size": "1"})
    given = {"member_id": "b", "topics": [TOPIC]} | asked

    with pytest.raises(error):
        join(image, "g", **given)


def test_a_member_keeps_its_client_and_the_next_life_of_a_static_one_brings_another():
    one, two = MemberClient("c", "h", 7), MemberClient("c", "h", 8)
    image = settled(joined(EMPTY, "a", "i", client=one), "a")
    read = replay(image, subscribe(image, "g", "a", [TOPIC, "z"]))
    away = replay(image, leave(image, "g", "a", 0, returns=True))

    assert [each.client for each in describe_members(read, "g").members] == [one]
    [lag, _] = describe_group(read, "g")
    assert (lag.offset, lag.lag, lag.member_id, lag.client) == (None, None, "a", one)
    assert group(joined(away, "b", "i", client=two)).members["b"].client == two


def test_a_group_is_described_where_it_has_an_offset_or_an_owner():
    saved = replay(EMPTY, alter_group_offsets(EMPTY, "g", {ONE: 5}))
    owned = settled(joined(joined(saved, "a"), "b"), "a", "b")

    found = [(each.offset, each.lag, each.member_id) for each in describe_group(owned, "g")]

    assert [each[:2] for each in found] == [(None, None), (5, 3)]
    assert {each[2] for each in found} == {"a", "b"}
    assert [each.member_id for each in describe_group(saved, "g")] == [None]


def test_a_full_group_takes_a_static_member_back():
    away = replay(before := joined(EMPTY, "a", "i"), leave(before, "g", "a", 0, returns=True))

    full = replace(away, configs={"group.consumer.max.size": "1"})
    assert group(joined(full, "b", "i")).members.keys() == {"b"}


def test_other_topics_are_the_next_epoch_and_the_same_ones_none():
    image = joined(EMPTY, "a")

    after = replay(image, subscribe(image, "g", "a", ["z"]))

    assert group(after).group_epoch == 2
    assert group(after).members["a"].subscribed_topics == ("z",)
    assert subscribe(after, "g", "a", ["z", "z"]).records == []
    with pytest.raises(UnknownMemberIdError):
        subscribe(after, "g", "b", ["z"])


def test_who_leaves_or_is_fenced_frees_its_partitions_and_a_group_without_members_is_none():
    image = settled(joined(joined(EMPTY, "a"), "b"), "a", "b")
    left = replay(image, leave(image, "g", "a", 0))
    fenced = fence(image, "g", {"a": 45_100}, 0)

    assert group(left) == group(replay(image, fenced))
    assert (group(left).group_epoch, group(left).members.keys()) == (3, {"b"})
    assert fenced.records[0].cause == "member a of 'g' was fenced: no heartbeat for 45.1 s"
    for gone in (
        leave(left, "g", "a", 0),
        fence(left, "g", {"a": 1}, 0),
        fence(EMPTY, "g", {"a": 1}, 0),
    ):
        assert gone.records == []
    assert replay(left, leave(left, "g", "b", 0)).consumer_groups == {}
    # A dynamic member can't be away.
    assert replay(image, leave(image, "g", "a", 0, returns=True)) == left


def test_a_static_member_keeps_its_partitions_while_it_is_away():
    image = settled(joined(joined(EMPTY, "a", "i"), "b"), "a", "b")
    owned = group(image).members["a"].owned

    away = replay(image, leave(image, "g", "a", 0, returns=True))
    back = joined(away, "c", "i")

    assert (group(away).members["a"].member_epoch, group(away).members["a"].owned) == (AWAY, owned)
    assert leave(away, "g", "a", 0, returns=True).records == []
    assert share_out(away, "g").records == []
    assert group(back).members.keys() == {"b", "c"}
    assert (group(back).members["c"].owned, group(back).group_epoch) == (owned, 2)
    # Nobody has to share out, and no epoch has changed but the new life's own.
    assert share_out(back, "g").records == []
    assert settled(back, "c").consumer_groups["g"].members["c"].member_epoch == 2


def test_a_static_member_that_returns_with_other_topics_takes_the_next_epoch():
    image = joined(EMPTY, "a", "i")
    away = replay(image, leave(image, "g", "a", 0, returns=True))

    assert group(joined(away, "c", "i", topics=["z"])).group_epoch == 2


def test_a_static_member_that_returns_has_no_partition_of_a_topic_that_it_reads_no_more():
    """It would hand out their records, and save their offsets, until the next sharing out."""
    image = settled(joined(EMPTY, "a", "i"), "a")
    away = replay(image, leave(image, "g", "a", 0, returns=True))

    back = joined(away, "c", "i", topics=["z"])

    assert group(back).members["c"].owned == frozenset()
    assert reconcile(back, "g", "c", 0).response == frozenset()


def test_the_only_member_that_returns_leaves_its_group_as_old_as_it_was():
    image = settled(joined(EMPTY, "a", "i"), "a")
    away = replay(image, leave(image, "g", "a", 0, returns=True))

    assert (group(joined(away, "c", "i")).target_epoch, group(image).target_epoch) == (1, 1)


def test_the_life_before_of_a_static_member_is_told_that_it_was_replaced():
    image = joined(EMPTY, "a", "i")
    away = replay(image, leave(image, "g", "a", 0, returns=True))
    back = joined(away, "c", "i")

    with pytest.raises(FencedInstanceIdError, match="'i' of group 'g' runs as c now"):
        check_not_replaced(back, "g", "i")
    with pytest.raises(UnknownMemberIdError):
        member_of(back, "g", "a")
    check_not_replaced(back, "g", "other")
    check_not_replaced(back, "g", None)
    check_not_replaced(away, "g", "i")
    check_not_replaced(EMPTY, "g", "i")


def test_an_away_member_takes_nothing_on():
    image = settled(joined(EMPTY, "a", "i"), "a")
    away = replay(image, leave(image, "g", "a", 0, returns=True))

    with pytest.raises(FencedMemberEpochError):
        reconcile(away, "g", "a", 1)


def test_a_member_saves_offsets_of_what_it_owns_alone():
    image = settled(joined(joined(EMPTY, "a"), "b"), "a", "b")
    [mine] = group(image).members["a"].owned
    [other] = group(image).members["b"].owned
    fenced = replay(image, fence(image, "g", {"a": 45_000}, 0))

    member = Membership("a", 2)
    check_may_commit(image, "g", member, {mine})
    for epoch, keys in [(1, {mine}), (2, {mine, other}), (2, {other})]:
        with pytest.raises(StaleMemberEpochError):
            check_may_commit(image, "g", Membership("a", epoch), keys)
    with pytest.raises(UnknownMemberIdError):
        check_may_commit(fenced, "g", member, {mine})
    assert save_offsets(image, "g", {mine: 8}, member, 0).records
    with pytest.raises(StaleMemberEpochError):
        save_offsets(image, "g", {mine: 8, other: 8}, member, 0)


def test_a_partition_that_is_not_owned_is_named_by_its_topic_while_that_is_there():
    image = settled(joined(EMPTY, "a"), "a")
    for key, name in [(PartitionKey(TOPIC_ID, 7), f"{TOPIC}-7"), (PartitionKey("gone", 3), "gone")]:
        with pytest.raises(StaleMemberEpochError, match=f"does not own .*{name}"):
            check_may_commit(image, "g", Membership("a", 1), {key})


def test_who_is_no_member_saves_offsets_of_groups_without_members_alone():
    positions = {KEY: Position(3, 0)}
    for image in (EMPTY, replay(joined(EMPTY, "a"), leave(joined(EMPTY, "a"), "g", "a", 0))):
        assert save_offsets(image, "g", {KEY: 3}, None, 0).records
        assert saved_positions(image, "g", positions, None, 0)

    image = settled(joined(EMPTY, "a"), "a")
    for save in (
        lambda: save_offsets(image, "g", {KEY: 3}, None, 0),
        lambda: saved_positions(image, "g", positions, None, 0),
    ):
        with pytest.raises(UnknownMemberIdError, match="has members, which alone save"):
            save()
    assert saved_positions(image, "g", positions, Membership("a", 1), 0)
    with pytest.raises(StaleMemberEpochError):
        saved_positions(image, "g", positions, Membership("a", 0), 0)


def test_offsets_of_a_group_with_members_are_not_changed_by_request():
    saved = replay(EMPTY, alter_group_offsets(EMPTY, "g", {KEY: 3}))
    image = joined(saved, "a")

    with pytest.raises(
        NonEmptyGroupError, match=r"group 'g' has 1 member: .*end its consumers first"
    ):
        alter_group_offsets(image, "g", {KEY: 2, ONE: 8})
    with pytest.raises(NonEmptyGroupError, match="2 members"):
        delete_group(joined(image, "b"), "g")
    left = replay(image, leave(image, "g", "a", 0))
    assert left.group_offsets == saved.group_offsets
    assert len(delete_group(left, "g").records) == 1
