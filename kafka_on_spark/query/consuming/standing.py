"""Where a consumer stands in a partition: where it begins, and what an image leaves of that.

Pure. A position carries the unclean generation that it was taken in: so a consumer notices that
records below it were lost, and goes back to where they were cut (KIP-320), or fails. A partition
that was removed and added again is one that was cut at 0.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafka_on_spark.errors import HistoryExpiredError, LogTruncatedError, OffsetOutOfRangeError
from kafka_on_spark.ids import KEEP, Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
)
from kafka_on_spark.query.consuming.settings import EARLIEST, NONE


@dataclass(frozen=True, slots=True)
class Standing:
    """A consumer's position in a partition.

    Attributes:
        offset: The next record that it hands out.
        unclean_generation: That of the partition when the position was taken.
    """

    offset: Offset
    unclean_generation: int


FindCut = Callable[[PartitionKey, int], Offset | None]
"""Returns the lowest offset at which a partition was cut after a generation, None if none is found.
It reads the metadata log, and is asked only if the partition has another generation."""

LogPiece = tuple[MetadataImage, Sequence[MetadataBatch]]
"""Batches of the metadata log, and the image that they continue."""


def partition_of(image: MetadataImage, key: PartitionKey) -> PartitionRegistration:
    """Return the registration of a partition that the image has."""
    return image.topics[key.topic_id].partitions[key.partition]


def begin(
    image: MetadataImage, key: PartitionKey, *, group: str | None, reset: str, is_added: bool
) -> Standing:
    """Return where a consumer begins in a partition: at the group's offset, or by `reset`.

    A partition that `is_added` to its topic is read from its beginning, whatever `reset` says.

    Raises:
        OffsetOutOfRangeError: There is no offset, and `reset` is NONE.
    """
    partition = partition_of(image, key)
    saved = None if group is None else image.groups.get((group, key))
    if saved is not None:
        return Standing(saved.offset, saved.unclean_generation)
    if is_added:
        return at(partition, EARLIEST)
    if reset == NONE:
        whose = "the consumer" if group is None else f"group {group!r}"
        raise OffsetOutOfRangeError(
            f"{whose} has no offset of {image.name_of(key)}, and auto_offset_reset is 'none': seek,"
            " set the group's offset, or give 'earliest' or 'latest'"
        )
    return at(partition, reset)


def at(partition: PartitionRegistration, place: str) -> Standing:
    """Return the position EARLIEST or LATEST of a partition."""
    start, end = partition.log_start_offset, partition.high_watermark
    return Standing(start if place == EARLIEST else end, partition.unclean_generation)


def revised(
    image: MetadataImage, key: PartitionKey, standing: Standing, *, reset: str, find_cut: FindCut
) -> Standing:
    """Return the position that `image` leaves of `standing`: itself, if its record can be read.

    Source: SubscriptionState.maybeCompleteValidation, FetchCollector.handleInitializeErrors.

    Raises:
        LogTruncatedError: Records below it were lost, and `reset` is NONE.
        OffsetOutOfRangeError: It is out of range, and `reset` is NONE.
    """
    partition = partition_of(image, key)
    start, end = partition.log_start_offset, partition.known_log_end
    before, standing = standing, after_cuts(image, key, standing, find_cut)
    if reset == NONE and standing.offset < before.offset:
        raise LogTruncatedError(
            f"{image.name_of(key)} has lost the records from offset {standing.offset} on, below the"
            f" position {before.offset}, by an unclean election or as it was removed and added"
            " again, and auto_offset_reset is 'none': seek to where to go on"
        )
    if start <= standing.offset <= end:
        return standing
    if reset == NONE:
        raise OffsetOutOfRangeError(
            f"offset {standing.offset} of {image.name_of(key)} is not between its log start {start}"
            f" and its log end {end}, and auto_offset_reset is 'none': seek to another"
        )
    return at(partition, reset)


def after_cuts(
    image: MetadataImage, key: PartitionKey, standing: Standing, find_cut: FindCut
) -> Standing:
    """Return what cuts since `standing` was taken leave of it: it goes back to the lowest of them,
    where records stand by now that it has not read."""
    partition = partition_of(image, key)
    now = partition.unclean_generation
    if standing.unclean_generation == now:
        return standing
    if standing.offset <= partition.log_start_offset:
        return Standing(standing.offset, now)  # what it has read is gone, lost or not
    try:
        cut = find_cut(key, standing.unclean_generation)
    except HistoryExpiredError:
        # As Kafka's consumers, if the leader's epochs begin after their own: what they have read
        # may be lost, and they read again what is there.
        return Standing(partition.log_start_offset, now)
    end = partition.high_watermark if cut is None else cut
    return Standing(min(standing.offset, end), now)


def cut_after(
    pieces: Iterable[LogPiece], key: PartitionKey, unclean_generation: int
) -> Offset | None:
    """Return the lowest end that a partition was given in generations after one: by unclean
    elections, or as it was added again.

    `pieces` are the log's, the newest first. No more of them are read than reach back to that
    generation.
    """
    ends: list[Offset] = []
    for before, batches in pieces:
        ends += _ends_given(batches, key, unclean_generation)
        partition = before.partition(key)
        if partition is not None and partition.unclean_generation <= unclean_generation:
            break
    return min(ends, default=None)


def _ends_given(
    batches: Iterable[MetadataBatch], key: PartitionKey, unclean_generation: int
) -> Iterator[Offset]:
    for batch in batches:
        for record in batch.records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord) and record.key == key:
                end = _end_given(record, unclean_generation)
                if end is not None:
                    yield end


def _end_given(
    record: PartitionRecord | PartitionChangeRecord, unclean_generation: int
) -> Offset | None:
    """Return the end that a record gives to its partition in a later generation, or None."""
    given: PartitionRegistration | PartitionChange
    given = record.registration if isinstance(record, PartitionRecord) else record.change
    generation, end = given.unclean_generation, given.high_watermark
    if generation is KEEP or end is KEEP or generation <= unclean_generation:
        return None
    return end
