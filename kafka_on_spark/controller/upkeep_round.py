"""Rounds of upkeep: a bounded share of it after each round of replication and in each pass of the
controller, or all that is due at once.

`sweep` says which partitions a round comes to, as it does for inspections. What a round does not
finish, the next one begins with.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from kafka_on_spark.base.errors import KafkaOnSparkError, NotControllerError
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.partition_change import change_record
from kafka_on_spark.controller.root_upkeep import RootUpkeep
from kafka_on_spark.controller.second_inspection import Finding, note_findings
from kafka_on_spark.controller.sweep import Ring
from kafka_on_spark.controller.sweep_progress import (
    SweepPace,
    SweepProgress,
    SweepRound,
    scope_of,
    upkeep_hints,
)
from kafka_on_spark.controller.upkeep_plan import (
    PART_MS,
    UpkeepThrottle,
    Visits,
    not_looked_at,
    plan_compaction,
    plan_unread_leaders,
    plan_upkeep,
    with_time,
)
from kafka_on_spark.controller.upkeep_report import UpkeepReport, report_of, upkeep_totals
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.replica_upkeep import upkeep_task
from kafka_on_spark.log.upkeep_work import VISIT_TIMES_MAX, UpkeepOrder, UpkeepResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.metadata.result import ControllerResult, submit_if_due
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.clock import processor_ms

log = logging.getLogger(__name__)

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


UPKEEP: Final = SweepPace(
    interval="log.cleaner.interval.ms", share="log.cleaner.share", ms_min=0.0, begins_idle=True
)

PARTITIONS_AT_ONCE: Final = 64
"""Partitions that `run_all` gives to tasks together, between two steps of its progress."""

FINISH_MS: Final = 1000.0
"""For how long a round compacts a leader that can't be read before that is done, or a follower that
can't join the ISR."""

WAITING_PART: Final = 0.5
"""As which part of it the time counts in which work of this process waits."""

VISITS_MAX: Final = 10_000
"""How often `run_all` comes back to a partition in which more is due."""


class ReplicaUpkeep:
    """The upkeep of one process. Threads may share it: one of them does a round at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self._totals = node.part(upkeep_totals)
        self._roots = node.part(RootUpkeep)
        self._progress = SweepProgress(
            node.clock,
            node.part(upkeep_hints),
            random_below=node.ids.random_below,
            pace=UPKEEP,
        )
        # The processor time that this process has had, if tasks run in it.
        is_here = node.tasks.executors is None
        self._processor_ms: Callable[[], float] = (
            processor_ms if is_here else node.clock.monotonic_ms
        )
        self._lock = threading.Lock()
        self._debt_ms = 0.0
        self._throttle = UpkeepThrottle()
        self._visits = Visits()
        self._finished: dict[PartitionKey, LeaderEpoch] = {}

    def run_share(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        after_part: Callable[[], None] = lambda: None,
    ) -> UpkeepReport:
        """Do the share of upkeep that is due since the last round. It never fails its caller.

        `after_part` is called after each part of it: a controller renews its lease.

        Raises:
            NotControllerError: `after_part` does, which ends the round.
        """
        if not self._lock.acquire(blocking=False):
            return UpkeepReport()  # another thread does it
        try:
            return self._run_share(self._metadata.image, topics, after_part)
        except NotControllerError:
            raise
        except KafkaOnSparkError as error:
            self._totals.count("round", 0, 0, failed=True)
            log.warning("upkeep is left to the next round: %s", error)
            return UpkeepReport()
        finally:
            self._lock.release()

    def _run_share(
        self,
        image: MetadataImage,
        topics: str | Iterable[str] | None,
        after_part: Callable[[], None],
    ) -> UpkeepReport:
        scope = scope_of(image, topics)
        unread = plan_unread_leaders(image, scope, self._finished)[:PARTITIONS_AT_ONCE]
        bounded = [replace(order, work_ms_max=FINISH_MS) for order in unread]
        report = self._finish_leaders(image, bounded)
        as_of_ms = self._clock.monotonic_ms()
        sweep_round = self._progress.begin(image, scope, image.settings(), as_of_ms=as_of_ms)
        sweep_round.budget_ms -= self._debt_ms
        if scope is None:
            report = report.plus(self._share_of_roots(image, sweep_round))
        try:
            while sweep_round.budget_ms > 0 and (keys := sweep_round.next_keys()):
                after_part()
                report = report.plus(self._visit(image, sweep_round, keys, after_part))
        finally:
            self._debt_ms = max(0.0, -sweep_round.budget_ms)
        self._progress.keep(image, scope, sweep_round)
        return report

    def _forget_deleted(self, image: MetadataImage) -> None:
        ring = Ring.of(image)
        self._visits.forget_all_but(ring)
        if len(self._finished) > ring.count:
            self._finished = {key: each for key, each in self._finished.items() if key in ring}

    def _share_of_roots(self, image: MetadataImage, sweep_round: SweepRound) -> UpkeepReport:
        """Clean roots for at most half of a round's time: neither they nor replicas wait for the
        other's backlog to end."""
        now_ms = self._clock.monotonic_ms()
        is_due = sweep_round.budget_ms > 0 and not self._throttle.wait_ms(image.settings(), now_ms)
        if not is_due:
            return UpkeepReport()
        mark = self._mark()
        rows = self._roots.run_share(sweep_round.budget_ms / 2)
        sweep_round.budget_ms -= self._taken_ms(mark)
        return UpkeepReport(rows=tuple(rows))

    def _mark(self) -> tuple[float, float]:
        return self._clock.monotonic_ms(), self._processor_ms()

    def _taken_ms(self, mark: tuple[float, float]) -> float:
        """Return what work has taken, since a mark, of the share of a core that upkeep has.

        Work in threads of this process takes what processors give it. On a busy machine that is a
        part of the time in which it runs and waits for processors and disks: if all of that
        counted, upkeep would fall behind just where there is most to do. It counts half at least,
        since disks have others to serve, and a round comes to its end. Of work on executors all of
        it counts.
        """
        ran_ms = self._clock.monotonic_ms() - mark[0]
        return min(ran_ms, max(self._processor_ms() - mark[1], WAITING_PART * ran_ms))

    def finish_compaction(self, keys: Iterable[PartitionKey]) -> UpkeepReport:
        """Compact leaders that can't be read before, however long that takes."""
        image = self._metadata.catch_up()
        with self._lock:
            orders = plan_compaction(image, dict.fromkeys(keys, frozenset()))
            return self._finish_leaders(image, orders)

    def compact_followers(self, followers: Mapping[PartitionKey, Collection[BrokerId]]) -> bool:
        """Compact followers that may not join the ISR before, and leaders, which may not be read
        before, for a bounded time; return whether any is done. It never fails its caller."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread does upkeep
        try:
            image = self._metadata.image
            some = dict(islice(followers.items(), PARTITIONS_AT_ONCE))
            orders = [
                replace(order, work_ms_max=FINISH_MS) for order in plan_compaction(image, some)
            ]
            results = self._run(image, orders, self._clock.monotonic_ms())
            return any(
                not (order.is_of_leader or _is_unfinished(result))
                for order, result in zip(orders, results, strict=True)
            )
        except KafkaOnSparkError as error:
            log.warning("followers are left to be compacted by the next round: %s", error)
            return False
        finally:
            self._lock.release()

    def _finish_leaders(self, image: MetadataImage, orders: list[UpkeepOrder]) -> UpkeepReport:
        self._forget_deleted(image)
        results = self._run(image, orders, self._clock.monotonic_ms())
        for order, result in zip(orders, results, strict=True):
            if not _is_unfinished(result):
                self._finished[order.key] = order.partition.leader_epoch
        return UpkeepReport().plus(report_of(image, results))

    def _visit(
        self,
        image: MetadataImage,
        sweep_round: SweepRound,
        keys: Sequence[PartitionKey],
        after_part: Callable[[], None],
    ) -> UpkeepReport:
        """Visit partitions in parts that each take a moment. An order that has got on and is left
        comes again, while the round has time."""
        began_ms = now_ms = self._clock.monotonic_ms()
        due = self._visits.are_due(image, keys, now_ms)
        waiting = with_time(plan_upkeep(image, due), sweep_round.budget_ms)
        last: dict[ReplicaAddress, tuple[UpkeepOrder, UpkeepResult]] = {}
        report, taken_ms = UpkeepReport(), 0.0
        while waiting:
            if report.visited:
                after_part()
                now_ms = self._clock.monotonic_ms()
            turn_ms = VISIT_TIMES_MAX * (waiting[0].work_ms_max or PART_MS)
            count = max(1, int(PART_MS / turn_ms))
            part, waiting = waiting[:count], waiting[count:]
            mark = self._mark()
            results = self._run(image, part, now_ms)
            taken_ms += self._taken_ms(mark)
            for order, result in zip(part, results, strict=True):
                last[order.address] = order, result
                if result.is_left and result.has_progressed and taken_ms < sweep_round.budget_ms:
                    waiting.append(order)
            report = report.plus(report_of(image, results))
        left = self._visits.record(
            [order for order, _ in last.values()], [result for _, result in last.values()], began_ms
        )
        sweep_round.record_inspected(keys, failed=left, took_ms=taken_ms, count=len(due))
        return report

    def _run(
        self, image: MetadataImage, orders: Sequence[UpkeepOrder], now_ms: int
    ) -> list[UpkeepResult]:
        if not orders:
            return []
        orders = self._throttle.dealt(orders, image.settings(), now_ms)
        results = self._node.tasks.run_or_lose(upkeep_task, orders)
        self._throttle.charge(sum(each.moved_bytes for each in results))
        if not orders[0].is_dry_run:
            self._raise_epochs(orders, results)
            self._totals.take(results)
            self._record_findings(orders, results)
        return results

    def _record_findings(
        self, orders: Sequence[UpkeepOrder], results: Sequence[UpkeepResult]
    ) -> None:
        """Have replicas inspected a second time that upkeep has found bad: a follower that must
        compact a file before it may join the ISR has no other reader."""
        for order, result in zip(orders, results, strict=True):
            for _, work in result.done:
                if work.is_evidence:
                    found = Finding.of(order.address, work.suspect)
                    note_findings(self._node, findings=[found])

    def _raise_epochs(self, orders: Sequence[UpkeepOrder], results: Sequence[UpkeepResult]) -> None:
        """Begin a new leader epoch where too many files may be named by appends of the last one."""
        seen = [
            (order.key, result.broker_id, order.partition.leader_epoch, result.orphan_bytes)
            for order, result in zip(orders, results, strict=True)
        ]
        timeout_ms = self._metadata.image.settings().integer("delivery.timeout.ms")
        raised = submit_if_due(
            self._metadata.image,
            lambda image: raise_epochs_over_orphans(image, seen),
            partial(self._metadata.submit, timeout_ms=timeout_ms),
        )
        if raised:
            log.info("%d partitions have a new leader epoch, so that orphans can go", len(raised))

    def run_all(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_dry_run: bool = False,
    ) -> UpkeepReport:
        """Do all upkeep that is due now, as fast as the throttle lets it; or say what is due.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
        """
        image = self._metadata.catch_up()
        self._forget_deleted(image)
        scope = scope_of(image, topics)
        keys = [key for key, _ in image.partitions() if scope is None or key.topic_id in scope]
        report = UpkeepReport()
        for start in range(0, len(keys), PARTITIONS_AT_ONCE):
            part = keys[start : start + PARTITIONS_AT_ONCE]
            with self._lock:
                report = report.plus(self._run_until_done(part, is_dry_run=is_dry_run))
        if scope is not None or is_dry_run:
            return report
        with self._lock:
            return report.plus(UpkeepReport(rows=tuple(self._roots.run())))

    def _run_until_done(self, keys: Sequence[PartitionKey], *, is_dry_run: bool) -> UpkeepReport:
        report = UpkeepReport()
        for _ in range(VISITS_MAX):
            image = self._metadata.catch_up()
            orders = plan_upkeep(image, keys, is_dry_run=is_dry_run)
            wait_ms = self._throttle.wait_ms(image.settings(), self._clock.monotonic_ms())
            if wait_ms and not is_dry_run:
                self._clock.sleep_ms(wait_ms)
            now_ms = self._clock.monotonic_ms()
            results = self._run(image, orders, now_ms)
            self._visits.record(orders, results, now_ms)
            missed = UpkeepReport(not_looked_at=tuple(not_looked_at(image, keys)))
            report = report.plus(report_of(image, results)).plus(missed)
            more = {each.key for each in results if each.is_left and each.has_progressed}
            keys = [key for key in keys if key in more]
            if not keys or is_dry_run:
                break
        return report


def _is_unfinished(result: UpkeepResult) -> bool:
    return result.is_left or any(work.error for _, work in result.done)
