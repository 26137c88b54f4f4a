"""`get-offsets` and `delete-records`: log starts, high watermarks and log ends of partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

from kafka_on_spark.base.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.base.ids import INTERNAL_TOPICS, TopicPartition
from kafka_on_spark.cli.kafka_files import (
    all_partitions,
    named,
    named_partitions,
    named_topics,
    read_offsets,
)
from kafka_on_spark.cli.options import Include, Topics, micros, numbers
from kafka_on_spark.cli.output import plural, time_text, write_rows
from kafka_on_spark.cli.verbs import CHANGING, Session, alone
from kafka_on_spark.metadata.image import MetadataImage, partition_key
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.observe.descriptions import offsets_of
from kafka_on_spark.observe.replicas import find_offset

COLUMNS: Final = "topic partition log_start_offset high_watermark log_end_offset"
AT_TIME_COLUMNS: Final = "topic partition offset"
BY_TIME_COLUMNS: Final = f"{AT_TIME_COLUMNS} timestamp"

SPECIAL_TIMES: Final = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp"}
"""Kafka's numbers, and their names."""


@alone("as_of")
def get_offsets(
    session: Session,
    topic: Topics | None = None,
    include: Include | None = None,
    partitions: Annotated[str, "0,1", "Only these partitions."] | None = None,
    topic_partitions: Annotated[str, "A:0,B:1-3,C:2-", "Partitions; a range excludes its end."]
    | None = None,
    exclude_internal_topics: Annotated[bool, "Leave out internal topics."] = False,
    time: Annotated[
        str,
        "WHEN",
        "earliest, latest (the high watermark), max-timestamp, or a time: milliseconds since 1970"
        " or as 2026-01-31T12:00:00Z. Without it: start, high watermark and end.",
    ]
    | None = None,
) -> None:
    """Show log start, high watermark and log end of partitions, or the offsets of a time."""
    image, when = session.cluster.image, SPECIAL_TIMES.get(time or "", time)
    if topic_partitions is None:
        names = _of_topics(image, topic, include, partitions)
    elif topic is None and include is None and partitions is None:
        names = named_partitions(image, topic_partitions)
    else:
        raise InvalidRequestError("--topic-partitions names topics, too: give it alone")
    if exclude_internal_topics:
        names = [name for name in names if name.topic not in INTERNAL_TOPICS]
    if when not in (None, "earliest", "latest"):
        timestamp_us = None if when == "max-timestamp" else micros(str(when), "--time")
        write_rows(session.output, BY_TIME_COLUMNS, [*_by_time(session, names, timestamp_us)])
        return
    known = [(name._asdict(), offsets_of(_registered(image, name))) for name in names]
    if when is None:
        rows = ({**name, **asdict(offsets)} for name, offsets in known)
    else:
        rows = (
            {**name, "offset": each.log_start_offset if when == "earliest" else each.high_watermark}
            for name, each in known
        )
    write_rows(session.output, COLUMNS if when is None else AT_TIME_COLUMNS, rows)


def _of_topics(
    image: MetadataImage, topic: str | None, include: str | None, partitions: str | None
) -> list[TopicPartition]:
    names = all_partitions(image, named_topics(image, topic, include))
    if partitions is None:
        return names
    wanted = set(numbers(partitions, "--partitions"))
    missing = wanted.difference(name.partition for name in names)
    if missing:
        raise UnknownTopicOrPartitionError(
            f"none of the topics has a partition {min(missing)}: name other partitions"
        )
    return [name for name in names if name.partition in wanted]


def _by_time(
    session: Session, names: Sequence[TopicPartition], timestamp_us: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the first offsets that are not older than a time; None: with the largest timestamp."""
    image = session.cluster.image
    for name in names:
        found = find_offset(image, partition_key(image, *name), timestamp_us, session.options)
        at_us = None if found is None else found.timestamp_us
        yield {
            **name._asdict(),
            "offset": None if found is None else found.offset,
            "timestamp": None if at_us is None else time_text(at_us // 1000),
        }


@alone(*CHANGING)
def delete_records(
    session: Session,
    offset_json_file: Annotated[
        str,
        "FILE",
        'The first offset to keep: {"partitions": [{"topic": "flights", "partition": 0,'
        ' "offset": 42}]}; -1 deletes all committed records. - is standard input.',
    ],
) -> None:
    """Delete records below an offset of each partition."""
    given = read_offsets(offset_json_file)
    image, count = session.cluster.image, 0
    for name, offset in given.items():
        partition = _registered(image, name)
        end = partition.high_watermark if offset == -1 else offset
        count += max(0, end - partition.log_start_offset)
    session.confirm(f"deleting {plural(count, 'record')} of {plural(len(given), 'partition')}")
    starts = session.cluster.delete_records(named(given))
    rows = [{**name._asdict(), "low_watermark": start} for name, start in starts.items()]
    session.conclude({"partitions": rows})


def _registered(image: MetadataImage, name: TopicPartition) -> PartitionRegistration:
    partition_key(image, *name)
    return image.topic(name.topic).partitions[name.partition]
