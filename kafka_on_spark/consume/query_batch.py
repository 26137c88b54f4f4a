"""A batch of a query: where it begins, where it ends, and the ranges that its tasks read. Pure.

A batch ends at one consistent cut: the high watermarks of all partitions in one image, or less by
`maxOffsetsPerTrigger`, `minOffsetsPerTrigger` and `maxTriggerDelay`. The end moves only when a
partition of the query moves, or when a loss must be reported to the query. Source:
KafkaOffsetReaderAdmin, KafkaMicroBatchStream.rateLimit and delayBatch, KafkaOffsetRangeCalculator.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.consume.options import Bound, Group, Offsets, Place, Timestamps, TriggerLimits
from kafka_on_spark.consume.positions import at, begin, partition_of
from kafka_on_spark.consume.settings import EARLIEST
from kafka_on_spark.consume.stream_offsets import (
    DataLoss,
    StreamOffset,
    could_not_read,
    has_new_generations,
    is_another_topic,
    partitions_deleted,
)
from kafka_on_spark.consume.subscription import Subscription, names_of, partitions_of
from kafka_on_spark.log.read_order import ReadOrder, plan_read
from kafka_on_spark.metadata.image import MetadataImage, key_of

Ends = Mapping[TopicPartition, int]
"""Offsets by partition."""

# Where it begins


TimeLookup = Callable[[Sequence[tuple[PartitionKey, int]]], Sequence[Offset | None]]
"""Finds the first records of partitions that are not older than times in ms, in order; None if all
committed records are older."""


def resolve(
    image: MetadataImage,
    wanted: Sequence[TopicPartition],
    bound: Bound,
    *,
    option: str,
    look_up: TimeLookup,
    loss: DataLoss,
) -> StreamOffset:
    """Return the offsets that `bound`, the value of an option, means for the partitions `wanted`.

    Raises:
        InvalidRequestError: Specific offsets do not name all partitions, or all records are older
            than a start.
    """
    if isinstance(bound, Timestamps):
        return StreamOffset.in_image(image, _by_time(image, wanted, bound, option, look_up))
    if isinstance(bound, Group):
        kept = loss.checked(image, _group_start(image, bound, wanted))
        return StreamOffset.in_image(image, kept.positions)
    if not isinstance(bound, Offsets):
        return StreamOffset.in_image(image, _resolved(image, dict.fromkeys(wanted, bound)))
    if names_of(bound.by_partition) != names_of(wanted):
        raise InvalidRequestError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions."
            " Use -1 for latest, -2 for earliest."
            f" Specified: {names_of(bound.by_partition)} Assigned: {names_of(wanted)}"
        )
    start = StreamOffset(positions=_resolved(image, bound.by_partition), cut=bound.cut)
    kept = start if bound.cut is None else loss.checked(image, start)
    return StreamOffset.in_image(image, kept.positions)


def _resolved(image: MetadataImage, places: Mapping[TopicPartition, Place]) -> Ends:
    return {
        name: place
        if isinstance(place, int)
        else at(image.topic(name.topic).partitions[name.partition], place).offset
        for name, place in places.items()
    }


def _by_time(
    image: MetadataImage,
    wanted: Sequence[TopicPartition],
    bound: Timestamps,
    option: str,
    look_up: TimeLookup,
) -> Ends:
    times = bound.given
    if isinstance(times, int):
        times = dict.fromkeys(wanted, times)
    if names_of(times) != names_of(wanted):
        raise InvalidRequestError(
            f"If {option}ByTimestamp contains specific offsets, you must specify all topics."
            f" Specified: {names_of(times)} Assigned: {names_of(wanted)}"
        )
    asked = [(key_of(image, name), times[name]) for name in wanted]
    ends = {}
    for name, (key, timestamp_ms), offset in zip(wanted, asked, look_up(asked), strict=True):
        if offset is None and not bound.is_latest_if_none:
            raise InvalidRequestError(
                f"No offset matched from request of topic-partition {name} and timestamp"
                f" {timestamp_ms}."
            )
        ends[name] = partition_of(image, key).high_watermark if offset is None else offset
    return ends


def _group_start(
    image: MetadataImage, group: Group, wanted: Sequence[TopicPartition]
) -> StreamOffset:
    """Return where a group stands, with the unclean generations in which its positions were saved.
    If it has saved an offset of some partition, the others were added later, and are read from
    their beginning."""
    keys = {name: key_of(image, name) for name in wanted}
    has_saved = any((group.name, key) in image.groups for key in keys.values())
    reset = EARLIEST if has_saved else group.default
    begun = {
        name: begin(image, key, group=group.name, reset=reset, is_added=False)
        for name, key in keys.items()
    }
    now = StreamOffset.in_image(image, {name: each.offset for name, each in begun.items()})
    assert now.cut is not None, "in_image sets the cut"
    generations = {name: each.unclean_generation for name, each in begun.items()}
    return replace(now, cut=replace(now.cut, unclean_generations=generations))


# Where it ends


def sizes(starts: Ends, ends: Ends) -> dict[TopicPartition, int]:
    """Return how many records lie between, by partition; only partitions with records."""
    return {name: end - starts[name] for name, end in ends.items() if end > starts[name]}


def is_delayed(
    limits: TriggerLimits, new_records: int, *, now_ms: int, last_trigger_ms: int | None
) -> bool:
    """Return whether a batch waits for more records; a run's first batch never does."""
    if limits.min_offsets is None or last_trigger_ms is None:
        return False
    is_over = now_ms - last_trigger_ms >= limits.max_delay_ms
    return not is_over and new_records < limits.min_offsets


def limited(starts: Ends, ends: Ends, max_offsets: int | None) -> Ends:
    """Return `ends`, cut so that about `max_offsets` records lie between.

    Each partition gets its share, and one record at least, so that small partitions never starve;
    the sum may exceed the limit by one record a partition.
    """
    if max_offsets is None:
        return ends
    found = sizes(starts, ends)
    total = sum(found.values())
    shares = {name: max_offsets * (size / total) for name, size in found.items()}
    counts = {
        name: math.ceil(share) if share < 1 else math.floor(share) for name, share in shares.items()
    }
    return {**ends, **{name: min(ends[name], starts[name] + counts[name]) for name in counts}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What a stream could read next: from `starts` to `ends` at most. `is_moved`: there are
    records, partitions, or a loss. `has_loss`: a loss must be reported at once."""

    starts: Ends
    ends: Ends
    is_moved: bool
    has_loss: bool

    @property
    def record_count(self) -> int:
        """Number of records between starts and ends."""
        return sum(sizes(self.starts, self.ends).values())

    def offset(self, image: MetadataImage, max_offsets: int | None = None) -> StreamOffset:
        """Return the next batch's end, of about `max_offsets` records."""
        return StreamOffset.in_image(image, limited(self.starts, self.ends, max_offsets))


def committed_ends(
    image: MetadataImage, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the high watermarks of the partitions `wanted`."""
    return {name: int(partition_of(image, key_of(image, name)).high_watermark) for name in wanted}


def bounded(ends: Ends, fixed: Ends) -> dict[TopicPartition, int]:
    """Return `ends`, but none beyond `fixed`, and only of its partitions."""
    return {name: min(end, fixed[name]) for name, end in ends.items() if name in fixed}


def available(
    image: MetadataImage,
    since: StreamOffset,
    subscription: Subscription,
    loss: DataLoss,
    *,
    fixed_ends: Ends | None = None,
) -> Available:
    """Return what a stream could read after `since`, up to `fixed_ends` if given, which also limit
    the partitions. A partition that `since` lacks was added later."""
    start = loss.checked(image, since)
    wanted = partitions_of(image, subscription, is_missing_failed=loss.is_failed)
    ends = committed_ends(image, wanted)
    if fixed_ends is not None:
        ends = bounded(ends, fixed_ends)
    dropped = start.positions.keys() - set(wanted)
    if dropped and loss.is_failed:
        raise partitions_deleted(dropped, "are in the checkpoint and not in the subscription")
    starts = {name: loss.first_offset(image, start, name) for name in ends}
    # Where a log shrank, a batch ends no earlier than it begins.
    ends = {name: max(end, starts[name]) for name, end in ends.items()}
    has_loss = (
        has_new_generations(image, since)
        or any(is_another_topic(image, since, name.topic) for name in ends)
        or start.positions != since.positions
    )
    return Available(
        starts=starts,
        ends=ends,
        is_moved=has_loss or ends != start.positions,
        has_loss=has_loss,
    )


# What its tasks read


def plan_ranges(
    image: MetadataImage,
    start: StreamOffset,
    end: StreamOffset,
    loss: DataLoss,
    *,
    client_rack: str | None,
) -> list[ReadOrder]:
    """Return one order a partition that has records between `start` and `end`. It has the replicas
    in the order in which they are tried when it is read (log/reading.py).

    Raises:
        OffsetOutOfRangeError: Records of the range are gone below the log start."""
    start, end = loss.checked(image, start), loss.checked(image, end)
    orders = []
    for name, last in sorted(end.positions.items()):
        key = key_of(image, name)
        log_start = partition_of(image, key).log_start_offset
        first = loss.first_offset(image, start, name)
        if first < min(log_start, last) and loss.is_failed:
            why = f"its log starts at {log_start}"
            raise could_not_read(name, first, min(log_start, last), why)
        first = max(first, log_start)
        if first < last:
            orders.append(
                plan_read(
                    image,
                    key,
                    start_offset=Offset(first),
                    end_offset=Offset(last),
                    client_rack=client_rack,
                )
            )
    return orders


def check_order(image: MetadataImage, start: StreamOffset, end: StreamOffset) -> None:
    """Raise InvalidRequestError if a batch ends before its start in a partition."""
    for name, last in end.positions.items():
        first, partition = start.positions[name], partition_of(image, key_of(image, name))
        high_watermark = partition.high_watermark
        # Between high watermark and log end a batch waits for commits, and is empty.
        is_waiting = last == high_watermark and first <= partition.known_log_end
        if first > last and not is_waiting:
            raise InvalidRequestError(
                "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET: The resolved start offset"
                f" {first} is greater than the resolved end offset {last} for topic {name.topic}"
                f" partition {name.partition}; its high watermark is {high_watermark}"
            )


def check_end(image: MetadataImage, end: StreamOffset) -> None:
    """Raise OffsetOutOfRangeError if a batch ends behind a log's end. An end between high watermark
    and log end is allowed, and cut to the high watermark."""
    for name, last in end.positions.items():
        partition = partition_of(image, key_of(image, name))
        if last > partition.known_log_end:
            why = (
                f"its log ends at {partition.known_log_end} and is committed up to"
                f" {partition.high_watermark}"
            )
            raise could_not_read(name, partition.high_watermark, last, why)


def split_ranges(
    orders: Sequence[ReadOrder], *, tasks_min: int | None, records_max: int | None
) -> list[ReadOrder]:
    """Return `orders` split so that there are about `tasks_min` of them at least, of `records_max`
    each at most. An order without records is dropped.

    Rounding may give a few tasks more or fewer than were asked for."""
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
