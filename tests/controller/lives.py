"""A cluster's life as a metadata log, decision by decision, without tables: for what reads logs."""

from dataclasses import dataclass, field

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.controller.brokers import (
    continue_draining,
    drain_broker,
    fence_broker,
    unfence_broker,
)
from kafka_on_spark.controller.election import elect_by_inspections, elect_where_none
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import (
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    ControllerRecord,
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    Stamp,
    TopicRecord,
)
from kafka_on_spark.metadata.reports import ReplicaInspection
from tests.builders import TOPIC, TOPIC_ID, brokers, cluster_of, digest_at, partition

BEGIN_MS = 1_767_268_800_000  # 2026-01-01 12:00 UTC


@dataclass
class Life:
    """Decides as the controller does and keeps the log. `at(10)` is the tenth second."""

    image: MetadataImage = field(default_factory=MetadataImage)
    batches: list[MetadataBatch] = field(default_factory=list)
    seconds: float = 0

    def at(self, seconds: float) -> "Life":
        self.seconds = seconds
        return self

    def commit(self, *records) -> "Life":
        if records:
            stamp = Stamp(time_ms=BEGIN_MS + int(self.seconds * 1000))
            batch = MetadataBatch(base_offset=self.image.offset, stamp=stamp, records=records)
            self.batches.append(batch)
            self.image = self.image.replay(batch)
        return self

    def partition(self, number: int = 0):
        return self.image.topics[TOPIC_ID].partitions[number]

    def fail(self, *broker_ids: int) -> "Life":
        """A pass of the controller that fences brokers and elects where it can."""
        for each in broker_ids:
            self.commit(*fence_broker(self.image, BrokerId(each), f"broker {each}: gone").records)
        return self.elect().end_pass()

    def elect(self) -> "Life":
        eligible = self.image.eligible_brokers()
        return self.commit(*elect_where_none(self.image, eligible, "can lead again").records)

    def come_back(self, *broker_ids: int) -> "Life":
        for each in broker_ids:
            self.commit(*unfence_broker(self.image, BrokerId(each), f"broker {each}: back").records)
        return self.end_pass()

    def drain(self, broker_id: int) -> "Life":
        self.commit(*drain_broker(self.image, BrokerId(broker_id), "drained").records)
        while records := continue_draining(self.image).records:
            self.commit(*records)
        return self.end_pass()

    def end_pass(self) -> "Life":
        return self.commit(
            ControllerRecord(controller_id="c", controller_epoch=0, is_resignation=True)
        )

    def append(self, count: int, number: int = 0) -> "Life":
        """Records that become committed."""
        now = self.partition(number)
        end = Offset(now.high_watermark + count)
        return self.commit(
            HighWatermarkRecord(
                topic_id=TOPIC_ID,
                partition=number,
                leader_epoch=now.leader_epoch,
                partition_epoch=now.partition_epoch,
                high_watermark=end,
                high_watermark_epoch=now.leader_epoch,
                high_watermark_chain=digest_at(end),
                log_end_offset=end,
            )
        )

    def isr(self, members: str, cause: str = "the ISR changes", number: int = 0) -> "Life":
        """Replicas fall behind or catch up."""
        return self.change(PartitionChange(isr=frozenset(brokers(members))), cause, number)

    def change(self, change: PartitionChange, cause: str, number: int = 0) -> "Life":
        leader_epoch, partition_epoch = self.partition(number).epochs_after(change)
        return self.commit(
            PartitionChangeRecord(
                topic_id=TOPIC_ID,
                partition=number,
                change=change,
                topic=TOPIC,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                cause=cause,
            )
        )

    def recover(self, *ends: tuple[int, int], forced: bool = False, number: int = 0) -> "Life":
        """Leaders from what logs prove: `ends` are brokers and the ends of their logs."""
        key, now = PartitionKey(TOPIC_ID, number), self.partition(number)
        inspections = [
            ReplicaInspection(
                key=key,
                broker_id=BrokerId(broker_id),
                partition_epoch=now.partition_epoch,
                high_watermark=now.high_watermark,
                log_start_offset=Offset(0),
                log_end_offset=Offset(end),
                last_epoch=LeaderEpoch(0),
                epoch_below_high_watermark=(
                    now.high_watermark_epoch if end >= now.high_watermark else None
                ),
                chain_digest=digest_at(end),
                chain_at_high_watermark=(
                    now.high_watermark_chain if end >= now.high_watermark else None
                ),
            )
            for broker_id, end in ends
        ]
        forced_keys = frozenset({key} if forced else ())
        self.commit(*elect_by_inspections(self.image, inspections, forced=forced_keys).records)
        return self.end_pass()

    def set(self, name: str, value: str | None, topic: bool = True) -> "Life":
        topic_id = TOPIC_ID if topic else None
        return self.commit(ConfigRecord(topic_id=topic_id, config_name=name, config_value=value))

    def delete(self) -> "Life":
        return self.commit(RemoveTopicRecord(topic_id=TOPIC_ID, cause="deleted"))


def life(*assignments: str, ids: str = "1 2 3", racks: str = "", **configs: str) -> Life:
    """Begin a life with one topic; `configs` are the cluster's, with _ for the dots."""
    begun = Life()
    registered = [
        BrokerRecord(
            broker_id=each.broker_id,
            broker_epoch=each.broker_epoch,
            root=each.root,
            rack=each.rack,
            directory_id=each.directory_id,
            broker_state=each.state,
            cause="registered",
        )
        for each in cluster_of(ids, racks=racks).values()
    ]
    begun.commit(ClusterRecord(cluster_id="c" * 32), *registered)
    for name, value in configs.items():
        begun.set(name.replace("_", "."), value, topic=False)
    return begun.commit(
        TopicRecord(topic=TOPIC, topic_id=TOPIC_ID, first_partition_count=len(assignments)),
        *(
            PartitionRecord(
                topic=TOPIC,
                topic_id=TOPIC_ID,
                partition=number,
                registration=partition(replicas, epoch=0, version=0),
                cause="created",
            )
            for number, replicas in enumerate(assignments)
        ),
    )
