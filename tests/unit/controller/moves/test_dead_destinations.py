"""A move to a broker that stays away: another takes its place, or the move ends,
counted from the commit that fenced it, by the metadata log's time."""

from dataclasses import replace
from itertools import product

import pytest

from kafka_on_spark.controller.brokers.broker_changes import fence_broker, unfence_broker
from kafka_on_spark.controller.moves.dead_destinations import replan_stalled_moves
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import BrokerChangeRecord, MetadataBatch, Stamp
from kafka_on_spark.metadata.snapshot import snapshot_records
from tests.builders import KEY, TOPIC_ID, brokers, image_of, partition, subsets
from tests.committing import committed
from tests.unit.controller.moves.move_steps import finished, in_sync, only, replay, start

FENCED_AT_MS = 1_000_000
LIMIT_MS = 30_000


def row(image):
    one = only(image)
    lists = (one.replicas, one.adding_replicas, one.removing_replicas)
    replicas, adding, removing = (" ".join(map(str, each)) for each in lists)
    return replicas, adding, removing, one.leader, " ".join(map(str, sorted(one.isr)))


def away(image, text, *, since_ms=FENCED_AT_MS):
    """Return the image with brokers fenced since a time, whatever else is so."""
    fenced = image_of(ids="1", fenced="1").brokers[1].state
    changed = {
        each: replace(image.brokers[each], state=fenced, fenced_since_ms=since_ms)
        for each in brokers(text)
    }
    return replace(image, brokers=image.brokers | changed)


def replan(image, after_ms=LIMIT_MS):
    return replan_stalled_moves(
        image, now_ms=FENCED_AT_MS + after_ms, new_uuid=iter("abcdefgh").__next__
    )


# fmt: off
TO_4 = partition("4 1 2", isr="1 2", leader=1, adding="4", removing="2")
TO_4_5 = partition("4 5 1 2", isr="1 2 5", leader=5, adding="4 5", removing="1 2")
REPLANNED = [  # under way, broker 4 away   brokers        racks          row afterwards
    pytest.param(TO_4,   "1 2 3 4 5",   "",            ("3 1 2", "3", "2", 1, "1 2"),            id="the-first-of-the-emptiest"),
    pytest.param(TO_4,   "1 2 3 4 5",   "a b a b b",   ("5 1 2", "5", "2", 1, "1 2"),            id="a-rack-that-has-none"),
    pytest.param(TO_4,   "1 2 4 5",     "a b b a",     ("5 1 2", "5", "2", 1, "1 2"),            id="a-crowded-rack-is-better-than-none"),
    pytest.param(TO_4_5, "1 2 3 4 5",   "",            ("3 5 1 2", "3 5", "1 2", 5, "1 2 5"),    id="who-came-already-stays"),
    pytest.param(partition("4 1 2", isr="1 2", leader=1, adding="4"), "1 2 3 4", "", ("3 1 2", "3", "", 1, "1 2"), id="one-more-replica"),
    pytest.param(partition("4 1 2", isr="1 2", leader=None, adding="4", removing="2"), "1 2 3 4", "", ("3 1 2", "3", "2", None, "1 2"), id="nobody-leads"),
]
FAILED = [  # there is no other broker                                                  min  row afterwards
    pytest.param(TO_4,                                                                  1,  ("1 2", "", "", 1, "1 2"),  id="it-came-alone"),
    pytest.param(TO_4_5,                                                                2,  ("1 2", "", "", 1, "1 2"),  id="another-is-there-already"),
    pytest.param(partition("4 5 1 2", isr="1 5", leader=5, adding="4 5", removing="1 2"), 2,  None,                     id="too-few-of-the-old-are-in-sync"),
    pytest.param(partition("4 5 1 2", isr="1 5", leader=5, adding="4 5", removing="1 2"), 1,  ("1 2", "", "", 1, "1"),  id="enough-of-the-old-are-in-sync"),
    pytest.param(partition("4 5 1", isr="5", leader=5, adding="4 5", removing="1"),      1,  None,                       id="nobody-old-is-in-sync"),
    pytest.param(partition("5 4 1", isr="1 4", leader=1, adding="4 5", removing="1"),    1,  ("1", "", "", 1, "1"),      id="the-dead-one-is-in-sync-still"),
]
NOT_CONCERNED = [
    pytest.param(partition("4 1 2", isr="1 2", leader=1, removing="2"),                  id="it-was-there-before"),
    pytest.param(partition("5 1 2", isr="1 2", leader=1, adding="5", removing="2"),      id="another-comes"),
    pytest.param(partition("4 1 2", isr="1 2", leader=1),                                id="nothing-moves"),
]
# fmt: on


@pytest.mark.parametrize("under_way, ids, racks, expected", REPLANNED)
def test_another_broker_takes_the_place_of_one_that_stays_away(under_way, ids, racks, expected):
    image = away(image_of(under_way, ids=ids, racks=racks), "4")

    assert replan(image, LIMIT_MS - 1).records == []
    result = replan(image)

    after = replay(image, result)
    assert row(after) == expected
    assert result.response == [KEY]
    came = only(after).adding_replicas[0]
    assert only(after).uuid_of(came) == "a"  # a making that nobody has
    assert only(after).directory_of(came) is None  # so it is made, and fetched from the start
    assert only(after).leader_epoch == only(image).leader_epoch + 1  # old lists are fenced off
    assert replan(after).records == []


def test_what_is_decided_says_which_broker_was_away_for_how_long_and_which_comes():
    image = away(image_of(TO_4, ids="1 2 3 4"), "4")

    [record] = replan(image, 30_500).records

    assert record.cause == (
        "reassignment to 4 1 goes on to 3 1: broker 3 takes the place of 4; broker 4 has been away"
        " for 30.5 s (replica.lag.time.max.ms=30000)"
    )


def test_replacements_are_spread_over_the_brokers_with_fewest_replicas():
    moves = [partition("9 1", isr="1", leader=1, adding="9") for _ in range(6)]
    image = away(image_of(*moves, partition("2"), ids="1 2 3 4 9"), "9")

    after = replay(image, replan(image))

    comes = [after.topics[TOPIC_ID].partitions[each].adding_replicas for each in range(6)]
    assert [broker for (broker,) in comes] == [3, 4, 2, 3, 4, 2]


@pytest.mark.parametrize("under_way, minimum, expected", FAILED)
def test_a_move_that_no_other_broker_can_take_fails(under_way, minimum, expected):
    settings = {"min.insync.replicas": str(minimum)}
    ids = " ".join(map(str, sorted(under_way.replicas)))
    image = away(image_of(under_way, ids=ids, configs=settings), "4")

    assert replan(image, LIMIT_MS - 1).records == []
    result = replan(image)

    assert (row(replay(image, result)) if result.records else None) == expected
    assert result.response == ([] if expected is None else [KEY])
    for record in result.records:
        assert "failed; broker 4 has been away for 30.0 s" in record.cause


@pytest.mark.parametrize("under_way", NOT_CONCERNED)
def test_what_does_not_move_to_the_dead_broker_is_left_alone(under_way):
    assert replan(away(image_of(under_way, ids="1 2 3 4 5"), "4")).records == []


def test_a_move_to_a_broker_that_is_back_goes_on():
    image = image_of(TO_4, ids="1 2 3 4")
    image = replay(image, fence_broker(image, 4, "away"))
    image = replay(image, unfence_broker(image, 4, "back"))

    assert replan(image, 10**9).records == []


def test_the_window_begins_with_the_fencing_commit_and_outlives_snapshots():
    image = image_of(TO_4, ids="1 2 3 4")
    for time_ms in (FENCED_AT_MS, FENCED_AT_MS + 7_000):  # the second time says nothing new
        records = tuple(fence_broker(image, 4, "away").records) or fenced_again(image)
        image = committed(image, records, time_ms=time_ms)
    records = tuple(snapshot_records(image))
    snapshot = MetadataBatch(
        base_offset=0, stamp=Stamp(time_ms=FENCED_AT_MS + 20_000), records=records
    )
    successor = MetadataImage().replay(snapshot)

    for each in (image, successor):
        assert each.brokers[4].fenced_since_ms == FENCED_AT_MS
        assert replan(each, LIMIT_MS - 1).records == []
        assert replan(each, LIMIT_MS).response == [KEY]


def fenced_again(image):
    broker = image.brokers[4]
    return (
        BrokerChangeRecord(
            broker_id=4, broker_epoch=broker.broker_epoch, broker_state=broker.state
        ),
    )


def test_every_small_move_of_which_anybody_dies_ends_with_all_of_its_target_or_as_it_was():
    """Two of six come for two that go; any that come die, and any number of others are eligible."""
    ends = {"replaced": 0, "failed": 0}
    others = list(subsets(brokers("5 6")))
    for dead, spare, there in product(subsets(brokers("3 4")), others, subsets(brokers("3 4"))):
        if not dead:
            continue
        image = image_of(partition("1 2"), ids="1 2 3 4 5 6")
        image = replay(image, start(image, 3, 4))
        image = in_sync(image, " ".join(map(str, {1, 2} | (there - dead))))
        gone = dead | (set(brokers("5 6")) - spare)
        image = away(image, " ".join(map(str, gone)))
        after = replay(image, replan(image))
        one = only(after)
        assert one.isr >= {1, 2}
        assert set(one.adding_replicas).isdisjoint(gone)
        assert replan(after).records == []  # once
        if one.is_reassigning:
            assert len(one.target_replicas) == 2
            everyone = " ".join(map(str, one.replicas))
            done = only(finished(in_sync(after, everyone)))
            assert set(done.replicas) == set(one.target_replicas)
            assert len(done.replicas) == 2
            ends["replaced"] += 1
        else:
            assert set(one.replicas) == {1, 2}
            ends["failed"] += 1
            assert len(spare) < len(dead)
    # 3 ways to die, 4 to spare, 4 to be there: enough spare for one in 3 of 4, for two in 1 of 4.
    assert ends == {"replaced": (2 * 3 + 1) * 4, "failed": (2 * 1 + 3) * 4}


def test_a_move_that_can_neither_go_on_nor_back_keeps_no_other_from_it():
    """The first of two waits: nobody of those that would stay is in sync."""
    stuck = partition("4 1", isr="4", leader=4, adding="4", lost="1")
    image = away(image_of(stuck, partition("4 2", isr="2", leader=2, adding="4"), ids="1 2 4"), "4")

    result = replan(image)

    assert [each.partition for each in result.response] == [1]
