"""Upkeep: replicas are kept small, and roots are cleaned of what killed processes left there.

A bounded share of it comes after each round of replication and in each pass of the controller; or
all that is due is done at once. `sweep` says which partitions a round comes to, as it does for
inspections. What a round does not finish, the next one begins with. Brokers' roots are cleaned as a
whole, and seldom, by a process that has made rounds for an interval; metadata roots on request
only: who writes a checkpoint of the metadata log cleans it. What a process remembers is its own: if
it ends, that costs some visits that find nothing to do.
"""

import logging
import threading
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError, NotControllerError
from kafka_on_spark.base.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionKey, TopicId
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.second_inspection import Finding, note_findings
from kafka_on_spark.controller.sweep import (
    Ring,
    SweepPace,
    SweepProgress,
    SweepRound,
    scope_of,
    upkeep_hints,
)
from kafka_on_spark.controller.throttle import UNLIMITED, Demand, Quota, accrue, deal, wait_ms
from kafka_on_spark.controller.upkeep_report import (
    UpkeepReport,
    UpkeepRow,
    report_of,
    upkeep_totals,
)
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.producer_state import registered_producers
from kafka_on_spark.log.replica_folders import tables_on
from kafka_on_spark.log.replica_upkeep import ON_THE_TABLE_ALONE, upkeep_task
from kafka_on_spark.log.retention import limits_of
from kafka_on_spark.log.upkeep_work import VISIT_TIMES_MAX, UpkeepOrder, UpkeepResult
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.metadata.result import ControllerResult, submit_if_due
from kafka_on_spark.metadata.temporaries import clean_broker_root
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.clock import processor_ms
from kafka_on_spark.store.root_identity import check_obeys
from kafka_on_spark.store.roots import is_local

log = logging.getLogger(__name__)

BYTES_A_MS: Final = 64 * 1024
"""What a core reads and rewrites in a ms, about: a bound in time is one in bytes, too."""

PIECE_BYTES: Final = 2**20
"""What each replica may rewrite at least, if a throttle lets anything through."""

PIECE_MS: Final = 50.0
"""What each replica may take at least."""

TASK_MS: Final = 1000.0
"""For how long a task works at a time, but for the piece that it is at."""

PART_MS: Final = 4 * TASK_MS
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

    None has more than `TASK_MS`: one that is left after it comes again, while the round has time.
    """
    if not orders:
        return []
    each_ms = max(PIECE_MS, budget_ms / len(orders))
    bytes_max = int(each_ms * BYTES_A_MS)
    task_ms = min(each_ms, TASK_MS)
    return [replace(order, work_ms_max=task_ms, bytes_max=bytes_max) for order in orders]


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


ROOTS_INTERVAL_MS: Final = 3_600_000
"""How often the roots of brokers are cleaned."""

METADATA: Final = "__cluster_metadata"

CLEAN: Final = "clean"
"""The kind of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitOrder:
    """Which broker's root to clean of what killed processes left. Picklable.

    `begins_at`: where an earlier visit has left it; "": nowhere. `work_ms_max`: how long the task
    may work; it ends the folder that it is at. `registered_voters`: of the metadata log, all that
    it ever had: the root must obey one.
    """

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    begins_at: str = ""
    work_ms_max: float | None = None
    registered_voters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitResult:
    """Where the next visit begins, since the time was over ("": all was cleaned), and why the root,
    or a part of it, was not cleaned."""

    left_at: str = ""
    error: str | None = None


class RootUpkeep:
    """The upkeep of roots by one process. Its user calls one method at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self._began_ms: dict[BrokerId, int] = {}
        self._left: dict[BrokerId, str] = {}

    def run_share(self, work_ms_max: float) -> list[UpkeepRow]:
        """Clean the roots that are due, for so long, but for the piece that it is at; what is left
        goes on with the next call. Return a row for each that failed.

        A root is due an interval after this process first knew of it, or last began to clean it.
        """
        image, began_ms = self._metadata.image, self._clock.monotonic_ms()
        rows: list[UpkeepRow] = []
        for broker in sorted(_brokers(image), key=lambda each: each.broker_id not in self._left):
            broker_id, now_ms = broker.broker_id, self._clock.monotonic_ms()
            last_ms = self._began_ms.setdefault(broker_id, now_ms)
            if broker_id not in self._left:
                if now_ms - last_ms < ROOTS_INTERVAL_MS:
                    continue
                self._began_ms[broker_id] = now_ms
            left_ms = work_ms_max - (now_ms - began_ms)
            if left_ms <= 0:
                self._left.setdefault(broker_id, "")
                continue
            begins_at = self._left.pop(broker_id, "")
            rows += self._clean(image, [broker], begins_at=begins_at, work_ms_max=left_ms)
        return rows

    def run(self) -> list[UpkeepRow]:
        """Clean all roots, and the metadata's. Return a row for each that failed, and for what went
        from the metadata's."""
        image, brokers = self._metadata.image, _brokers(self._metadata.image)
        self._left.clear()
        self._began_ms |= {each.broker_id: self._clock.monotonic_ms() for each in brokers}
        rows = self._clean(image, brokers)
        try:
            count = self._metadata.clean()
            rows += [_root_row(METADATA, count=count)] if count else []
        except KafkaOnSparkError as error:
            rows.append(_root_row(METADATA, error=error.message))
            log.warning("%s", rows[-1])
        return rows

    def _clean(
        self,
        image: MetadataImage,
        brokers: Sequence[BrokerRegistration],
        *,
        begins_at: str = "",
        work_ms_max: float | None = None,
    ) -> list[UpkeepRow]:
        orders = [
            VisitOrder(
                broker_id=broker.broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                begins_at=begins_at,
                work_ms_max=work_ms_max,
                registered_voters=image.registered_voters,
            )
            for broker in brokers
        ]
        try:
            results = self._node.tasks.run_or_lose(visit_task, orders)
        except KafkaOnSparkError as error:
            results = [VisitResult(error=error.message)] * len(orders)
        rows = []
        for order, result in zip(orders, results, strict=True):
            if result.left_at:
                self._left[order.broker_id] = result.left_at
            if result.error is not None:
                rows.append(_root_row("", order.broker_id, error=result.error))
                log.warning("%s", rows[-1])
        return rows


def _root_row(
    topic: str, broker_id: BrokerId | None = None, *, count: int = 0, error: str = ""
) -> UpkeepRow:
    return UpkeepRow(
        topic=topic,
        partition=0 if topic else -1,
        broker_id=broker_id,
        kind=CLEAN,
        count=count,
        what="files deleted",
        error=error,
    )


def _brokers(image: MetadataImage) -> list[BrokerRegistration]:
    return [broker for broker in image.brokers.values() if broker.has_upkeep]


def visit_task(order: VisitOrder, worker: Worker) -> VisitResult:
    """Remove what killed processes left on one root; a store is asked for no replica folders, since
    nothing is left there. A task."""
    clock, options = worker.clock, worker.options
    began_ms = clock.monotonic_ms()

    def is_over() -> bool:
        most_ms = order.work_ms_max
        return most_ms is not None and clock.monotonic_ms() - began_ms >= most_ms

    try:
        check_obeys(order.root, order.directory_id, order.registered_voters, options)
        found = (
            tables_on(order.broker_id, order.root, options, None) if is_local(order.root) else ()
        )
        cleaned = clean_broker_root(
            order.root,
            [each.path for each in found],
            options,
            begins_at=order.begins_at,
            is_over=is_over,
        )
    except KafkaOnSparkError as error:
        return VisitResult(error=error.message)
    return VisitResult(left_at=cleaned.left_at, error=cleaned.error)


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
            task_ms = VISIT_TIMES_MAX * (waiting[0].work_ms_max or PART_MS)
            count = max(1, int(PART_MS / task_ms))
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
