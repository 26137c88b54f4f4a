"""The records that rebuild an image from nothing.

The inverse of replay: what is folded in here must come out of replay as it was.
"""

from collections.abc import Iterable, Mapping
from itertools import repeat

from kafka_on_spark.base.ids import ProducerEpoch, TopicId
from kafka_on_spark.metadata.columns import construct_many
from kafka_on_spark.metadata.group import rebuilding_records
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    OffsetCommitRecord,
    PartitionRecord,
    ProducerRecord,
    Record,
    RemoveProducerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    VotersRecord,
)


def snapshot_records(image: MetadataImage) -> list[Record]:
    """Return the records that rebuild `image` from nothing, high watermarks folded in.

    The controller's lease comes last: its offset shows only that the holder is alive.
    """
    records: list[Record] = []
    if image.cluster_id is not None:
        generation = image.generation or None
        records.append(ClusterRecord(cluster_id=image.cluster_id, generation=generation))
    if image.registered_voters:
        records.append(VotersRecord(voters=image.registered_voters))
    records.extend(
        BrokerRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            root=broker.root,
            rack=broker.rack,
            directory_id=broker.directory_id,
            broker_state=broker.state,
            fenced_since_ms=broker.fenced_since_ms,
            refused=broker.refused,
        )
        for broker in image.brokers.values()
    )
    records.extend(
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker_epoch)
        for broker_id, broker_epoch in image.past_brokers.items()
    )
    records.extend(_config_records(None, image.configs))
    for topic in image.topics.values():
        records.append(
            TopicRecord(
                topic=topic.name,
                topic_id=topic.topic_id,
                first_partition_count=topic.first_partition_count,
            )
        )
        records.extend(_config_records(topic.topic_id, topic.configs))
        records.extend(
            construct_many(
                PartitionRecord,
                {
                    "topic": repeat(topic.name),
                    "topic_id": repeat(topic.topic_id),
                    "partition": topic.partitions,
                    "registration": topic.partitions.values(),
                    "cause": repeat(None),
                },
                len(topic.partitions),
            )
        )
    records.extend(
        ProducerRecord(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            first_sequence=image.first_sequences.get(producer_id),
            renewed_at_ms=image.producer_times.get(producer_id),
        )
        for producer_id, producer_epoch in image.producers.items()
    )
    records.extend(
        RemoveProducerRecord(producer_id=producer_id, producer_epoch=producer_epoch)
        for producer_id, producer_epoch in image.expired_producers.items()
    )
    if image.expired_epoch >= 0:
        epoch = ProducerEpoch(image.expired_epoch)
        records.append(RemoveProducerRecord(producer_id="", producer_epoch=epoch))
    records.extend(
        OffsetCommitRecord.again(group, key, place, renewed_at_ms=place.saved_at_ms)
        for (group, key), place in image.groups.items()
    )
    for name, group in image.consumer_groups.items():
        records.extend(rebuilding_records(name, group))
    records.extend(image.requests)
    if image.controller is not None:
        records.append(_lease_record(image.controller))
    return records


def _config_records(topic_id: TopicId | None, configs: Mapping[str, str]) -> Iterable[ConfigRecord]:
    for name, value in configs.items():
        yield ConfigRecord(topic_id=topic_id, config_name=name, config_value=value)


def _lease_record(lease: ControllerLease) -> ControllerRecord:
    return ControllerRecord(
        controller_id=lease.controller_id or "",
        controller_epoch=lease.controller_epoch,
        is_resignation=lease.controller_id is None,
    )
