"""Values of commands as JSON has them, and back: what a request and its result are written in.

JSON has no keys but texts, no sets and no records of ours, so these are marked; everything else
stands there as people read it.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import asdict
from numbers import Integral
from typing import Any, Final

from kafka_on_spark.controller.recovery import ReplicaLook
from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import PartitionKey, TopicId

_KEY: Final = "$partition"
_LOOK: Final = "$look"
_MAP: Final = "$map"
_SET: Final = "$set"


def to_plain(value: object) -> Any:
    """Return `value` as JSON can hold it.

    Raises:
        InvalidRequestError: It has a value that no request can carry.
    """
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, Integral):  # numpy's as well
        return int(value)
    if isinstance(value, PartitionKey):
        return {_KEY: [value.topic_id, value.partition]}
    if isinstance(value, ReplicaLook):
        return {_LOOK: {**asdict(value), "key": to_plain(value.key)}}
    if isinstance(value, Mapping):
        return _plain_mapping(value)
    if isinstance(value, Set):
        return {_SET: sorted((to_plain(each) for each in value), key=repr)}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    raise InvalidRequestError(
        f"a command can't be given {value!r}, a {type(value).__name__}: give numbers, texts,"
        " truth values, lists and mappings of them"
    )


def _plain_mapping(value: Mapping[Any, Any]) -> Any:
    if all(isinstance(name, str) and not name.startswith("$") for name in value):
        return {name: to_plain(each) for name, each in value.items()}
    return {_MAP: [[to_plain(name), to_plain(each)] for name, each in value.items()]}


def from_plain(plain: Any) -> Any:
    """Return the value that `to_plain` made `plain` of, tuples as lists.

    Raises:
        ValueError, TypeError, KeyError: It is not of its making.
    """
    if isinstance(plain, list):
        return [from_plain(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    for mark, make in _MARKS.items():
        if mark in plain:
            return make(plain[mark])
    return {name: from_plain(each) for name, each in plain.items()}


def _key(plain: Any) -> PartitionKey:
    topic_id, partition = plain
    return PartitionKey(TopicId(topic_id), partition)


def _look(plain: Any) -> ReplicaLook:
    return ReplicaLook(**{**plain, "key": from_plain(plain["key"])})


def _map(plain: Any) -> dict[Any, Any]:
    return {from_plain(name): from_plain(each) for name, each in plain}


def _set(plain: Any) -> frozenset[Any]:
    return frozenset(from_plain(each) for each in plain)


_MARKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    _KEY: _key,
    _LOOK: _look,
    _MAP: _map,
    _SET: _set,
}
