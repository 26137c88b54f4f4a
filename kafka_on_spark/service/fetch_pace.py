"""What one process remembers between rounds of replication: back-offs and quotas.

Holds state and decides nothing: `controller/fetch_delay.py` and `controller/throttle.py` do. It
is forgotten with the process, which costs one early fetch and one second's worth of bytes.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafka_on_spark.config import Settings
from kafka_on_spark.controller.fetch_delay import FetchDelay, delay_after
from kafka_on_spark.controller.throttle import (
    UNLIMITED,
    Demand,
    Quota,
    accrue,
    deal,
    is_named,
    wait_ms,
)
from kafka_on_spark.ids import BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.fetch_answers import current_epoch, refusal_code
from kafka_on_spark.service.replication import FetchOrder, FetchResult

_THROTTLES: Final = ("leader.replication.throttled", "follower.replication.throttled")


class _Limit(NamedTuple):
    """Whose bytes a quota counts: those of a setting, or (None) of reassignments.

    Reassignments with the same rate share one, and it is gone with the last of them.
    """

    setting: str | None
    rate: int = 0


class _Fetcher(NamedTuple):
    """Whose fetch it is; without a follower it is a look at the leader only."""

    key: PartitionKey
    follower: BrokerId | None
    replica_uuid: ReplicaUuid | None


@dataclass(frozen=True, slots=True)
class PacedOrders:
    """What a round may fetch now.

    Attributes:
        orders: The fetches to run, each with the bytes that it may copy.
        left_out: How many wait for the end of their back-off, or for a newer leadership.
        resume_after_ms: How long until more can be done than now: a back-off ends, or a
            throttle lets bytes through. None: nothing waits for time.
    """

    orders: tuple[FetchOrder, ...]
    left_out: int = 0
    resume_after_ms: float | None = None


class FetchPace:
    """Back-offs and quotas of a process's rounds. Threads may share it.

    `random` gives [0, 1): jitter of back-offs, nothing else.
    """

    def __init__(self, clock: Clock, *, random: Callable[[], float]) -> None:
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._delays: dict[_Fetcher, FetchDelay] = {}
        self._quotas: dict[_Limit, Quota] = {}
        self._served_in: dict[_Fetcher, int] = {}
        self._rounds = 0

    def plan(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        call: Mapping[str, str],
        *,
        is_sweep: bool,
    ) -> PacedOrders:
        """Return which of `orders` are run now, and how much each may copy.

        `call`: settings of this call, which win over the topic's and the cluster's. `is_sweep`:
        somebody asks for everything, so no back-off is waited for; throttles hold.
        """
        now_ms = self._clock.monotonic_ms()
        kept, waits = [], []
        with self._lock:
            self._forget_what_is_over(image)
            for order in orders:
                remaining_ms = 0 if is_sweep else self._remaining_ms(order, now_ms)
                if remaining_ms == 0:
                    kept.append(order)
                else:
                    waits.append(remaining_ms)
            dealt, throttle_ms = self._throttle(image, kept, call, now_ms)
        times = [each for each in (*waits, throttle_ms) if each is not None]
        return PacedOrders(tuple(dealt), len(waits), min(times, default=None))

    def settle(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        results: Sequence[FetchResult],
        call: Mapping[str, str],
    ) -> None:
        """Take note of what the fetches did; `image` is the metadata when they had answered."""
        now_ms = self._clock.monotonic_ms()
        settings = image.settings().over(call)
        with self._lock:
            for order, result in zip(orders, results, strict=True):
                self._note_answer(image, order, result, settings, now_ms)
                if order.copy_bytes_max is not None:
                    used = result.copied_bytes - order.copy_bytes_max
                    self._use(_limits_of(image, order, call), used)

    def _remaining_ms(self, order: FetchOrder, now_ms: int) -> float | None:
        delay = self._delays.get(_fetcher(order))
        if delay is None:
            return 0
        return delay.remaining_ms(
            order.partition.leader_epoch, now_ms, is_look=order.copy_bytes_max == 0
        )

    def _note_answer(
        self,
        image: MetadataImage,
        order: FetchOrder,
        result: FetchResult,
        settings: Settings,
        now_ms: int,
    ) -> None:
        name = _fetcher(order)
        delay = delay_after(
            refusal_code(image, order, result),
            self._delays.pop(name, None),
            asked_epoch=order.partition.leader_epoch,
            current_epoch=current_epoch(image, order),
            has_progressed=result.copied_records > 0,
            now_ms=now_ms,
            first_ms=settings.integer("replica.fetch.backoff.ms"),
            max_ms=settings.integer("replica.fetch.backoff.max.ms"),
            random=self._random(),
        )
        if delay is not None:
            self._delays[name] = delay

    def _forget_what_is_over(self, image: MetadataImage) -> None:
        """Drop what is remembered of replicas that the metadata has moved on from.

        A broker that was fenced is fetched to at once when it is back.
        """
        for name, delay in list(self._delays.items()):
            partition = image.partition(name.key)
            if (
                partition is None
                or partition.leader_epoch != delay.leader_epoch
                or (name.follower is not None and not image.brokers[name.follower].is_online)
            ):
                del self._delays[name]
        for name in [each for each in self._served_in if image.partition(each.key) is None]:
            del self._served_in[name]

    def _throttle(
        self,
        image: MetadataImage,
        orders: Sequence[FetchOrder],
        call: Mapping[str, str],
        now_ms: int,
    ) -> tuple[list[FetchOrder], float | None]:
        """Deal the quotas out; return the orders, and how long who got nothing has to wait."""
        settings = image.settings().over(call)
        rates = {**_debts(self._quotas), **_rates(settings, orders)}
        self._quotas = {
            limit: accrue(self._quotas.get(limit), bytes_per_s=rate, now_ms=now_ms)
            for limit, rate in rates.items()
        }
        if not self._quotas:
            return list(orders), None
        self._rounds += 1
        places = {limit: place for place, limit in enumerate(self._quotas)}
        limits = [_limits_of(image, order, call) for order in orders]
        demands = [
            Demand(
                tuple(places[limit] for limit in drawn_on),
                is_in_sync=_is_in_sync(order),
                served_in=self._served_in.get(_fetcher(order), 0),
            )
            for order, drawn_on in zip(orders, limits, strict=True)
        ]
        dealt = deal(
            demands,
            [quota.credit_bytes for quota in self._quotas.values()],
            share_bytes_min=settings.integer("replica.fetch.max.bytes"),
        )
        for order, drawn_on, granted in zip(orders, limits, dealt, strict=True):
            if granted:
                self._use(drawn_on, granted)
                self._served_in[_fetcher(order)] = self._rounds
        paced = [
            order if granted is None else replace(order, copy_bytes_max=granted)
            for order, granted in zip(orders, dealt, strict=True)
        ]
        if 0 not in dealt:
            return paced, None
        waits = [
            max(wait_ms(self._quotas[limit], bytes_per_s=rates[limit]) for limit in drawn_on)
            for drawn_on, granted in zip(limits, dealt, strict=True)
            if granted == 0
        ]
        return paced, min(waits)

    def _use(self, limits: Sequence[_Limit], size_bytes: int) -> None:
        for limit in limits:
            if limit in self._quotas:
                self._quotas[limit] = self._quotas[limit].less(size_bytes)


def _fetcher(order: FetchOrder) -> _Fetcher:
    if order.follower is None:
        return _Fetcher(order.key, None, None)
    return _Fetcher(order.key, order.follower.broker_id, order.follower.replica_uuid)


def _is_in_sync(order: FetchOrder) -> bool:
    return order.follower is not None and order.follower.broker_id in order.partition.isr


def _rates(settings: Settings, orders: Sequence[FetchOrder]) -> dict[_Limit, int]:
    """Return the limits that hold now, and how many bytes a second each lets through."""
    rates = {_Limit(each): settings.integer(f"{each}.rate") for each in _THROTTLES}
    moves = {rate for order in orders if (rate := _rate_of_move(order)) is not None}
    return {
        **{limit: rate for limit, rate in rates.items() if rate != UNLIMITED},
        **{_Limit(None, rate): rate for rate in sorted(moves)},
    }


def _debts(quotas: Mapping[_Limit, Quota]) -> dict[_Limit, int]:
    """Return the limits of reassignments that have not accrued all that they can keep.

    A move that a round leaves out, for a back-off, does not begin anew with the next.
    """
    return {
        limit: limit.rate
        for limit, quota in quotas.items()
        if limit.setting is None and not quota.is_full(bytes_per_s=limit.rate)
    }


def _rate_of_move(order: FetchOrder) -> int | None:
    """Return what a fetch keeps to as a part of a reassignment; None: no limit, or none.

    Who is in sync once keeps up unthrottled, so that the reassignment comes to its end.
    """
    if order.follower is None or _is_in_sync(order):
        return None
    is_coming = order.follower.broker_id in order.partition.adding_replicas
    return order.partition.throttle_bytes_per_s if is_coming else None


def _limits_of(
    image: MetadataImage, order: FetchOrder, call: Mapping[str, str]
) -> tuple[_Limit, ...]:
    """Return which quotas a fetch draws on: its leader's, its follower's, its move's, or none."""
    if order.follower is None or order.copy_bytes_max == 0:
        return ()
    settings = image.settings(order.key.topic_id).over(call)
    ends = (order.leader.broker_id, order.follower.broker_id)
    limits = [
        _Limit(name)
        for name, broker_id in zip(_THROTTLES, ends, strict=True)
        if settings.integer(f"{name}.rate") != UNLIMITED
        and is_named(settings.text(f"{name}.replicas"), order.key.partition, broker_id)
    ]
    rate = _rate_of_move(order)
    return (*limits, _Limit(None, rate)) if rate is not None else tuple(limits)
