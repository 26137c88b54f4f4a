"""How many bytes each fetch of a round may copy, so that the whole job keeps to a rate (KIP-73).

`limits` says which rate that is. A rate is a quota of the job, not of a task: the driver shares out
what has accrued before the tasks run, and charges what they copied afterwards. A batch is copied
whole, so a quota may go into debt by part of a batch; fetches wait until the debt is made up.
Kafka's rates are a broker's; a job that keeps to a rate in sum keeps to it at every broker.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.ids import BrokerId

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
        """Return the quota after so many bytes were shared out or copied (or came back)."""
        return Quota(self.credit - 1000 * size_bytes, self.at_ms)


def accrue(quota: Quota | None, *, bytes_per_s: int, now_ms: int) -> Quota:
    """Return the quota as of `now_ms`; a new one begins with a second's worth."""
    full = bytes_per_s * BURST_MS
    if quota is None:
        return Quota(full, now_ms)
    elapsed_ms = max(0, now_ms - quota.at_ms)
    return Quota(min(full, quota.credit + bytes_per_s * elapsed_ms), max(now_ms, quota.at_ms))


def wait_ms(quota: Quota, *, bytes_per_s: int) -> int:
    """Return how long until a byte may be copied."""
    if quota.credit >= 1000:
        return 0
    return -(-(1000 - quota.credit) // bytes_per_s)


@dataclass(frozen=True, slots=True)
class Demand:
    """One fetch that wants to copy.

    Attributes:
        quotas: Indexes of the quotas that it uses; none: unthrottled.
        is_in_sync: The follower is in the ISR, which must not shrink while others catch up.
        served_in: The last round in which it got bytes; 0: none.
    """

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


def is_named(throttled_replicas: str, partition: int, broker_id: BrokerId) -> bool:
    """Return whether a list of throttled replicas ("*" or "0:1,0:2") names a replica."""
    if throttled_replicas == "*":
        return True
    return f"{partition}:{broker_id}" in throttled_replicas.split(",")
