"""The next batch of a stream: where it starts, where it ends, and whether anything is new.

Pure. The end is one consistent cut: the high watermarks of all partitions in one image, or less if
`trigger_limits` says so. It moves only when a partition of the query moves, or when a loss must be
reported to the query.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.offsets.data_loss import (
    CutsSince,
    checked_position,
    has_new_generations,
    is_another_topic,
    no_cuts,
    partitions_deleted,
    starts_late,
)
from kafka_on_spark.query.offsets.stream_offsets import StreamOffset
from kafka_on_spark.query.offsets.trigger_limits import Ends, limited, sizes
from kafka_on_spark.query.subscription import Partitions, Subscription, partitions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """What a stream could read next.

    Attributes:
        starts: Where it would begin, for every partition of `ends`.
        ends: Where it could end at most.
        is_moved: There is something new: records, partitions, or a loss.
        has_loss: A loss must be reported at once.
    """

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


def committed_ends(image: MetadataImage, wanted: Partitions) -> dict[str, dict[int, int]]:
    """Return the high watermarks of the partitions `wanted`."""
    return {
        name: {number: int(image.topic(name).partitions[number].high_watermark) for number in each}
        for name, each in wanted.items()
    }


def bounded(ends: Ends, fixed: Ends) -> dict[str, dict[int, int]]:
    """Return `ends`, but none beyond `fixed`, and only of its partitions."""
    return {
        name: {
            number: min(end, fixed[name][number])
            for number, end in partitions.items()
            if number in fixed[name]
        }
        for name, partitions in ends.items()
        if name in fixed
    }


def available(
    image: MetadataImage,
    since: StreamOffset,
    subscription: Subscription,
    *,
    is_data_loss_failed: bool,
    fixed_ends: Ends | None = None,
    cuts_since: CutsSince = no_cuts,
) -> Available:
    """Return what a stream could read after `since`, up to `fixed_ends` if given, which also
    limit the partitions.

    A partition that `since` lacks was added later, and is read from its beginning.

    Raises:
        LogTruncatedError, InconsistentTopicIdError, InconsistentClusterIdError,
        UnknownTopicOrPartitionError, OffsetOutOfRangeError: Records were lost, or belong to
            another topic or cluster, and `is_data_loss_failed`.
    """
    start = checked_position(
        image, since, is_data_loss_failed=is_data_loss_failed, cuts_since=cuts_since
    )
    wanted = partitions_of(image, subscription, is_missing_failed=is_data_loss_failed)
    ends = committed_ends(image, wanted)
    if fixed_ends is not None:
        ends = bounded(ends, fixed_ends)
    if is_data_loss_failed:
        _check_all_retained(start, wanted)
    starts = {
        name: {
            number: _first(image, start, name, number, is_data_loss_failed=is_data_loss_failed)
            for number in partitions
        }
        for name, partitions in ends.items()
    }
    # Where a log shrank, a batch ends no earlier than it begins.
    ends = {
        name: {number: max(end, starts[name][number]) for number, end in partitions.items()}
        for name, partitions in ends.items()
    }
    has_loss = (
        has_new_generations(image, since)
        or any(is_another_topic(image, since, name) for name in ends)
        or _as_dicts(start.positions) != _as_dicts(since.positions)
    )
    return Available(
        starts=starts,
        ends=ends,
        is_moved=has_loss or ends != _as_dicts(start.positions),
        has_loss=has_loss,
    )


def _as_dicts(positions: Ends) -> dict[str, dict[int, int]]:
    return {name: dict(each) for name, each in positions.items()}


def _check_all_retained(start: StreamOffset, wanted: Mapping[str, list[int]]) -> None:
    dropped = [
        f"{name}-{number}"
        for name, partitions in start.positions.items()
        for number in partitions
        if number not in wanted.get(name, ())
    ]
    if dropped:
        raise partitions_deleted(dropped, "are in the checkpoint and not in the subscription")


def _first(
    image: MetadataImage,
    start: StreamOffset,
    name: str,
    number: int,
    *,
    is_data_loss_failed: bool,
) -> int:
    position = start.positions.get(name, {}).get(number)
    if position is not None:
        return position
    first = image.topic(name).partitions[number].log_start_offset
    if first > 0 and is_data_loss_failed:
        raise starts_late(f"{name}-{number}", first)
    return first
