"""A cluster as a notebook shows it: figures, brokers and topics, from its metadata alone. Pure."""

from collections.abc import Iterator
from typing import Final

from kafka_on_spark.html_table import html_figures, html_table
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.query.moments import time_of
from kafka_on_spark.service.describe.descriptions import describe_brokers
from kafka_on_spark.service.describe.state_metrics import state_metrics

FIGURES: Final = {
    "GlobalTopicCount": "topics",
    "GlobalPartitionCount": "partitions",
    "OfflinePartitionsCount": "without a leader",
    "UnderReplicatedPartitions": "under-replicated",
    "UnderMinIsrPartitionCount": "under min ISR",
    "ReassigningPartitions": "reassigning",
    "ActiveBrokerCount": "brokers",
    "FencedBrokerCount": "brokers fenced",
    "LastAppliedRecordOffset": "metadata offset",
}
"""Figures that are shown, by Kafka's names for them."""

BROKER_COLUMNS: Final = ("broker", "state", "rack", "leads", "replicas", "root")
TOPIC_COLUMNS: Final = (
    *("topic", "partitions", "replicas", "records"),
    *("without a leader", "under-replicated"),
)


def cluster_html(root: str, image: MetadataImage) -> str:
    """Return the display of the cluster at `root`."""
    metrics = state_metrics(image, is_controller=False)
    values = {each.name: int(each.value) for each in metrics if not each.labels}
    lease = image.controller
    figures: dict[str, object] = {words: values[name] for name, words in FIGURES.items()}
    figures["controller"] = None if lease is None else lease.controller_id
    figures["as of"] = f"{time_of(image.time_ms):%Y-%m-%d %H:%M:%S} UTC"
    return (
        html_figures(f"Cluster {image.cluster_id or ''} at {root}", figures)
        + html_table(
            "Brokers", ("broker", "state", "rack", "leads", "replicas", "root"), _brokers(image)
        )
        + html_table("Topics", TOPIC_COLUMNS, _topics(image))
    )


def _brokers(image: MetadataImage) -> Iterator[tuple[object, ...]]:
    for each in describe_brokers(image):
        broker = each.registration
        yield (
            broker.broker_id,
            broker.state.value,
            broker.rack,
            each.leader_count,
            each.replica_count,
            broker.root,
        )


def _topics(image: MetadataImage) -> Iterator[tuple[object, ...]]:
    for topic in sorted(image.topics.values(), key=lambda each: each.name):
        partitions = topic.partitions.values()
        yield (
            topic.name,
            len(partitions),
            max((len(each.replicas) for each in partitions), default=0),
            sum(each.high_watermark - each.log_start_offset for each in partitions),
            sum(each.leader is None for each in partitions),
            sum(each.is_under_replicated for each in partitions),
        )
