"""A tiny cluster whose disks are changed by hand, so that a violation can be planted.

One partition on brokers 1, 2 and 3, min.insync.replicas=2. Nothing of the product decides here:
every effect is put on the disks as it is, and the checker is told.
"""

from dataclasses import replace
from typing import Any

from kafka_on_spark.base.ids import NO_CHAIN, BrokerId, Offset
from kafka_on_spark.controller.preparing_roots import create_cluster
from kafka_on_spark.log.batch import Batch, segment_name
from kafka_on_spark.log.state import LogChange, ReplicaAddress
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import (
    ConfigRecord,
    HighWatermarkRecord,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    Stamp,
    TopicRecord,
)
from tests.builders import KEY, TOPIC, address, batch, partition, stamp
from tests.simulation.checks.checker import Checker
from tests.simulation.checks.ledger import Log
from tests.simulation.world.disks import Disks, Table, folder

EVERYONE = (BrokerId(1), BrokerId(2), BrokerId(3))


class Stage:
    """The cluster: everyone in sync, 1 leads in epoch 0, each fenced there, logs empty."""

    def __init__(self) -> None:
        self.disks = Disks()
        self.checker = Checker(self.disks)
        roots = [self.disks.add(number) for number in EVERYONE]
        brokers = [(each.broker_id, each.url, None, each.directory_id) for each in roots]
        made = create_cluster(self.disks.image, "cluster", brokers, {})
        self.metadata(*made.records)
        self.disks.observer = self.checker
        registration = partition("1 2 3", epoch=0, version=0, hw_chain=NO_CHAIN)
        self.metadata(
            TopicRecord(topic=TOPIC, topic_id=KEY.topic_id),
            ConfigRecord(
                topic_id=KEY.topic_id, config_name="min.insync.replicas", config_value="2"
            ),
            PartitionRecord(
                topic=TOPIC, topic_id=KEY.topic_id, partition=0, registration=registration
            ),
        )
        for broker_id in EVERYONE:
            self.make(broker_id)
            self.adopt(broker_id, 0)

    @property
    def partition(self) -> PartitionRegistration:
        found = self.disks.image.partition(KEY)
        assert found is not None
        return found

    @property
    def log(self) -> Log:
        """What the ledger knows."""
        return self.checker.ledger.log(KEY)

    def address(self, broker_id: int) -> ReplicaAddress:
        uuid = self.partition.uuid_of(BrokerId(broker_id))
        return address(broker_id, root=f"disk://{broker_id}", replica_uuid=uuid)

    def make(self, broker_id: int) -> None:
        """Make an empty table."""
        address = self.address(broker_id)
        root = self.disks.roots[address.root]
        root.tables[folder(address)] = Table(address.identity)

    def table(self, broker_id: int) -> Table:
        found = self.disks.table(self.address(broker_id))
        assert found is not None
        return found

    def metadata(self, *records: Record) -> None:
        batch = self.disks.append_metadata(records, Stamp(time_ms=0), self.disks.image.offset)
        assert batch is not None

    def change(self, **fields: Any) -> None:
        change = PartitionChange(**fields)
        leader_epoch, partition_epoch = self.partition.epochs_after(change)
        self.metadata(
            PartitionChangeRecord(
                topic_id=KEY.topic_id,
                partition=0,
                change=change,
                topic=TOPIC,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
            )
        )

    def high_watermark(self, offset: int, *, epoch: int = 0) -> None:
        self.metadata(
            HighWatermarkRecord(
                topic_id=KEY.topic_id,
                partition=0,
                leader_epoch=self.partition.leader_epoch,
                partition_epoch=self.partition.partition_epoch,
                high_watermark=Offset(offset),
                high_watermark_epoch=epoch,
                high_watermark_chain=self._chain_at(offset),
                log_end_offset=Offset(offset),
            )
        )

    def _chain_at(self, offset: int) -> Any:
        """Return the leader's chain digest at `offset`; what nobody has has none of its own."""
        leader = self.partition.leader
        known = None if leader is None else self.table(leader).state.chain_at(Offset(offset))
        return NO_CHAIN if known is None else known

    def commit(self, broker_id: int, operation: str, **fields: Any) -> None:
        """Commit any change to a table."""
        state = self.table(broker_id).state
        given: dict[str, Any] = {
            "log_start_offset": state.log_start_offset,
            "log_end_offset": state.log_end_offset,
            "leader_epoch": state.leader_epoch,
        }
        change = LogChange(operation=operation, **(given | fields))
        assert self.disks.commit(self.address(broker_id), state.version + 1, change)

    def adopt(self, broker_id: int, epoch: int, cut: int | None = None) -> None:
        """Fence a table, and perhaps cut it."""
        end = self.table(broker_id).state.log_end_offset if cut is None else cut
        self.commit(broker_id, "adopt", leader_epoch=epoch, log_end_offset=end, cut_from=cut)

    def batch(self, value: int, base: int, *, epoch: int = 0, sequence: int | None = None) -> Batch:
        """Return a batch of one record, which is as old as time."""
        producer = None if sequence is None else stamp(sequence, digest=value)
        made = batch("x", base, epoch=epoch, producer=producer)
        segment = replace(
            made.segments[0],
            file_name=segment_name(0, f"u{value}e{epoch}at{base}", str(value)),
            timestamp_min_us=0,
            timestamp_max_us=0,
        )
        return replace(made, appended_at_ms=0, segments=(segment,))

    def put(self, broker_id: int, batch: Batch) -> None:
        """Write a batch's files."""
        files = self.disks.roots[f"disk://{broker_id}"].files
        for segment in batch.segments:
            files.setdefault(folder(self.address(broker_id)), {})[segment.file_name] = (
                segment.digest
            )

    def add(self, broker_id: int, batch: Batch, operation: str = "append_fetched") -> None:
        """Commit a batch to a table, with its files."""
        self.checker.ledger.invoked.update(int(each.digest) for each in batch.segments)
        state = self.table(broker_id).state
        if state.leader_epoch is not None:
            batch = batch.named_under(state.leader_epoch)
        self.put(broker_id, batch)
        batch = state.chained(batch)
        self.commit(broker_id, operation, adds=(batch,), log_end_offset=batch.end_offset)

    def committed(self, *values: int) -> None:
        """Append values to everyone, the leader first, and move the high watermark over them."""
        for offset, value in enumerate(values, self.partition.high_watermark):
            batch = self.batch(value, offset, epoch=self.partition.leader_epoch)
            for broker_id in EVERYONE:
                is_leader = broker_id == self.partition.leader
                self.add(broker_id, batch, "append" if is_leader else "append_fetched")
        end = self.partition.high_watermark + len(values)
        self.high_watermark(end, epoch=self.partition.leader_epoch)
