"""The executors' half of a write: a task stages its rows, topic by topic.

A worker runs many tasks, and Spark keeps nothing for it between two: so the image that they share
is in a module global. That can go once a worker can hold a value of ours.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from kafka_on_spark.base.errors import (
    ClusterNotFoundError,
    CorruptLogError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.log.producer_state import split_of
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.node.opening import Awaits, awaiting, metadata_service
from kafka_on_spark.produce.records import input_batches
from kafka_on_spark.produce.stage_plan import MultiTopicOrder, StagedTopic, StageOrder
from kafka_on_spark.produce.staging import stage_records, stage_topics
from kafka_on_spark.store.root_urls import cluster_url
from kafka_on_spark.store.roots import StorageOptions

_IMAGES: dict[tuple[str, str | None], MetadataImage] = {}
"""The last image that this worker has planned on, by metadata root and cluster id."""


class TopicOrders:
    """One task's orders, by topic.

    `producer`: its id and the append's sequence, or None. `awaits`: what a task waits for if it
    must read the metadata.
    """

    def __init__(
        self,
        cluster: str,
        storage: StorageOptions,
        topics: MultiTopicOrder,
        producer: tuple[str, int] | None,
        awaits: Awaits = Awaits.NOTHING,
    ) -> None:
        self._root = cluster_url(cluster)
        self._storage = storage
        self._topics = topics
        self._producer = producer
        self._awaits = awaits

    def stage_one(
        self, topic: str, order: StageOrder, batches: Iterable[pa.RecordBatch], task: int
    ) -> list[StagedTopic]:
        """Stage a task's rows for one topic."""
        split = self._split(order)
        rows = stage_records(split, input_batches(batches), self._storage, task_number=task)
        if not rows:
            return []
        return [StagedTopic(topic=topic, partition_count=len(split.targets), rows=tuple(rows))]

    def stage_rows(self, batches: Iterator[pa.RecordBatch], task: int) -> list[StagedTopic]:
        """Stage a task's rows, each for the topic that it names."""
        return stage_topics(self._order_of, batches, self._storage, task_number=task)

    def _order_of(self, topic: str) -> StageOrder:
        return self._split(self._topics.order_of(self._image(), topic))

    def _split(self, order: StageOrder) -> StageOrder:
        """Return `order` for as many partitions as a try that stands in a log was split into.

        A task reads this without a fence. The driver asks again, behind a fence, and compares.
        """
        if self._producer is None or not order.is_expanded:
            return order
        replicas = Worker(self._storage).replicas
        for target in order.targets:
            if not target.has_leader:
                continue
            try:
                log = replicas.open(target.replicas[0]).load()
            except (CorruptLogError, KafkaStorageError, ReplicaLostError):
                continue  # not created yet, or away: the driver will ask again
            count = split_of(log, *self._producer)
            if count is not None:
                return replace(order, targets=order.targets[:count])
        return order

    def _image(self) -> MetadataImage:
        cluster = (self._root, self._topics.cluster_id)
        known = _IMAGES.get(cluster)
        if known is None or known.offset != self._topics.image_offset:
            known = awaiting(partial(self._image_at_plan, known), self._root, self._awaits)
            if known.cluster_id != self._topics.cluster_id:
                raise ClusterNotFoundError(
                    f"the cluster {self._topics.cluster_id} that the write was planned on is gone"
                    f" from {self._root}: write again"
                )
            _IMAGES[cluster] = known
        return known

    def _image_at_plan(self, known: MetadataImage | None) -> MetadataImage:
        metadata = metadata_service(self._root, self._storage)
        return metadata.image_at(self._topics.image_offset, known)
