"""Inspections of replicas whose partition has no leader, and of those that are marked as lost.

`election` and `isr` decide by them. A controller's pass, a sweep and an append that waits
run them. Of a lost replica each file is read: headers alone would prove a table whose files are
gone or damaged, and that may be why the replica was called lost.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionEpoch, PartitionKey, ReplicaUuid
from kafka_on_spark.controller.election import leaderless
from kafka_on_spark.controller.isr import WholeReplica, lost_replicas
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.replica_operations import lacks_replaced_records, proves_complete
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.truncation import are_too_many_to_cut, ends_alike
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import ReplicaInspection
from kafka_on_spark.node.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOrder:
    """Which replica to inspect, with what the image of the plan says of its partition."""

    address: ReplicaAddress
    partition_epoch: PartitionEpoch
    high_watermark: Offset


RunInspections = Callable[[Sequence[InspectionOrder]], list[ReplicaInspection | None]]


def inspect_replica(order: InspectionOrder, replicas: ReplicaStore) -> ReplicaInspection | None:
    """Return what a replica's log says; None if it can't be read."""
    try:
        state = replicas.open(order.address).load()
    except KafkaOnSparkError:
        return None
    return ReplicaInspection(
        key=order.address.key,
        broker_id=order.address.broker_id,
        partition_epoch=order.partition_epoch,
        high_watermark=order.high_watermark,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        last_epoch=state.batches[-1].leader_epoch if state.batches else None,
        epoch_below_high_watermark=state.epoch_at(Offset(order.high_watermark - 1)),
        chain_digest=state.chain_digest,
        chain_at_high_watermark=state.chain_at(order.high_watermark),
        compacted_below=state.compaction.compacted_below,
        fence=state.leader_epoch,
    )


def plan_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[InspectionOrder]:
    """Return an order for each replica of partitions without a leader, on brokers that answer."""
    return [
        order
        for key in leaderless(image, keys)
        for order in inspections_of(image, key)
        if image.is_eligible(order.address.broker_id)
    ]


def inspections_of(image: MetadataImage, key: PartitionKey) -> list[InspectionOrder]:
    partition = image.topics[key.topic_id].partitions[key.partition]
    return [
        InspectionOrder(
            address=address_of(image, key, partition, broker_id),
            partition_epoch=partition.partition_epoch,
            high_watermark=partition.high_watermark,
        )
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    ]


LOST_AT_ONCE_MAX: Final = 64
"""Lost replicas that one pass inspects: each is read as a whole."""

REINSPECT_MS: Final = 60_000
"""How long a process does not inspect a lost replica again after it has found it bad."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectLostOrder:
    """Which lost replica to inspect, by the registration whose committed records it must have.
    `leader`: the leader's replica; None: none was created, or this broker leads."""

    address: ReplicaAddress
    partition: PartitionRegistration
    leader: ReplicaAddress | None


def inspect_lost(
    order: InspectLostOrder, replicas: ReplicaStore, segments: SegmentStore
) -> bool | None:
    """Return whether a lost replica is whole, by its log and all of its files; None: not known.

    It is not if it lacks records whose replacements an unclean election has cut, nor if it may have
    to cut more files than one commit can name when it follows its leader: it would be lost again.
    """
    try:
        state = replicas.open_uncached(order.address).load()
        if (
            not _proves_itself(state, order.partition)
            or lacks_replaced_records(state, order.partition)
            or _may_be_lost_again(state, order)
        ):
            return False
        if not (is_alike := _is_its_leaders_log(state, order, replicas)):
            return is_alike
        check_files(order.address, state, segments)
        # The disk must be the same after all of its files were read.
        again = replicas.open_uncached(order.address).load()
    except KafkaOnSparkError as error:
        return False if is_evidence(error) else None
    return True if again.version == state.version else None


def check_files(address: ReplicaAddress, state: ReplicaState, segments: SegmentStore) -> None:
    """Check that every file that a log names is there, with the bytes that its name says.

    Raises: as SegmentStore.check.
    """
    for batch in state.batches:
        for segment in batch.segments:
            segments.check(address, segment)


def _proves_itself(state: ReplicaState, partition: PartitionRegistration) -> bool:
    if state.is_fenced_above(partition.leader_epoch):
        return False
    return proves_complete(state, partition)


def _may_be_lost_again(state: ReplicaState, order: InspectLostOrder) -> bool:
    """Return whether a replica could not follow its leader if that had another log above the high
    watermark.

    What is committed is on the leader. Without one, the replica may be the one to lead.
    """
    if order.leader is None or state.is_fenced_at(order.partition.leader_epoch):
        return False
    high_watermark = order.partition.high_watermark
    return are_too_many_to_cut(state.batches_between(high_watermark, state.log_end_offset))


def _is_its_leaders_log(
    state: ReplicaState, order: InspectLostOrder, replicas: ReplicaStore
) -> bool | None:
    """Return whether a replica fenced by the current leader has that leader's log; None: that is
    not known.

    A replica cuts what it has beyond an older leader's end when it follows a newer one. Under one
    fence nothing is ever cut: a replica that was lost because the logs diverge would be lost again.
    """
    if order.leader is None or not state.is_fenced_at(order.partition.leader_epoch):
        return True
    try:
        leader = replicas.open_uncached(order.leader).load()
    except KafkaOnSparkError:
        return None
    if not leader.is_fenced_at(order.partition.leader_epoch):
        return None
    if leader.is_merged_over(state.log_end_offset):
        return None  # its headers no longer say
    return state.log_end_offset < leader.log_start_offset or ends_alike(state, leader)


class LostReplicaInspector:
    """Inspects lost replicas, and remembers for a while which ones are not whole."""

    def __init__(self, node: Node) -> None:
        self._clock = node.clock
        self._tasks = node.tasks
        self._wrong: dict[ReplicaUuid, float] = {}

    def inspect(
        self, image: MetadataImage, keys: Iterable[PartitionKey] | None = None
    ) -> list[WholeReplica]:
        """Return the lost replicas that are whole, of some partitions or of all."""
        now_ms = self._clock.monotonic_ms()
        self._wrong = {each: at for each, at in self._wrong.items() if now_ms < at + REINSPECT_MS}
        orders = [
            order
            for order in plan_lost_inspections(image, keys)
            if order.address.replica_uuid not in self._wrong
        ][:LOST_AT_ONCE_MAX]
        if not orders:
            return []
        whole = []
        for order, result in zip(orders, self._tasks.run(inspect_lost_task, orders), strict=True):
            address = order.address
            if result is False:
                self._wrong[address.replica_uuid] = now_ms
            elif result:
                whole.append(
                    WholeReplica(
                        key=address.key,
                        broker_id=address.broker_id,
                        replica_uuid=address.replica_uuid,
                        directory_id=address.directory_id,
                        partition_epoch=order.partition.partition_epoch,
                    )
                )
        return whole


def plan_lost_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[InspectLostOrder]:
    """Return inspections of the replicas, of some partitions or of all, that were lost and may be
    taken back."""
    orders = []
    for key, partition in image.partitions_needing_work() if keys is None else _named(image, keys):
        for broker_id, replica_uuid in lost_replicas(image, partition):
            directory_id = image.brokers[broker_id].directory_id
            address = address_of(image, key, partition, broker_id, directory_id=directory_id)
            orders.append(
                InspectLostOrder(
                    address=replace(address, replica_uuid=replica_uuid),
                    partition=partition,
                    leader=_leader_of(image, key, partition, broker_id),
                )
            )
    return orders


def _leader_of(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> ReplicaAddress | None:
    leader = partition.leader
    if leader is None or leader == broker_id or not partition.is_created(leader):
        return None
    return address_of(image, key, partition, leader)


def _named(
    image: MetadataImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    for key in keys:
        partition = image.partition(key)
        if partition is not None:
            yield key, partition


def inspect_lost_task(order: InspectLostOrder, worker: Worker) -> bool | None:
    """Return whether a lost replica is whole. A task."""
    return inspect_lost(order, worker.replicas, worker.segments)


def inspect_task(order: InspectionOrder, worker: Worker) -> ReplicaInspection | None:
    """Return what one replica's log holds. A task."""
    return inspect_replica(order, worker.replicas)
