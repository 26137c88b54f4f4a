"""The kind "isr_index": whom a broker's failure concerns, and who waits for a leader.

Kafka keeps an index of that. Here an image does, of what is not done, and a failure's records
say the rest.
"""

from dataclasses import replace

from kafka_on_spark.base.ids import BrokerId, PartitionKey
from kafka_on_spark.controller.brokers import fence_broker
from kafka_on_spark.controller.election import elect_where_none
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.builders import image_of, partition
from tests.committing import committed
from tests.conformance.adapters.controller.partitions import NOBODY, words
from tests.conformance.runner import Adapter

EVERYONE = range(20)
ALWAYS = BrokerId(19)  # in every ISR, so that no member is the last: its stay would be no change


class IsrIndex(Adapter):
    """Partitions that come, change and go."""

    def __init__(self):
        self.image = replace(image_of(partition("1"), ids=words(EVERYONE)), topics={}, topic_ids={})

    def commit(self, *records):
        self.image = committed(self.image, records)

    def op_index_update(self, partition, prev_isr, next_isr, prev_leader, next_leader):
        key = PartitionKey(f"id of {partition}", 0)
        leader = None if next_leader == NOBODY else BrokerId(next_leader)
        if next_isr is None:
            self.commit(RemoveTopicRecord(topic_id=key.topic_id))
        elif prev_isr is None:
            self.create(key, partition, frozenset({*next_isr, ALWAYS}), leader)
        else:
            self.change(key, frozenset({*next_isr, ALWAYS}), leader)

    def create(self, key, topic, isr, leader):
        one = replace(partition_on_all(), isr=isr, leader=leader)
        record = PartitionRecord(
            topic=topic, topic_id=key.topic_id, partition=key.partition, registration=one
        )
        self.commit(TopicRecord(topic=topic, topic_id=key.topic_id), record)

    def change(self, key, isr, leader):
        one = self.image.partition(key)
        change = PartitionChange(isr=isr, leader=leader)
        leader_epoch, partition_epoch = one.epochs_after(change)
        record = PartitionChangeRecord(
            topic_id=key.topic_id,
            partition=key.partition,
            change=change,
            topic=self.image.name_of(key).topic,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
        )
        self.commit(record)

    def topics(self, keys):
        return sorted(self.image.name_of(key).topic for key in keys)

    def op_index_in_isr(self, broker):
        records = fence_broker(self.image, broker, "fails").records
        changed = [each for each in records if isinstance(each, PartitionChangeRecord)]
        return self.topics(PartitionKey(each.topic_id, each.partition) for each in changed)

    def op_index_leads(self, broker):
        return self.topics(fence_broker(self.image, broker, "fails").response)

    def op_index_no_leader(self):
        return self.topics(elect_where_none(self.image, frozenset({ALWAYS}), "returns").response)


def partition_on_all():
    return partition(words(EVERYONE))
