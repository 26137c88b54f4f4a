"""Metadata records as rows: the columns of the metadata table, and one line of text for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kafka_on_spark.base.moments import time_of
from kafka_on_spark.cli.output import text_of
from kafka_on_spark.metadata.codec import encode
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord, MetadataBatch, Record, Stamp

RECORD_COLUMNS: Final = "record_type cause fields"
BATCH_COLUMNS: Final = f"metadata_offset batch_base_offset time {RECORD_COLUMNS}"
_NOT_FOR_PEOPLE: Final = frozenset(
    {"record_type", "cause", "time", "topic_id", "replica_uuids", "directories", "application_id"}
)
"""Other columns of the row say the same, or a name does; scripts get them all."""


def time_text(time_ms: int) -> str:
    """Return a time in ISO 8601, in UTC, with milliseconds."""
    return time_of(time_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decided_rows(records: Sequence[Record], image: MetadataImage) -> list[dict[str, Any]]:
    """Return the rows of records that are not committed: they have no offset and no time.

    The `image` names topics.
    """
    rows = _encoded(records, Stamp(time_ms=0))
    for row in rows:
        del row["time"]
        row["fields"] = _fields(row, image)
    return rows


def batch_rows(batches: Iterable[MetadataBatch], image: MetadataImage) -> Iterator[dict[str, Any]]:
    """Yield the rows of committed records, with their offsets and the base offset of their batch.

    A column without a value is left out. The `image` names topics.
    """
    for batch in batches:
        for place, row in enumerate(_encoded(batch.records, batch.stamp)):
            yield {
                "metadata_offset": batch.base_offset + place,
                "batch_base_offset": batch.base_offset,
                **row,
                "time": time_text(batch.stamp.time_ms),
                "fields": _fields(row, image),
            }


def _encoded(records: Sequence[Record], stamp: Stamp) -> list[dict[str, Any]]:
    columns = {name: values for name, values in encode(records, stamp).items() if values}
    return [
        {name: values[place] for name, values in columns.items() if values[place] is not None}
        for place in range(len(records))
    ]


def _fields(row: dict[str, Any], image: MetadataImage) -> str:
    """Return a record's fields in one line for people, with names in place of ids."""
    said = [] if row.get("topic_id") is None or "topic" in row else [_topic_of(row, image)]
    is_controllers = row["record_type"] == ControllerRecord.__name__
    for name, value in row.items():
        is_stamp = name.startswith("controller_") and not is_controllers
        if name not in _NOT_FOR_PEOPLE and not is_stamp and value != []:
            said.append(f"{name}={text_of(value)}")
    return " ".join(said)


def _topic_of(row: dict[str, Any], image: MetadataImage) -> str:
    topic = image.topics.get(row["topic_id"])
    return f"topic_id={row['topic_id']}" if topic is None else f"topic={topic.name}"
