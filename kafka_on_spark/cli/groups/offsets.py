"""`get-offsets` and `delete-records`: log starts, high watermarks and log ends of partitions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from kafka_on_spark.cli.call.options import (
    AsOf,
    ClusterUrl,
    DryRun,
    Format,
    Include,
    StorageOption,
    Yes,
    numbers,
)
from kafka_on_spark.cli.call.output import Output, plural, progress, write_rows
from kafka_on_spark.cli.call.record_rows import time_text
from kafka_on_spark.cli.call.session import Session, opened
from kafka_on_spark.cli.kafka_files import (
    all_partitions,
    named,
    named_partitions,
    named_topics,
    read_offsets,
)
from kafka_on_spark.errors import InvalidRequestError, UnknownTopicOrPartitionError
from kafka_on_spark.ids import INTERNAL_TOPICS, PartitionKey, TopicPartition
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.moments import micros_of
from kafka_on_spark.query.partition_names import partition_key
from kafka_on_spark.service.describe.descriptions import offsets_of
from kafka_on_spark.storage.replicas.replica_inspection import find_offset

COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "log_start_offset": "log start",
    "high_watermark": "high watermark",
    "log_end_offset": "log end",
}
AT_TIME_COLUMNS: Final = {"topic": "topic", "partition": "partition", "offset": "offset"}
BY_TIME_COLUMNS: Final = {**AT_TIME_COLUMNS, "timestamp": "timestamp"}
# Kafka's numbers, and their names.
SPECIAL_TIMES: Final = {"-1": "latest", "-2": "earliest", "-3": "max-timestamp"}


def get_offsets(
    context: typer.Context,
    cluster: ClusterUrl,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAMES", help="Topics, with commas between."),
    ] = None,
    include: Include = None,
    partitions: Annotated[
        str | None, typer.Option("--partitions", metavar="0,1", help="Only these partitions.")
    ] = None,
    topic_partitions: Annotated[
        str | None,
        typer.Option(
            "--topic-partitions",
            metavar="A:0,B:1-3,C:2-",
            help="Partitions; a range excludes its end.",
        ),
    ] = None,
    exclude_internal_topics: Annotated[
        bool,
        typer.Option("--exclude-internal-topics", help="Leave out internal topics."),
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            "--time",
            metavar="WHEN",
            help="earliest, latest (the high watermark), max-timestamp, or a time: milliseconds"
            " since 1970 or as 2026-01-31T12:00:00Z. Without it: start, high watermark and end.",
        ),
    ] = None,
    as_of: AsOf = None,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Show log start, high watermark and log end of partitions, or the offsets of a time."""
    when = None if time is None else parsed_time(time)
    with opened(cluster, storage_option, output, as_of=as_of) as session:
        names = _named(session.cluster.image, context.params)
        if exclude_internal_topics:
            names = [name for name in names if name.topic not in INTERNAL_TOPICS]
        if when is None:
            rows = (_all_offsets(session.cluster.image, name) for name in names)
            write_rows(output, COLUMNS, rows)
        elif when in ("earliest", "latest"):
            rows = (_offset_at(session.cluster.image, name, when) for name in names)
            write_rows(output, AT_TIME_COLUMNS, rows)
        else:
            write_rows(output, BY_TIME_COLUMNS, list(_offsets_by_time(session, names, when)))


def parsed_time(text: str) -> str | int:
    """Return a time as kafka-get-offsets takes it: a name, or µs since 1970 UTC.

    Raises:
        InvalidRequestError: `text` is neither a name nor a time.
    """
    special = SPECIAL_TIMES.get(text, text)
    if special in SPECIAL_TIMES.values():
        return special
    if re.fullmatch(r"\d+", text):
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"--time can't be {text!r}: give earliest, latest, max-timestamp, milliseconds since"
            " 1970, or a time such as 2026-01-31T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        raise InvalidRequestError(f"--time {text!r} has no time zone: add Z for UTC, or +01:00")
    return micros_of(moment)


def _named(image: MetadataImage, given: Mapping[str, Any]) -> list[TopicPartition]:
    if given["topic_partitions"] is not None:
        if any(given[each] is not None for each in ("topic", "include", "partitions")):
            raise InvalidRequestError(
                "name partitions in one way: --topic-partitions, or --topic and --partitions"
            )
        return named_partitions(image, given["topic_partitions"])
    names = all_partitions(image, named_topics(image, given["topic"], given["include"]))
    if given["partitions"] is None:
        return names
    wanted = set(numbers(given["partitions"], "--partitions"))
    missing = wanted.difference(name.partition for name in names)
    if missing:
        raise UnknownTopicOrPartitionError(
            f"none of the topics has a partition {min(missing)}: name other partitions"
        )
    return [name for name in names if name.partition in wanted]


def _all_offsets(image: MetadataImage, name: TopicPartition) -> dict[str, Any]:
    offsets = offsets_of(image.topic(name.topic).partitions[name.partition])
    return {
        **name._asdict(),
        "log_start_offset": offsets.log_start_offset,
        "high_watermark": offsets.high_watermark,
        "log_end_offset": offsets.log_end_offset,
    }


def _offset_at(image: MetadataImage, name: TopicPartition, when: str) -> dict[str, Any]:
    partition = image.topic(name.topic).partitions[name.partition]
    is_earliest = when == "earliest"
    offset = partition.log_start_offset if is_earliest else partition.high_watermark
    return {**name._asdict(), "offset": offset}


def _offsets_by_time(
    session: Session, names: Sequence[TopicPartition], when: str | int
) -> Iterator[dict[str, Any]]:
    image = session.cluster.image
    timestamp_us = when if isinstance(when, int) else None
    with progress("looking for times", len(names)) as steps:
        for name in names:
            key = PartitionKey(image.topic(name.topic).topic_id, name.partition)
            found = find_offset(image, key, timestamp_us, session.options)
            steps.advance()
            yield {
                **name._asdict(),
                "offset": None if found is None else found.offset,
                "timestamp": (
                    None
                    if found is None or found.timestamp_us is None
                    else time_text(found.timestamp_us // 1000)
                ),
            }


def delete_records(
    cluster: ClusterUrl,
    offset_json_file: Annotated[
        str,
        typer.Option(
            "--offset-json-file",
            metavar="FILE",
            help='The first offset to keep: {"partitions": [{"topic": "flights", "partition": 0,'
            ' "offset": 42}]}; -1 deletes all committed records. - is standard input.',
        ),
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Format = Output.TABLE,
    storage_option: StorageOption = None,
) -> None:
    """Delete records below an offset of each partition."""
    given = read_offsets(offset_json_file)
    with opened(cluster, storage_option, output, dry_run=dry_run, yes=yes) as session:
        image = session.cluster.image
        before = {name: _registered(image, name).log_start_offset for name in given}
        offsets = {
            name: _registered(image, name).high_watermark if offset == -1 else offset
            for name, offset in given.items()
        }
        record_count = sum(max(0, offset - before[name]) for name, offset in offsets.items())
        session.confirm(
            f"deleting {plural(record_count, 'record')} of {plural(len(offsets), 'partition')}",
            lambda cluster: cluster.delete_records(named(given)),
        )
        starts = session.do(lambda: session.cluster.delete_records(named(given))) or {}
        rows = [{**name._asdict(), "low_watermark": start} for name, start in starts.items()]
        session.conclude(
            [f"{name} begins at offset {start} now." for name, start in starts.items()],
            {"partitions": rows},
        )


def _registered(image: MetadataImage, name: TopicPartition) -> Any:
    partition_key(image, *name)
    return image.topic(name.topic).partitions[name.partition]
