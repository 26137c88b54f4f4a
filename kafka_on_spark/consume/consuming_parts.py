"""Wires a consumer: its reads of replicas, its wait, its place in a group."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from kafka_on_spark.base.counting import BYTES_OUT, MESSAGES_OUT, REQUEST_MS
from kafka_on_spark.consume.consuming import Consuming
from kafka_on_spark.consume.member import Listeners
from kafka_on_spark.consume.settings import ConsumerSettings
from kafka_on_spark.groups.liveness import Liveness
from kafka_on_spark.log.read_order import ReadOrder, after_others
from kafka_on_spark.log.reading import end_of, read_rows
from kafka_on_spark.metadata.commit_wait import CommitWait
from kafka_on_spark.node.services import Services
from kafka_on_spark.observe.counts import Counts
from kafka_on_spark.store.clock import WakingClock, new_uuid
from kafka_on_spark.store.roots import is_local

FETCH: Final = "Fetch"
"""The request of a read, in Kafka's words: from a replica's files to rows."""


def consuming_of(services: Services, settings: ConsumerSettings, listeners: Listeners) -> Consuming:
    """Return a consumer of the cluster that has no partitions yet."""

    def read(order: ReadOrder) -> Iterator[pa.RecordBatch]:
        batches = read_rows(
            after_others(order, services.suspects()),
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

    liveness = None
    if settings.group is not None:
        liveness = Liveness(
            services.metadata,
            services.heartbeats,
            WakingClock(),
            group=settings.group,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            timeout_ms=services.timeout_ms,
            new_id=new_uuid,
        )
    wait = CommitWait(services.metadata, services.clock, is_local=is_local(services.table))
    return Consuming(
        services.metadata,
        services.clock,
        wait,
        settings=settings,
        read=read,
        end_of=end_of,
        timeout_ms=services.timeout_ms,
        liveness=liveness,
        listeners=listeners,
    )


def _counted(
    batches: Iterator[pa.RecordBatch], topic: str, recorder: Counts
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
