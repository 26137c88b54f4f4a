"""Has a leader compacted by the task that reads it, where it can't be read before.

Apart from `services`, which does the same in a process that has a cluster open: a task on an
executor has only what it was sent.
"""

import logging

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.service.maintain.upkeep_plan import plan_compaction
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder
from kafka_on_spark.spark.run.keeping_tasks import upkeep_task
from kafka_on_spark.spark.run.opening import open_metadata
from kafka_on_spark.spark.run.tasks import fetch_task
from kafka_on_spark.storage.roots.root_lists import cluster_url
from kafka_on_spark.storage.roots.roots import StorageOptions

log = logging.getLogger(__name__)


def compact_leader(cluster: str, storage: StorageOptions, key: PartitionKey) -> None:
    """Compact the leader of a partition as far as is decided; what fails is said in the log, and by
    the read that finds it as it was."""
    try:
        metadata = open_metadata(cluster_url(cluster), storage)
    except KafkaOnSparkError as error:
        log.warning("a leader is not compacted by the task that reads it: %s", error)
        return
    image = metadata.image
    for order in plan_compaction(image, {key: ()}):
        # It must lead first: what is compacted is fenced.
        begun = FetchOrder(
            key=key,
            partition=order.partition,
            leader=order.address,
            follower=None,
            fetch_bytes_max=0,
        )
        fetch_task(begun, storage)
        for kind, work in upkeep_task(order, storage).done:
            if work.error:
                log.warning("%s of %s failed: %s", kind, image.name_of(key), work.error)
