"""Wires a consumer: its reads of replicas, its wait, its place in a group, its lookup of times."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from kafka_on_spark.ids import Offset
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.counting import BYTES_OUT, MESSAGES_OUT, REQUEST_MS, Recorder
from kafka_on_spark.query.consuming.settings import ConsumerSettings
from kafka_on_spark.query.offsets.positions import TimeQuestion
from kafka_on_spark.query.reads.read_order import ReadOrder
from kafka_on_spark.service.consume.consuming import Consuming
from kafka_on_spark.service.consume.member import Listeners
from kafka_on_spark.service.consume.witness import Witness
from kafka_on_spark.service.metadata.commit_wait import CommitWait
from kafka_on_spark.spark.run.time_lookup import time_lookup
from kafka_on_spark.spark.wiring.services import Services
from kafka_on_spark.storage.calls.clock import WakingClock
from kafka_on_spark.storage.calls.random_ids import new_uuid
from kafka_on_spark.storage.replicas.reader import end_of, read_rows
from kafka_on_spark.storage.roots.roots import is_local

FETCH: Final = "Fetch"
"""The request of a read, in Kafka's words: from a replica's files to rows."""


def witness_of(services: Services, settings: ConsumerSettings) -> Witness | None:
    """Return what a consumer and the other members of its group do for each other; None: it has
    no group."""
    if settings.group is None:
        return None
    return Witness(
        services.metadata,
        services.heartbeats,
        WakingClock(),
        group=settings.group,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        timeout_ms=services.timeout_ms,
    )


def consuming_of(
    services: Services, settings: ConsumerSettings, witness: Witness | None, listeners: Listeners
) -> Consuming[pa.RecordBatch]:
    """Return a consumer of the cluster that has no partitions yet."""

    def read(order: ReadOrder) -> Iterator[pa.RecordBatch]:
        batches = read_rows(
            order,
            services.replicas,
            services.options,
            has_epochs=True,
            note=services.note_unread,
            finish_compaction=services.finish_compaction,
        )
        try:
            yield from _counted(batches, order.name.topic, services.counts)
        finally:
            batches.close()
            services.note_findings()

    wait = CommitWait(services.metadata, services.clock, is_local=is_local(services.table))
    return Consuming(
        services.metadata,
        services.clock,
        wait,
        settings=settings,
        read=read,
        end_of=end_of,
        timeout_ms=services.timeout_ms,
        witness=witness,
        listeners=listeners,
        new_id=new_uuid,
    )


def _counted(
    batches: Iterator[pa.RecordBatch], topic: str, recorder: Recorder
) -> Iterator[pa.RecordBatch]:
    """Yield batches, and count what they have and how long each was read."""
    while True:
        began_ms = recorder.now_ms()
        batch = next(batches, None)
        if batch is None:
            return
        recorder.observe(REQUEST_MS, recorder.now_ms() - began_ms, request=FETCH)
        recorder.count(MESSAGES_OUT, batch.num_rows, topic=topic)
        recorder.count(BYTES_OUT, batch.nbytes, topic=topic)
        yield batch


def look_up_times(
    services: Services,
    image: MetadataImage,
    questions: Sequence[TimeQuestion],
    client_rack: str | None,
) -> Sequence[Offset | None]:
    """Return the answers to questions about records that are committed in `image`.

    Raises:
        KafkaStorageError: No replica can answer one.
    """
    return time_lookup(image, image, services.options, client_rack)(questions)
