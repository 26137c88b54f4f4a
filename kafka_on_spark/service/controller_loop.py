"""The controller's loop: claim, probe, decide, commit, command, answer, renew, resign.

Holds what probes have seen; decides nothing itself. What is committed is its term's (term.py),
which ends when a higher controller epoch is seen.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_on_spark.controller.brokers import (
    elect_preferred,
    elect_where_none,
    fence_broker,
    imbalance_percentages,
    unfence_broker,
)
from kafka_on_spark.controller.commands import Draws
from kafka_on_spark.controller.dead_destinations import settle_dead_destinations
from kafka_on_spark.controller.draining import continue_draining
from kafka_on_spark.controller.reassignment import advance_reassignments
from kafka_on_spark.controller.recovery import recover
from kafka_on_spark.controller.restoring import restore
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.silence import Silence
from kafka_on_spark.errors import NotControllerError, RootAccessDeniedError
from kafka_on_spark.ids import BrokerId, PartitionKey, check_number
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock
from kafka_on_spark.service.cleaning import CheckControls
from kafka_on_spark.service.leadership_commands import LeadershipCommands, RunCommands
from kafka_on_spark.service.making import renew_lost
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.probes import (
    FailedProbes,
    ProbeOrder,
    ProbeResult,
    RunProbes,
    probe_orders,
)
from kafka_on_spark.service.recovery import RunLooks, plan_looks
from kafka_on_spark.service.restoring import Restorer
from kafka_on_spark.service.term import LeaseWatch, Term

log = logging.getLogger(__name__)

T = TypeVar("T")

PROBE_PAUSE_MS_MIN = 50.0
UNJUDGED_MS_MIN = 10_000
"""So long at least, and three sessions, a pass waits for brokers that fail and can't be judged."""

POLL_MS = 200.0
"""Between two looks for requests, and at a lease: one listing of the log each."""
ROWS_MAX = 3  # of a reassignment whose target is in sync: leader, ISR, replicas (DESIGN §7)


Clean = Callable[[CheckControls], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerReport:
    """What a controller's passes decided.

    Attributes:
        fenced: Brokers that were fenced.
        unfenced: Brokers that came back.
        leaders_moved: Partitions that got another leader.
        passes: How many passes were made.
        tables_removed: Tables that were removed: of deleted topics and of replicas moved away.
        denied: Brokers whose roots refuse this process: it can't say whether they answer.
    """

    fenced: tuple[BrokerId, ...] = ()
    unfenced: tuple[BrokerId, ...] = ()
    leaders_moved: int = 0
    passes: int = 0
    tables_removed: int = 0
    denied: tuple[BrokerId, ...] = ()


@dataclass(slots=True)
class _Tally:
    fenced: list[BrokerId] = field(default_factory=list)
    unfenced: list[BrokerId] = field(default_factory=list)
    moved: set[PartitionKey] = field(default_factory=set)
    passes: int = 0
    removed: int = 0
    denied: list[BrokerId] = field(default_factory=list)


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
        draws: Draws,
        timeout_ms: int,
        restorer: Restorer | None = None,
        clean: Clean | None = None,
        run_commands: RunCommands = lambda orders: [],
    ) -> None:
        self._metadata = metadata
        self._clock = clock
        self._controller_id = controller_id
        self._run_probes = run_probes
        self._run_looks = run_looks
        self._draws = draws
        self._timeout_ms = timeout_ms
        self._claimed: Term | None = None
        self._restorer = restorer
        self._clean = clean
        self._commands = LeadershipCommands(clock, run_commands=run_commands)
        self._failed = FailedProbes(clock)
        self._tally = _Tally()

    def run(self, duration_ms: int | None) -> ControllerReport:
        """Control the cluster for `duration_ms`, or (None) for one pass; then resign.

        Waits for another controller's lease to end, on its own clock, for as long as it is to
        control, or as a command may take. Answers requests before, between and after passes.

        Raises:
            NotControllerError: Another controls the cluster, or has taken over meanwhile.
            RootAccessDeniedError: This process may write to no broker's root.
        """
        self._claimed = self._claim(self._timeout_ms if duration_ms is None else duration_ms)
        started_ms = self._clock.monotonic_ms()
        try:
            self._attend()
            while True:
                self._pass()
                self._attend()
                elapsed_ms = self._clock.monotonic_ms() - started_ms
                if duration_ms is None or elapsed_ms >= duration_ms:
                    break
                settings = self._metadata.image.settings()
                interval_ms = settings.integer("broker.heartbeat.interval.ms")
                self._wait(min(interval_ms, duration_ms - elapsed_ms))
        finally:
            self._term.resign()
        return ControllerReport(
            fenced=tuple(self._tally.fenced),
            unfenced=tuple(self._tally.unfenced),
            leaders_moved=len(self._tally.moved),
            passes=self._tally.passes,
            tables_removed=self._tally.removed,
            denied=tuple(self._tally.denied),
        )

    @property
    def _term(self) -> Term:
        assert self._claimed is not None, "only a controller commits"
        return self._claimed

    def _claim(self, wait_ms_max: int) -> Term:
        """Take the next controller epoch once nobody renews the lease any more."""
        watch = LeaseWatch(self._clock)
        started_ms = self._clock.monotonic_ms()
        while True:
            image = self._metadata.catch_up()
            if watch.is_over(image):
                term = Term.claim(
                    self._metadata,
                    self._clock,
                    controller_id=self._controller_id,
                    seen=watch.seen,
                    timeout_ms=self._timeout_ms,
                    after_commit=self._commands.note,
                )
                if term is not None:
                    return term
                continue
            waited_ms = self._clock.monotonic_ms() - started_ms
            # Two leases at least: the first tells whether the one that was found is alive.
            if waited_ms >= max(wait_ms_max, 2 * self._lease_ms()):
                raise _is_controlled(image, waited_ms)
            self._clock.sleep_ms(min(POLL_MS, self._lease_ms() / 10))

    def _lease_ms(self) -> int:
        return self._metadata.image.settings().integer("controller.lease.ms")

    def _wait(self, duration_ms: float) -> None:
        """Wait for the next pass, there for who asks."""
        until_ms = self._clock.monotonic_ms() + duration_ms
        while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            self._clock.sleep_ms(min(POLL_MS, left_ms))
            self._attend()

    def _attend(self) -> None:
        self._term.attend(self._draws)
        self._commands.send(self._metadata.image)

    def _submit(self, decide: Callable[[MetadataImage], ControllerResult[T]]) -> T:
        return self._term.submit(decide)

    def _pass(self) -> None:
        """Do one pass over brokers, elections and lost replicas."""
        self._tally.passes += 1
        self._look_after_brokers()
        self._restore()
        moved = self._submit(
            lambda image: elect_where_none(
                image, image.eligible_brokers(), "an in-sync replica can lead again"
            )
        )
        self._tally.moved.update(moved)
        self._recover()
        self._submit(lambda image: renew_lost(image, self._draws.new_uuid))
        self._go_on(continue_draining)
        now_ms = self._clock.now_ms()
        self._go_on(
            lambda image: settle_dead_destinations(
                image, now_ms=now_ms, new_uuid=self._draws.new_uuid
            )
        )
        self._go_on(advance_reassignments)
        self._balance_leaders()
        self._commands.send(self._metadata.image)
        if self._clean is not None:
            self._tally.removed += self._clean(self._term.check)

    def _restore(self) -> None:
        """Take back lost replicas that are whole: the first that may lead again."""
        if self._restorer is None:
            return
        whole = self._restorer.look(self._metadata.image)
        if whole:
            self._submit(lambda image: restore(image, whole))

    def _go_on(
        self, decide: Callable[[MetadataImage], ControllerResult[list[PartitionKey]]]
    ) -> None:
        """Commit one row after the other of what goes on in steps, while there is one."""
        for _ in range(ROWS_MAX):
            before = self._metadata.image
            moved = self._submit(decide)
            self._tally.moved.update(
                key for key in moved if _leader_of(before, key) != self._leader_of(key)
            )
            if self._metadata.image.offset == before.offset:
                break

    def _leader_of(self, key: PartitionKey) -> BrokerId | None:
        return _leader_of(self._metadata.image, key)

    def _recover(self) -> None:
        """Look for leaders where nobody in sync is left."""
        orders = plan_looks(self._metadata.image)
        if not orders:
            return
        looks = [look for look in self._run_looks(orders) if look is not None]
        moved = self._submit(lambda image: recover(image, looks))
        self._tally.moved.update(moved)

    def _look_after_brokers(self) -> None:
        """Probe until each broker has answered or its session is over.

        Where probes keep coming too late to count, the pass goes on without a judgement.
        """
        pending = set(self._metadata.image.brokers)
        started_ms = self._clock.monotonic_ms()
        pause_ms = PROBE_PAUSE_MS_MIN
        while pending:
            began_ms = self._clock.monotonic_ms()
            for result in self._run_probes(self._orders(pending)):
                if self._is_settled(result, began_ms):
                    pending.discard(result.broker_id)
            pending &= self._metadata.image.brokers.keys()
            elapsed_ms = self._clock.monotonic_ms() - started_ms
            if pending and elapsed_ms > max(3 * self._session_ms(), UNJUDGED_MS_MIN):
                log.warning("brokers %s fail, but were probed too seldom to say", sorted(pending))
                break
            if pending:
                next_ms = began_ms + self._failed.next_in_ms(self._session_ms())
                self._wait(min(pause_ms, max(next_ms - self._clock.monotonic_ms(), 1.0)))
                pause_ms *= 2

    def _orders(self, broker_ids: set[BrokerId]) -> list[ProbeOrder]:
        brokers = self._metadata.image.brokers
        known = (brokers[each] for each in sorted(broker_ids) if each in brokers)
        return probe_orders(known, self._session_ms())

    def _session_ms(self) -> int:
        return self._metadata.image.settings().integer("broker.session.timeout.ms")

    def _is_settled(self, result: ProbeResult, began_ms: int) -> bool:
        """Act on one probe; return False if the broker must be probed again."""
        broker_id = result.broker_id
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None:  # unregistered since the pass began
            return True
        is_fenced = broker.state is BrokerState.FENCED
        if result.is_denied:
            self._tell_denied(broker_id, result.error or "access is denied")
        elif result.is_answer and is_fenced:
            self._unfence(broker_id)
        failed = self._failed.take(result, began_ms, self._session_ms())
        if result.is_answer or result.is_denied or is_fenced:
            return True
        if failed is None or not failed.is_over(self._session_ms()):
            return False
        self._fence(broker_id, failed)
        return True

    def _tell_denied(self, broker_id: BrokerId, error: str) -> None:
        """Say what this process may not do. It has learnt nothing about the broker.

        Raises:
            RootAccessDeniedError: It may write to no broker at all, so that it can control nothing.
        """
        if broker_id not in self._tally.denied:
            self._tally.denied.append(broker_id)
            log.warning("broker %d can't be judged by this process: %s", broker_id, error)
        if len(self._tally.denied) == len(self._metadata.image.brokers):
            raise RootAccessDeniedError(
                f"this process may write to no broker's root and can't tell who answers ({error}):"
                " control the cluster as a user who may, or with other credentials"
            )

    def _fence(self, broker_id: BrokerId, failed: Silence) -> None:
        cause = f"broker {broker_id}: {failed}"
        moved = self._submit(lambda image: fence_broker(image, broker_id, cause))
        self._tally.fenced.append(broker_id)
        self._tally.moved.update(moved)
        self._failed.forget(broker_id)
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
            for broker_id, percentage in imbalance_percentages(image).items()
            if percentage > limit and image.is_eligible(broker_id)
        }
        if not unbalanced:
            return
        keys = [
            key
            for key, partition in image.unsettled_partitions()
            if partition.replicas[0] in unbalanced
        ]
        cause = _imbalance_cause(unbalanced, limit)
        moved = self._submit(lambda newest: elect_preferred(newest, cause, keys))
        self._tally.moved.update(moved)


def _leader_of(image: MetadataImage, key: PartitionKey) -> BrokerId | None:
    partition = image.partition(key)
    return None if partition is None else partition.leader


def _is_controlled(image: MetadataImage, waited_ms: int) -> NotControllerError:
    """Return the error of a controller that waited in vain."""
    held = image.controller
    assert held is not None, "a lease that is not over is somebody's"
    return NotControllerError(
        f"{held.controller_id} controls the cluster in epoch {held.controller_epoch} and renews its"
        f" lease: waited {waited_ms / 1000:.1f} s for it to end; try again, or for longer"
    )


def _imbalance_cause(unbalanced: Mapping[BrokerId, float], limit: int) -> str:
    shares = ", ".join(
        f"broker {broker_id} lacks {share:.0f} %" for broker_id, share in sorted(unbalanced.items())
    )
    return (
        f"preferred leaders: {shares} of its leaderships"
        f" (leader.imbalance.per.broker.percentage={limit})"
    )
