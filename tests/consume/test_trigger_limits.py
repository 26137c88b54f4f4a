"""How much a micro-batch takes, how long it waits, and how many tasks it becomes."""

import pytest

from kafka_on_spark.base.ids import Offset, TopicPartition
from kafka_on_spark.consume.next_offset import TriggerLimits, is_delayed, limited
from kafka_on_spark.consume.read_plan import split_ranges
from kafka_on_spark.log.read_order import ReadOrder
from tests.builders import KEY, partition

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
    ([1, 100],        3,    None, [1, 50, 50]),               # what is whole does not count
    ([1, 1, 998],     10,   None, [1, 1, *[124, 125, 125, 125, 124, 125, 125, 125]]),
    ([3],             5,    None, [1, 1, 1]),                 # no empty tasks
    ([10],            None, 4,    [3, 3, 4]),
    ([10, 4],         None, 5,    [5, 5, 4]),
    ([10],            4,    5,    [2, 3, 2, 3]),              # both
    ([],              4,    5,    []),
]
# fmt: on


def ends(offsets):
    return {"t": dict(enumerate(offsets))}


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


def test_every_small_split_covers_each_record_once():
    for first in range(1, 7):
        for second in range(7):
            for tasks_min in (None, *range(1, 9)):
                for records_max in (None, 1, 2, 3):
                    orders = [order(0, first), order(100, second)]
                    parts = split_ranges(orders, tasks_min=tasks_min, records_max=records_max)
                    covered = [n for p in parts for n in range(p.start_offset, p.end_offset)]
                    assert covered == [*range(first), *range(100, 100 + second)]
                    largest = max(p.end_offset - p.start_offset for p in parts)
                    assert records_max is None or largest <= records_max
