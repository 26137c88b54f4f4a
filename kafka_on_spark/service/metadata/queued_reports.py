"""Encodes the reports that a process queues while it waits for the commit lock, and decodes them.

Apart from the decision on them, `controller.verdicts.conclusion`: this only checks that the bytes
are reports. Bytes that can't be read, or of another version, hold no reports; the process that
queued them decides on its own.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, get_args, get_type_hints

from kafka_on_spark.controller.partitions.reports import PartitionReport, ReplicaReport
from kafka_on_spark.ids import ChainDigest, Offset, PartitionKey
from kafka_on_spark.stored_json import parse_json


def encode_reports(reports: Sequence[PartitionReport]) -> bytes:
    """Return `reports` as bytes: a digest, and JSON."""
    content = json.dumps(reports, default=_fields).encode()
    return _digest(content) + content


def _fields(report: PartitionReport | ReplicaReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__slots__}


def decode_queued(
    queued: Iterable[bytes], *, exclude: Collection[PartitionKey]
) -> list[PartitionReport]:
    """Return the reports in `queued`, one a partition and none of the partitions `exclude`.

    A decision on a partition makes every other report of that partition out of date.
    """
    reports: dict[PartitionKey, PartitionReport] = {}
    for encoded in queued:
        for report in _decode(encoded):
            if report.key not in exclude:
                reports.setdefault(report.key, report)
    return list(reports.values())


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _decode(encoded: bytes) -> list[PartitionReport]:
    content = encoded[16:]
    if encoded[:16] != _digest(content):
        return []
    try:
        return [_report(**fields) for fields in parse_json(content)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return []  # of another version: it has fields that are not ours


def _report(
    *,
    key: tuple[Any, int],
    leader: Mapping[str, Any],
    followers: Sequence[Mapping[str, Any]],
    borders: Sequence[tuple[Any, Any]],
    **plain: Any,
) -> PartitionReport:
    return PartitionReport(
        key=PartitionKey(*_checked(key, PartitionKey)),
        leader=_replica(leader),
        followers=tuple(map(_replica, followers)),
        borders=tuple((_Border(*_checked(border, _Border))) for border in borders),
        **_checked_fields(plain, PartitionReport),
    )


def _replica(fields: Mapping[str, Any]) -> ReplicaReport:
    if fields.keys() != set(ReplicaReport.__slots__):  # what is left out has no meaning here
        raise ValueError(f"not a replica's report: {sorted(fields)}")
    return ReplicaReport(**_checked_fields(fields, ReplicaReport))


class _Border(NamedTuple):
    offset: Offset
    chain_digest: ChainDigest


def _checked(values: Sequence[Any], kind: type) -> Sequence[Any]:
    """Check that the values of a tuple are of the types that its fields have."""
    _checked_fields(dict(zip(_types_of(kind), values, strict=True)), kind)
    return values


def _checked_fields(fields: Mapping[str, Any], kind: type) -> Mapping[str, Any]:
    """Check that plain fields have values of their types: a report decides what is committed.

    Raises:
        TypeError, KeyError: One has not.
    """
    types = _types_of(kind)
    for name, value in fields.items():
        if type(value) not in types[name]:
            raise TypeError(f"{name} can't be {value!r:.40}")
    return fields


@lru_cache
def _types_of(kind: type) -> dict[str, frozenset[type]]:
    return {name: frozenset(_plain_types(hint)) for name, hint in get_type_hints(kind).items()}


def _plain_types(hint: Any) -> Iterator[type]:
    for each in get_args(hint) or (hint,):
        yield getattr(each, "__supertype__", each)
