"""Which upkeep is due: orders for replicas, new epochs over orphans, what is missed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.sweep import Scope
from kafka_on_spark.log.producer_state import registered_producers
from kafka_on_spark.log.replica_upkeep import ON_THE_TABLE_ALONE
from kafka_on_spark.log.retention import is_compacted, limits_of
from kafka_on_spark.log.state import ReplicaAddress, address_of
from kafka_on_spark.log.upkeep_work import UpkeepOrder
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord

BYTES_A_MS: Final = 64 * 1024
"""What a core reads and rewrites in a ms, about: a bound in time is one in bytes, too."""

PIECE_MS: Final = 50.0
"""What each replica may take at least."""

TASK_MS: Final = 1000.0
"""For how long a task works at a time, but for the piece that it is at."""

FREEING: Final = ("log start", *ON_THE_TABLE_ALONE)
"""Kinds of work that write next to nothing, and delete files."""


def plan_upkeep(
    image: MetadataImage, keys: Iterable[PartitionKey], *, is_dry_run: bool = False
) -> list[UpkeepOrder]:
    """Return an order for each replica of `keys` that was created and whose broker is online; where
    it is fenced since its root is full, for what gives it room."""
    return [
        UpkeepOrder(
            key=key,
            partition=partition,
            address=address,
            leader=leader,
            image_offset=image.offset,
            settings=image.settings(key.topic_id),
            is_dry_run=is_dry_run,
            registered=registered_producers(image),
            works=None if image.brokers[broker_id].is_online else FREEING,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for leader in [_address(image, key, partition, partition.leader)]
        for broker_id in partition.replicas
        if (address := _address(image, key, partition, broker_id)) is not None
    ]


def plan_unread_leaders(
    image: MetadataImage,
    scope: Scope,
    finished: Mapping[PartitionKey, LeaderEpoch],
) -> list[UpkeepOrder]:
    """Return orders to compact leaders that can't be read before they are compacted (I27).

    A leader that was in sync when it was elected has finished what it must. One that was elected
    since it proves its log, or uncleanly, may not have; it is alone in the ISR then. `finished`:
    the leader epochs in which it had.
    """
    keys = [
        key
        for key, partition in image.partitions_needing_work()
        if partition.compaction.cleaned_below
        and partition.isr == {partition.leader}
        and finished.get(key) != partition.leader_epoch
        and (scope is None or key.topic_id in scope)
    ]
    return plan_compaction(image, dict.fromkeys(keys, frozenset()))


def plan_compaction(
    image: MetadataImage, followers: Mapping[PartitionKey, Collection[BrokerId]]
) -> list[UpkeepOrder]:
    """Return orders to compact the leaders of partitions, and these of their followers."""
    return [
        replace(order, works=("compact",))
        for order in plan_upkeep(image, followers)
        if order.is_of_leader or order.address.broker_id in followers[order.key]
    ]


def _address(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    broker_id: BrokerId | None,
) -> ReplicaAddress | None:
    if broker_id is None or not partition.is_created(broker_id):
        return None
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.has_upkeep:
        return None
    return address_of(image, key, partition, broker_id)


def not_looked_at(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[str]:
    """Return what `maintain` does not come to of `keys`, for people, a sentence each: brokers that
    are fenced, and partitions without a leader, whose log could show that something is due."""
    partitions = [(key, each) for key in keys if (each := image.partition(key)) is not None]
    used = {broker_id for _, each in partitions for broker_id in each.replicas}
    fenced = [each for each in image.brokers.values() if not each.has_upkeep]
    sentences = [
        f"broker {broker.broker_id} is fenced: its root, and its replicas"
        for broker in fenced
        if broker.broker_id in used
    ]
    for key, partition in partitions:
        settings = image.settings(key.topic_id)
        is_asked_for = limits_of(settings) is not None or is_compacted(settings)
        has_records = partition.high_watermark > partition.log_start_offset
        if partition.leader is None and is_asked_for and has_records:
            sentences.append(
                f"{image.name_of(key)}: it has no leader, on whose log retention and compaction are"
                " decided"
            )
    return sentences


def with_time(orders: Sequence[UpkeepOrder], budget_ms: float) -> list[UpkeepOrder]:
    """Return `orders` with equal parts of a round's time, and of the bytes that take as long.

    None has more than `TASK_MS`: one that is left after it comes again, while the round has time.
    """
    if not orders:
        return []
    each_ms = max(PIECE_MS, budget_ms / len(orders))
    bytes_max = int(each_ms * BYTES_A_MS)
    task_ms = min(each_ms, TASK_MS)
    return [replace(order, work_ms_max=task_ms, bytes_max=bytes_max) for order in orders]


SeenOrphans = tuple[PartitionKey, BrokerId, LeaderEpoch, int]
"""Bytes in a replica's folder that no log names, under the leader epoch of when they were seen."""


def raise_epochs_over_orphans(
    image: MetadataImage, seen: Iterable[SeenOrphans]
) -> ControllerResult[list[PartitionKey]]:
    """Decide a new epoch, with the same leader, where orphans exceed orphan.bytes.max: once for
    what was seen under one epoch. Where nobody leads, the next election raises it."""
    records: dict[PartitionKey, PartitionChangeRecord] = {}
    for key, broker_id, epoch, size_bytes in seen:
        partition = image.partition(key)
        if partition is None or partition.leader is None or partition.leader_epoch != epoch:
            continue
        size_max = image.settings(key.topic_id).integer("orphan.bytes.max")
        if size_bytes > size_max:
            cause = f"broker {broker_id}: {size_bytes} bytes of files of epoch {epoch}"
            cause += f" that no log names, more than orphan.bytes.max {size_max}"
            change = PartitionChange(leader=partition.leader)
            records[key] = change_record(image, key, partition, change, cause)
    return ControllerResult(list(records.values()), list(records))
