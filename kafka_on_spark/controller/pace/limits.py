"""Which rates a fetch keeps to: its leader's, its follower's, and that of the move it is part of.

`throttle` says how many bytes that allows. Source: KIP-73, and kafka-reassign-partitions
--throttle.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafka_on_spark.config import Settings
from kafka_on_spark.controller.pace.throttle import UNLIMITED, Quota, is_named
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.metadata.partition import PartitionRegistration

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
