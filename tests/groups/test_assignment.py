"""What members shall own and do own, told step by step."""

from dataclasses import replace
from itertools import chain

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.groups.membership import chosen_assignor, fence, join, reconcile, share_out
from kafka_on_spark.metadata.image import (
    ConsumerGroup,
    ControllerResult,
    GroupMember,
    TopicImage,
)
from kafka_on_spark.metadata.records import RemovePartitionRecord, RemoveTopicRecord
from tests.builders import TOPIC, TOPIC_ID, image_of, partition, partition_map
from tests.committing import committed, replay

ONE_REPLICA = partition("1")


def with_partitions(count):
    return image_of(*[ONE_REPLICA] * count)


def joined(image, *member_ids, topics=(TOPIC,)):
    for member_id in member_ids:
        image = replay(image, join(image, "g", member_id=member_id, topics=list(topics)))
    return image


def member(image, member_id):
    return image.consumer_groups["g"].members[member_id]


def reconciled(image, member_id, stopped=frozenset()):
    epoch = member(image, member_id).member_epoch
    return replay(image, reconcile(image, "g", member_id, epoch, stopped))


def shared(image):
    return replay(image, share_out(image, "g"))


def owned(image):
    return {
        name: sorted(key.partition for key in each.owned)
        for name, each in image.consumer_groups["g"].members.items()
    }


def test_a_partition_is_given_up_before_another_takes_it():
    alone = reconciled(shared(joined(with_partitions(4), "a")), "a")
    two = shared(joined(alone, "b"))
    assert owned(two) == {"a": [0, 1, 2, 3], "b": []}
    assert member(two, "a").to_give_up == member(two, "b").target

    early = reconciled(two, "b")
    assert owned(early) == owned(two)
    # It follows its target, though nothing of it is free yet.
    assert member(early, "b").member_epoch == 2
    busy = reconciled(early, "a")
    assert busy == early
    half = reconciled(early, "a", {PartitionKey(TOPIC_ID, 2)})
    assert (owned(half)["a"], member(half, "a").member_epoch) == ([0, 1, 3], 1)
    done = reconciled(reconciled(half, "a", member(half, "a").owned), "b")
    assert owned(done) == {"a": [0, 1], "b": [2, 3]}
    assert member(done, "a").member_epoch == 2


def test_what_a_member_shall_keep_is_not_given_up():
    alone = reconciled(shared(joined(with_partitions(2), "a")), "a")

    assert reconciled(alone, "a", member(alone, "a").owned) == alone

    image = shared(joined(reconciled(shared(joined(with_partitions(4), "a")), "a"), "b"))
    stopped = {PartitionKey(TOPIC_ID, number) for number in (0, 2)}
    assert owned(reconciled(image, "a", stopped))["a"] == [0, 1, 3]


def test_what_a_fenced_member_owned_goes_to_the_others():
    both = shared(joined(with_partitions(4), "a", "b"))
    both = reconciled(reconciled(both, "a"), "b")

    after = replay(both, fence(both, "g", {"a": 45_000}, 0))
    assert owned(reconciled(after, "b")) == {"b": [1, 3]}
    assert owned(reconciled(shared(after), "b")) == {"b": [0, 1, 2, 3]}


def test_joins_before_one_sharing_out_have_one_target_between_them():
    image = joined(with_partitions(3), "a", "b", "c")

    result = share_out(image, "g")

    assert [type(each).__name__ for each in result.records] == [
        *["GroupTargetRecord"] * 3,
        "GroupTargetEpochRecord",
    ]
    assert result.records[0].cause == "epoch 3 of 'g': 3 members, uniform"
    assert share_out(replay(image, result), "g").records == []


def test_new_partitions_are_shared_out_in_an_epoch_of_their_own():
    image = shared(joined(with_partitions(2), "a", "b"))
    after = shared(grown(image, ONE_REPLICA)).consumer_groups["g"]

    assert (after.group_epoch, after.target_epoch) == (3, 3)
    assert sorted(len(each.target) for each in after.members.values()) == [1, 2]


def test_partitions_that_are_removed_are_nobodys():
    both = shared(joined(with_partitions(5), "a", "b"))
    both = reconciled(reconciled(both, "a"), "b")
    record = RemovePartitionRecord(topic_id=TOPIC_ID, topic=TOPIC, partition=4, cause="removed")
    less = shared(replay(both, ControllerResult([record], None)))

    after = reconciled(reconciled(less, "a", member(less, "a").to_give_up), "b")
    after = reconciled(after, "b", member(after, "b").to_give_up)

    assert sorted(chain(*owned(after).values())) == [0, 1, 2, 3]
    assert not any(each.target - each.owned for each in after.consumer_groups["g"].members.values())


def grown(image, *partitions):
    topic = image.topics[TOPIC_ID]
    there = dict(topic.partitions.items())
    more = {len(there) + place: each for place, each in enumerate(partitions)}
    return replace(image, topics={TOPIC_ID: replace(topic, partitions=partition_map(there | more))})


def test_a_topic_that_is_gone_is_given_up_and_one_that_comes_is_taken():
    image = reconciled(shared(joined(with_partitions(2), "a", topics=[TOPIC, "later"])), "a")
    gone = shared(committed(image, [RemoveTopicRecord(topic_id=TOPIC_ID)]))
    assert member(gone, "a").to_give_up == member(image, "a").owned
    gone = reconciled(gone, "a", member(gone, "a").owned)
    assert owned(gone) == {"a": []}

    later = TopicImage(name="later", topic_id="4" * 32, partitions=partition_map({0: ONE_REPLICA}))
    there = replace(gone, topics={later.topic_id: later}, topic_ids={later.name: later.topic_id})
    assert member(reconciled(shared(there), "a"), "a").owned == {PartitionKey(later.topic_id, 0)}


def test_nobody_shares_out_for_a_group_that_is_gone():
    assert share_out(with_partitions(1), "g").records == []


def test_the_assignor_is_the_one_that_most_ask_for():
    def group(*asked):
        members = {
            str(number): GroupMember(
                member_id=str(number), instance_id=None, subscribed_topics=(), assignor=name
            )
            for number, name in enumerate(asked)
        }
        return ConsumerGroup(group_epoch=1, members=members)

    allowed = ["uniform", "range"]
    assert chosen_assignor(group(None, None, "range"), allowed) == "range"
    assert chosen_assignor(group("uniform", "range"), allowed) == "uniform"
    assert chosen_assignor(group(None), allowed) == "uniform"
    assert chosen_assignor(group("uniform"), ["range"]) == "range"


def test_static_members_come_first_in_ranges_whatever_their_lives_are_called():
    image = with_partitions(2)
    for member_id, instance in [("a", None), ("z", "i"), ("b", "h")]:
        asked = {"topics": [TOPIC], "instance_id": instance, "assignor": "range"}
        image = replay(image, join(image, "g", member_id=member_id, **asked))

    image = shared(image)

    assert [sorted(member(image, name).target) for name in "bza"] == [
        [PartitionKey(TOPIC_ID, 0)],
        [PartitionKey(TOPIC_ID, 1)],
        [],
    ]
