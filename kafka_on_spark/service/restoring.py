"""Looking at replicas that were lost, so that one that is whole is taken back.

A controller's pass and a sweep do so. Each file is read: its labels alone would prove a table whose
files are gone or damaged, and what a replica was called lost for may be any of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.controller.restoring import WholeReplica, lost_replicas
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import Clock, ReplicaAddress, ReplicaStore, SegmentStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.fetch_reports import ends_alike, is_evidence
from kafka_on_spark.service.replicas import proves_complete

RESTORES_AT_ONCE: Final = 64
"""Lost replicas that one pass looks at: each is read as a whole."""

AGAIN_MS: Final = 60_000
"""How long a process leaves a lost replica alone in which it has found something wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOrder:
    """Which lost replica to look at, the registration that it must prove itself by, and its leader
    if there is one that was made."""

    address: ReplicaAddress
    partition: PartitionRegistration
    leader: ReplicaAddress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """One row: whether the replica is whole; if not, whether that was read or nothing is known."""

    is_whole: bool
    is_wrong: bool = False


RunRestores = Callable[[Sequence[RestoreOrder]], list[RestoreResult]]


def look_at_lost(
    order: RestoreOrder, replicas: ReplicaStore, segments: SegmentStore
) -> RestoreResult:
    """Say whether a lost replica is whole, by all that it says and all of its files."""
    try:
        state = replicas.open_anew(order.address).load()
        if not _proves_itself(state, order.partition):
            return RestoreResult(is_whole=False, is_wrong=True)
        if not (is_alike := _is_its_leaders_log(state, order, replicas)):
            return RestoreResult(is_whole=False, is_wrong=is_alike is not None)
        check_files(order.address, state, segments)
        # The disk must be the same after all of its files were read.
        again = replicas.open_anew(order.address).load()
    except KafkaOnSparkError as error:
        return RestoreResult(is_whole=False, is_wrong=is_evidence(error))
    return RestoreResult(is_whole=again.version == state.version)


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


def _is_its_leaders_log(
    state: ReplicaState, order: RestoreOrder, replicas: ReplicaStore
) -> bool | None:
    """Return whether a replica fenced by the current leader has that leader's log; None: nobody
    knows.

    What stands beyond an older leader's end is cut when the replica follows a newer one. Under one
    fence nothing is ever cut: a replica that was lost because the logs part would be lost again.
    """
    if order.leader is None or not state.is_fenced_at(order.partition.leader_epoch):
        return True
    try:
        leader = replicas.open_anew(order.leader).load()
    except KafkaOnSparkError:
        return None
    if not leader.is_fenced_at(order.partition.leader_epoch):
        return None
    return state.log_end_offset < leader.log_start_offset or ends_alike(state, leader)


class Restorer:
    """What one process knows of lost replicas that it has looked at."""

    def __init__(self, clock: Clock, *, run_restores: RunRestores) -> None:
        self._clock = clock
        self._run_restores = run_restores
        self._wrong: dict[ReplicaUuid, float] = {}

    def look(
        self, image: MetadataImage, keys: Iterable[PartitionKey] | None = None
    ) -> list[WholeReplica]:
        """Return the lost replicas that are whole, of some partitions or of all."""
        now_ms = self._clock.monotonic_ms()
        self._wrong = {each: at for each, at in self._wrong.items() if now_ms < at + AGAIN_MS}
        orders = [
            order
            for order in plan_restores(image, keys)
            if order.address.replica_uuid not in self._wrong
        ][:RESTORES_AT_ONCE]
        if not orders:
            return []
        whole = []
        for order, result in zip(orders, self._run_restores(orders), strict=True):
            address = order.address
            if result.is_wrong:
                self._wrong[address.replica_uuid] = now_ms
            if result.is_whole:
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


def plan_restores(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[RestoreOrder]:
    """Return looks at the replicas, of some partitions or of all, that were lost and may be taken
    back."""
    orders = []
    for key, partition in image.unsettled_partitions() if keys is None else _named(image, keys):
        for broker_id, replica_uuid in lost_replicas(image, partition):
            directory_id = image.brokers[broker_id].directory_id
            address = address_of(image, key, partition, broker_id, directory_id=directory_id)
            orders.append(
                RestoreOrder(
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
    if leader is None or leader == broker_id or not partition.is_made(leader):
        return None
    return address_of(image, key, partition, leader)


def _named(
    image: MetadataImage, keys: Iterable[PartitionKey]
) -> Iterator[tuple[PartitionKey, PartitionRegistration]]:
    for key in keys:
        partition = image.partition(key)
        if partition is not None:
            yield key, partition
