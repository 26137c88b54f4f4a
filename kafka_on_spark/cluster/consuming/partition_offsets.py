"""Offsets of partitions that a consumer can be asked for wherever it stands: ends, and of times."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import index

from kafka_on_spark.ids import (
    Offset,
    PartitionKey,
    TopicPartition,
    check_mapping,
    check_whole_number,
)
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.consuming.standing import at, partition_of
from kafka_on_spark.query.moments import given_micros
from kafka_on_spark.query.offsets.positions import TimeQuestion
from kafka_on_spark.query.partition_names import key_of
from kafka_on_spark.spark.wiring.consuming import look_up_times
from kafka_on_spark.spark.wiring.services import Services


def offsets_at(
    image: MetadataImage, place: str, keys: Iterable[PartitionKey]
) -> dict[PartitionKey, Offset]:
    """Return the offset of the place EARLIEST or LATEST of each partition."""
    return {key: at(partition_of(image, key), place).offset for key in keys}


def offsets_at_times(
    services: Services, times: Mapping[tuple[str, int], datetime | int], client_rack: str | None
) -> dict[TopicPartition, Offset | None]:
    """Return the offset of the first committed record of each partition that is not older than a
    time; None: all are.

    Raises: as `Consumer.offsets_for_times`.
    """
    check_mapping(times, "times", "partitions and times")
    image = services.metadata.catch_up()
    questions = [
        TimeQuestion(key_of(image, name), _milliseconds(time)) for name, time in times.items()
    ]
    found = look_up_times(services, image, questions, client_rack)
    names = [image.name_of(each.key) for each in questions]
    return dict(zip(names, found, strict=True))


def given_offsets(
    services: Services, offsets: Mapping[tuple[str, int], int]
) -> dict[PartitionKey, Offset]:
    """Return offsets that somebody gives, by the keys of their partitions.

    Raises: as `Consumer.commit`.
    """
    check_mapping(offsets, "offsets", "partitions and offsets")
    for offset in offsets.values():
        check_whole_number(offset, "the offset")
    image = services.metadata.catch_up()
    return {key_of(image, name): Offset(each) for name, each in offsets.items()}


def _milliseconds(time: object) -> int:
    if isinstance(time, datetime):
        return given_micros("a time", time) // 1000
    check_whole_number(time, "a time that is no datetime")
    return index(time)  # type: ignore[arg-type]
