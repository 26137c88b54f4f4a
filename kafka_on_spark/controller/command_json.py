"""Values of commands as JSON, and back: how a request and its result are written.

JSON's keys are texts, and it has none of our records, so these are marked; everything
else is written as people read it.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from numbers import Integral
from typing import Any, Final

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import PartitionKey, TopicId
from kafka_on_spark.metadata.reports import ReplicaInspection

_KEY: Final = "$partition"
_INSPECTION: Final = "$look"
_MAP: Final = "$map"


def to_json(value: object) -> Any:
    """Return `value` as JSON can hold it.

    Raises:
        InvalidRequestError: A request can't carry a part of it.
    """
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, Integral):  # numpy's as well
        return int(value)
    if isinstance(value, PartitionKey):
        return {_KEY: [value.topic_id, value.partition]}
    if isinstance(value, ReplicaInspection):
        return {_INSPECTION: {**asdict(value), "key": to_json(value.key)}}
    if isinstance(value, Mapping):
        return _json_mapping(value)
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    raise InvalidRequestError(
        f"a command can't be given {value!r}, a {type(value).__name__}: give numbers, texts,"
        " truth values, lists and mappings of them"
    )


def _json_mapping(value: Mapping[Any, Any]) -> Any:
    if all(isinstance(name, str) and not name.startswith("$") for name in value):
        return {name: to_json(each) for name, each in value.items()}
    return {_MAP: [[to_json(name), to_json(each)] for name, each in value.items()]}


def from_json(written: Any) -> Any:
    """Return the value that `to_json` wrote, tuples as lists.

    Raises:
        ValueError, TypeError, KeyError: `to_json` did not write it.
    """
    if isinstance(written, list):
        return [from_json(each) for each in written]
    if not isinstance(written, dict):
        return written
    for mark, read in _MARKS.items():
        if mark in written:
            return read(written[mark])
    return {name: from_json(each) for name, each in written.items()}


def _key(written: Any) -> PartitionKey:
    topic_id, partition = written
    return PartitionKey(TopicId(topic_id), partition)


def _inspection(written: Any) -> ReplicaInspection:
    return ReplicaInspection(**{**written, "key": from_json(written["key"])})


def _map(written: Any) -> dict[Any, Any]:
    return {from_json(name): from_json(each) for name, each in written}


_MARKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    _KEY: _key,
    _INSPECTION: _inspection,
    _MAP: _map,
}
