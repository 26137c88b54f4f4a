"""A batch of a query: what moved, came or was lost since, its limits, ranges and tasks."""

import json

import pytest

from kafka_on_spark.base.errors import (
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, TopicPartition
from kafka_on_spark.consume.query_batch import (
    DataLoss,
    StreamOffset,
    TriggerLimits,
    available,
    check_order,
    check_within_logs,
    committed_ends,
    is_delayed,
    limited,
    plan_ranges,
    split_ranges,
)
from kafka_on_spark.consume.subscription import Assign, Subscribe, SubscribePattern
from kafka_on_spark.groups.offsets import cuts_after
from kafka_on_spark.log.read_order import ReadOrder
from tests.builders import KEY, TOPIC, by_name, image_of, image_of_topics, partition
from tests.controller.added_again import added_again

A = Subscribe(("a",))
EVERYTHING = SubscribePattern(".*")


def image(*ends, offset=200, **fields):
    """Return an image with topic `a` of partitions that end there."""
    return image_of_topics({"a": [partition("1", hw=end) for end in ends]}, offset, **fields)


def at(*positions, of=None):
    """Return a query's offset in topic `a`, as it was stored."""
    named = by_name({"a": dict(enumerate(positions))})
    stored = StreamOffset.in_image(of or image(*positions, offset=150), named)
    return StreamOffset.from_json(json.loads(json.dumps(stored.to_json())))


def no_cuts(generations):
    return {}


def next_batch(now, since, subscription=A, *, fails=True, find_cuts=no_cuts, **fields):
    return available(now, since, subscription, DataLoss(fails, find_cuts), **fields)


def spans(now, start, end, *, fails=True, find_cuts=no_cuts):
    """Return the ranges between two offsets by partition."""
    orders = plan_ranges(now, start, end, DataLoss(fails, find_cuts), client_rack=None)
    return {str(each.name): (each.start_offset, each.end_offset) for each in orders}


# fmt: off
MOVES = [
    ((5, 5), (5, 5),    False, {0: 5, 1: 5},        0),
    ((5, 5), (5, 6),    True,  {0: 5, 1: 6},        1),
    ((5, 0), (8, 2),    True,  {0: 8, 1: 2},        5),
    ((5,),   (5, 0),    True,  {0: 5, 1: 0},        0),  # an empty partition that came is known from now on
    ((5,),   (5, 3),    True,  {0: 5, 1: 3},        3),  # and read from its beginning
]
# fmt: on


@pytest.mark.parametrize("since, ends, is_moved, expected, count", MOVES)
def test_the_cut_moves_only_when_a_partition_of_the_query_moves(
    since, ends, is_moved, expected, count
):
    found = next_batch(image(*ends), at(*since))

    assert (found.is_moved, found.has_loss) == (is_moved, False)
    assert found.ends == by_name({"a": expected})
    assert found.record_count == count


def test_plain_kafka_json_is_an_offset_too():
    plain = StreamOffset.from_json({"a": {"0": 5}})

    found = next_batch(image(7), plain)

    assert plain.to_json() == {"a": {"0": 5}}
    assert found.ends == by_name({"a": {0: 7}})
    assert found.offset(image(7)).cut is not None
    assert spans(image(7), plain, found.offset(image(7))) == {"a-0": (5, 7)}


# fmt: off
NO_OFFSETS = [
    ({"a": 5},                              "a stored offset is not of this source"),
    ({"a": {"x": 5}},                       "a stored offset is not of this source"),
    ({"$cut": {"cluster_id": "c"}},         "the '$cut' of an offset is not of this source"),
    ({"$cut": 5, "a": {"0": 1}},            "the '$cut' of an offset is not of this source"),
    ({"$cut": {"version": 2}},              "the offset has format version 2, this kafka_on_spark reads up to 1: use a newer kafka_on_spark"),
]
# fmt: on


@pytest.mark.parametrize("offset, sentence", NO_OFFSETS)
def test_what_is_no_offset_of_ours_is_refused_in_a_sentence(offset, sentence):
    with pytest.raises(InvalidRequestError) as caught:
        StreamOffset.from_json(offset)

    assert sentence in str(caught.value)


def test_a_partition_that_comes_without_its_beginning_is_told():
    now = image_of_topics({"a": [partition("1", hw=5), partition("1", start=2, hw=4)]}, 200)

    with pytest.raises(OffsetOutOfRangeError) as caught:
        next_batch(now, at(5))
    found = next_batch(now, at(5), fails=False)

    assert (
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Added partition a-1 starts from 2 instead of 0"
        in str(caught.value)
    )
    assert spans(now, at(5), found.offset(now), fails=False) == {"a-1": (2, 4)}


# fmt: off
LOSSES = [  # the cluster as it is now, a query at offset 5 of a-0, and what it is told
    pytest.param(image_of_topics({}, 200),                                       UnknownTopicOrPartitionError, "KAFKA_DATA_LOSS.PARTITIONS_DELETED: Partitions a-0 have been deleted", id="topic gone"),
    pytest.param(image(9, ids={"a": "another"}),                                 InconsistentTopicIdError,     "KAFKA_DATA_LOSS: topic 'a' was deleted and created again",             id="topic created again"),
    pytest.param(image(4),                                                       LogTruncatedError,            "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: Partition a-0 offset was changed from 5 to 4, and its log ends at 4: the start offset is set too high", id="too high a start"),
    pytest.param(image_of_topics({"a": [partition("1", hw=4, unclean_generation=1)]}, 200), LogTruncatedError, "offset was changed from 5 to 4: it was led by a replica that lacked committed records (an unclean election), or removed and added again", id="unclean election"),
    pytest.param(image_of_topics({"a": [partition("1", hw=9, unclean_generation=1)]}, 200), LogTruncatedError, "offset was changed from 5 to 9: it was led by a replica", id="unclean election and new records"),
]
OTHERS = [
    pytest.param(image(9, cluster_id="other"),      "the stored offsets are of cluster cluster, not of other: start with a new checkpoint",  id="another cluster"),
    pytest.param(image(9, offset=149),              "taken at metadata offset 150, and the metadata log of cluster cluster ends at 149: it was rolled back", id="rolled back"),
]
# fmt: on


@pytest.mark.parametrize("now, error, sentence", LOSSES)
def test_a_loss_is_told_at_the_next_trigger_and_at_a_batch_run_again(now, error, sentence):
    with pytest.raises(error) as refused:
        next_batch(now, at(5))
    with pytest.raises(error) as planning:
        spans(now, at(3), at(5))

    assert sentence in str(refused.value)
    assert "failOnDataLoss to false" in str(refused.value)
    assert type(planning.value) is error


@pytest.mark.parametrize("now, sentence", OTHERS)
@pytest.mark.parametrize("fails", [True, False])
def test_offsets_of_another_cluster_are_no_data_loss_to_pass_over(now, sentence, fails):
    with pytest.raises(InconsistentClusterIdError) as caught:
        next_batch(now, at(5), fails=fails)

    assert sentence in str(caught.value)


def test_a_partition_that_the_subscription_no_longer_has_is_told():
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        next_batch(image(5, 5), at(5, 5), Assign({"a": (0,)}))
    found = next_batch(image(5, 5), at(5, 5), Assign({"a": (0,)}), fails=False)

    assert "Partitions a-1 are in the checkpoint and not in the subscription" in str(caught.value)
    assert found.ends == by_name({"a": {0: 5}})


# fmt: off
PASSED_OVER = [  # the cluster as it is now, where unclean elections cut, and what a query at 5 reads
    pytest.param(image(9, ids={"a": "another"}),                                          None, {"a-0": (0, 9)}, id="topic created again"),
    pytest.param(image(5, ids={"a": "another"}),                                          None, {"a-0": (0, 5)}, id="topic created again, as long"),
    pytest.param(image(0, ids={"a": "another"}),                                          None, {},              id="topic created again, empty"),
    pytest.param(image_of_topics({"a": [partition("1", hw=4, unclean_generation=1)]}, 200),  4, {},              id="unclean election"),
    pytest.param(image_of_topics({"a": [partition("1", hw=9, unclean_generation=1)]}, 200),  4, {"a-0": (4, 9)}, id="new records in place of lost ones"),
    pytest.param(image_of_topics({"a": [partition("1", hw=5, unclean_generation=1)]}, 200),  7, {},              id="only what was not read is lost"),
]
# fmt: on


@pytest.mark.parametrize("now, cut, expected", PASSED_OVER)
def test_passed_over_a_loss_is_noted_and_all_that_there_is_now_is_read(now, cut, expected):

    def find_cuts(generations):
        return {each: Offset(cut) for each in generations}

    found = next_batch(now, at(5), fails=False, find_cuts=find_cuts)
    end = found.offset(now)

    assert found.is_moved
    assert found.has_loss
    assert spans(now, at(5), end, fails=False, find_cuts=find_cuts) == expected
    # Noted once: from the offset that was stored then nothing is lost.
    assert not next_batch(now, end).is_moved


@pytest.mark.parametrize("end", [3, 5, 8])
def test_a_partition_that_was_removed_and_added_again_is_not_taken_for_the_old_one(end):
    since = at(2, 5, of=image(2, 5, offset=150))
    world = added_again(image(2, 5, offset=150), "a", end)
    more = {"fails": False, "find_cuts": lambda since: cuts_after(world.pieces, since)}

    with pytest.raises(LogTruncatedError, match=r"a-1 offset was changed from 5 .* added again"):
        next_batch(world.image, since)
    with pytest.raises(LogTruncatedError, match="a-1 offset was changed from 5"):
        spans(world.image, at(0, 0), since)
    after = next_batch(world.image, since, **more).offset(world.image)

    assert spans(world.image, since, after, **more) == {"a-1": (0, end)}
    assert not next_batch(world.image, after).is_moved


def test_what_is_available_now_bounds_a_query_to_its_end():
    fixed = committed_ends(image(5, 6), [("a", 0), ("a", 1)])
    expanded = image_of_topics({"a": [partition("1", hw=9)] * 3, "b": [partition("1", hw=1)]}, 300)

    found = next_batch(expanded, at(2, 2), EVERYTHING, fixed_ends=fixed)

    assert found.ends == by_name({"a": {0: 5, 1: 6}})
    assert not next_batch(expanded, found.offset(expanded), EVERYTHING, fixed_ends=fixed).is_moved


def test_records_that_retention_has_taken_are_told_or_passed_over():
    now = image_of_topics({"a": [partition("1", start=7, hw=10)]}, 200)

    with pytest.raises(OffsetOutOfRangeError) as caught:
        spans(now, at(5), at(9))

    assert str(caught.value) == (
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset [5, 7) for"
        " topic partition a-0: its log starts at 7; set failOnDataLoss to false to go on without"
        " them"
    )
    assert spans(now, at(5), at(5)) == {}  # a batch that reads nothing of it has lost nothing
    assert spans(now, at(5), at(9), fails=False) == {"a-0": (7, 9)}
    assert spans(now, at(5), at(6), fails=False) == {}


# Where a batch may begin and end

PARTLY_COMMITTED = image_of(partition("1", hw=3, hw_epoch=0, leo=5))


def plain_at(offset):
    return StreamOffset(positions=by_name({TOPIC: {0: offset}}))


@pytest.mark.parametrize("end", [0, 2, 3, 4, 5])
def test_a_batch_ends_at_or_below_the_log_end(end):
    check_within_logs(PARTLY_COMMITTED, plain_at(end))


@pytest.mark.parametrize("end", [6, 9])
def test_a_batch_that_ends_above_the_log_end_is_refused(end):
    with pytest.raises(OffsetOutOfRangeError, match="its log ends at 5 and is committed up to 3"):
        check_within_logs(PARTLY_COMMITTED, plain_at(end))


# fmt: off
ORDERS = [  # start end
    pytest.param(0, 3, id="forward"),
    pytest.param(2, 2, id="empty"),
    pytest.param(4, 3, id="between the high watermark and the log end it waits"),
    pytest.param(5, 3, id="at the log end, too"),
]
BACKWARD = [
    pytest.param(2, 1, id="below the high watermark"),
    pytest.param(6, 3, id="from above the log end"),
    pytest.param(5, 4, id="to no end of what is committed"),
]
# fmt: on


@pytest.mark.parametrize("start, end", ORDERS)
def test_a_batch_may_be_empty(start, end):
    check_order(PARTLY_COMMITTED, plain_at(start), plain_at(end))


@pytest.mark.parametrize("start, end", BACKWARD)
def test_a_batch_that_ends_before_it_begins_is_refused(start, end):
    with pytest.raises(InvalidRequestError, match="RESOLVED_START_OFFSET_GREATER"):
        check_order(PARTLY_COMMITTED, plain_at(start), plain_at(end))


# How much a batch takes, how long it waits, and how many tasks it becomes

# Starts, ends, limit, and the ends that follow (Source: KafkaMicroBatchStream.rateLimit).
# fmt: off
RATES = [
    ([0, 0],      [100, 100],   50,   [25, 25]),
    ([0, 0],      [300, 100],   100,  [75, 25]),
    ([10, 20],    [310, 120],   100,  [85, 45]),
    ([0, 0],      [999, 1],     10,   [9, 1]),        # a share below one is one: nobody starves
    ([0, 0, 0],   [1, 1, 1],    1,    [1, 1, 1]),     # so the sum may be above the limit
    ([0, 0],      [7, 7],       5,    [2, 2]),        # 2.5 is floored
    ([0, 5],      [10, 5],      4,    [4, 5]),        # nothing new in the second
    ([0],         [3],          10,   [3]),           # never behind the end
    ([0],         [3],          None, [3]),
    ([3],         [3],          1,    [3]),
    ([0],         [2**62],      2**61, [2**61]),
]
DELAYS = [  # min, new records, ms since the last trigger, is it delayed
    (None, 0,  0,     False),
    (10,   9,  0,     True),
    (10,   10, 0,     False),
    (10,   9,  99,    True),
    (10,   9,  100,   False),
    (10,   0,  1000,  False),
    (10,   9,  None,  False),  # the first batch of a run
]
TASKS = [  # sizes, minPartitions, maxRecordsPerPartition, sizes of tasks
    ([10, 10],        None, None, [10, 10]),
    ([10, 0, 10],     None, None, [10, 10]),
    ([10, 10],        2,    None, [10, 10]),
    ([10, 10],        4,    None, [5, 5, 5, 5]),
    ([10, 10],        3,    None, [5, 5, 5, 5]),              # rounding: 1.5 is 2, each
    ([1, 100],        3,    None, [1, 33, 33, 34]),
    ([1, 1, 998],     10,   None, [1, 1, *[99, 99, *[100] * 8]]),
    ([3],             5,    None, [1, 1, 1]),                 # no empty tasks
    ([10],            None, 4,    [3, 3, 4]),
    ([10, 4],         None, 5,    [5, 5, 4]),
    ([10],            4,    5,    [2, 3, 2, 3]),              # both
    ([],              4,    5,    []),
]
# fmt: on


def ends(offsets):
    return by_name({"t": dict(enumerate(offsets))})


@pytest.mark.parametrize("starts, available, limit, expected", RATES)
def test_a_limit_is_shared_by_what_each_partition_has(starts, available, limit, expected):
    assert limited(ends(starts), ends(available), limit) == ends(expected)


@pytest.mark.parametrize("minimum, count, elapsed_ms, expected", DELAYS)
def test_a_batch_waits_for_enough_records_or_long_enough(minimum, count, elapsed_ms, expected):
    limits = TriggerLimits(min_offsets=minimum, max_delay_ms=100)
    last = None if elapsed_ms is None else 5000 - elapsed_ms

    assert is_delayed(limits, count, now_ms=5000, last_trigger_ms=last) is expected


def order(first, size):
    return ReadOrder(
        name=TopicPartition("t", 0),
        key=KEY,
        partition=partition("1", hw=10_000),
        start_offset=Offset(first),
        end_offset=Offset(first + size),
        candidates=(),
    )


@pytest.mark.parametrize("given, tasks_min, records_max, expected", TASKS)
def test_ranges_are_split_into_tasks(given, tasks_min, records_max, expected):
    orders = [order(1000 * place, size) for place, size in enumerate(given)]

    parts = split_ranges(orders, tasks_min=tasks_min, records_max=records_max)

    sizes = [part.end_offset - part.start_offset for part in parts]
    assert sorted(sizes) == sorted(expected)
    covered = [offset for part in parts for offset in range(part.start_offset, part.end_offset)]
    assert covered == [1000 * p + n for p, size in enumerate(given) for n in range(size)]
