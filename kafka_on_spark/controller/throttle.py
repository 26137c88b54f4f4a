"""How many bytes each fetch of a round may copy, so that the whole job keeps to a rate (KIP-73).

A fetch keeps to its leader's rate, its follower's, and that of the move it is part of
(kafka-reassign-partitions --throttle). A rate is a quota of the job, not of a task: the driver
shares out what has accrued before the tasks run, and charges what they copied afterwards. A batch
is copied whole, so a quota may go into debt by part of a batch; fetches wait until the debt is made
up. Kafka's rates are a broker's; a job that keeps to a rate in sum keeps to it at every broker.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.partition import PartitionRegistration

UNLIMITED: Final = 2**63 - 1
"""Kafka's default of both rates."""

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
        """Return whether nothing more accrues: it equals a new one."""
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
class Demand:
    """One fetch that wants to copy: by which quotas (indexes; none: unthrottled), and when it last
    got bytes (round; 0: never). A follower in the ISR goes first, which must not shrink while
    others catch up."""

    quotas: tuple[int, ...]
    is_in_sync: bool = False
    served_in: int = 0


def deal(
    demands: Sequence[Demand], credits_bytes: Sequence[int], *, share_bytes_min: int
) -> list[int | None]:
    """Share `credits_bytes` out; return bytes for each demand: None: no limit; 0: none this round.

    A fetch that gets bytes copies at least one batch, so that a batch larger than the rate gets
    through. Shares are equal. Each fetch gets at least `share_bytes_min`; fetches that got nothing
    in this round go first in the next.
    """
    left = list(credits_bytes)
    dealt: list[int | None] = [None] * len(demands)
    throttled = [place for place, demand in enumerate(demands) if demand.quotas]
    throttled.sort(key=lambda place: (not demands[place].is_in_sync, demands[place].served_in))
    sharers = Counter(quota for demand in demands for quota in demand.quotas)
    for place in throttled:
        quotas = demands[place].quotas
        available = min(left[quota] for quota in quotas)
        share = min(left[quota] // sharers[quota] for quota in quotas)
        granted = max(0, min(available, max(share, share_bytes_min, 1)))
        for quota in quotas:
            left[quota] -= granted
            sharers[quota] -= 1
        dealt[place] = granted
    return dealt


THROTTLES: Final = ("leader.replication.throttled", "follower.replication.throttled")


class Limit(NamedTuple):
    """Which bytes a quota counts: those of a setting, or (None) of reassignments.

    Reassignments with the same rate share one quota, which ends with the last of them.
    """

    setting: str | None
    rate: int = 0


def move_rate(partition: PartitionRegistration, follower: BrokerId | None) -> int | None:
    """Return the rate that a fetch keeps to as a part of a reassignment; None: no limit.

    A follower in sync keeps up unthrottled, so that the reassignment comes to its end.
    """
    if follower is None or follower in partition.isr:
        return None
    is_coming = follower in partition.adding_replicas
    return partition.throttle_bytes_per_s if is_coming else None


def limits_of(
    settings: Settings,
    number: int,
    partition: PartitionRegistration,
    *,
    leader: BrokerId,
    follower: BrokerId,
) -> tuple[Limit, ...]:
    """Return which quotas a fetch for a partition of this number draws on.

    `settings`: of its topic.
    """
    limits = [
        Limit(name)
        for name, broker_id in zip(THROTTLES, (leader, follower), strict=True)
        if settings.integer(f"{name}.rate") != UNLIMITED
        and is_named(settings.text(f"{name}.replicas"), number, broker_id)
    ]
    rate = move_rate(partition, follower)
    return (*limits, Limit(None, rate)) if rate is not None else tuple(limits)


def limit_rates(settings: Settings, move_rates: Iterable[int]) -> dict[Limit, int]:
    """Return the limits that hold now, and how many bytes a second each lets through.

    `settings`: the cluster's. `move_rates`: of the fetches under way.
    """
    rates = {Limit(each): settings.integer(f"{each}.rate") for each in THROTTLES}
    return {
        **{limit: rate for limit, rate in rates.items() if rate != UNLIMITED},
        **{Limit(None, rate): rate for rate in sorted(set(move_rates))},
    }


def unfilled_limits(quotas: Mapping[Limit, Quota]) -> dict[Limit, int]:
    """Return the limits of reassignments whose quotas are not full, and their rates.

    If a round leaves a move out, because of a back-off, its quota stays as it is for the next one.
    """
    return {
        limit: limit.rate
        for limit, quota in quotas.items()
        if limit.setting is None and not quota.is_full(bytes_per_s=limit.rate)
    }


def is_named(throttled_replicas: str, partition: int, broker_id: BrokerId) -> bool:
    """Return whether a list of throttled replicas ("*" or "0:1,0:2") names a replica."""
    if throttled_replicas == "*":
        return True
    return f"{partition}:{broker_id}" in throttled_replicas.split(",")
