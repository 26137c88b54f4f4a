"""Metadata records as rows: as the metadata table has them, and in one line for people."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from kafka_on_spark.cli.output import text_of
from kafka_on_spark.metadata.codec import encode
from kafka_on_spark.metadata.records import MetadataBatch, Record, Stamp

RECORD_COLUMNS: Final = {"record_type": "record", "cause": "cause", "fields": "what it says"}
BATCH_COLUMNS: Final = {
    "metadata_offset": "offset",
    "batch_base_offset": "batch",
    "time": "time",
    **RECORD_COLUMNS,
}
_OUT_OF_FIELDS: Final = frozenset({"record_type", "cause", "time"})


def time_text(time_ms: int) -> str:
    """Return a time for people and scripts: ISO 8601, UTC, with milliseconds."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decided_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the rows of records that are not committed: they have no place and no time."""
    rows = _encoded(records, Stamp(time_ms=0))
    for row in rows:
        del row["time"]
        row["fields"] = _fields(row)
    return rows


def batch_rows(batches: Iterable[MetadataBatch]) -> Iterator[dict[str, Any]]:
    """Yield the rows of committed records, with their offsets and the base offset of their batch.

    A column without a value is left out, as in the table's files.
    """
    for batch in batches:
        for place, row in enumerate(_encoded(batch.records, batch.stamp)):
            yield {
                "metadata_offset": batch.base_offset + place,
                "batch_base_offset": batch.base_offset,
                **row,
                "time": time_text(batch.stamp.time_ms),
                "fields": _fields(row),
            }


def _encoded(records: Sequence[Record], stamp: Stamp) -> list[dict[str, Any]]:
    columns = {name: values for name, values in encode(records, stamp).items() if values}
    return [
        {name: values[place] for name, values in columns.items() if values[place] is not None}
        for place in range(len(records))
    ]


def _fields(row: dict[str, Any]) -> str:
    """Return a record's fields as people read them."""
    return " ".join(
        f"{name}={text_of(value)}" for name, value in row.items() if name not in _OUT_OF_FIELDS
    )
