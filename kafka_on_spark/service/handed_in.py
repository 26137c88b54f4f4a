"""Reports that a process hands in while it waits to conclude them: as bytes, and what they say.

Apart from the decision, which is `controller.replication`'s: this only checks that the bytes are
reports. A note that isn't readable, or of another version, says nothing: its owner decides.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from kafka_on_spark.controller.reports import PartitionReport, ReplicaReport
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.stored_json import parse_json


def encode_reports(reports: Sequence[PartitionReport]) -> bytes:
    """Return `reports` as a note: a digest, and JSON."""
    content = json.dumps(reports, default=_fields).encode()
    return _digest(content) + content


def _fields(report: PartitionReport | ReplicaReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__slots__}


def handed_in(
    notes: Iterable[bytes], *, besides: Collection[PartitionKey]
) -> list[PartitionReport]:
    """Return the reports of `notes`, one a partition and none of those `besides`: a decision on a
    partition makes every other report of it one of the past.
    """
    reports: dict[PartitionKey, PartitionReport] = {}
    for note in notes:
        for report in _decode(note):
            if report.key not in besides:
                reports.setdefault(report.key, report)
    return list(reports.values())


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _decode(note: bytes) -> list[PartitionReport]:
    content = note[16:]
    if note[:16] != _digest(content):
        return []
    try:
        return [_report(**fields) for fields in parse_json(content)]
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ):  # of another version: it has fields that are not ours
        return []


def _report(
    *,
    key: tuple[Any, int],
    leader: Mapping[str, Any],
    followers: Sequence[Mapping[str, Any]],
    borders: Sequence[tuple[Any, Any]],
    **plain: Any,
) -> PartitionReport:
    return PartitionReport(
        key=PartitionKey(*key),
        leader=_replica(leader),
        followers=tuple(map(_replica, followers)),
        borders=tuple((offset, digest) for offset, digest in borders),
        **plain,
    )


def _replica(fields: Mapping[str, Any]) -> ReplicaReport:
    if fields.keys() != set(ReplicaReport.__slots__):  # what is left out has no meaning here
        raise ValueError(f"not a replica's report: {sorted(fields)}")
    return ReplicaReport(**fields)
