"""What a member decides with its positions: in one commit, in an order, and no more than it takes."""

import pytest

from kafka_on_spark.base.errors import StaleMemberEpochError, UnknownMemberIdError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.consume.member import subscribed_topics
from kafka_on_spark.consume.subscription import Subscribe, SubscribePattern
from kafka_on_spark.groups.membership import (
    fence,
    follow_target,
    join,
    leave_group,
    save_positions,
    share_out,
)
from kafka_on_spark.groups.offsets import Membership, Position
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.committing import replay

ZERO, ONE = PartitionKey(TOPIC_ID, 0), PartitionKey(TOPIC_ID, 1)


def kinds(result):
    return [type(each).__name__ for each in result.records]


def joined(image, *names):
    for name in names:
        image = replay(image, join(image, "g", member_id=name, topics=[TOPIC]))
    return replay(image, share_out(image, "g"))


def member(image, name="a"):
    return Membership(name, image.consumer_groups["g"].members[name].member_epoch)


def follow(image, name="a", held=frozenset(), processed=None, begins_at=None):
    return follow_target(
        image,
        "g",
        member(image, name),
        held=held,
        processed=processed or {},
        begins_at=begins_at,
        now_ms=0,
    )


def two_partitions():
    return image_of(partition("1", hw=8, start=2), partition("1", hw=9, start=3))


def alone():
    """Return an image in which a has taken both partitions."""
    image = joined(two_partitions(), "a")
    return replay(image, follow(image, begins_at="earliest"))


def test_what_was_given_up_already_is_not_saved_again():
    """The outcome of the first try was unknown: it stands, and b has the partition."""
    image = joined(alone(), "b")
    image = replay(image, follow(image, held={ZERO}, processed={ONE: Position(5, 0)}))

    again = follow(image, held={ZERO}, processed={ONE: Position(5, 0)})

    assert (again.records, again.response) == ([], {ZERO})


def test_a_target_that_moves_nothing_of_a_member_is_followed_with_its_next_offsets():
    image = alone()
    image = replay(image, fence(joined(image, "b"), "g", {"b": 1}, 0))
    image = joined(image, "b")
    image = replay(image, fence(image, "g", {"b": 1}, 0))
    image = replay(image, share_out(image, "g"))
    before = image.consumer_groups["g"].members["a"].member_epoch
    assert before < image.consumer_groups["g"].target_epoch

    assert follow(image, held={ZERO, ONE}).records == []
    saved = save_positions(image, "g", {ZERO: Position(4, 0)}, member(image), 0)

    assert kinds(saved) == ["OffsetCommitRecord", "GroupAssignmentRecord"]
    after = replay(image, saved).consumer_groups["g"]
    assert after.members["a"].member_epoch == after.target_epoch
    assert after.members["a"].owned == {ZERO, ONE}
    assert kinds(save_positions(image, "g", {}, member(image), 0)) == []


def test_who_saves_positions_gives_up_and_takes_nothing_by_it():
    image = joined(alone(), "b")

    saved = save_positions(image, "g", {ONE: Position(5, 0)}, member(image), 0)

    assert kinds(saved) == ["OffsetCommitRecord"]


def test_who_was_fenced_saves_nothing_and_leaves_what_it_has_left():
    image = alone()
    speaker = member(image)
    fenced = replay(image, fence(image, "g", {"a": 1}, 0))
    processed = {ZERO: Position(4, 0)}

    with pytest.raises(UnknownMemberIdError):
        save_positions(fenced, "g", processed, speaker, 0)
    with pytest.raises(UnknownMemberIdError):
        leave_group(fenced, "g", speaker, processed=processed, returns=False, now_ms=0)
    assert leave_group(fenced, "g", speaker, processed={}, returns=False, now_ms=0).records == []
    with pytest.raises(StaleMemberEpochError):
        save_positions(image, "g", processed, Membership("a", 0), 0)


def test_who_leaves_saves_its_positions_first():
    image = alone()

    left = leave_group(
        image, "g", member(image), processed={ZERO: Position(4, 0)}, returns=False, now_ms=0
    )

    assert kinds(left) == ["OffsetCommitRecord", "RemoveGroupMemberRecord"]


def test_topics_by_name_need_not_exist_and_those_of_a_pattern_do():
    image = two_partitions()

    assert subscribed_topics(image, Subscribe((TOPIC, "later"))) == [TOPIC, "later"]
    assert subscribed_topics(image, SubscribePattern(".*")) == [TOPIC]
    assert subscribed_topics(image, SubscribePattern("later")) == []
