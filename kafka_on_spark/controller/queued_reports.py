"""Reports that a process queues while it waits for the commit lock; its holder decides on them.

A report is a fact, and what follows from it is decided on the image of the process that commits, so
it makes no difference which process commits. Bytes that can't be read, or of another version, hold
no reports: the process that queued them decides on its own.
"""

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.controller.isr import conclude, without_suspects
from kafka_on_spark.metadata.commit_lock import CommitLock
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport

log = logging.getLogger(__name__)


def conclude_reports(
    metadata: MetadataService, reports: Sequence[PartitionReport], *, timeout_ms: int
) -> int:
    """Commit what `reports` and the reports that waiting processes have queued lead to; return how
    many ISRs change.

    Raises: as `MetadataService.submit`.
    """
    mine = {report.key for report in reports}

    def decide(image: MetadataImage, lock: CommitLock) -> ControllerResult[int]:
        own = conclude(image, reports)
        try:
            others = decode_queued(lock.queued_reports(), exclude=mine) if own.records else []
            return conclude(image, [*reports, *others]) if others else own
        except Exception:  # the processes that queued them decide on them, too
            log.warning("queued reports are left to their processes", exc_info=True)
            return own

    def encoded() -> bytes:
        suspects = metadata.suspects()  # another process's are others
        return encode_reports([without_suspects(each, suspects) for each in reports])

    return metadata.submit_queued(decide, queued=encoded, timeout_ms=timeout_ms)


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
        return [_value(PartitionReport, fields) for fields in parse_json(content)]
    except (AttributeError, KeyError, TypeError, ValueError):
        return []  # of another version: it has fields that are not ours


def _value(kind: Any, found: Any) -> Any:
    """Return a value of JSON as one of a type: a report decides what is committed.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: It is none; what is left out has no meaning
            here.
    """
    plain: Any = getattr(kind, "__supertype__", kind)
    if plain in (PartitionReport, ReplicaReport):
        types = _types_of(plain)
        if found.keys() != types.keys():
            raise ValueError(f"not a report: {sorted(found)}")
        return plain(**{name: _value(types[name], each) for name, each in found.items()})
    if plain is PartitionKey:
        return PartitionKey(*_values(_types_of(plain).values(), found))
    kinds = get_args(plain)
    if get_origin(plain) is tuple:
        return tuple(_values(repeat(kinds[0], len(found)) if ... in kinds else kinds, found))
    if kinds and type(found) is not NoneType:  # a value, or None
        return _value(kinds[0], found)
    if type(found) not in (kinds or (plain,)):
        raise TypeError(f"{plain} can't be {found!r:.40}")
    return found


def _values(kinds: Iterable[Any], found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise TypeError(f"no list: {found!r:.40}")
    return [_value(kind, each) for kind, each in zip(kinds, found, strict=True)]


@lru_cache
def _types_of(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
