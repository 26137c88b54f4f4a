"""Which replicas are visited for upkeep, with what allowance, and what a visit's results say.

It holds the state of one process: what it has found done, and the debts of bytes and time that a
piece of work has left. If the process ends, that costs some visits that find nothing to do.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.controller.sweep import Ring
from kafka_on_spark.controller.throttle import UNLIMITED, Demand, Quota, accrue, deal, wait_ms
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.producer_state import registered_producers
from kafka_on_spark.log.replica_upkeep import ON_THE_TABLE_ALONE
from kafka_on_spark.log.retention import limits_of
from kafka_on_spark.log.upkeep_work import UpkeepOrder, UpkeepResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration

BYTES_A_MS: Final = 64 * 1024
"""What a core reads and rewrites in a ms, about: a bound in time is one in bytes, too."""

PIECE_BYTES: Final = 2**20
"""What each replica may rewrite at least, if a throttle lets anything through."""

PIECE_MS: Final = 50.0
"""What each replica may take at least."""

TURN_MS: Final = 1000.0
"""For how long a task works at a time, but for the piece that it is at."""

PART_MS: Final = 4 * TURN_MS
"""How long the tasks of a part may take in all, one after the other at worst. Between two parts a
controller renews its lease."""

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
    scope: Container[TopicId] | None,
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

    None has more than `TURN_MS`: one that is left after it comes again, while the round has time.
    """
    if not orders:
        return []
    each_ms = max(PIECE_MS, budget_ms / len(orders))
    bytes_max = int(each_ms * BYTES_A_MS)
    turn_ms = min(each_ms, TURN_MS)
    return [replace(order, work_ms_max=turn_ms, bytes_max=bytes_max) for order in orders]


class UpkeepThrottle:
    """The quota of bytes that upkeep may read and rewrite.

    Source: log.cleaner.io.max.bytes.per.second; shared out as the quotas of replication are.
    """

    def __init__(self) -> None:
        self._quota: Quota | None = None

    def dealt(
        self, orders: Sequence[UpkeepOrder], settings: Settings, now_ms: int
    ) -> list[UpkeepOrder]:
        """Return `orders` with the bytes that the quota lets each have."""
        rate = _rate(settings)
        if rate is None:
            self._quota = None
            return list(orders)
        self._quota = accrue(self._quota, bytes_per_s=rate, now_ms=now_ms)
        granted = deal(
            [Demand((0,))] * len(orders),
            [self._quota.credit_bytes],
            share_bytes_min=PIECE_BYTES,
        )
        return [
            replace(order, bytes_max=_smaller(order.bytes_max, size))
            for order, size in zip(orders, granted, strict=True)
        ]

    def charge(self, size_bytes: int) -> None:
        if self._quota is not None:
            self._quota = self._quota.less(size_bytes)

    def wait_ms(self, settings: Settings, now_ms: int) -> int:
        """Return how long until a byte may be read. What is read then is charged."""
        rate = _rate(settings)
        if rate is None:
            self._quota = None
            return 0
        self._quota = accrue(self._quota, bytes_per_s=rate, now_ms=now_ms)
        return wait_ms(self._quota, bytes_per_s=rate)


def _rate(settings: Settings) -> int | None:
    rate = settings.integer("log.cleaner.io.max.bytes.per.second")
    return None if rate == UNLIMITED else rate


def _smaller(bound: int | None, granted: int | None) -> int | None:
    return bound if granted is None else granted if bound is None else min(bound, granted)


@dataclass(frozen=True, slots=True)
class _Visit:
    partition: PartitionRegistration
    configs: tuple[Mapping[str, str], ...]
    due_at_ms: int


class Visits:
    """Which partitions need no visit: nothing was due, and nothing has changed since.

    Files of appends that failed change nothing that the metadata knows, so each partition is
    visited once in file.delete.delay.ms at least.
    """

    def __init__(self) -> None:
        self._visits: dict[PartitionKey, _Visit] = {}

    def are_due(
        self, image: MetadataImage, keys: Iterable[PartitionKey], now_ms: int
    ) -> list[PartitionKey]:
        due = []
        for key in keys:
            visit = self._visits.get(key)
            partition = image.partition(key)
            if partition is None:
                self._visits.pop(key, None)
            elif (
                visit is None
                or visit.due_at_ms <= now_ms
                or visit.partition != partition
                or visit.configs != image.settings(key.topic_id).layers
            ):
                due.append(key)
        return due

    def forget_all_but(self, ring: Ring) -> None:
        """Forget partitions that were deleted, if the cluster has fewer than are known."""
        if len(self._visits) > ring.count:
            self._visits = {key: visit for key, visit in self._visits.items() if key in ring}

    def record(
        self, orders: Sequence[UpkeepOrder], results: Sequence[UpkeepResult], now_ms: int
    ) -> set[PartitionKey]:
        """Record what visits have found; return the partitions in which more is due now."""
        left = {result.key for result in results if result.is_left}
        failed = {each.key for each in results if any(work.error for _, work in each.done)}
        for order in orders:
            if order.key in left | failed:
                self._visits.pop(order.key, None)
                continue
            due_at_ms = now_ms + order.settings.integer("file.delete.delay.ms")
            self._visits[order.key] = _Visit(order.partition, order.settings.layers, due_at_ms)
        return left
