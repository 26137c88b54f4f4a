"""The program of a simulated cluster's administrator: disks, leaders, old records, topics."""

from kafka_on_spark.base.ids import BrokerId, DirectoryId, Offset, PartitionKey, TopicId
from kafka_on_spark.controller.commands import (
    ADD_PARTITIONS,
    ALTER_TOPIC_CONFIGS,
    CREATE_TOPIC,
    DELETE_TOPIC,
    ELECT_PREFERRED,
    REGISTER_BROKER,
)
from kafka_on_spark.controller.log_start import delete_records
from kafka_on_spark.controller.replica_tables import create_replicas
from kafka_on_spark.log import operations
from kafka_on_spark.log.replicas import commit_decided
from kafka_on_spark.log.state import address_of
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import BrokerState
from tests.simulation.programs.cluster import PARTITIONS_MAX, TOPIC
from tests.simulation.programs.program import Program
from tests.simulation.world.processes import TIMEOUT_MS

PASSING_TOPIC = "passing"
"""Is made, and deleted, and made again."""


class Admin(Program):
    """Replaces wiped disks, moves leaders, deletes old records and topics, and adds partitions."""

    def once(self) -> None:
        image = self.driver.metadata.catch_up()
        for broker in image.brokers.values():
            root = self.driver.world.disks.roots[broker.root]
            is_another = root.directory_id != broker.directory_id
            if is_another and broker.state is BrokerState.FENCED:
                self._replace_disk(broker.broker_id, broker.root, broker.broker_epoch + 1)
                return
        configs = self._configs_to_alter(image)
        if configs:
            self.driver.command(ALTER_TOPIC_CONFIGS, name=TOPIC, configs=configs)
            return
        chance = self.rng.random()
        if chance < 0.3:
            self.driver.command(ELECT_PREFERRED, keys=None)
        elif chance < 0.45:
            self._delete_records(image, self.rng.choice(sorted(image.topics)))
        elif chance < 0.5:
            self._add_partition()
        elif chance < 0.6:
            self._make_or_delete()

    def _configs_to_alter(self, image: MetadataImage) -> dict[str, str]:
        """Return what is to be altered of the topic now, where a plan says so."""
        if self._is_to_compact(image) and self.rng.random() < 0.2:
            return {"cleanup.policy": "compact"}
        if self.driver.world.is_restamped and self.rng.random() < 0.5:
            settings = image.settings(image.topic_ids[TOPIC])
            is_given = settings.text("message.timestamp.type") == "CreateTime"
            kind = "LogAppendTime" if is_given else "CreateTime"
            return {"message.timestamp.type": kind}
        return {}

    def _is_to_compact(self, image: MetadataImage) -> bool:
        is_there = "compact" in self.driver.world.works and TOPIC in image.topic_ids
        return is_there and "compact" not in image.settings(image.topic_ids[TOPIC]).policies

    def _make_or_delete(self) -> None:
        """Delete the passing topic, or create it again with its tables, under the same name."""
        if PASSING_TOPIC in self.driver.metadata.image.topic_ids:
            self.driver.command(DELETE_TOPIC, name=PASSING_TOPIC)
            return
        self.driver.command(
            CREATE_TOPIC,
            name=PASSING_TOPIC,
            partition_count=1,
            replication_factor=3,
            replica_assignment=None,
            configs={},
        )
        topic_id = self.driver.metadata.catch_up().topic(PASSING_TOPIC).topic_id
        create_replicas(self.driver.process, [PartitionKey(topic_id, 0)])

    def _add_partition(self) -> None:
        count = len(self.driver.metadata.image.topic(TOPIC).partitions)
        if count == PARTITIONS_MAX:
            return
        self.driver.command(ADD_PARTITIONS, name=TOPIC, to=count + 1)

    def _delete_records(self, image: MetadataImage, topic_id: TopicId) -> None:
        """Move a partition's log start, then apply it to its leader; followers do by themselves."""
        key = PartitionKey(topic_id, self.rng.choice(sorted(image.topics[topic_id].partitions)))

        def decide(newest: MetadataImage) -> ControllerResult[PartitionRegistration | None]:
            partition = newest.partition(key)
            if partition is None or partition.leader is None:
                return ControllerResult([], None)
            span = partition.high_watermark - partition.log_start_offset
            offset = Offset(partition.log_start_offset + int(span * share))
            return ControllerResult(delete_records(newest, key, offset).records, partition)

        share = self.rng.random()
        partition = self.driver.metadata.submit(decide, timeout_ms=TIMEOUT_MS)
        newest = self.driver.metadata.image.partition(key)
        if partition is None or newest is None or not partition.is_created(partition.leader):
            return
        address = address_of(self.driver.metadata.image, key, partition, partition.leader)
        commit_decided(
            self.driver.worker.replicas.open(address),
            lambda state: operations.advance_log_start(state, newest.log_start_offset),
        )

    def _replace_disk(self, broker_id: BrokerId, url: str, epoch: int) -> None:
        root = self.driver.world.disks.roots[url]
        self.driver.world.scheduler.call("prepare", root)
        root.check_writes()
        if root.directory_id is None:
            root.directory_id = DirectoryId(f"dir{broker_id}e{epoch}x{self.driver.node.name}")
        self.driver.command(
            REGISTER_BROKER,
            broker_id=broker_id,
            root=url,
            rack=None,
            directory_id=root.directory_id,
        )
