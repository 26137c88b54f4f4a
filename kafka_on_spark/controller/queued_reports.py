"""Reports that a process queues while it waits for the commit lock; its holder decides on them.

A report is a fact, and what follows from it is decided on the image of the process that commits, so
it makes no difference which process commits. Damaged bytes, or another version's, hold no reports:
the process that queued them decides on its own.
"""

import json
import logging
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final

from kafka_on_spark.base.ids import PartitionKey
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


_LAYOUT: Final = repr([PartitionReport.__annotations__, ReplicaReport.__annotations__]).encode()
"""A version whose reports have other fields, or of other types, finds no reports in such bytes."""


def _sealed(content: bytes) -> bytes:
    return blake2b(content + _LAYOUT, digest_size=16).digest() + content


def encode_reports(reports: Sequence[PartitionReport]) -> bytes:
    """Return `reports` as bytes: a digest, and JSON."""
    return _sealed(json.dumps(reports, default=_fields).encode())


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
        whole = encoded[16:] if _sealed(encoded[16:]) == encoded else b"[]"
        for fields in json.loads(whole):
            key = PartitionKey(*fields["key"])
            if key not in exclude:
                known = {
                    "key": key,
                    "leader": ReplicaReport(**fields["leader"]),
                    "followers": tuple(ReplicaReport(**each) for each in fields["followers"]),
                    "borders": tuple(map(tuple, fields["borders"])),
                }
                reports.setdefault(key, PartitionReport(**fields | known))
    return list(reports.values())
