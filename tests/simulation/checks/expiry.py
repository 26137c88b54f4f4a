"""What must hold of what expires: the ids of producers, and the offsets of groups (I29).

Judged by the true time, which no process and no disk need have.
"""

from kafka_on_spark.groups.offsets import offsets_retention_ms
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import (
    MetadataBatch,
    OffsetCommitRecord,
    ProducerRecord,
    RemoveProducerRecord,
)
from tests.simulation.checks.ledger import Ledger, require

SILENT = "I29 only what is silent expires"
ALL_SILENT = "L8 what is silent expires"
REFUSED = "H10 an expired run is refused"
ABOVE = "I29 an id comes back above what stands"

ROUNDED_MS = 2
"""Clocks tell whole ms, and halves of times are rounded."""


def expired_is_silent(
    ledger: Ledger, before: MetadataImage, batch: MetadataBatch, now_ms: float
) -> None:
    """I29: what lives does not expire, and what does, goes with its cause and its own epoch.

    A run lives that appends, and a group that says where it is: each once in half of the time at
    least. The other half is for what lies between a look and a commit.
    """
    settings = before.settings()
    for record in batch.records:
        if isinstance(record, RemoveProducerRecord):
            limit_ms = settings.integer("producer.id.expiration.ms")
            name = record.producer_id
            is_known = before.producers.get(name) == record.producer_epoch
            require(is_known, SILENT, f"{record} of {before.producers}")
            ledger.expired_epochs[name] = int(record.producer_epoch)
        elif isinstance(record, OffsetCommitRecord) and record.offset is None:
            if not (record.cause or "").endswith(" (offsets.retention.minutes)"):
                continue  # a command removes some, too
            limit_ms = offsets_retention_ms(settings)
            name = record.group
        else:
            continue
        silent_ms = now_ms - ledger.alive_at_ms.get(name, float("-inf"))
        told = f"{name} was silent for {silent_ms} of {limit_ms} ms: {record}"
        is_silent = silent_ms >= limit_ms / 2 - ROUNDED_MS
        require(is_silent and bool(record.cause), SILENT, told)


def comes_back_above_what_stands(
    ledger: Ledger, before: MetadataImage, batch: MetadataBatch
) -> None:
    """I29: an id that had expired says with which sequence it begins again, and that is above all
    that were committed under it: logs may have forgotten each of these."""
    for record in batch.records:
        if not isinstance(record, ProducerRecord) or record.producer_id in before.producers:
            continue
        if record.producer_id in ledger.expired_epochs:
            logs = ledger.logs.values()
            last = max((log.sequences.get(record.producer_id, -1) for log in logs), default=-1)
            is_above = record.first_sequence is not None and record.first_sequence > last
            require(is_above, ABOVE, f"{record} after {last}")


def nothing_silent_is_left(image: MetadataImage) -> None:
    """L8: in the end, with nobody about for long, no id and no group's offset is left."""
    left = (dict(image.producers), dict(image.group_offsets))
    require(left == ({}, {}), ALL_SILENT, f"{left}")
