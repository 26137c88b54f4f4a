"""Splits ranges of partitions into tasks: `minPartitions` and `maxRecordsPerPartition`.

Pure. Source: KafkaOffsetRangeCalculator. As there, rounding may give a few tasks more than were
asked for, and never fewer.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapify, heapreplace

from kafka_on_spark.ids import Offset
from kafka_on_spark.query.reads.read_order import ReadOrder


def split_ranges(
    orders: Sequence[ReadOrder], *, tasks_min: int | None, records_max: int | None
) -> list[ReadOrder]:
    """Return `orders` split so that there are `tasks_min` of them at least, of `records_max` each
    at most. An order without records is dropped."""
    ranges = [order for order in orders if _size(order) > 0]
    if records_max is not None:
        ranges = [
            part for each in ranges for part in _parts(each, math.ceil(_size(each) / records_max))
        ]
    if tasks_min is None or len(ranges) >= tasks_min:
        return ranges
    counts = _shares([_size(each) for each in ranges], tasks_min)
    return [
        part for each, count in zip(ranges, counts, strict=True) for part in _parts(each, count)
    ]


def _shares(sizes: Sequence[int], tasks_min: int) -> list[int]:
    """Return into how many parts each range is split: `tasks_min` in all at least, unless there
    are fewer records."""
    total = sum(sizes)
    whole = [_part_count(size, total, tasks_min) == 1 for size in sizes]
    # Ranges that stay whole do not count in the shares of the others.
    rest = sum(size for size, is_whole in zip(sizes, whole, strict=True) if not is_whole)
    wanted = max(tasks_min - sum(whole), 1)
    counts = [
        1 if is_whole else min(_part_count(size, rest, wanted), size)
        for size, is_whole in zip(sizes, whole, strict=True)
    ]
    # Rounding may leave some tasks over: the range with the largest parts gets one more.
    largest = [
        (-size / count, place)
        for place, (size, count) in enumerate(zip(sizes, counts, strict=True))
    ]
    heapify(largest)
    for _ in range(min(tasks_min, total) - sum(counts)):
        _, place = largest[0]
        counts[place] += 1
        heapreplace(largest, (-sizes[place] / counts[place], place))
    return counts


def _size(order: ReadOrder) -> int:
    return order.end_offset - order.start_offset


def _part_count(size: int, total: int, wanted: int) -> int:
    # Java's Math.round: halves go up.
    return max(math.floor(size / total * wanted + 0.5), 1)


def _parts(order: ReadOrder, count: int) -> Iterator[ReadOrder]:
    """Yield `order` in `count` parts; the last parts take the remainder."""
    first, remaining = order.start_offset, _size(order)
    for place in range(count):
        size = remaining // (count - place)
        if size:
            last = Offset(first + size)
            yield replace(order, start_offset=first, end_offset=last)
            first, remaining = last, remaining - size
