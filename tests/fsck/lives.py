"""A cluster that has lived: failover, truncation, retention, a lost disk, a deleted topic.

Made once. Each test gets it back as it was, on the same paths, and breaks it.
"""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from kafka_on_spark import Cluster
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.fsck.cluster_audit import check_cluster
from kafka_on_spark.log import operations
from kafka_on_spark.log.replicas import ReplicaLog, commit_decided
from kafka_on_spark.log.state import address_of
from kafka_on_spark.log.worker import replica_store
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.records import HighWatermarkRecord
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import Disks, partition_of, records

TOPIC = "orders"
LOG_START = 2
"""Where retention has left the topic's log start: inside no batch."""


def key_of(image: MetadataImage, topic: str = TOPIC) -> PartitionKey:
    return PartitionKey(image.topic(topic).topic_id, 0)


def live(disks: Disks) -> None:
    """Have everything happen that a cluster is made for."""
    cluster = disks.cluster
    cluster.create_topic(
        TOPIC, replica_assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": 2}
    )
    for number in range(4):
        cluster.append(TOPIC, records(b"%d" % number), producer_id="p", sequence=number)
    fail_over_with_a_tail(disks)
    advance_log_start(cluster, LOG_START)
    lose_disk(disks, 3)
    cluster.create_topic("gone", replica_assignment={0: [1, 2, 3]})
    cluster.append("gone", records(b"x"))
    cluster.delete_topic("gone")
    for number in range(4, 10):
        cluster.append(
            TOPIC, records(b"%d" % number, b"and more"), producer_id="p", sequence=number
        )
        cluster._node.maintenance.finish()  # a checkpoint is of a version that is known
    catch_up(cluster)


def fail_over_with_a_tail(disks: Disks) -> None:
    """Broker 1 takes records that nobody else gets, is deposed, and is cut when it returns."""
    disks.settle()
    disks.take_away(2, 3)
    disks.cluster.append(TOPIC, records(b"lost"), acks=1)
    disks.take_away(1)
    disks.give_back(2, 3)
    disks.cluster.run_controller()
    disks.cluster.append(TOPIC, records(b"kept"))
    disks.give_back(1)
    disks.cluster.run_controller()
    catch_up(disks.cluster)


def lose_disk(disks: Disks, broker_id: int) -> None:
    disks.settle()
    shutil.rmtree(disks.root(broker_id))
    disks.root(broker_id).mkdir()
    disks.cluster.run_controller()
    disks.cluster.register_broker(broker_id, disks.root(broker_id))
    catch_up(disks.cluster)


def catch_up(cluster: Cluster) -> None:
    for number in range(6):
        report = cluster.replicate(is_sweep=number == 0)
        if number and report.is_caught_up and not report.isr_changes:
            return
    raise AssertionError("the cluster does not catch up")


def advance_log_start(cluster: Cluster, offset: int) -> None:
    """Decide a log start as retention will, and have the leader apply it."""
    key = key_of(cluster.image)
    partition = partition_of(cluster, TOPIC)
    record = HighWatermarkRecord(
        topic_id=key.topic_id,
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        high_watermark=None,
        high_watermark_epoch=None,
        high_watermark_chain=None,
        log_end_offset=partition.log_end_offset,
        log_start_offset=Offset(offset),
    )
    cluster._metadata.submit(lambda image: ControllerResult([record], None), timeout_ms=1000)
    commit_decided(
        replica(cluster.image, partition.leader),
        lambda state: operations.advance_log_start(state, Offset(offset)),
    )
    catch_up(cluster)


def replica(image: MetadataImage, broker_id: int, topic: str = TOPIC) -> ReplicaLog:
    """Return a replica's log, with nothing cached."""
    key = key_of(image, topic)
    return ReplicaLog(address_of(image, key, image.partition(key), broker_id), StorageOptions(None))


@dataclass
class LivedDisks(Disks):
    """Disks of a cluster that is opened once a test asks for it: most only look at its tables.

    Attributes:
        saved: Its metadata as it left them.
    """

    saved: MetadataImage = field(default_factory=MetadataImage)

    @property
    def cluster(self) -> Cluster:
        return self.opened[0] if self.opened else self.open()

    @property
    def image(self) -> MetadataImage:
        return self.opened[0].image if self.opened else self.saved


@dataclass
class Life:
    """A cluster on disks, and a copy of it to go back to.

    Attributes:
        metadata_table: Where its metadata log is.
    """

    disks: LivedDisks
    copy: Path
    metadata_table: Path

    @classmethod
    def of(cls, disks: Disks, copy: Path) -> "Life":
        """Return the life of a cluster that is open, and close it."""
        saved, table = disks.cluster.image, Path(disks.cluster.metadata_table)
        disks.close()
        shutil.copytree(disks.base, copy)
        return cls(LivedDisks(disks.base, saved=saved), copy, table)

    def restore(self) -> None:
        """Close the cluster, and put its files back as they were."""
        self.disks.close()  # first: until then it may still write a checkpoint
        self.disks.opened.clear()
        replica_store.cache_clear()
        shutil.rmtree(self.disks.base)
        shutil.copytree(self.copy, self.disks.base)

    def fsck(self, *, deep: bool = True):
        """Check the tables as another process would."""
        return check_cluster(self.disks.metadata_root, deep=deep)
