"""The controller's loop: claim, probe, decide, commit, answer, renew, resign.

It calls the decisions of `controller/` in order. Its term commits them, and ends when a higher
controller epoch is seen. The loop holds the failed probes. What is not urgent comes after the
decisions about leaders: expiry, the removal of tables, and a share of upkeep. Each may take
seconds, so between two of them the controller renews its lease, or it would count as dead.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from kafka_on_spark.base.errors import KafkaStorageError, NotControllerError, RootAccessDeniedError
from kafka_on_spark.base.ids import BrokerId, Clock, PartitionKey
from kafka_on_spark.controller.brokers import (
    HOSTS_ENOUGH,
    continue_draining,
    fence_broker,
    forget_refused,
    is_last_in_sync,
    reached_by_others,
    refusing_most,
    unfence_broker,
)
from kafka_on_spark.controller.cleanup_policy import RETENTION
from kafka_on_spark.controller.commands import serve_requests
from kafka_on_spark.controller.election import (
    elect_by_inspections,
    elect_where_none,
    rebalance_leaders,
    recreate_lost,
    take_back_lost,
)
from kafka_on_spark.controller.expiry import check_interval_ms, expire
from kafka_on_spark.controller.inspections import (
    LostReplicaInspector,
    inspect_replica,
    plan_inspections,
)
from kafka_on_spark.controller.lease import LeaseWatch, Term, lease_ms
from kafka_on_spark.controller.probes import (
    FailedProbes,
    ProbeResult,
    judgement_ms_max,
    probe,
    probe_orders,
    refused_writes,
)
from kafka_on_spark.controller.reassignment import advance_reassignments
from kafka_on_spark.controller.replica_tables import TableRemoval
from kafka_on_spark.controller.upkeep import Upkeep
from kafka_on_spark.groups.liveness import SilentGroups
from kafka_on_spark.metadata.image import (
    BrokerRegistration,
    Decide,
    MetadataDecider,
    MetadataImage,
    submit_if_due,
)
from kafka_on_spark.metadata.records import BrokerState, RefusedWrite
from kafka_on_spark.node.node import Node, heartbeats
from kafka_on_spark.store.counts import CLEAN, operating
from kafka_on_spark.store.deadlines import pauses_ms

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class ControllerReport:
    """What a controller's passes decided.

    Attributes:
        fenced: Brokers that were fenced.
        unfenced: Brokers that came back.
        leaders_moved: Partitions that another broker leads now, or none after a failure.
        passes: How many passes were made.
        tables_removed: Tables that were removed: of deleted topics and of replicas moved away.
        denied: Brokers whose roots refuse this process, so that it can't judge them.
        records_deleted: Records that retention deleted, in all partitions.
    """

    fenced: tuple[BrokerId, ...] = ()
    unfenced: tuple[BrokerId, ...] = ()
    leaders_moved: int = 0
    passes: int = 0
    tables_removed: int = 0
    denied: tuple[BrokerId, ...] = ()
    records_deleted: int = 0


class ExpiryChecks:
    """Has `expire` decide, by the earliest of three clocks, whenever a check is due."""

    def __init__(self, node: Node) -> None:
        self._clock = node.metadata.clock
        self._checked_at_ms: int | None = None

    def run(self, image: MetadataImage, term: Term) -> None:
        if self._checked_at_ms is not None:
            waited_ms = self._clock.monotonic_ms() - self._checked_at_ms
            if waited_ms < check_interval_ms(image.settings()):
                return
        now_ms = self._clock.too_old_by_ms()
        if now_ms is None:
            return  # the next pass looks again
        if expire(image, now_ms).records:
            expired = term.submit(lambda newest: expire(newest, now_ms))
            log.info("expired: %d producer ids, %d offsets", expired.producers, expired.offsets)
        self._checked_at_ms = self._clock.monotonic_ms()


def silent_groups(node: Node) -> SilentGroups:
    """Return what fences members of groups of which nobody is left: a part of a node."""
    return SilentGroups(node.part(heartbeats), node.clock)


PROBE_PAUSE_MS_MIN = 50.0

REFUSED_MS = 1000
"""For so long a root must refuse writes until its broker is fenced: less than the two seconds that
are promised, and long enough to hear of others whose writes it takes."""

POLL_MS = 200.0
STORE_POLL_MS = 1000.0
"""How often requests and a lease are asked for: one small question to the log each time, or one
reading where another process controls. A store's answers take long, and cost money."""

STEPS_MAX = 3  # of a reassignment whose target is in sync: leader, ISR, replicas


class ControllerLoop:
    """One controllership of a process, from claim to resignation.

    `dry_run`: it decides on that in place of the node's metadata, and does nothing else: no replica
    that was lost is read, no table removed. `clock` takes the place of the node's. `after_pass` is
    called after each pass, with how long it took, ms.

    Attributes:
        moved_at_ms: When the loop last waited for the lease or served requests: one that is stuck
            does neither.
        renewed_at_ms: When its lease was last renewed, or else when it last tried to claim one.
    """

    def __init__(
        self,
        node: Node,
        *,
        dry_run: MetadataDecider | None = None,
        clock: Clock | None = None,
        after_pass: Callable[[int], None] | None = None,
    ) -> None:
        self._node = node
        self._metadata = dry_run or node.metadata
        self._is_dry_run = dry_run is not None
        self._clock = clock or node.clock
        self._timeout_ms = node.timeout_ms
        self._term: Term  # once it has claimed
        self._after_pass = after_pass
        self._denied: frozenset[BrokerId] = frozenset()
        self._failed = FailedProbes(self._clock)
        self._refused_since: dict[BrokerId, tuple[int, MetadataImage]] = {}
        self._tried_at_ms: dict[BrokerId, int] = {}
        self._refusing: frozenset[BrokerId] = frozenset()
        self._is_single_pass = False
        self._report = ControllerReport()
        self._moved: set[PartitionKey] = set()
        self.moved_at_ms = self.renewed_at_ms = self._clock.monotonic_ms()

    def run(self, duration_ms: int | None) -> ControllerReport:
        """Control the cluster for `duration_ms`, or (None) for one pass; then resign.

        Waits for another controller's lease to end, on its own clock, for as long as it is to
        control, or as a command may take. Answers requests before, between and after passes. With
        `after_pass` the report is of the last pass.

        Raises:
            NotControllerError: Another controls the cluster, or has taken over meanwhile.
            RootAccessDeniedError: This process may write to no broker's root.
            KafkaStorageError: More than half of the roots refuse its writes. It has fenced none for
                that, has done what else a pass does, and has resigned.
        """
        self._is_single_pass = duration_ms is None
        self._term = self._claim(self._timeout_ms if duration_ms is None else duration_ms)
        started_ms = self._clock.monotonic_ms()
        try:
            self._serve_requests()
            while True:
                self._pass()
                if refusing_most(self._refusing, self._metadata.image):
                    raise _is_at_fault(self._metadata.image, self._refusing)
                self._serve_requests()
                elapsed_ms = self._clock.monotonic_ms() - started_ms
                if duration_ms is None or elapsed_ms >= duration_ms:
                    break
                settings = self._metadata.image.settings()
                interval_ms = settings.integer("broker.heartbeat.interval.ms")
                self._wait(min(interval_ms, duration_ms - elapsed_ms))
        finally:
            self._term.resign()
        self._report.leaders_moved = len(self._moved)
        return self._report

    @property
    def _poll_ms(self) -> float:
        if not self._metadata.is_far:
            return POLL_MS
        return max(POLL_MS, min(STORE_POLL_MS, lease_ms(self._metadata.image) / 10))

    def _claim(self, wait_ms_max: int) -> Term:
        watch = LeaseWatch(self._clock)
        started_ms = self._clock.monotonic_ms()
        while True:
            self.moved_at_ms = self.renewed_at_ms = self._clock.monotonic_ms()
            image = self._metadata.catch_up()
            if watch.is_over(image):
                term = Term.claim(
                    self._metadata,
                    self._clock,
                    controller_id=self._node.controller_id,
                    seen=watch.seen,
                    timeout_ms=self._timeout_ms,
                )
                if term is not None:
                    return term
                continue
            waited_ms = self._clock.monotonic_ms() - started_ms
            # Two leases at least, since the first one shows whether its holder is alive.
            if waited_ms >= max(wait_ms_max, 2 * lease_ms(image)):
                held = image.controller
                assert held is not None, "a lease that is not over has a holder"
                raise NotControllerError(
                    f"{held.controller_id} controls the cluster in epoch {held.controller_epoch}"
                    f" and renews its lease: waited {waited_ms / 1000:.1f} s for it to end; try"
                    " again, or for longer"
                )
            self._clock.sleep_ms(min(self._poll_ms, lease_ms(image) / 10))

    def _wait(self, duration_ms: float) -> None:
        until_ms = self._clock.monotonic_ms() + duration_ms
        while (left_ms := until_ms - self._clock.monotonic_ms()) > 0:
            self._clock.sleep_ms(min(self._poll_ms, left_ms))
            self._serve_requests()

    def _serve_requests(self) -> None:
        self.moved_at_ms = self._clock.monotonic_ms()
        serve_requests(self._term, self._node.ids)
        self.renewed_at_ms = self._term.renewed_at_ms

    def _submit_if_due(self, decide: Decide[T]) -> T:
        """Commit what `decide` says, unless that is nothing by the image that is known: so it is
        in most passes. The log was read some seconds ago at most, or when this pass last committed.
        What was committed since is decided by the next pass, of this or of another process."""
        return submit_if_due(self._metadata.image, decide, self._term.submit)

    def _after_part(self) -> None:
        """Serve requests between two parts of a pass, each of which may take seconds: a controller
        that is too busy to renew its lease would count as dead."""
        if self._clock.monotonic_ms() - self.moved_at_ms >= self._poll_ms:
            self._serve_requests()

    def _pass(self) -> None:
        began_ms = self._clock.monotonic_ms()
        if self._after_pass is not None:
            self._report, self._moved = ControllerReport(), set()
        self._report.passes += 1
        self._lead()
        self._after_part()
        if not self._is_dry_run:
            self._do_what_may_wait()
        self._denied = frozenset(self._report.denied)
        if self._after_pass is not None:
            self._after_pass(self._clock.monotonic_ms() - began_ms)

    def _do_what_may_wait(self) -> None:
        node, term = self._node, self._term
        node.part(ExpiryChecks).run(self._metadata.image, term)
        self._after_part()
        node.part(silent_groups).run(self._metadata.image, term.submit)
        self._after_part()
        with operating(CLEAN):
            self._report.tables_removed += node.part(TableRemoval).clean(term.check)
        self._after_part()
        done = node.part(Upkeep).run_share(submit=term.submit, after_part=self._after_part)
        self._report.records_deleted += sum(row.count for row in done.rows if row.kind == RETENTION)

    def _lead(self) -> None:
        self._judge_brokers()
        self._after_part()
        self._take_back_lost()
        self._after_part()
        moved = self._submit_if_due(
            lambda image: elect_where_none(
                image, image.eligible_brokers(), "an in-sync replica can lead again"
            )
        )
        self._moved.update(moved)
        self._elect_by_inspections()
        self._submit_if_due(lambda image: recreate_lost(image, self._node.ids.new_uuid))
        self._commit_until_stable(continue_draining)
        self._commit_until_stable(advance_reassignments)
        moved = self._submit_if_due(rebalance_leaders)
        self._moved.update(moved)

    def _take_back_lost(self) -> None:
        """Take back lost replicas that are whole, before elections: they may lead again."""
        if self._is_dry_run:
            return
        whole = self._node.part(LostReplicaInspector).inspect(self._metadata.image)
        if whole:
            self._term.submit(lambda image: take_back_lost(image, whole))

    def _commit_until_stable(self, decide: Decide[list[PartitionKey]]) -> None:
        for _ in range(STEPS_MAX):
            before = self._metadata.image
            moved = self._submit_if_due(decide)
            after = self._metadata.image
            self._moved.update(
                key for key in moved if _leader_of(before, key) != _leader_of(after, key)
            )
            if after.offset == before.offset:
                break

    def _elect_by_inspections(self) -> None:
        orders = plan_inspections(self._metadata.image)
        if not orders:
            return
        found = self._node.tasks.run(inspect_replica, orders)
        inspections = [each for each in found if each is not None]
        moved = self._term.submit(lambda image: elect_by_inspections(image, inspections))
        self._moved.update(moved)

    def _judge_brokers(self) -> None:
        """Probe until each broker has answered or its session is over. If probes keep ending too
        late to count, the pass goes on without a judgement."""
        brokers = self._metadata.image.brokers
        pending = {each for each in brokers if self._may_try(each)}
        self._refusing = frozenset(brokers.keys() - pending)
        started_ms = self._clock.monotonic_ms()
        pauses = pauses_ms(PROBE_PAUSE_MS_MIN)
        while pending:
            began_ms = self._clock.monotonic_ms()
            brokers = self._metadata.image.brokers
            known = [brokers[each] for each in sorted(pending & brokers.keys())]
            sizes = {each.broker_id: each.refused.size_bytes for each in known if each.refused}
            orders = probe_orders(known, self._session_ms(), sizes)
            results = probe(self._node, orders)
            met = refused_writes(orders, results, self._node.controller_id)
            self._refusing |= met.keys()
            for result in results:
                if self._judge(result, began_ms, met.get(result.broker_id)):
                    pending.discard(result.broker_id)
            pending &= self._metadata.image.brokers.keys()
            elapsed_ms = self._clock.monotonic_ms() - started_ms
            if pending and elapsed_ms > judgement_ms_max(self._session_ms()):
                log.warning("brokers %s fail, but were probed too seldom to say", sorted(pending))
                break
            if pending:
                next_ms = began_ms + self._failed.next_in_ms(self._session_ms())
                self._wait(min(next(pauses), max(next_ms - self._clock.monotonic_ms(), 1.0)))

    def _may_try(self, broker_id: BrokerId) -> bool:
        """Return whether a broker is to be probed: one that is fenced for space once a session."""
        broker = self._metadata.image.brokers[broker_id]
        now_ms, tried_ms = self._clock.monotonic_ms(), self._tried_at_ms.get(broker_id)
        if broker.is_online or broker.refused is None:
            self._tried_at_ms.pop(broker_id, None)
            return True
        if tried_ms is not None and now_ms - tried_ms < self._session_ms():
            return False
        self._tried_at_ms[broker_id] = now_ms
        return True

    def _session_ms(self) -> int:
        return self._metadata.image.settings().integer("broker.session.timeout.ms")

    def _judge(self, result: ProbeResult, began_ms: int, met: RefusedWrite | None = None) -> bool:
        """Act on one probe; return whether its broker is judged, and not probed again."""
        broker_id = result.broker_id
        broker = self._metadata.image.brokers.get(broker_id)
        if broker is None:  # unregistered since the pass began
            return True
        is_fenced = broker.state is BrokerState.FENCED
        if result.is_denied:
            self._note_denied(broker_id, result.error or "access is denied")
        elif result.is_answer and is_fenced:
            self._unfence(broker_id)
        refused = met or (broker.refused if result.is_answer and not is_fenced else None)
        if refused is not None:
            return is_fenced or self._judge_refusal(broker, refused, is_own=met is not None)
        if result.is_answer:
            self._refused_since.pop(broker_id, None)
        failed = self._failed.take(result, began_ms, self._session_ms())
        if result.is_answer or result.is_denied or is_fenced:
            return True
        if failed is None or not failed.is_over(self._session_ms()):
            return False
        self._fence(broker_id, str(failed))
        return True

    def _judge_refusal(
        self, broker: BrokerRegistration, refused: RefusedWrite, *, is_own: bool
    ) -> bool:
        """Act on a root that refuses writes of this process (`is_own`), or of others as they said;
        return whether its broker is judged."""
        broker_id, image = broker.broker_id, self._metadata.image
        now_ms = self._clock.monotonic_ms()
        is_last = is_last_in_sync(image, broker_id)
        if broker_id not in self._refused_since:
            self._refused_since[broker_id] = (now_ms, image)
            if is_own:
                stays = ", and stays: it is the only member of some ISR" if is_last else ""
                log.warning("broker %d: its root is %s%s", broker_id, refused, stays)
        since_ms, before = self._refused_since[broker_id]
        place = reached_by_others(before, image, broker_id)
        if place is not None:
            self._forget_refusal(broker_id, f"others write to its root ({place})")
            return True
        is_met = is_own or len(refused.hosts) >= HOSTS_ENOUGH
        if is_met and not is_last and not refusing_most(self._refusing, image):
            if now_ms - since_ms < REFUSED_MS:
                return False
            self._fence(broker_id, f"its root is {refused}", refused)
        elif not is_own and (self._is_single_pass or now_ms - since_ms >= self._session_ms()):
            self._forget_refusal(broker_id, "its root takes such a write of the controller")
        return True

    def _forget_refusal(self, broker_id: BrokerId, why: str) -> None:
        del self._refused_since[broker_id]
        cause = f"broker {broker_id}: {why}"
        self._submit_if_due(lambda image: forget_refused(image, broker_id, cause))

    def _note_denied(self, broker_id: BrokerId, error: str) -> None:
        """Note that a root refuses this process, which learns nothing about the broker by it."""
        if broker_id not in self._report.denied:
            self._report.denied += (broker_id,)
            level = logging.DEBUG if broker_id in self._denied else logging.WARNING
            log.log(level, "broker %d can't be judged by this process: %s", broker_id, error)
        if len(self._report.denied) == len(self._metadata.image.brokers):
            raise RootAccessDeniedError(
                f"this process may write to no broker's root and can't tell who answers ({error}):"
                " control the cluster as a user who may, or with other credentials"
            )

    def _fence(self, broker_id: BrokerId, why: str, refused: RefusedWrite | None = None) -> None:
        cause = f"broker {broker_id}: {why}"
        moved = self._term.submit(lambda image: fence_broker(image, broker_id, cause, refused))
        self._report.fenced += (broker_id,)
        self._moved.update(moved)
        self._failed.pop(broker_id, None)
        self._refused_since.pop(broker_id, None)

    def _unfence(self, broker_id: BrokerId) -> None:
        cause = f"broker {broker_id}: answers again, with the disk it was registered with"
        moved = self._term.submit(lambda image: unfence_broker(image, broker_id, cause))
        self._report.unfenced += (broker_id,)
        self._moved.update(moved)


def _leader_of(image: MetadataImage, key: PartitionKey) -> BrokerId | None:
    partition = image.partition(key)
    return None if partition is None else partition.leader


def _is_at_fault(image: MetadataImage, refusing: Collection[BrokerId]) -> KafkaStorageError:
    roots = ", ".join(
        image.brokers[each].root for each in sorted(refusing) if each in image.brokers
    )
    return KafkaStorageError(
        f"more than half of the brokers' roots are full or read-only for this process ({roots}), so"
        " it fences none for that, and has resigned: make room there or mount them writable"
    )
