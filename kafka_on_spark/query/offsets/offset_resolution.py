"""Resolves positions in an image: words, offsets, timestamps and a group's offsets become numbers.

Pure: timestamps are looked up by a function that is passed in. Source: KafkaOffsetReaderAdmin.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.query.consuming.standing import FindCut, Standing, after_cuts
from kafka_on_spark.query.offsets.data_loss import CutsSince, checked_position, no_cuts
from kafka_on_spark.query.offsets.group_offsets import group_generations, group_positions
from kafka_on_spark.query.offsets.positions import (
    EARLIEST,
    GROUP,
    Offsets,
    Position,
    Positions,
    Timestamps,
)
from kafka_on_spark.query.offsets.stream_offsets import Cut, StreamOffset
from kafka_on_spark.query.subscription import Partitions, names_of


@dataclass(frozen=True, slots=True)
class TimeQuestion:
    """Asks for the first record of a partition that is not older than `timestamp_ms`."""

    key: PartitionKey
    timestamp_ms: int


TimeLookup = Callable[[Sequence[TimeQuestion]], Sequence[Offset | None]]
"""Answers questions, in order; None if all committed records are older."""

Ends = dict[str, dict[int, int]]


def resolve(
    image: MetadataImage,
    wanted: Partitions,
    positions: Positions,
    *,
    option: str,
    look_up: TimeLookup,
    group: str | None = None,
    group_default: str = EARLIEST,
    is_data_loss_failed: bool = True,
    cuts_since: CutsSince = no_cuts,
    find_cut: FindCut = lambda key, generation: None,
) -> StreamOffset:
    """Return the offsets that `positions` mean for the partitions `wanted`.

    `group_default` applies if a group has committed no partition of the query yet. `cuts_since`: as
    for `checked_position`. `find_cut` is its like for a group's offsets, which were each saved in a
    generation, and at no metadata offset that is known.

    Raises:
        InvalidRequestError: Specific positions do not name all partitions, or all records are older
            than a start.
        And as `data_loss.checked_position`, if the positions carry a cut, or are a group's.
    """
    if isinstance(positions, Timestamps):
        return StreamOffset.in_image(image, _by_time(image, wanted, positions, option, look_up))
    if isinstance(positions, Offsets):
        found = _by_partition(image, wanted, positions, option)
        if positions.cut is None:
            return StreamOffset.in_image(image, found)
        start = StreamOffset(positions=found, cut=positions.cut)
        kept = checked_position(
            image, start, is_data_loss_failed=is_data_loss_failed, cuts_since=cuts_since
        )
        return StreamOffset.in_image(image, kept.positions)
    if positions == GROUP:
        assert group is not None, "checked with the options"
        words = group_positions(image, group, wanted, default=group_default)
        now = StreamOffset.in_image(image, _resolved(image, words))
        assert now.cut is not None, "in_image sets the cut"
        saved = replace(now.cut, unclean_generations=group_generations(image, group, wanted))
        start = replace(now, cut=saved)
        kept = checked_position(image, start, is_data_loss_failed=is_data_loss_failed)
        return StreamOffset.in_image(image, _after_cuts(image, kept.positions, saved, find_cut))
    words = {name: dict.fromkeys(numbers, positions) for name, numbers in wanted.items()}
    return StreamOffset.in_image(image, _resolved(image, words))


def _resolved(image: MetadataImage, words: Mapping[str, Mapping[int, Position]]) -> Ends:
    return {
        name: {
            number: resolve_one(image.topic(name).partitions[number], position)
            for number, position in partitions.items()
        }
        for name, partitions in words.items()
    }


def resolve_one(partition: PartitionRegistration, position: Position) -> int:
    """Return the offset that a position means in a partition."""
    if isinstance(position, int):
        return position
    return partition.log_start_offset if position == EARLIEST else partition.high_watermark


def _after_cuts(
    image: MetadataImage, positions: Mapping[str, Mapping[int, int]], saved: Cut, find_cut: FindCut
) -> Ends:
    """Return where a group goes on: below what was lost since it was saved, as its consumers do."""
    ends: Ends = {name: {} for name in positions}
    for name, partitions in positions.items():
        for number, position in partitions.items():
            key = PartitionKey(image.topic_ids[name], number)
            standing = Standing(Offset(position), saved.unclean_generations[name][number])
            ends[name][number] = after_cuts(image, key, standing, find_cut).offset
    return ends


def _by_partition(
    image: MetadataImage, wanted: Partitions, positions: Offsets, option: str
) -> Ends:
    if names_of(positions.by_partition) != names_of(wanted):
        raise InvalidRequestError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions."
            " Use -1 for latest, -2 for earliest."
            f" Specified: {names_of(positions.by_partition)} Assigned: {names_of(wanted)}"
        )
    return _resolved(image, positions.by_partition)


def _by_time(
    image: MetadataImage,
    wanted: Partitions,
    positions: Timestamps,
    option: str,
    look_up: TimeLookup,
) -> Ends:
    times = positions.given
    if not isinstance(times, int) and names_of(times) != names_of(wanted):
        raise InvalidRequestError(
            f"If {option}ByTimestamp contains specific offsets, you must specify all topics."
            f" Specified: {names_of(times)} Assigned: {names_of(wanted)}"
        )
    questions = [
        TimeQuestion(
            PartitionKey(image.topic_ids[name], number),
            times if isinstance(times, int) else times[name][number],
        )
        for name, numbers in wanted.items()
        for number in numbers
    ]
    ends: Ends = {name: {} for name in wanted}
    for question, offset in zip(questions, look_up(questions), strict=True):
        name, number = image.name_of(question.key)
        if offset is None and not positions.is_latest_if_none:
            raise InvalidRequestError(
                f"No offset matched from request of topic-partition {name}-{number} and timestamp"
                f" {question.timestamp_ms}."
            )
        partition = image.topics[question.key.topic_id].partitions[number]
        ends[name][number] = partition.high_watermark if offset is None else offset
    return ends
