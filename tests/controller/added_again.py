"""What may happen to partitions: one is removed, with its records, and added again; an unclean
election cuts one, and others' records come in place of what it lost."""

from dataclasses import dataclass

from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionEpoch
from kafka_on_spark.controller.topics import add_partitions, remove_partitions
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    Stamp,
)
from tests.builders import digest_at


@dataclass(frozen=True)
class AddedAgain:
    """What became of a cluster: its image, and the batches of the metadata log that led to it."""

    image: MetadataImage
    batches: tuple[MetadataBatch, ...]

    @property
    def pieces(self):
        """The log as `MetadataService.pieces_newest_first` gives it, in one piece."""
        return [(MetadataImage(), self.batches)]

    def replay(self, *records):
        """Return what becomes of it by one more batch."""
        batch = MetadataBatch(
            base_offset=self.image.offset, stamp=Stamp(time_ms=0), records=tuple(records)
        )
        return AddedAgain(self.image.replay(batch), (*self.batches, batch))


def added_again(image, topic, end):
    """Have the last partition of a topic removed and added again, and `end` records appended."""
    count = len(image.topic(topic).partitions)
    world = AddedAgain(image, ())
    removed = remove_partitions(image, topic, to=count - 1, records="drop", cause="a test")
    world = world.replay(*removed.records)
    added = add_partitions(
        world.image,
        topic,
        to=count,
        replica_assignment=None,
        new_uuid=lambda: "new",
        random_below=lambda bound: 0,
        cause="a test",
    )
    return appended(world.replay(*added.records), topic, end, number=count - 1)


def cut_short(world, topic, at, number=0):
    partition = world.image.topic(topic).partitions[number]
    change = PartitionChange(
        leader=partition.leader,
        high_watermark=Offset(at),
        high_watermark_epoch=partition.leader_epoch,
        high_watermark_chain=digest_at(at),
        unclean_generation=partition.unclean_generation + 1,
    )
    return world.replay(
        PartitionChangeRecord(
            topic_id=world.image.topic_ids[topic],
            partition=number,
            change=change,
            topic=topic,
            leader_epoch=LeaderEpoch(partition.leader_epoch + 1),
            partition_epoch=PartitionEpoch(partition.partition_epoch + 1),
        )
    )


def appended(world, topic, end, number=0):
    partition = world.image.topic(topic).partitions[number]
    return world.replay(
        HighWatermarkRecord(
            topic_id=world.image.topic_ids[topic],
            partition=number,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            high_watermark=Offset(end),
            high_watermark_epoch=partition.leader_epoch,
            high_watermark_chain=digest_at(end),
            log_end_offset=Offset(end),
        )
    )
