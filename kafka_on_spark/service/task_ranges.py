"""How ranges of partitions become tasks: `minPartitions` and `maxRecordsPerPartition`.

Pure. Source: KafkaOffsetRangeCalculator. A hint, as there: rounding may give a few more or fewer.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafka_on_spark.ids import Offset
from kafka_on_spark.service.reading import ReadOrder


def split(
    orders: Sequence[ReadOrder], *, tasks_min: int | None, records_max: int | None
) -> list[ReadOrder]:
    """Return `orders` split so that there are about `tasks_min` of them, of `records_max` each
    at most. An order without records is dropped."""
    ranges = [order for order in orders if _size(order) > 0]
    if records_max is not None:
        ranges = [
            part for each in ranges for part in _parts(each, math.ceil(_size(each) / records_max))
        ]
    if tasks_min is None or len(ranges) >= tasks_min:
        return ranges
    total = sum(map(_size, ranges))
    whole = [_part_count(_size(each), total, tasks_min) == 1 for each in ranges]
    # What is not split does not count in the shares of what is.
    rest = sum(_size(each) for each, is_whole in zip(ranges, whole, strict=True) if not is_whole)
    wanted = max(tasks_min - sum(whole), 1)
    return [
        part
        for each, is_whole in zip(ranges, whole, strict=True)
        for part in _parts(each, 1 if is_whole else _part_count(_size(each), rest, wanted))
    ]


def _size(order: ReadOrder) -> int:
    return order.end_offset - order.start_offset


def _part_count(size: int, total: int, wanted: int) -> int:
    # Java's Math.round: halves go up.
    return max(math.floor(size / total * wanted + 0.5), 1)


def _parts(order: ReadOrder, count: int) -> Iterator[ReadOrder]:
    """Yield `order` in `count` parts; the last ones take what division leaves over."""
    first, remaining = order.start_offset, _size(order)
    for place in range(count):
        size = remaining // (count - place)
        if size:
            last = Offset(first + size)
            yield replace(order, start_offset=first, end_offset=last)
            first, remaining = last, remaining - size
