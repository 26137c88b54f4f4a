"""Plans the ranges between two positions of a query: one read order a partition with records.

Pure. Which replica serves is decided when it is read (service/read/reading.py).
"""

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.data_loss import (
    CutsSince,
    checked_position,
    could_not_read,
    no_cuts,
    starts_late,
)
from kafka_on_spark.query.offsets.stream_offsets import StreamOffset
from kafka_on_spark.query.reads.read_order import ReadOrder, plan_read


def plan_ranges(
    image: MetadataImage,
    start: StreamOffset,
    end: StreamOffset,
    *,
    is_data_loss_failed: bool,
    client_rack: str | None,
    cuts_since: CutsSince = no_cuts,
) -> list[ReadOrder]:
    """Return one order a partition that has records between `start` and `end`.

    A partition that `start` does not know is read from its beginning.

    Raises:
        OffsetOutOfRangeError: Records of the range are gone below the log start, or are not
            committed.
        And as `data_loss.checked_position`.
    """
    start, end = (
        checked_position(
            image, each, is_data_loss_failed=is_data_loss_failed, cuts_since=cuts_since
        )
        for each in (start, end)
    )
    orders = []
    for name, partitions in sorted(end.positions.items()):
        topic = image.topic(name)
        for number, last in sorted(partitions.items()):
            first = start.positions.get(name, {}).get(number)
            span = _span(image, name, number, first, last, is_data_loss_failed=is_data_loss_failed)
            if span is None:
                continue
            orders.append(
                plan_read(
                    image,
                    PartitionKey(TopicId(topic.topic_id), number),
                    start_offset=Offset(span[0]),
                    end_offset=Offset(span[1]),
                    client_rack=client_rack,
                )
            )
    return orders


def _span(
    image: MetadataImage,
    name: str,
    number: int,
    first: int | None,
    last: int,
    *,
    is_data_loss_failed: bool,
) -> tuple[int, int] | None:
    """Return the part of a range that the log has, or None."""
    partition = image.topic(name).partitions[number]
    place, log_start = f"{name}-{number}", partition.log_start_offset
    if first is None:
        first = log_start
        if log_start > 0 and is_data_loss_failed:
            raise starts_late(place, log_start)
    if first < min(log_start, last) and is_data_loss_failed:
        raise could_not_read(place, first, min(log_start, last), f"its log starts at {log_start}")
    first = max(first, log_start)
    return (first, last) if first < last else None


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
