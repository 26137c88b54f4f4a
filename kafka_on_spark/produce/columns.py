"""Checks the columns of an append, in the words of Spark's Kafka sink.

Pure, since Arrow and Spark have type names of their own: a caller gives each column's kind, a name
of Spark's such as "string" or "binary", or any name for another type.
Source: Spark's KafkaWriter.validateQuery.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kafka_on_spark.base.config import unknown_name
from kafka_on_spark.base.errors import InvalidRequestError

# In the order in which Kafka's sink checks them.
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
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

NULL_KIND: Final = "void"


def check_columns(columns: Iterable[tuple[str, str]], *, has_topic: bool) -> None:
    """Check the names and types of an append's columns; `has_topic`: the
    caller names the topic.

    Raises:
        InvalidRequestError: A column is missing, unknown, there twice or of a wrong type.
    """
    columns = list(columns)
    kinds = dict(columns)
    twice = [name for name, count in Counter(name for name, _ in columns).items() if count > 1]
    if twice:
        raise InvalidRequestError(
            f"there is more than one column {twice[0]!r}: give one, as by selecting or renaming"
        )
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
