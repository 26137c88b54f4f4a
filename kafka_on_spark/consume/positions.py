"""Where a read begins or ends: offsets, timestamps, or a word, and what these mean in an image.

Pure: timestamps are looked up by a function that is passed in. The order of precedence is Spark's:
one timestamp for all, timestamps by partition, offsets. Source:
KafkaSourceProvider.getKafkaOffsetRangeLimit, KafkaOffsetReaderAdmin.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import Offset, PartitionKey, whole_number
from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.consume.data_loss import checked_position
from kafka_on_spark.consume.group_offsets import group_start
from kafka_on_spark.consume.settings import EARLIEST, LATEST
from kafka_on_spark.consume.standing import FindCuts, at
from kafka_on_spark.consume.stream_offsets import CUT, Cut, StreamOffset
from kafka_on_spark.consume.subscription import Partitions, names_of
from kafka_on_spark.metadata.image import MetadataImage

GROUP: Final = "group"
_WIRE: Final = {-2: EARLIEST, -1: LATEST}

Position = int | str
"""An offset, EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """A position by topic and partition; `cut` if it is the stored offset of a query."""

    by_partition: Mapping[str, Mapping[int, Position]]
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record that is not older than a time, in ms since 1970: one time for all
    partitions, or one by topic and partition.

    `is_latest_if_none`: if there is no such record, the latest offset is meant; else the read is
    refused.
    """

    given: int | Mapping[str, Mapping[int, int]]
    is_latest_if_none: bool = False


Positions = str | Offsets | Timestamps
"""EARLIEST, LATEST or GROUP for all partitions; or offsets; or timestamps."""


def parse_starting(given: Mapping[str, str], *, default: str) -> Positions:
    """Return where a read begins.

    Raises:
        InvalidRequestError: An option can't be parsed.
    """
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidRequestError(
            f"option 'startingOffsetsByTimestampStrategy' can't be {strategy!r}: error or latest"
        )
    positions = _parse(given, "starting", words=(EARLIEST, LATEST, GROUP))
    if isinstance(positions, Timestamps) and strategy == "latest":
        return Timestamps(positions.given, is_latest_if_none=True)
    return positions or default


def parse_ending(given: Mapping[str, str]) -> Positions:
    """Return where a batch ends.

    Raises:
        InvalidRequestError: An option can't be parsed.
    """
    positions = _parse(given, "ending", words=(EARLIEST, LATEST))
    if isinstance(positions, Timestamps):
        return Timestamps(positions.given, is_latest_if_none=True)
    return positions or LATEST


def _parse(given: Mapping[str, str], side: str, *, words: tuple[str, ...]) -> Positions | None:
    if f"{side}timestamp" in given:
        return Timestamps(parse_long(given[f"{side}timestamp"]))
    if f"{side}offsetsbytimestamp" in given:
        return Timestamps(
            _parse_json(
                f"{side}OffsetsByTimestamp",
                given[f"{side}offsetsbytimestamp"],
                _timestamp,
                '{"topicA": {"0": 123456789, "1": 123456789},'
                ' "topicB": {"0": 123456789, "1": 123456789}}',
            )
        )
    if f"{side}offsets" not in given:
        return None
    return _parse_offsets(f"{side}Offsets", given[f"{side}offsets"], words)


def parse_long(text: str) -> int:
    """Return a whole number, as Spark's Kafka source parses it.

    Raises:
        InvalidRequestError: It is not one.
    """
    try:
        return whole_number(text.strip())
    except ValueError:
        raise InvalidRequestError(f"Expected a single long value, got {text.strip()}") from None


def _parse_offsets(option: str, text: str, words: tuple[str, ...]) -> Positions:
    word = text.strip().lower()
    if word in words:
        return word
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    offsets = _parse_json(option, text, _position, example)
    return Offsets(offsets, Cut.from_json(parse_json(text).get(CUT)))


def _parse_json(
    option: str, text: str, read: Callable[[Any], Any], example: str
) -> dict[str, dict[int, Any]]:
    try:
        parsed = parse_json(text)
        return {
            topic: {whole_number(number): read(value) for number, value in partitions.items()}
            for topic, partitions in parsed.items()
            if topic != CUT
        }
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequestError(
            f"option {option!r}: Expected e.g. {example}, got {text}"
        ) from None


def _position(offset: Any) -> Position:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < -2:
        raise ValueError(offset)
    return _WIRE.get(offset, offset)


def _timestamp(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return value


def check_batch(starting: Positions, ending: Positions) -> None:
    """Check that a batch does not start at latest, end at earliest, or end before it starts.

    Source: KafkaSourceProvider.validateBatchOptions, checkOffsetLimitValidity.

    Raises:
        InvalidRequestError: It does.
    """
    if starting == LATEST:
        raise InvalidRequestError("starting offset can't be latest for batch queries on Kafka")
    if ending == EARLIEST:
        raise InvalidRequestError("ending offset can't be earliest for batch queries on Kafka")
    _refuse_word(starting, LATEST, "startingOffsets for {} can't be latest")
    _refuse_word(ending, EARLIEST, "ending offset for {} can't be earliest")
    _check_sides(_numbers_of(starting), _numbers_of(ending), type(starting), type(ending))


def _refuse_word(positions: Positions, word: str, sentence: str) -> None:
    if not isinstance(positions, Offsets):
        return
    for topic, partitions in positions.by_partition.items():
        for number, position in partitions.items():
            if position == word:
                place = sentence.format(f"{topic}-{number}")
                raise InvalidRequestError(f"{place} for batch queries on Kafka")


def _numbers_of(positions: Positions) -> Mapping[str, Mapping[int, Position]] | None:
    if isinstance(positions, Offsets):
        return positions.by_partition
    if isinstance(positions, Timestamps) and not isinstance(positions.given, int):
        return positions.given
    return None


def _check_sides(
    first: Mapping[str, Mapping[int, Position]] | None,
    last: Mapping[str, Mapping[int, Position]] | None,
    *kinds: type,
) -> None:
    if first is None or last is None or kinds[0] is not kinds[1]:
        return
    if names_of(first) != names_of(last):
        raise InvalidRequestError(
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET: The specified start"
            " offset and end offset should have the same topic-partitions. Topic-partitions for"
            f" start offset: {names_of(first)}, topic-partitions for end offset: {names_of(last)}."
        )
    word = "timestamp" if kinds[0] is Timestamps else "offset"
    for topic, partitions in first.items():
        for number, start in partitions.items():
            end = last[topic][number]
            if isinstance(start, int) and isinstance(end, int) and start > end:
                raise InvalidRequestError(
                    f"UNRESOLVED_START_{word.upper()}_GREATER_THAN_END_{word.upper()}: The"
                    f" specified start {word} {start} is greater than the end {word} {end} for"
                    f" topic {topic} partition {number}."
                )


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
    find_cuts: FindCuts,
) -> StreamOffset:
    """Return the offsets that `positions` mean for the partitions `wanted`.

    `group_default` applies if a group has committed no partition of the query yet.

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
            image, start, is_data_loss_failed=is_data_loss_failed, find_cuts=find_cuts
        )
        return StreamOffset.in_image(image, kept.positions)
    if positions == GROUP:
        assert group is not None, "checked with the options"
        start = group_start(image, group, wanted, default=group_default)
        kept = checked_position(
            image, start, is_data_loss_failed=is_data_loss_failed, find_cuts=find_cuts
        )
        return StreamOffset.in_image(image, kept.positions)
    words = {name: dict.fromkeys(numbers, positions) for name, numbers in wanted.items()}
    return StreamOffset.in_image(image, _resolved(image, words))


def _resolved(image: MetadataImage, words: Mapping[str, Mapping[int, Position]]) -> Ends:
    return {
        name: {
            number: position
            if isinstance(position, int)
            else at(image.topic(name).partitions[number], position).offset
            for number, position in partitions.items()
        }
        for name, partitions in words.items()
    }


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
