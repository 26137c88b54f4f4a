"""Plans the ranges between two positions of a query, one read order a partition with records, and
splits them into tasks: `minPartitions` and `maxRecordsPerPartition`.

Pure. Which replica serves is decided when it is read (log/reading.py).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.consume.data_loss import (
    checked_position,
    could_not_read,
    first_offset,
)
from kafka_on_spark.consume.standing import FindCuts
from kafka_on_spark.consume.stream_offsets import StreamOffset
from kafka_on_spark.log.read_order import ReadOrder, plan_read
from kafka_on_spark.metadata.image import MetadataImage


def plan_ranges(
    image: MetadataImage,
    start: StreamOffset,
    end: StreamOffset,
    *,
    is_data_loss_failed: bool,
    client_rack: str | None,
    find_cuts: FindCuts,
) -> list[ReadOrder]:
    """Return one order a partition that has records between `start` and `end`.

    A partition that `start` does not know is read from its beginning.

    Raises:
        OffsetOutOfRangeError: Records of the range are gone below the log start, or are not
            committed.
        And as `data_loss.checked_position`.
    """
    start, end = (
        checked_position(image, each, is_data_loss_failed=is_data_loss_failed, find_cuts=find_cuts)
        for each in (start, end)
    )
    orders = []
    for name, partitions in sorted(end.positions.items()):
        topic = image.topic(name)
        for number, last in sorted(partitions.items()):
            log_start = topic.partitions[number].log_start_offset
            first = first_offset(
                image, start, name, number, is_data_loss_failed=is_data_loss_failed
            )
            if first < min(log_start, last) and is_data_loss_failed:
                why = f"its log starts at {log_start}"
                raise could_not_read(f"{name}-{number}", first, min(log_start, last), why)
            first = max(first, log_start)
            if first >= last:
                continue
            orders.append(
                plan_read(
                    image,
                    PartitionKey(TopicId(topic.topic_id), number),
                    start_offset=Offset(first),
                    end_offset=Offset(last),
                    client_rack=client_rack,
                )
            )
    return orders


def check_order(image: MetadataImage, start: StreamOffset, end: StreamOffset) -> None:
    """Check that a batch ends before its start in no partition.

    Raises:
        InvalidRequestError: It does in one.
    """
    for name, partitions in end.positions.items():
        for number, last in partitions.items():
            first = start.positions[name][number]
            if first > last and not _waits_for_commits(image, name, number, first, last):
                high_watermark = image.topic(name).partitions[number].high_watermark
                raise InvalidRequestError(
                    "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: The resolved start offset"
                    f" {first} is greater than the resolved end offset {last} for topic {name}"
                    f" partition {number}; its high watermark is {high_watermark}"
                )


def _waits_for_commits(image: MetadataImage, name: str, number: int, first: int, last: int) -> bool:
    """Return whether a batch begins between high watermark and log end, so that it is empty."""
    partition = image.topic(name).partitions[number]
    return last == partition.high_watermark and first <= partition.known_log_end


def check_end(image: MetadataImage, end: StreamOffset) -> None:
    """Check that a batch ends behind the log's end in no partition.

    An end between high watermark and log end is allowed, and cut to the high watermark.

    Raises:
        OffsetOutOfRangeError: It does in one.
    """
    for name, partitions in end.positions.items():
        for number, last in partitions.items():
            partition = image.topic(name).partitions[number]
            if last > partition.known_log_end:
                why = (
                    f"its log ends at {partition.known_log_end} and is committed up to"
                    f" {partition.high_watermark}"
                )
                raise could_not_read(f"{name}-{number}", partition.high_watermark, last, why)


def split_ranges(
    orders: Sequence[ReadOrder], *, tasks_min: int | None, records_max: int | None
) -> list[ReadOrder]:
    """Return `orders` split so that there are about `tasks_min` of them at least, of `records_max`
    each at most. An order without records is dropped.

    Rounding may give a few tasks more or fewer than were asked for. Source:
    KafkaOffsetRangeCalculator.
    """
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
    """Return into how many parts each range is split: about `tasks_min` in all."""
    total = sum(sizes)
    whole = [_part_count(size, total, tasks_min) == 1 for size in sizes]
    # Ranges that stay whole do not count in the shares of the others.
    rest = sum(size for size, is_whole in zip(sizes, whole, strict=True) if not is_whole)
    wanted = max(tasks_min - sum(whole), 1)
    return [
        1 if is_whole else min(_part_count(size, rest, wanted), size)
        for size, is_whole in zip(sizes, whole, strict=True)
    ]


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
