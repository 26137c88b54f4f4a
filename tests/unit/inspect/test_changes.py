"""What changed between two images, in words; what many partitions share is one line."""

from dataclasses import replace

import pytest

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.changes import changes
from kafka_on_spark.inspect.history import history_text
from kafka_on_spark.metadata.group import ConsumerGroup, GroupMember
from kafka_on_spark.metadata.image import ControllerLease, GroupOffset, TopicImage
from kafka_on_spark.visible import visible
from tests.builders import KEY, TOPIC, TOPIC_ID, broker, disk, image_of, partition
from tests.unit.inspect.histories import entry
from tests.unit.service.lives import life

BEFORE = partition("1 2 3", hw=10)


def lines_of(before, after, **more):
    """Return the lines about one partition that was `before` and is `after`."""
    return list(changes(image_of(before), image_of(after, **more)).lines)


# fmt: off
CASES = [
    pytest.param(BEFORE, BEFORE, [], id="nothing"),
    pytest.param(BEFORE, partition("1 2 3", leader=2, epoch=6, hw=10), ["orders-0: broker 2 leads instead of broker 1"], id="leader"),
    pytest.param(BEFORE, partition("1 2 3", leader=None, epoch=6, hw=10), ["orders-0: nobody leads instead of broker 1"], id="no leader"),
    pytest.param(BEFORE, partition("1 2 3", epoch=7, hw=10), ["orders-0: broker 1 leads again after 2 elections"], id="the same leader again"),
    pytest.param(BEFORE, partition("1 2 3", "1", hw=10), ["orders-0: brokers 2 and 3 left the ISR, which is 1"], id="left"),
    pytest.param(partition("1 2 3", "1 2", hw=10), partition("1 2 3", "1 3", hw=10), ["orders-0: broker 2 left and broker 3 joined the ISR, which is 1 3"], id="left and joined"),
    pytest.param(BEFORE, partition("1 2 3", hw=11), ["orders: 1 record committed"], id="committed"),
    pytest.param(BEFORE, partition("1 2 3", "2", 2, epoch=6, hw=4, unclean_generation=1),
        ["orders-0: broker 2 leads instead of broker 1, by an unclean election: records may be lost",
         "orders-0: brokers 1 and 3 left the ISR, which is 2",
         "orders-0: the high watermark went back, from 10 to 4"], id="unclean"),
    pytest.param(BEFORE, partition("1 2 3", epoch=0, hw=3, unclean_generation=90),
        ["orders-0: another partition has the number: it was removed and added again"], id="added again"),
    pytest.param(partition("1 2 3", epoch=0, hw=3, unclean_generation=90), BEFORE,
        ["orders-0: another partition has the number: it was removed and added again"], id="added again, back in time"),
    pytest.param(BEFORE, partition("1 2 3", hw=10, start=6), ["orders-0: records below 6 were deleted"], id="log start"),
    pytest.param(BEFORE, partition("4 1 2 3", "1 2 3", 1, adding="4", removing="3", hw=10),
        ["orders-0: is being reassigned, from 1 2 3 to 4 1 2"], id="reassignment begins"),
    pytest.param(partition("4 1 2 3", "1 2 3", 1, adding="4", removing="3", hw=10), partition("4 1 2", "1 2 4", 1, hw=10),
        ["orders-0: broker 3 left and broker 4 joined the ISR, which is 1 2 4",
         "orders-0: reassignment ended, from 4 1 2 3 to 4 1 2"], id="reassignment ends"),
    pytest.param(BEFORE, partition("2 1 3", leader=1, hw=10), ["orders-0: replicas are 2 1 3 instead of 1 2 3"], id="another order"),
    pytest.param(partition("1 2 3", "1 2"), partition("1 2 3", "1", elr="2"),
        ["orders-0: broker 2 left the ISR, which is 1", "orders-0: broker 2 may lead though out of sync"], id="eligible"),
]
# fmt: on


@pytest.mark.parametrize("before, after, lines", CASES)
def test_changes_of_a_partition(before, after, lines):
    assert lines_of(before, after) == lines


def test_what_many_partitions_went_through_alike_is_one_line():
    before = image_of(*[BEFORE] * 10)
    after = image_of(*[replace(BEFORE, leader=2)] * 5, *[BEFORE] * 2, *[replace(BEFORE, leader=2)])
    after = image_of(*after.topics[TOPIC_ID].partitions.values(), *[BEFORE] * 2)

    assert changes(before, after).lines == ("orders-{0…4, 7}: broker 2 leads instead of broker 1",)


def test_brokers_settings_and_topics():
    begun = life("1 2", ids="1 2", min_insync_replicas="1")
    before = begun.image
    begun.set("min.insync.replicas", "2", topic=False).set("segment.bytes", "1048576")
    begun.fail(2)
    after = replace(begun.image, brokers={**begun.image.brokers, BrokerId(3): broker(3)})
    after = replace(
        after, controller=ControllerLease(controller_id="c", controller_epoch=4, offset=0)
    )

    assert list(changes(before, after).lines) == [
        "broker 2 was fenced",
        "broker 3 was registered, with the root memory://3",
        "the cluster: min.insync.replicas is 2 instead of 1",
        "orders: segment.bytes is set to 1048576",
        "orders-0: broker 2 left the ISR, which is 1",
        "orders-0: broker 2 may lead though out of sync",
        "5 controllerships began, the last in epoch 4",
    ]
    begun.come_back(2).delete()
    assert list(changes(after, begun.image).lines)[:4] == [
        "broker 2 is active again",
        "broker 3 was unregistered",
        "topic orders was deleted, with 1 partition",
        "4 controllerships began, the last in epoch 0",
    ]


def test_another_disk_and_another_rack_are_told():
    image = image_of(partition("1 2 3"))
    other = replace(image.brokers[BrokerId(1)], directory_id=disk(9), rack="b")

    lines = changes(image, replace(image, brokers={**image.brokers, BrokerId(1): other})).lines

    assert lines == (
        "broker 1 has another disk, with the root memory://1",
        "broker 1 is in rack b instead of none",
    )


def test_partitions_added_and_settings_removed_are_told():
    before = image_of(BEFORE, configs={"segment.bytes": "1048576"})
    after = image_of(BEFORE, partition("2 3 1"), partition("3 1 2"))

    assert list(changes(before, after).lines) == [
        "orders: 2 partitions added, 3 in all",
        "orders: segment.bytes is no longer set (it was 1048576)",
    ]
    assert changes(after, before).lines[0] == "orders: 2 partitions removed, 1 in all"


def test_a_topic_of_the_same_name_is_another_topic():
    before = image_of(BEFORE)
    again = TopicImage(name=TOPIC, topic_id="2" * 32, partitions={0: BEFORE})
    after = replace(before, topics={again.topic_id: again}, topic_ids={TOPIC: again.topic_id})

    assert list(changes(before, after).lines) == [
        "topic orders was deleted, with 1 partition",
        "topic orders was created again, with 1 partition",
    ]


def test_producers_and_groups_are_counted():
    before = image_of(BEFORE)
    after = replace(
        before,
        producers={"p": 0, "q": 3},
        groups={("readers", KEY): GroupOffset(offset=4, leader_epoch=None)},
    )

    assert list(changes(before, after).lines) == [
        "2 producers began a run",
        "group readers moved on in 1 partition",
    ]


def test_members_of_groups_are_counted_and_what_they_own():
    def group(**owned):
        members = {
            name: GroupMember(
                member_id=name, instance_id=None, subscribed_topics=(), assignor=None, owned=keys
            )
            for name, keys in owned.items()
        }
        return {"readers": ConsumerGroup(group_epoch=1, members=members)}

    nobody = image_of(BEFORE)
    first = replace(nobody, consumer_groups=group(a=frozenset({KEY})))
    second = replace(nobody, consumer_groups=group(b=frozenset(), c=frozenset({KEY})))

    assert list(changes(nobody, first).lines) == [
        "1 member joined group readers",
        "group readers has other owners of 1 partition",
    ]
    assert list(changes(first, second).lines) == [
        "2 members joined group readers",
        "1 member left group readers",
        "group readers has other owners of 1 partition",
    ]
    assert list(changes(first, nobody).lines) == ["1 member left group readers"]
    assert list(changes(first, first).lines) == []


def test_the_text_says_from_when_to_when_and_that_nothing_is_nothing():
    text = str(changes(image_of(BEFORE), image_of(BEFORE)))

    assert text.splitlines() == [
        "From 1970-01-01 00:00:00 UTC (metadata offset 100) to 1970-01-01 00:00:00 UTC"
        " (metadata offset 100):",
        "  nothing changed",
    ]


EVIL = "\x1b]0;owned\x07\u202egpj"


def test_texts_for_terminals_show_racks_roots_groups_and_causes_as_escapes():
    image = image_of(partition("1 2 3"))
    other = replace(image.brokers[BrokerId(1)], directory_id=disk(9), rack=EVIL, root=f"/{EVIL}")
    after = replace(image, brokers={**image.brokers, BrokerId(1): other})
    groups = {(EVIL, KEY): GroupOffset(offset=4, leader_epoch=None)}

    text = str(changes(image, replace(after, groups=groups)))

    assert text.count(visible(EVIL)) == 3
    history = [entry(0, 1, 0, "1 2", f"root {EVIL} is away")]
    assert visible(EVIL) in history_text(history)
    for shown in (text, history_text(history)):
        assert all(line.isprintable() for line in shown.splitlines())
