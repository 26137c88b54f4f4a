"""What a record of an append may be.

Users give tables, pandas frames and lists, whose columns are checked in the words of Spark's Kafka
sink (source: Spark's KafkaWriter.validateQuery). Its topic limits a record's size, partition, key
and time: a producer checks each record, tasks check columns, an append checks its segments.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafka_on_spark.base.config import unknown_name
from kafka_on_spark.base.errors import (
    InvalidRecordError,
    InvalidRequestError,
    InvalidTimestampError,
    MessageTooLargeError,
)
from kafka_on_spark.base.ids import EPOCH, record_micros
from kafka_on_spark.log.segments import RECORD_SCHEMA
from kafka_on_spark.metadata.image import MetadataImage, TopicImage

INPUT_SCHEMA: Final = pa.schema([*RECORD_SCHEMA, pa.field("partition", pa.int32())])
"""Records to append: `timestamp` null means now, `partition` null means by key."""

NULL_KIND: Final = "void"
HEADERS_KIND: Final = "array<struct<key:string,value:binary>>"
_KINDS: Final = {
    pa.null().id: NULL_KIND,
    pa.string().id: "string",
    pa.large_string().id: "string",
    pa.binary().id: "binary",
    pa.large_binary().id: "binary",
    pa.int32().id: "int",
    pa.int64().id: "int",
}

# In the order in which Kafka's sink checks them.
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": (HEADERS_KIND,),
    "partition": ("int",),
    "timestamp": ("timestamp",),
}
_ADVICE: Final = {
    "timestamp": " with a time zone: make one of milliseconds by timestamp_millis(column) in Spark,"
    " by pandas.to_datetime(column, unit='ms', utc=True), or by a cast to timestamp('ms', 'UTC') in"
    " Arrow"
}
IGNORED: Final = ("offset", "timestampType", "leaderEpoch")
"""Columns of rows that the source or a consumer returns, which a sink ignores: they can be written
back."""

# What the fields of a list's records may be, for error texts.
_IN_LISTS: Final = {
    "key": "bytes, a str or None",
    "value": "bytes, a str or None",
    "headers": "pairs of a str and bytes",
    "timestamp": "a datetime with a time zone, or milliseconds since 1970",
    "partition": "a whole number",
}
_NOT_CONVERTIBLE: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)

AFTER: Final = "message.timestamp.after.max.ms"
BEFORE: Final = "message.timestamp.before.max.ms"


class Record(NamedTuple):
    """One record to append.

    Attributes:
        key: Decides the partition unless `partition` is given; None for a keyless record.
        value: None for a tombstone.
        headers: Names and values, in order.
        timestamp: Create time, an aware datetime or milliseconds since 1970; None for now.
        partition: None to have it chosen by key.
    """

    key: bytes | str | None
    value: bytes | str | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: datetime | int | None = None
    partition: int | None = None


def batches_of(records: object) -> Iterable[pa.RecordBatch]:
    """Return `records`, an Arrow table, a pandas frame or a list, as INPUT_SCHEMA.
    InvalidRequestError: they are none of these; or a column is missing, unknown or of a wrong type.
    """
    # A caller that has a frame has imported pandas; other callers should not pay for the import.
    pandas = sys.modules.get("pandas")
    if isinstance(records, pa.RecordBatch):
        table = pa.Table.from_batches([records])
    elif isinstance(records, pa.Table):
        table = records
    elif pandas is not None and isinstance(records, pandas.DataFrame):
        # Without its index; a NaN becomes null.
        names = [str(name) for name in records]
        series = [records.iloc[:, place] for place in range(len(names))]
        table = pa.table(list(map(_array_of_series, names, series)), names=names)
    elif isinstance(records, Iterable) and not isinstance(records, str | bytes):
        return _batches_of_list(list(records))
    else:
        raise InvalidRequestError(
            f"can't append a {type(records).__name__}: give a DataFrame, an Arrow table, or a list"
            " of (key, value, headers, timestamp, partition)"
        )
    check_columns([(field.name, _kind(field.type)) for field in table.schema], has_topic=True)
    return input_batches(table.to_batches())


def _array_of_series(name: str, series: Any) -> pa.Array:
    if name == "headers":
        return _array(name, [None if _is_missing(each) else each for each in series])
    try:
        found = pa.array(series, from_pandas=True)
        # In pandas, a column of whole numbers is one of floats if some are missing.
        is_floats = name == "partition" and pa.types.is_floating(found.type)
        return found.cast(pa.int64()) if is_floats else found
    except _NOT_CONVERTIBLE:
        # Texts and bytes in one column, or what can't be a record's.
        return _array(name, [None if _is_missing(each) else each for each in series.tolist()])


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float | datetime) and value != value)  # NaN, NaT


def _batches_of_list(records: list[Any]) -> list[pa.RecordBatch]:
    rows = [_row(record) for record in records]
    kinds = dict.fromkeys([*chain.from_iterable(rows)] or ["key", "value"], NULL_KIND)
    check_columns(kinds.items(), has_topic=True)  # values are made to be of the schema's types
    columns = [_array(name, [row.get(name) for row in rows]) for name in INPUT_SCHEMA.names]
    batches: list[pa.RecordBatch] = pa.Table.from_arrays(columns, schema=INPUT_SCHEMA).to_batches()
    return batches


def encoded_text(name: str, text: str) -> bytes:
    """Return a record's key or value, or a part of its headers, that was given as a text."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{name!r} is no text that UTF-8 has: {error}") from None


def _array(name: str, values: list[Any]) -> pa.Array:
    if name not in _IN_LISTS:
        return pa.nulls(len(values))  # an unknown column is refused by its name
    data_type = INPUT_SCHEMA.field(name).type
    if name == "timestamp":
        times = [None if value is None else record_micros(value) for value in values]
        return pa.array(times, pa.int64()).cast(data_type)
    if name == "headers":
        values = [None if value is None else header_pairs(value) for value in values]
    for place, value in enumerate(values):
        if isinstance(value, str):
            values[place] = encoded_text(name, value)
        # Arrow would cut a fraction off, and append the record to another partition.
        if name == "partition" and isinstance(value, float):
            raise wrong_type(name, value)
    try:
        return pa.array(values, data_type)
    except _NOT_CONVERTIBLE:
        raise wrong_type(name, next(each for each in values if not _fits(each, data_type))) from (
            None
        )


def _fits(value: object, data_type: pa.DataType) -> bool:
    try:
        pa.array([value], data_type)
    except _NOT_CONVERTIBLE:
        return False
    return True


def wrong_type(name: str, value: object) -> InvalidRequestError:
    """Return the error of a part of a record, by its name or a name for a part of that."""
    allowed = _IN_LISTS.get(name, _IN_LISTS["key"])
    return InvalidRequestError(
        f"{name!r} can't be {value!r:.60}, a {type(value).__name__}: give {allowed}"
    )


def _row(record: object) -> dict[str, Any]:
    if isinstance(record, dict):
        return dict(record)
    if isinstance(record, tuple) and 2 <= len(record) <= len(Record._fields):
        return Record(*record)._asdict()
    raise InvalidRequestError(
        f"can't append {record!r:.60}: give (key, value, headers, timestamp, partition), the last"
        " three optional, or a mapping of those names"
    )


def header_pairs(given: Any) -> list[tuple[Any, Any]] | None:
    """Return a record's headers, a mapping or pairs, as pairs; None without any."""
    pairs = given.items() if isinstance(given, Mapping) else given
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes):
        raise wrong_type("headers", given)
    found = []
    for each in pairs:
        pair = each
        if isinstance(each, dict) and each.keys() == {"key", "value"}:
            pair = each["key"], each["value"]
        if not (isinstance(pair, tuple | list) and len(pair) == 2):
            raise wrong_type("headers", given)
        found.append((pair[0], pair[1]))
    return found or None


def check_columns(columns: Iterable[tuple[str, str]], *, has_topic: bool) -> None:
    """Check the names and types of an append's columns; `has_topic`: the caller names the topic.

    Arrow and Spark have type names of their own: a caller gives each column's kind, a name of
    Spark's such as "string" or "binary", or any name for another type.
    """
    kinds: dict[str, str] = {}
    for name, kind in columns:
        if name in kinds:
            raise InvalidRequestError(
                f"there is more than one column {name!r}: give one, as by selecting or renaming"
            )
        kinds[name] = kind
    if not has_topic and "topic" not in kinds:
        raise InvalidRequestError(
            "topic option required when no 'topic' attribute is present. Use the topic option"
            " for setting a topic."
        )
    for name, allowed in _ALLOWED.items():
        if name == "value" and name not in kinds:
            raise InvalidRequestError(
                "Required attribute 'value' not found: name the column with the records 'value'"
                f" (given: {', '.join(kinds) or 'no columns'})"
            )
        kind = kinds.get(name, NULL_KIND)
        if kind not in (*allowed, NULL_KIND):
            raise InvalidRequestError(
                f"{name} attribute unsupported type {kind}. {name} must be a(n)"
                f" {' or '.join(allowed)}{_ADVICE.get(name, '')}"
            )
    unknown = [name for name in kinds if name not in (*_ALLOWED, *IGNORED)]
    if unknown:
        raise InvalidRequestError(unknown_name("column", unknown[0], list(_ALLOWED)))


def _kind(data_type: pa.DataType) -> str:
    if data_type.id in _KINDS:
        return _KINDS[data_type.id]
    if pa.types.is_timestamp(data_type) and data_type.tz is not None:
        return "timestamp"
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        each = data_type.value_type
        if pa.types.is_struct(each) and each.names == ["key", "value"]:
            name, value = _kind(each[0].type), _kind(each[1].type)
            if name in ("string", NULL_KIND) and value in ("binary", NULL_KIND):
                return HEADERS_KIND
    return str(data_type)


def input_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield `batches` with exactly the columns of INPUT_SCHEMA, missing ones null."""
    for batch in batches:
        columns = [_column(batch, field) for field in INPUT_SCHEMA]
        yield pa.RecordBatch.from_arrays(columns, schema=INPUT_SCHEMA)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    place = batch.schema.get_field_index(field.name)
    if place < 0:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(place)
    if column.type == field.type:
        return column
    is_ns = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    try:
        if pa.types.is_string(column.type) and field.type == pa.binary():
            return column.view(pa.binary())
        # digits of nanoseconds are cut off; no other unit has too many
        return column.cast(field.type, safe=not is_ns)
    except pa.ArrowException as error:
        raise InvalidRecordError(
            f"a record's {field.name} can't be stored as {field.type}: {error}"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """What a topic allows, by one image.

    Attributes:
        record_bytes_max: Source: max.message.bytes.
        before_max_ms: Source: message.timestamp.before.max.ms; None: the time of the append counts.
        after_max_ms: Source: message.timestamp.after.max.ms; None likewise.
        needs_key: The topic is compacted (KIP-135). Source: cleanup.policy.
    """

    name: str
    partition_count: int
    record_bytes_max: int
    before_max_ms: int | None
    after_max_ms: int | None
    needs_key: bool

    def lacks_key(self) -> InvalidRecordError:
        """Return the error of a record without a key, if the topic needs one."""
        return InvalidRecordError(
            f"a record for {self.name} has no key, and its topic is compacted (cleanup.policy):"
            " give each record a key, or alter the setting"
        )

    def time_refusal(self, timestamp_us: int, now_ms: int) -> InvalidTimestampError | None:
        """Return why a record's own timestamp is refused at the time of its append, or None
        (KIP-937). Source: LogValidator.validateTimestamp."""
        if self.before_max_ms is None or self.after_max_ms is None:
            return None
        age_us = now_ms * 1000 - timestamp_us
        if -self.after_max_ms * 1000 <= age_us <= self.before_max_ms * 1000:
            return None
        side, setting, limit_ms = (
            ("before", BEFORE, self.before_max_ms)
            if age_us > 0
            else ("after", AFTER, self.after_max_ms)
        )
        return InvalidTimestampError(
            f"a record for {self.name} has the timestamp {_time(timestamp_us)}, more than"
            f" {limit_ms} ms {side} its append: give it another, or set {setting}"
        )


def topic_limits(image: MetadataImage, topic: TopicImage) -> TopicLimits:
    """Return what a topic allows."""
    settings = image.settings(topic.topic_id)
    is_own = settings.text("message.timestamp.type") != "LogAppendTime"
    return TopicLimits(
        name=topic.name,
        partition_count=len(topic.partitions),
        record_bytes_max=settings.integer("max.message.bytes"),
        before_max_ms=settings.integer(BEFORE) if is_own else None,
        after_max_ms=settings.integer(AFTER) if is_own else None,
        needs_key="compact" in settings.policies,
    )


def too_large(size_bytes: int, record_bytes_max: int) -> MessageTooLargeError:
    """Return the error of a record whose key, value and headers are larger than is allowed."""
    return MessageTooLargeError(
        f"a record has {size_bytes} bytes, more than max.message.bytes={record_bytes_max}: make it"
        " smaller, or raise the topic's setting"
    )


def no_such_partition(partition: int, partition_count: int) -> InvalidRecordError:
    """Return the error of a record that names a partition which its topic does not have."""
    return InvalidRecordError(
        f"invalid partition given with record: {partition} is not in the range"
        f" [0, {partition_count}); leave `partition` null to have it chosen by key"
    )


def _time(timestamp_us: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=timestamp_us)).isoformat()
    except OverflowError:
        return f"{timestamp_us} µs since 1970"
