"""A batch of a query: the offset that it begins and ends at, what is left of that, what tasks read.

A query's offset is one consistent cut over all partitions that it reads. As JSON it is Kafka's,
``{"flights": {"0": 23}}``, with one more key, which no topic can have: ``"$cut"`` has the cluster,
the metadata offset, the topic ids and the unclean generations. So a query notices what was removed
and made again, or led uncleanly: it fails, in the words of Spark's Kafka source
(KAFKA_DATA_LOSS.*), or continues with the records that are left if `failOnDataLoss` is off. Keys
are sorted: Spark compares offsets as JSON texts.

The end of a batch moves only when a partition of the query moves, or when a loss must be reported
to the query. Pure. Source: KafkaOffsetReaderAdmin, KafkaMicroBatchStream.rateLimit and delayBatch.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kafka_on_spark.base.errors import (
    InconsistentClusterIdError,
    InconsistentTopicIdError,
    InvalidRequestError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    ProtocolError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import Offset, PartitionKey, TopicPartition
from kafka_on_spark.consume.subscription import (
    Subscription,
    names_of,
    partitions_of,
    registration_of,
)
from kafka_on_spark.groups.offsets import (
    EARLIEST,
    FindCuts,
    Position,
    after_cuts,
    at,
    begin,
    may_have_lost,
    partition_of,
    saved_positions,
)
from kafka_on_spark.log.read_order import ReadOrder, plan_read
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage, key_of
from kafka_on_spark.metadata.partition import PartitionRegistration

# A query's offset

CUT: Final = "$cut"
CUT_VERSION: Final = 1
"""Format version of the cut's JSON."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The state of the cluster that a query's positions belong to: taken of the image at
    `metadata_offset`; topic ids by name, and the unclean generations above 0 of these topics."""

    cluster_id: str | None
    metadata_offset: int
    topic_ids: Mapping[str, str]
    unclean_generations: Mapping[TopicPartition, int]

    def to_json(self) -> Json:
        """Return the cut as it is stored, keys sorted."""
        return {
            "cluster_id": self.cluster_id,
            "metadata_offset": self.metadata_offset,
            "topic_ids": dict(sorted(self.topic_ids.items())),
            "unclean_generations": _texts(self.unclean_generations),
            "version": CUT_VERSION,
        }

    @classmethod
    def from_json(cls, cut: Mapping[str, Any] | None) -> "Cut | None":
        """Return what `to_json` wrote, or plain Kafka JSON."""
        if cut is None:
            return None
        try:
            version = int(cut["version"])
            if version > CUT_VERSION:
                raise InvalidRequestError(
                    f"the offset has format version {version}, this kafka_on_spark reads up to"
                    f" {CUT_VERSION}: use a newer kafka_on_spark"
                )
            return cls(
                cluster_id=cut["cluster_id"],
                metadata_offset=int(cut["metadata_offset"]),
                topic_ids=dict(cut["topic_ids"]),
                unclean_generations=_numbers(cut["unclean_generations"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidRequestError(
                f"the {CUT!r} of an offset is not of this source: {cut!r:.200}; leave it out, or"
                " give it as a query has stored it"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """Next offset to read, by partition; no `cut` in plain Kafka JSON."""

    positions: Mapping[TopicPartition, int]
    cut: Cut | None = None

    def to_json(self) -> Json:
        """Return the offset as Spark stores it, keys sorted."""
        cut = {} if self.cut is None else {CUT: self.cut.to_json()}
        return {**cut, **_texts(self.positions)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> "StreamOffset":
        """Return what `to_json` wrote, or plain Kafka JSON."""
        try:
            positions = _numbers({name: offset[name] for name in offset if name != CUT})
        except (AttributeError, TypeError, ValueError):
            raise InvalidRequestError(
                f"a stored offset is not of this source: {offset!r:.100}; expected e.g."
                ' {"topicA": {"0": 23}}'
            ) from None
        return cls(positions=positions, cut=Cut.from_json(offset.get(CUT)))

    @classmethod
    def in_image(
        cls, image: MetadataImage, positions: Mapping[TopicPartition, int]
    ) -> "StreamOffset":
        """Return `positions` with the cut of `image`."""
        topics = {name.topic: image.topic(name.topic) for name in positions}
        cut = Cut(
            cluster_id=image.cluster_id,
            metadata_offset=image.offset,
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            unclean_generations={
                TopicPartition(name, number): partition.unclean_generation
                for name, topic in topics.items()
                for number, partition in topic.partitions.items()
                if partition.unclean_generation
            },
        )
        return cls(positions=positions, cut=cut)


def _texts(numbers: Mapping[TopicPartition, int]) -> Json:
    texts: Json = {}
    for name in sorted(numbers):
        texts.setdefault(name.topic, {})[str(name.partition)] = numbers[name]
    return texts


def _numbers(texts: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, partitions in texts.items()
        for number, offset in partitions.items()
    }


# Data loss

_TO_CONTINUE = "set failOnDataLoss to false to go on"


@dataclass(frozen=True, slots=True)
class DataLoss:
    """What a query does if its offsets point to records that are gone: it fails, or continues with
    what is left, and the error is in `passed_over`. Source: failOnDataLoss."""

    fails_query: bool
    find_cuts: FindCuts
    passed_over: list[ProtocolError] = field(default_factory=list)

    def meet(self, loss: ProtocolError) -> None:
        if self.fails_query:
            raise loss
        self.passed_over.append(loss)

    def checked(self, image: MetadataImage, offset: StreamOffset) -> StreamOffset:
        """Return `offset`, if its cluster, topics and unclean generations are still those of
        `image`.

        If data loss may pass, positions of lost records are cut as those of consumers are, so that
        records appended since are read. A topic that was created again is read from its beginning.

        Raises:
            InconsistentClusterIdError: The offset is another cluster's, or of its future: this one
                was rolled back.
            UnknownTopicOrPartitionError: A topic or partition is gone.
            InconsistentTopicIdError: A topic was deleted and created again.
            LogTruncatedError: An unclean election has lost records that may have been read, or the
                partition was removed and added again.
        """
        _check_cluster(image, offset)
        try:
            _check_kept(image, offset)
        except ProtocolError as loss:
            self.meet(loss)
        if self.fails_query:
            return offset
        after = after_cuts(image, positions_of(image, offset), self.find_cuts)
        positions = {}
        for topic_name in sorted({name.topic for name in offset.positions}):
            if topic_name not in image.topic_ids:
                continue
            topic, is_another = image.topic(topic_name), is_another_topic(image, offset, topic_name)
            for number, partition in topic.partitions.items():
                name, key = TopicPartition(topic_name, number), PartitionKey(topic.topic_id, number)
                if is_another:
                    positions[name] = int(partition.log_start_offset)
                elif key in after:
                    # One above the high watermark, up to the log's end, waits for commits.
                    positions[name] = min(after[key].offset, partition.known_log_end)
        return StreamOffset(positions=positions, cut=offset.cut)

    def first_offset(self, image: MetadataImage, start: StreamOffset, name: TopicPartition) -> int:
        """Return where a query that stands at `start` begins in a partition: one that was added
        since is read from its beginning, or fails the query if that is not offset 0."""
        if name in start.positions:
            return start.positions[name]
        first = image.topic(name.topic).partitions[name.partition].log_start_offset
        if first > 0:
            text = (
                "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: Added partition"
                f" {name} starts from {first} instead of 0; {_TO_CONTINUE} from there"
            )
            self.meet(OffsetOutOfRangeError(text))
        return first


def _check_cluster(image: MetadataImage, offset: StreamOffset) -> None:
    cut = offset.cut
    if cut is None:
        return
    if cut.cluster_id != image.cluster_id:
        raise InconsistentClusterIdError(
            f"the stored offsets are of cluster {cut.cluster_id}, not of {image.cluster_id}:"
            " start with a new checkpoint"
        )
    if cut.metadata_offset > image.offset:
        raise InconsistentClusterIdError(
            f"the stored offsets were taken at metadata offset {cut.metadata_offset}, and the"
            f" metadata log of cluster {image.cluster_id} ends at {image.offset}: it was rolled"
            " back; start with a new checkpoint"
        )


def positions_of(image: MetadataImage, offset: StreamOffset) -> dict[PartitionKey, Position]:
    """Return the positions of an offset, in partitions that are still there, and of topics that are
    still the same, with the unclean generations that they were taken in."""
    return {
        PartitionKey(image.topic_ids[name.topic], name.partition): Position(
            Offset(position), _generation(offset, name, partition)
        )
        for name, position in sorted(offset.positions.items())
        if (partition := registration_of(image, name)) is not None
        and not is_another_topic(image, offset, name.topic)
    }


def is_another_topic(image: MetadataImage, offset: StreamOffset, name: str) -> bool:
    """Return whether the topic of that name was created again since `offset` was taken."""
    topic_id = image.topic(name).topic_id
    return offset.cut is not None and offset.cut.topic_ids.get(name, topic_id) != topic_id


def _generation(
    offset: StreamOffset, name: TopicPartition, partition: PartitionRegistration
) -> int:
    if offset.cut is None:
        return partition.unclean_generation
    return offset.cut.unclean_generations.get(name, 0)


def has_new_generations(image: MetadataImage, offset: StreamOffset) -> bool:
    """Return whether a partition of the topics of `offset` had an unclean election since, or is
    another one of its number."""
    return any(
        partition.unclean_generation > _generation(offset, TopicPartition(name, number), partition)
        for name in {each.topic for each in offset.positions}
        if name in image.topic_ids
        for number, partition in image.topic(name).partitions.items()
    )


def _check_kept(image: MetadataImage, start: StreamOffset) -> None:
    for name, position in sorted(start.positions.items()):
        if name.topic in image.topic_ids and is_another_topic(image, start, name.topic):
            raise InconsistentTopicIdError(
                f"KAFKA_DATA_LOSS: topic {name.topic!r} was deleted and created again since the"
                " query's last batch: start with a new checkpoint, or set failOnDataLoss to false"
            )
        partition = registration_of(image, name)
        if partition is None:
            raise partitions_deleted(
                [each for each in start.positions if registration_of(image, each) is None]
            )
        position_then = Position(Offset(position), _generation(start, name, partition))
        has_lost = may_have_lost(partition, position_then)
        if has_lost or position > partition.known_log_end:
            changed = (
                f"KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED: Partition {name} offset was changed"
                f" from {position} to {partition.high_watermark}"
            )
            raise LogTruncatedError(
                f"{changed}: it was led by a replica that lacked committed records (an unclean"
                f" election), or removed and added again; {_TO_CONTINUE} with what there is now"
                if has_lost
                else f"{changed}, and its log ends at {partition.known_log_end}: the start offset"
                " is set too high and this is the first batch, or records are gone;"
                f" {_TO_CONTINUE} from there"
            )


def partitions_deleted(
    names: Iterable[TopicPartition], what: str = "have been deleted"
) -> UnknownTopicOrPartitionError:
    return UnknownTopicOrPartitionError(
        f"KAFKA_DATA_LOSS.PARTITIONS_DELETED: Partitions {', '.join(names_of(names))} {what};"
        f" {_TO_CONTINUE} without them"
    )


def could_not_read(place: TopicPartition, first: int, last: int, why: str) -> OffsetOutOfRangeError:
    """Return the error for records of a range that can't be read: [first, last)."""
    return OffsetOutOfRangeError(
        "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE: Could not read records in offset"
        f" [{first}, {last}) for topic partition {place}: {why}; {_TO_CONTINUE} without them"
    )


# Where it begins

Place = int | str
"""An offset, EARLIEST or LATEST."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """A place by partition; `cut` if it is the stored offset of a query."""

    by_partition: Mapping[TopicPartition, Place]
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record that is not older than a time, in ms since 1970: one time for all
    partitions, or one by partition. If there is none, it is the latest offset, or the
    read is refused."""

    given: int | Mapping[TopicPartition, int]
    is_latest_if_none: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Where a consumer group stands; EARLIEST or LATEST if it has saved no offset of the query."""

    name: str
    default: str


Bound = str | Offsets | Timestamps | Group
"""EARLIEST or LATEST for all partitions; or offsets; or timestamps; or a group's. The order of
precedence is Spark's: one timestamp for all, timestamps by partition, offsets. Source:
KafkaSourceProvider.getKafkaOffsetRangeLimit."""


Ends = Mapping[TopicPartition, int]
"""Offsets by partition."""

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
    InvalidRequestError: specific offsets do not name all partitions, or all records are older than
    a start."""
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
    has_saved = any((group.name, key) in image.group_offsets for key in keys.values())
    reset = EARLIEST if has_saved else group.default
    begun = {name: begin(image, key, group=group.name, reset=reset) for name, key in keys.items()}
    now = StreamOffset.in_image(image, {name: each.offset for name, each in begun.items()})
    assert now.cut is not None, "in_image sets the cut"
    generations = {name: each.unclean_generation for name, each in begun.items()}
    return replace(now, cut=replace(now.cut, unclean_generations=generations))


# Where it ends


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """The limits of a micro-batch: it has `max_offsets` records at most, and waits for
    `min_offsets` for `max_delay_ms` at most."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60_000

    def __post_init__(self) -> None:
        if self.min_offsets is None or self.max_offsets is None:
            return
        if self.min_offsets > self.max_offsets:
            raise InvalidRequestError(
                f"The value of minOffsetPerTrigger({self.min_offsets}) is higher than the"
                f" maxOffsetsPerTrigger({self.max_offsets})."
            )


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
        return sum(sizes(self.starts, self.ends).values())

    def offset(self, image: MetadataImage, max_offsets: int | None = None) -> StreamOffset:
        """Return the next batch's end, of about `max_offsets` records."""
        return StreamOffset.in_image(image, limited(self.starts, self.ends, max_offsets))


def committed_ends(
    image: MetadataImage, wanted: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
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
    wanted = partitions_of(image, subscription, fails_on_missing=loss.fails_query)
    ends = committed_ends(image, wanted)
    if fixed_ends is not None:
        ends = bounded(ends, fixed_ends)
    dropped = start.positions.keys() - set(wanted)
    if dropped and loss.fails_query:
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
        starts=starts, ends=ends, is_moved=has_loss or ends != start.positions, has_loss=has_loss
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
    """Return one order a partition that has records between `start` and `end`, with the replicas in
    the order in which they are tried (log/reading.py). Records that are gone below the log start
    are a loss."""
    start, end = loss.checked(image, start), loss.checked(image, end)
    orders = []
    for name, last in sorted(end.positions.items()):
        key = key_of(image, name)
        log_start = partition_of(image, key).log_start_offset
        first = loss.first_offset(image, start, name)
        if first < min(log_start, last):
            why = f"its log starts at {log_start}"
            loss.meet(could_not_read(name, first, min(log_start, last), why))
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


def check_within_logs(image: MetadataImage, end: StreamOffset) -> None:
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
    each at most. An order without records is dropped."""
    sizes = [order.end_offset - order.start_offset for order in orders]
    most = sum(sizes) if records_max is None else records_max
    if tasks_min is not None and sum(_part_count(size, most) for size in sizes) < tasks_min:
        most = min(most, _part_count(sum(sizes), tasks_min))
    return [
        part
        for order, size in zip(orders, sizes, strict=True)
        if size > 0
        for part in _parts(order, _part_count(size, most))
    ]


def _part_count(size: int, most: int) -> int:
    return math.ceil(size / most) if size > 0 else 0


def _parts(order: ReadOrder, count: int) -> Iterator[ReadOrder]:
    """Yield `order` in `count` parts; the last parts take the remainder."""
    first = order.start_offset
    for left in range(count, 0, -1):
        last = Offset(first + (order.end_offset - first) // left)
        yield replace(order, start_offset=first, end_offset=last)
        first = last


# What a query's group saves


def save_group(
    image: MetadataImage, group: str, offset: StreamOffset, now_ms: int
) -> ControllerResult[int]:
    """Decide that a group stands where a query does. Answer: how many partitions are saved.

    That is behind which Spark asks for more data: it asks only when all records before have been
    processed, and calls neither `commit` nor `stop` after the last batch. So a group's offsets
    never run ahead of what was processed."""
    records = saved_positions(image, group, positions_of(image, offset), None, now_ms)
    return ControllerResult(records, len(records))
