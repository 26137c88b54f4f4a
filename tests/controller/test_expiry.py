"""What expires, when, and with which cause."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.controller.commands import REMOVE_GROUP_MEMBERS
from kafka_on_spark.controller.expiry import expire, needs_renewal
from kafka_on_spark.groups.membership import fence, join, leave, leave_group
from kafka_on_spark.groups.offsets import Membership
from kafka_on_spark.log.producer_state import registered_producers
from kafka_on_spark.metadata.image import (
    GroupOffset,
    MetadataImage,
    id_of_one_run,
    snapshot_records,
)
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    OffsetCommitRecord,
    ProducerRecord,
    RemoveProducerRecord,
    Stamp,
)
from tests.builders import TOPIC, TOPIC_ID, image_of, partition

DAY_MS = 24 * 3600 * 1000
WEEK_MS = 7 * DAY_MS
NOW_MS = 10 * WEEK_MS


def replayed(image, *records, at_ms=NOW_MS):
    batch = MetadataBatch(base_offset=image.offset, stamp=Stamp(time_ms=at_ms), records=records)
    return image.replay(batch)


def run(producer_id, epoch=0, **fields):
    return ProducerRecord(producer_id=producer_id, producer_epoch=epoch, **fields)


def removed(producer_id, epoch):
    return RemoveProducerRecord(producer_id=producer_id, producer_epoch=epoch)


def saved(offset, group="g"):
    return OffsetCommitRecord(
        group=group, topic_id=TOPIC_ID, partition=0, offset=offset, leader_epoch=None
    )


# fmt: off
TIMES = [  # since the last renewal   expires   is to be renewed
    pytest.param(0,             False, False, id="just now"),
    pytest.param(WEEK_MS // 2,  False, True,  id="half of the time"),
    pytest.param(WEEK_MS,       False, True,  id="all of it"),
    pytest.param(WEEK_MS + 1,   True,  True,  id="longer"),
    pytest.param(-DAY_MS,       False, False, id="by a clock that is ahead"),
    pytest.param(-WEEK_MS,      False, True,  id="by one that was far ahead"),
]
# fmt: on


@pytest.mark.parametrize("age_ms, is_expired, is_due", TIMES)
def test_a_producer_id_expires_unless_it_is_renewed(age_ms, is_expired, is_due):
    image = replayed(MetadataImage(), run("p", 3), at_ms=NOW_MS - age_ms)

    result = expire(image, NOW_MS)

    assert needs_renewal(image, "p", NOW_MS) is is_due
    assert result.response.producers == len(result.records) == is_expired
    if is_expired:
        [record] = result.records
        assert (record.producer_id, record.producer_epoch) == ("p", 3)
        assert record.cause == "producer 'p': not renewed within producer.id.expiration.ms"


def test_writers_under_a_transactional_id_stay():
    image = replayed(MetadataImage(), run("transaction/t"), at_ms=0)

    assert not expire(image, NOW_MS).records


def test_offsets_of_a_group_with_members_stay():
    image = replayed(image_of(partition("1 2 3", hw=9)), saved(5), at_ms=NOW_MS - WEEK_MS - 1)
    [joined] = join(image, "g", member_id="a", topics=[TOPIC]).records

    assert expire(image, NOW_MS).records
    assert not expire(replayed(image, joined), NOW_MS).records


# fmt: off
LAST_GOES = {
    "leaves":     lambda image, id_: leave_group(image, "g", Membership(id_, 0), processed={}, returns=False, now_ms=NOW_MS),
    "is fenced":  lambda image, id_: fence(image, "g", {id_: 45_000}, NOW_MS),
    "is removed": lambda image, id_: REMOVE_GROUP_MEMBERS.decision(replace(image, time_ms=NOW_MS), group="g", member_ids=[id_]),
}
# fmt: on


@pytest.mark.parametrize("how", LAST_GOES)
def test_a_groups_offsets_live_on_from_when_its_last_member_goes(how):
    """KIP-211: they were spared while it had members, and would all go in the next moment."""
    image = image_of(partition("1 2 3", hw=9), partition("1 2 3", hw=9))
    image = replayed(image, saved(5), saved(6, "other"), at_ms=NOW_MS - WEEK_MS - 1)
    for name in "ab":
        image = replayed(image, *join(image, "g", member_id=name, topics=[TOPIC]).records)

    first = LAST_GOES[how](image, "a")
    image = replayed(image, *first.records)
    last = LAST_GOES[how](image, "b")
    image = replayed(image, *last.records)

    assert len(first.records) == 1, "others are there"
    assert not image.consumer_groups
    [again, _] = last.records
    assert again.cause == f"group 'g' stands at 5 of {TOPIC}-0 as its last member goes"
    assert [each.group for each in expire(image, NOW_MS + WEEK_MS).records] == ["other"]
    assert len(expire(image, NOW_MS + WEEK_MS + 1).records) == 2


def test_as_the_last_member_goes_only_offsets_that_are_old_are_saved_again_as_they_are():
    known = GroupOffset(
        offset=Offset(5), leader_epoch=4, unclean_generation=1, saved_at_ms=NOW_MS - WEEK_MS // 2
    )
    young = replace(known, saved_at_ms=NOW_MS - WEEK_MS // 2 + 1)
    keys = [PartitionKey(TOPIC_ID, each) for each in range(3)]
    image = image_of(*(partition("1", hw=9, unclean_generation=2) for _ in keys))
    groups = {("g", key): each for key, each in zip(keys, (known, young, known), strict=True)}
    image = replace(image, group_offsets=groups, time_ms=NOW_MS)
    image = replayed(image, *join(image, "g", member_id="a", topics=[TOPIC]).records)
    moved = replace(saved(7), partition=2)

    kept = leave(image, "g", "a", NOW_MS, saved=[moved])
    after = replayed(image, *kept.records)

    assert len(kept.records) == 3
    assert after.group_offsets["g", keys[0]] == replace(known, saved_at_ms=NOW_MS)
    assert after.group_offsets["g", keys[1]] == young
    assert after.group_offsets["g", keys[2]].offset == 7


def test_an_id_that_comes_back_is_not_expired_any_more():
    image = replayed(MetadataImage(), run("p", 3), removed("p", 3))
    assert image.expired_producers == {"p": 3}

    image = replayed(image, run("p", 4))

    assert (image.producers, image.expired_producers) == ({"p": 4}, {})
    assert image.expired_epoch == 3


def test_a_snapshot_keeps_the_times_and_the_epochs_of_those_that_have_expired():
    image = image_of(partition("1 2 3", hw=9))
    image = replayed(image, run("p", 3), run("q", 7), saved(5), at_ms=5)
    one_run = id_of_one_run("0" * 32)
    image = replayed(image, run(one_run, 9), removed("q", 7), removed(one_run, 9), at_ms=9)

    rebuilt = replayed(MetadataImage(), *snapshot_records(image), at_ms=NOW_MS)

    assert rebuilt.producer_times == image.producer_times == {"p": 5}
    assert rebuilt.expired_epoch == image.expired_epoch == 9
    assert rebuilt.expired_producers == image.expired_producers == {"q": 7}
    [position] = rebuilt.group_offsets.values()
    assert position.saved_at_ms == 5
    assert set(registered_producers(rebuilt).ids) == {"p"}
    assert registered_producers(MetadataImage()) is None
    assert PartitionKey(TOPIC_ID, 0) == next(iter(rebuilt.group_offsets))[1]
