"""The fetches of a round: which are planned, which wait for a back-off or a throttle (KIP-73).

A back-off spares a root that does not answer, and the rounds that would wait for it. It belongs to
one leadership: a newer one is tried at once (AbstractFetcherThread.delayPartitions).

A fetch keeps to its leader's rate, its follower's, and that of the move it is part of
(kafka-reassign-partitions --throttle). A rate is a quota of the job, not of a task: the driver
shares out what has accrued before the tasks run, and charges what they copied afterwards. A batch
is copied whole, so a quota may go into debt by part of a batch; fetches wait until the debt is made
up. Kafka's rates are a broker's; a job that keeps to a rate in sum keeps to it at every broker.

No decision rests on back-offs and quotas.
"""

import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, NamedTuple

from kafka_on_spark.base.errors import (
    NO_ERROR,
    FencedLeaderEpochError,
    NotLeaderOrFollowerError,
    ProtocolError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey, ReplicaUuid, TopicId
from kafka_on_spark.controller.reassignment import THROTTLES, UNLIMITED
from kafka_on_spark.log.fetch import FetchOrder, FetchResult, fetch_orders
from kafka_on_spark.log.state import check_leader_epoch
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import ReplicaReport
from kafka_on_spark.node.node import Node


class Fetcher(NamedTuple):
    """The follower that a fetch is for; None: the fetch inspects the leader only."""

    key: PartitionKey
    follower: BrokerId | None
    replica_uuid: ReplicaUuid | None


def fetcher_of(order: FetchOrder) -> Fetcher:
    if order.follower is None:
        return Fetcher(order.key, None, None)
    return Fetcher(order.key, order.follower.broker_id, order.follower.replica_uuid)


def needs_fetch(partition: PartitionRegistration) -> bool:
    """Return whether a round fetches of a partition: of those that need work, some wait for other
    work only."""
    return (
        partition.high_watermark < partition.log_end_offset
        or partition.is_under_replicated
        or partition.is_reassigning
    )


def keys_to_fetch(
    image: MetadataImage, topic_ids: Collection[TopicId] | None
) -> list[PartitionKey]:
    return [
        key
        for key, partition in image.partitions_needing_work()
        if (topic_ids is None or key.topic_id in topic_ids) and needs_fetch(partition)
    ]


def plan_fetches(
    image: MetadataImage, key: PartitionKey, *, is_inspection: bool = False
) -> list[FetchOrder]:
    """Return the fetches that a partition needs: one a follower, or one of the leader only.

    `is_inspection`: all replicas are inspected, uncached, whether or not there is work. A partition
    without a leader, or whose leader was never created, has nothing to fetch from.
    """
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_created(partition.leader):
        return []
    is_behind = is_inspection or partition.high_watermark < partition.log_end_offset
    followers: list[BrokerId | None] = [
        broker_id
        for broker_id in partition.replicas
        if broker_id != partition.leader
        and partition.is_created(broker_id)
        and image.brokers[broker_id].is_online
        and (is_behind or broker_id not in partition.isr)
    ]
    if not followers and is_behind:
        followers = [None]
    return fetch_orders(image, key, partition, followers, is_uncached=is_inspection)


def lacks_leader_table(partition: PartitionRegistration | None) -> bool:
    """Return whether replicas were created that can't be inspected before their leader's is."""
    if partition is None or partition.leader is None or partition.is_created(partition.leader):
        return False
    return any(partition.is_created(broker_id) for broker_id in partition.replicas)


def refusals(result: FetchResult) -> list[ReplicaReport]:
    reports = (result.report.leader, *result.report.followers)
    return [each for each in reports if each.error_code != NO_ERROR]


def refusal_of(
    image: MetadataImage, order: FetchOrder, refused: ReplicaReport
) -> tuple[int, str | None]:
    """Return why a replica refused, as code and words.

    A bad replica is bad under any leadership. Otherwise, if the metadata says that the fetch asked
    the wrong replica, as its leader's broker would say, that is the reason, whatever the fetch met
    there.
    """
    if refused.is_bad:
        return refused.error_code, refused.error
    try:
        if order.key.topic_id not in image.topics:
            raise UnknownTopicIdError("the topic was deleted", topic_id=order.key.topic_id)
        check_request(
            image.partition(order.key),
            order.leader.broker_id,
            leader_epoch=order.partition.leader_epoch,
            fetched_by=fetcher_of(order).follower,
        )
    except ProtocolError as error:
        return error.code, str(error)
    return refused.error_code, refused.error


BURST_MS: Final = 1000
"""A quota accrues for at most a second, Kafka's quota window."""


@dataclass(frozen=True, slots=True)
class Quota:
    """How much may be copied now, in thousandths of a byte, so that short waits count.

    Attributes:
        credit: At or below zero nothing may be copied; debts come from whole batches.
        at_ms: When it was computed, on a clock that never goes back.
    """

    credit: int
    at_ms: int

    @property
    def credit_bytes(self) -> int:
        """Whole bytes that may be copied; 0 in debt."""
        return max(0, self.credit // 1000)

    def is_full(self, *, bytes_per_s: int) -> bool:
        return self.credit >= bytes_per_s * BURST_MS

    def less(self, size_bytes: int) -> "Quota":
        return Quota(self.credit - 1000 * size_bytes, self.at_ms)


def accrue(quota: Quota | None, *, bytes_per_s: int, now_ms: int) -> Quota:
    """Return the quota as of `now_ms`; a new one begins with a second's worth."""
    full = bytes_per_s * BURST_MS
    if quota is None:
        return Quota(full, now_ms)
    elapsed_ms = max(0, now_ms - quota.at_ms)
    return Quota(min(full, quota.credit + bytes_per_s * elapsed_ms), max(now_ms, quota.at_ms))


def wait_ms(quota: Quota, *, bytes_per_s: int) -> int:
    if quota.credit >= 1000:
        return 0
    return -(-(1000 - quota.credit) // bytes_per_s)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many bytes a second a quota lets through, and which it counts: those of a setting, whose
    debt outlives a change of its rate, or of all reassignments at that rate. Theirs ends with the
    last of them."""

    name: str
    rate: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """One fetch that wants to copy: under which limits (none: unthrottled), and when it last got
    bytes (round; 0: never). A follower in the ISR goes first, which must not shrink while others
    catch up."""

    limits: tuple[Limit, ...]
    is_in_sync: bool = False
    served_in: int = 0


def deal(
    demands: Sequence[Demand], credits_bytes: Mapping[Limit, int], *, share_bytes_min: int
) -> list[int | None]:
    """Share `credits_bytes` out; return bytes for each demand: None: no limit; 0: none this round.

    A fetch that gets bytes copies at least one batch, so that a batch larger than the rate gets
    through. Shares are equal. Each fetch gets at least `share_bytes_min`; fetches that got nothing
    in this round go first in the next.
    """
    left = dict(credits_bytes)
    dealt: list[int | None] = [None] * len(demands)
    throttled = [place for place, demand in enumerate(demands) if demand.limits]
    throttled.sort(key=lambda place: (not demands[place].is_in_sync, demands[place].served_in))
    sharers = Counter(limit for demand in demands for limit in demand.limits)
    for place in throttled:
        limits = demands[place].limits
        available = min(left[limit] for limit in limits)
        share = min(left[limit] // sharers[limit] for limit in limits)
        granted = max(0, min(available, max(share, share_bytes_min, 1)))
        for limit in limits:
            left[limit] -= granted
            sharers[limit] -= 1
        dealt[place] = granted
    return dealt


def is_named(throttled_replicas: str, partition: int, broker_id: BrokerId) -> bool:
    """Return whether a list of throttled replicas ("*" or "0:1,0:2") names a replica."""
    if throttled_replicas == "*":
        return True
    return f"{partition}:{broker_id}" in throttled_replicas.split(",")


def awaits_metadata(error_code: int, asked_epoch: LeaderEpoch, current_epoch: LeaderEpoch) -> bool:
    """Return whether a fetch that was refused waits until the metadata names a newer leadership.

    If the newest known epoch is fenced, another try can't help; if an older one is fenced, the
    newer one is tried. All other errors may pass, even a corrupt source: its replica is found bad,
    and another one leads. Source: AbstractFetcherThread.processFetchRequest.
    """
    return error_code == FencedLeaderEpochError.code and asked_epoch == current_epoch


@dataclass(frozen=True, slots=True)
class _Delay:
    """Why a fetch is left out for a while: it was refused under `leader_epoch`.

    `is_fenced`: no time helps, only a newer leadership; an inspection, which copies nothing, may
    ask whether that is still so.
    """

    leader_epoch: LeaderEpoch
    until_ms: int
    is_fenced: bool


class FetchPace:
    """Back-offs and quotas of a process's rounds. Threads may share it."""

    def __init__(self, node: Node) -> None:
        self._clock = node.clock
        self._lock = threading.Lock()
        self._delays: dict[Fetcher, _Delay] = {}
        self._quotas: dict[Limit, Quota] = {}
        self._served_in: dict[Fetcher, int] = {}
        self._rounds = 0

    def plan(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        overrides: Mapping[str, str],
        *,
        is_sweep: bool,
    ) -> tuple[list[FetchOrder], float | None]:
        """Return which of `orders` are run now, each with the bytes that it may copy, and how long
        until more can be done than now: a back-off ends, or a throttle lets bytes through. None:
        nothing waits for time.

        `overrides`: settings of this call, which win over the topic's and the cluster's.
        `is_sweep`: all partitions are asked for, so no fetch waits for a back-off; throttles hold.
        """
        now_ms = self._clock.monotonic_ms()
        kept, waits = [], []
        with self._lock:
            self._forget_ended(image)
            for order in orders:
                remaining_ms = 0 if is_sweep else self._remaining_ms(order, now_ms)
                if remaining_ms == 0:
                    kept.append(order)
                else:
                    waits.append(remaining_ms)
            dealt, throttle_ms = self._throttle(image, kept, overrides, now_ms)
        times = [each for each in (*waits, throttle_ms) if each is not None]
        return dealt, min(times, default=None)

    def record_results(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        results: Sequence[FetchResult],
        overrides: Mapping[str, str],
    ) -> None:
        """Record what the fetches did; `image` is the metadata when they had answered."""
        now_ms = self._clock.monotonic_ms()
        backoff_ms = image.settings().over(overrides).integer("replica.fetch.backoff.ms")
        with self._lock:
            for order, result in zip(orders, results, strict=True):
                self._record_result(image, order, result, now_ms + backoff_ms)
                if order.copy_bytes_max is not None:
                    used = result.copied_bytes - order.copy_bytes_max
                    self._charge(_limits_of(image, order, overrides), used)

    def _remaining_ms(self, order: FetchOrder, now_ms: int) -> float | None:
        """Return how long a fetch still waits: 0 not at all, None for a newer leadership."""
        delay = self._delays.get(fetcher_of(order))
        if delay is None or delay.leader_epoch != order.partition.leader_epoch:
            return 0
        if delay.is_fenced and order.copy_bytes_max != 0:
            return None
        return max(0, delay.until_ms - now_ms)

    def _record_result(
        self, image: MetadataImage, order: FetchOrder, result: FetchResult, until_ms: int
    ) -> None:
        """Record a refusal under a leadership that is still the newest: a newer one is tried at
        once, whatever the older one's answer was."""
        self._delays.pop(fetcher_of(order), None)
        partition, asked_epoch = image.partition(order.key), order.partition.leader_epoch
        refused = refusals(result)
        if refused and partition is not None and partition.leader_epoch == asked_epoch:
            code, _ = refusal_of(image, order, refused[0])
            is_fenced = awaits_metadata(code, asked_epoch, partition.leader_epoch)
            self._delays[fetcher_of(order)] = _Delay(asked_epoch, until_ms, is_fenced)

    def _forget_ended(self, image: MetadataImage) -> None:
        """Forget deleted partitions, and back-offs that the metadata ends: by a newer leadership,
        or as a follower's broker is fenced, so that it is fetched for at once when it is back."""
        for name, delay in list(self._delays.items()):
            partition, follower = image.partition(name.key), name.follower
            is_over = partition is None or partition.leader_epoch != delay.leader_epoch
            if is_over or (follower is not None and not image.brokers[follower].is_online):
                del self._delays[name]
        for name in [each for each in self._served_in if image.partition(each.key) is None]:
            del self._served_in[name]

    def _throttle(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        overrides: Mapping[str, str],
        now_ms: int,
    ) -> tuple[list[FetchOrder], float | None]:
        """Share the quotas out; return the orders, and the wait of those that got no bytes."""
        settings = image.settings().over(overrides)
        demands = [
            Demand(
                _limits_of(image, order, overrides),
                is_in_sync=fetcher_of(order).follower in order.partition.isr,
                served_in=self._served_in.get(fetcher_of(order), 0),
            )
            for order in orders
        ]
        limits = dict.fromkeys(chain.from_iterable(demand.limits for demand in demands))
        for limit, quota in self._quotas.items():  # a full one equals a new one
            if not quota.is_full(bytes_per_s=limit.rate):
                limits.setdefault(limit)
        self._quotas = {
            limit: accrue(self._quotas.get(limit), bytes_per_s=limit.rate, now_ms=now_ms)
            for limit in limits
        }
        if not self._quotas:
            return list(orders), None
        self._rounds += 1
        dealt = deal(
            demands,
            {limit: quota.credit_bytes for limit, quota in self._quotas.items()},
            share_bytes_min=settings.integer("replica.fetch.max.bytes"),
        )
        for order, demand, granted in zip(orders, demands, dealt, strict=True):
            if granted:
                self._charge(demand.limits, granted)
                self._served_in[fetcher_of(order)] = self._rounds
        paced = [
            order if granted is None else replace(order, copy_bytes_max=granted)
            for order, granted in zip(orders, dealt, strict=True)
        ]
        waits = [
            max(wait_ms(self._quotas[limit], bytes_per_s=limit.rate) for limit in demand.limits)
            for demand, granted in zip(demands, dealt, strict=True)
            if granted == 0
        ]
        return paced, min(waits, default=None)

    def _charge(self, limits: Sequence[Limit], size_bytes: int) -> None:
        for limit in limits:
            if limit in self._quotas:
                self._quotas[limit] = self._quotas[limit].less(size_bytes)


def _limits_of(
    image: MetadataImage, order: FetchOrder, overrides: Mapping[str, str]
) -> tuple[Limit, ...]:
    """Return which quotas a fetch draws on; none if it copies nothing."""
    if order.follower is None or order.copy_bytes_max == 0:
        return ()
    settings = image.settings(order.key.topic_id).over(overrides)
    brokers = (order.leader.broker_id, order.follower.broker_id)
    limits = [
        Limit(name, rate)
        for name, broker_id in zip(THROTTLES, brokers, strict=True)
        if (rate := settings.integer(f"{name}.rate")) != UNLIMITED
        and is_named(settings.text(f"{name}.replicas"), order.key.partition, broker_id)
    ]
    of_move = order.partition.throttle_bytes_per_s
    is_coming = order.follower.broker_id in order.partition.adding_replicas
    # A follower in sync keeps up unthrottled, so that the reassignment comes to its end.
    if of_move is not None and is_coming and order.follower.broker_id not in order.partition.isr:
        limits.append(Limit(f"moves at {of_move}", of_move))
    return tuple(limits)


def check_request(
    partition: PartitionRegistration | None,
    broker_id: BrokerId,
    *,
    leader_epoch: LeaderEpoch | None,
    fetched_by: BrokerId | None = None,
) -> None:
    """Check a request about `partition` to the replica on `broker_id`, which must lead.

    `fetched_by`: the follower that asks, which must be assigned.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition, or no replica of it there.
        FencedLeaderEpochError, UnknownLeaderEpochError: As `check_leader_epoch`.
        NotLeaderOrFollowerError: The replica does not lead.
    """
    if partition is None or broker_id not in partition.replicas:
        raise UnknownTopicOrPartitionError(f"broker {broker_id} has no replica of the partition")
    check_leader_epoch(partition.leader_epoch, leader_epoch)
    if partition.leader != broker_id:
        raise NotLeaderOrFollowerError(
            f"broker {broker_id} does not lead the partition", leader=partition.leader
        )
    if fetched_by is None or fetched_by in partition.replicas:
        return
    if leader_epoch is None:
        raise NotLeaderOrFollowerError(f"broker {fetched_by} is not assigned to the partition")
    # A follower that knows the current epoch may know an assignment that this side does not, which
    # then must catch up. Source: Partition.followerReplicaOrThrow (KAFKA-14097).
    raise UnknownLeaderEpochError(
        f"broker {fetched_by} is not assigned, as far as is known here", leader_epoch=leader_epoch
    )
