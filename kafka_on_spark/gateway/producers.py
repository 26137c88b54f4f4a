"""Producers of Kafka's protocol: the ids that they are given, and the runs that they append under.

An id of 63 bits has above 32 of its bits the epoch of the run that was begun with it: the client's
epochs, which it raises by itself, count from there. So any gateway knows the run of a batch.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.base.errors import (
    InvalidRecordError,
    RequestTimedOutError,
    UnknownProducerIdError,
)
from kafka_on_spark.base.ids import ProducerEpoch
from kafka_on_spark.log.batch import CLIENT_EPOCH_BITS, CLIENT_PREFIX
from kafka_on_spark.log.state import ProducerEntry
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import ProducerRecord
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.idempotence import NextAppend, ProducerRuns
from kafka_on_spark.produce.staging import ProducerRun

_CANDIDATES: Final = 8


def new_producer(node: Node) -> int:
    """Return a producer's id that nobody has; one commit registers it. Source: KIP-360."""
    candidates = [secrets.randbits(32) for _ in range(_CANDIDATES)]

    def decide(image: MetadataImage) -> ControllerResult[int]:
        epoch = ProducerEpoch(image.expired_epoch + 1)
        number = _free(image, candidates)
        record = ProducerRecord(
            producer_id=f"{CLIENT_PREFIX}{number:08x}",
            producer_epoch=epoch,
            cause="a client of Kafka's protocol begins",
        )
        return ControllerResult([record], epoch << 32 | number)

    node.metadata.log.check_writable()
    return node.metadata.submit(decide, timeout_ms=node.timeout_ms)


def _free(image: MetadataImage, candidates: Sequence[int]) -> int:
    for number in candidates:
        name = f"{CLIENT_PREFIX}{number:08x}"
        if name not in image.producers and name not in image.expired_producers:
            return number
    raise RequestTimedOutError("found no free producer id: try again")


def run_of(node: Node, producer_id: int, producer_epoch: int, sequence: int) -> ProducerRun:
    """Return the run under which a client's batch is appended.

    Raises:
        InvalidRecordError: A number is below 0.
        ProducerFencedError: A later epoch of the id has begun.
        UnknownProducerIdError: No gateway has given that id, or it has expired with this epoch.
    """
    if producer_epoch < 0 or sequence < 0:
        raise InvalidRecordError("a producer's epoch and sequence can't be below 0")
    name = f"{CLIENT_PREFIX}{producer_id & 0xFFFFFFFF:08x}"
    image = node.metadata.image
    if name not in image.producers and name not in image.expired_producers:
        raise UnknownProducerIdError(f"no gateway has given the producer id {producer_id}")
    begins = NextAppend(
        producer_id=name,
        sequence=(producer_epoch << CLIENT_EPOCH_BITS) + sequence,
        producer_epoch=(producer_id >> 32) + producer_epoch,
    )
    return node.part(ProducerRuns).begin(begins)


def client_of(name: str, entry: ProducerEntry) -> dict[str, int] | None:
    """Return what a log knows of a client's producer, as DescribeProducers names it; None: it is
    none, or has no records there."""
    if not name.startswith(CLIENT_PREFIX) or entry.last is None:
        return None
    epoch, sequence = divmod(entry.last.sequence, 1 << CLIENT_EPOCH_BITS)
    number = int(name.removeprefix(CLIENT_PREFIX), 16)
    return {
        "producer_id": (entry.producer_epoch - epoch) << 32 | number,
        "producer_epoch": epoch,
        "last_sequence": (sequence + entry.last.record_count - 1) & 0x7FFFFFFF,
        "last_timestamp": entry.last.appended_at_ms,
    }
