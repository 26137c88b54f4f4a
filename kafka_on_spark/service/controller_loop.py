"""The controller's loop: claim, probe, decide, commit, renew, resign.

Holds the lease and what probes have seen; decides nothing itself. The lease is for liveness
only: every decision is a conditional commit that carries the controller epoch, and a controller
that sees a higher one stops.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from kafka_on_spark.controller import lease
from kafka_on_spark.controller.brokers import (
    elect_preferred,
    elect_where_none,
    fence_broker,
    imbalance_percentage,
    unfence_broker,
)
from kafka_on_spark.controller.recovery import recover
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import NO_ERROR
from kafka_on_spark.ids import BrokerId, ControllerEpoch, DirectoryId, PartitionKey, check_number
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import ControllerLease, MetadataImage
from kafka_on_spark.metadata.records import ControllerRecord
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.making import renew_lost
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.recovery import RunLooks, plan_looks

log = logging.getLogger(__name__)

T = TypeVar("T")

PROBE_PAUSE_MS_MIN = 50.0


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """Which root to probe, and which disk it must be."""

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a root answered; NO_ERROR, or why not."""

    broker_id: BrokerId
    error_code: int
    error: str | None = None


RunProbes = Callable[[Sequence[ProbeOrder]], list[ProbeResult]]


@dataclass(slots=True)
class _Failing:
    """Probes of one broker that have failed in a row."""

    since_ms: int
    count: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerReport:
    """What a controller's passes decided.

    Attributes:
        fenced: Brokers that were fenced.
        unfenced: Brokers that came back.
        leaders_moved: Partitions that got another leader.
        passes: How many passes were made.
    """

    fenced: tuple[BrokerId, ...] = ()
    unfenced: tuple[BrokerId, ...] = ()
    leaders_moved: int = 0
    passes: int = 0


@dataclass(slots=True)
class _Tally:
    fenced: list[BrokerId] = field(default_factory=list)
    unfenced: list[BrokerId] = field(default_factory=list)
    moved: set[PartitionKey] = field(default_factory=set)
    passes: int = 0


def duration_ms(seconds: float | None) -> int | None:
    """Return how long to control, as `ControllerLoop.run` takes it.

    Raises:
        InvalidRequestError: It is no number from 0 on.
    """
    if seconds is None:
        return None
    check_number(seconds, "seconds")
    return int(seconds * 1000)


class ControllerLoop:
    """One controllership, from claim to resignation."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        *,
        controller_id: str,
        run_probes: RunProbes,
        run_looks: RunLooks,
        new_uuid: Callable[[], str],
        timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._controller_id = controller_id
        self._run_probes = run_probes
        self._run_looks = run_looks
        self._new_uuid = new_uuid
        self._timeout_ms = timeout_ms
        self._epoch = ControllerEpoch(-1)
        self._failing: dict[BrokerId, _Failing] = {}
        self._tally = _Tally()

    def run(self, duration_ms: int | None) -> ControllerReport:
        """Control the cluster for `duration_ms`, or (None) for one pass; then resign.

        Waits for another controller's lease to end, on its own clock.

        Raises:
            NotControllerError: Another controller has taken over meanwhile.
        """
        self._claim()
        started_ms = self._clock.monotonic_ms()
        try:
            while True:
                self._pass()
                elapsed_ms = self._clock.monotonic_ms() - started_ms
                if duration_ms is None or elapsed_ms >= duration_ms:
                    break
                settings = self._metadata.image.settings()
                interval_ms = settings.integer("broker.heartbeat.interval.ms")
                self._clock.sleep_ms(min(interval_ms, duration_ms - elapsed_ms))
                self._renew()
        finally:
            self._resign()
        return ControllerReport(
            fenced=tuple(self._tally.fenced),
            unfenced=tuple(self._tally.unfenced),
            leaders_moved=len(self._tally.moved),
            passes=self._tally.passes,
        )

    def _claim(self) -> None:
        """Take the next controller epoch once nobody renews the lease any more."""
        cause = f"{self._controller_id} claims the controllership"
        while True:
            seen = self._wait_for_lease()
            epoch = self._metadata.submit(
                partial(lease.claim, controller_id=self._controller_id, cause=cause, seen=seen),
                timeout_ms=self._timeout_ms,
            )
            if epoch is not None:
                break
        self._epoch = epoch
        log.info("controller %s, epoch %s", self._controller_id, self._epoch)

    def _wait_for_lease(self) -> ControllerLease | None:
        """Return the newest lease once it was resigned or not renewed for as long as it lasts.

        Timed by this process's own clock: no clock of another's is asked.
        """
        image = self._metadata.catch_up()
        seen = image.controller
        since_ms = self._clock.monotonic_ms()
        while seen is not None and seen.controller_id is not None:
            lease_ms = image.settings().integer("controller.lease.ms")
            if self._clock.monotonic_ms() - since_ms >= lease_ms:
                break
            self._clock.sleep_ms(min(250, lease_ms / 10))
            image = self._metadata.catch_up()
            if image.controller != seen:
                seen, since_ms = image.controller, self._clock.monotonic_ms()
        return seen

    def _renew(self) -> None:
        record = ControllerRecord(
            controller_id=self._controller_id, controller_epoch=self._epoch, cause="renewed"
        )
        self._submit(lambda image: ControllerResult([record], None))

    def _resign(self) -> None:
        self._metadata.submit(
            lambda image: lease.resign(image, self._controller_id, self._epoch),
            timeout_ms=self._timeout_ms,
        )

    def _submit(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        def guarded(image: MetadataImage) -> ControllerResult[T]:
            lease.check_controls(image, self._epoch)
            return decide(image)

        return self._metadata.submit(
            guarded,
            timeout_ms=self._timeout_ms,
            controller=(self._controller_id, self._epoch),
        )

    def _pass(self) -> None:
        """Do one pass over brokers, elections and lost replicas."""
        self._metadata.catch_up()
        self._tally.passes += 1
        self._look_after_brokers()
        moved = self._submit(
            lambda image: elect_where_none(
                image, image.eligible_brokers(), "an in-sync replica can lead again"
            )
        )
        self._tally.moved.update(moved)
        self._recover()
        self._submit(lambda image: renew_lost(image, self._new_uuid))
        self._balance_leaders()

    def _recover(self) -> None:
        """Look for leaders where nobody in sync is left."""
        orders = plan_looks(self._metadata.image)
        if not orders:
            return
        looks = [look for look in self._run_looks(orders) if look is not None]
        moved = self._submit(lambda image: recover(image, looks))
        self._tally.moved.update(moved)

    def _look_after_brokers(self) -> None:
        """Probe until each broker has answered or its session is over."""
        brokers = self._metadata.image.brokers
        pending = {
            broker_id: ProbeOrder(broker_id, broker.root, broker.directory_id)
            for broker_id, broker in brokers.items()
        }
        pause_ms = PROBE_PAUSE_MS_MIN
        while pending:
            results = self._run_probes(list(pending.values()))
            for result in results:
                if self._is_settled(result):
                    del pending[result.broker_id]
            if pending:
                self._clock.sleep_ms(pause_ms)
                pause_ms = min(2 * pause_ms, self._session_ms() / 10)

    def _session_ms(self) -> int:
        return self._metadata.image.settings().integer("broker.session.timeout.ms")

    def _is_settled(self, result: ProbeResult) -> bool:
        """Act on one probe; return False if the broker must be probed again."""
        broker_id = result.broker_id
        is_fenced = self._metadata.image.brokers[broker_id].state is BrokerState.FENCED
        if result.error_code == NO_ERROR:
            self._failing.pop(broker_id, None)
            if is_fenced:
                self._unfence(broker_id)
            return True
        if is_fenced:
            return True
        now_ms = self._clock.monotonic_ms()
        failing = self._failing.setdefault(broker_id, _Failing(now_ms))
        failing.count += 1
        failing.error = result.error
        if now_ms - failing.since_ms < self._session_ms():
            return False
        self._fence(broker_id, failing, now_ms)
        return True

    def _fence(self, broker_id: BrokerId, failing: _Failing, now_ms: int) -> None:
        seconds = (now_ms - failing.since_ms) / 1000
        cause = (
            f"broker {broker_id}: probe failed {failing.count} times in {seconds:.1f} s"
            f" ({failing.error})"
        )
        moved = self._submit(lambda image: fence_broker(image, broker_id, cause))
        self._tally.fenced.append(broker_id)
        self._tally.moved.update(moved)
        self._failing.pop(broker_id, None)
        log.warning("%s; it led %d partitions", cause, len(moved))

    def _unfence(self, broker_id: BrokerId) -> None:
        cause = f"broker {broker_id}: answers again, with the disk it was registered with"
        moved = self._submit(lambda image: unfence_broker(image, broker_id, cause))
        self._tally.unfenced.append(broker_id)
        self._tally.moved.update(moved)
        log.info("%s", cause)

    def _balance_leaders(self) -> None:
        """Give preferred leaders their partitions back where the imbalance is too large."""
        image = self._metadata.image
        limit = image.settings().integer("leader.imbalance.per.broker.percentage")
        unbalanced = {
            broker_id: percentage
            for broker_id in image.eligible_brokers()
            if (percentage := imbalance_percentage(image, broker_id)) > limit
        }
        if not unbalanced:
            return
        keys = [key for key, partition in image.partitions() if partition.replicas[0] in unbalanced]
        cause = _imbalance_cause(unbalanced, limit)
        moved = self._submit(lambda newest: elect_preferred(newest, cause, keys))
        self._tally.moved.update(moved)


def _imbalance_cause(unbalanced: Mapping[BrokerId, float], limit: int) -> str:
    shares = ", ".join(
        f"broker {broker_id} lacks {share:.0f} %" for broker_id, share in sorted(unbalanced.items())
    )
    return (
        f"preferred leaders: {shares} of its leaderships"
        f" (leader.imbalance.per.broker.percentage={limit})"
    )
