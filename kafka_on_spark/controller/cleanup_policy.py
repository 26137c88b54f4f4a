"""What topics' cleanup.policy asks for: leaders' logs are inspected, and one commit decides.

Retention decides where logs start (`log_start`), compaction how far they are compacted
(`compaction`). Only a leader that is fenced at the leadership of the order, and that proves to have
all that is committed, says anything. A wrong clock must not delete: what looks too old by the clock
of the process that decides is judged by the earliest of three. What a process remembers of its
inspections is its own and costs inspections if it is lost; nothing rests on it. Threads may share a
pass, without waiting for each other.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey, too_old_by_ms
from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
)
from kafka_on_spark.controller.log_start import RetentionReport, retain
from kafka_on_spark.controller.scheduler import Scope
from kafka_on_spark.log.compaction import Dirt, dirt_of
from kafka_on_spark.log.producer_state import RegisteredProducers, registered_producers
from kafka_on_spark.log.replicas import advance_to, try_to_advance
from kafka_on_spark.log.retention import RetentionLimits, limits_of, retained
from kafka_on_spark.log.state import (
    ReplicaAddress,
    ReplicaState,
    address_of,
    check_complete,
    check_leader_epoch,
)
from kafka_on_spark.log.upkeep_work import NOTHING_DONE, UpkeepResult, WorkDone
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import COMPACT, RETAIN, operating

log = logging.getLogger(__name__)

ReportT = TypeVar("ReportT")

INSPECTIONS_AT_ONCE: Final = 32
"""Partitions that are inspected together, and at least in a pass."""

LOCAL_INSPECTIONS_MAX: Final = 8
"""So few logs are read in this process faster than a Spark job begins."""

PASS_MS_MAX: Final = 1000
"""For how long a pass goes on with further inspections."""

REST_PART: Final = 2
"""Of the interval between two inspections: once all that was due was inspected, passes ask
about none for so long. Without this, an idle controller of ten thousand partitions took several
percent of a core for it."""

INSPECT_AGAIN_MS_MAX: Final = 60 * 60 * 1000
"""A wall clock that was wrong at the last inspection is put right within this."""

RETENTION: Final = "retention"
"""The kind of work that raises log starts."""

_NO_LAG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupOrder:
    """A partition by the image of the plan, and its replicas that were created: the leader's, then
    those of eligible brokers. Picklable.

    `now_ms` is by the clock of the process that decides, `commit_ms` by that of what it commits.
    `is_dry_run`: a log start that was decided before is not applied. `registered`: the producer ids
    that have not expired, if any has.
    """

    key: PartitionKey
    partition: PartitionRegistration
    addresses: tuple[ReplicaAddress, ...]
    settings: Settings
    now_ms: int
    commit_ms: int
    is_dry_run: bool = False
    registered: RegisteredProducers | None = None


def plan_cleanup(
    image: MetadataImage,
    key: PartitionKey,
    *,
    now_ms: int,
    commit_ms: int,
    is_dry_run: bool = False,
) -> CleanupOrder:
    """Return the order to inspect a partition whose leader's replica was created."""
    partition = image.topics[key.topic_id].partitions[key.partition]
    leader = partition.leader
    assert leader is not None
    others = (
        each
        for each in partition.replicas
        if each != leader and partition.is_created(each) and image.is_eligible(each)
    )
    return CleanupOrder(
        key=key,
        partition=partition,
        addresses=tuple(address_of(image, key, partition, each) for each in (leader, *others)),
        settings=image.settings(key.topic_id),
        now_ms=now_ms,
        commit_ms=commit_ms,
        is_dry_run=is_dry_run,
        registered=registered_producers(image),
    )


def inspect_for_retention(order: CleanupOrder, worker: Worker) -> RetentionReport | WorkDone:
    """Return what may be deleted of one leader's log, or work that has failed. A task.

    It also applies the log start that was decided before.
    """
    partition, limits = order.partition, limits_of(order.settings)
    assert limits is not None
    now_ms = order.now_ms
    try:
        replica = worker.replicas.open(order.addresses[0])
        state = _leaders_log(order, replica.load())
        if not order.is_dry_run:
            start, registered = partition.log_start_offset, order.registered
            state = try_to_advance(replica, state, start, registered)
        find = partial(
            retained,
            state,
            limits,
            log_start_offset=partition.log_start_offset,
            high_watermark=partition.high_watermark,
        )
        found = find(now_ms=now_ms)
        if found.newest_ms is not None:
            now_ms = too_old_by_ms(now_ms, worker.root_now_ms(order.addresses[0]), order.commit_ms)
            found = find(now_ms=now_ms)
    except KafkaOnSparkError as error:
        return NOTHING_DONE.failed(error)
    return RetentionReport(
        key=order.key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        log_start_offset=partition.log_start_offset,
        limits=limits,
        now_ms=now_ms,
        found=found,
    )


def inspect_for_compaction(order: CleanupOrder, worker: Worker) -> CompactionReport | WorkDone:
    """Return what of one log may be compacted, and how far its replicas are, or work that has
    failed. Followers that can't be read are left out. A task."""
    partition, first = order.partition, order.addresses[0]
    try:
        leader = _leaders_log(order, worker.replicas.open(first).load())
        root_ms = worker.root_now_ms(first)
        now_ms = too_old_by_ms(order.now_ms, root_ms, order.commit_ms)
    except KafkaOnSparkError as error:
        return NOTHING_DONE.failed(error)
    seen = {first.broker_id: _progress(first, leader)}
    for address in order.addresses[1:]:
        try:
            seen[address.broker_id] = _progress(address, worker.replicas.open(address).load())
        except KafkaOnSparkError:
            continue  # a member that is not seen holds the decision up; others do not
    return CompactionReport(
        key=order.key,
        leader_epoch=partition.leader_epoch,
        dirt=leader_dirt(leader, partition, order.settings, now_ms=now_ms),
        replicas=seen,
        cleaned_below=partition.compaction.cleaned_below,
        now_ms=now_ms,
        latest_ms=max(order.now_ms, root_ms, order.commit_ms),
    )


def _leaders_log(order: CleanupOrder, state: ReplicaState) -> ReplicaState:
    check_leader_epoch(state.leader_epoch, order.partition.leader_epoch)
    check_complete(state, order.partition)
    return state


def _progress(address: ReplicaAddress, state: ReplicaState) -> ReplicaProgress:
    return ReplicaProgress(address.replica_uuid, state.log_end_offset, state.compaction)


def leader_dirt(
    leader: ReplicaState, partition: PartitionRegistration, settings: Settings, *, now_ms: int
) -> Dirt:
    """Return the dirty part of a leader's log."""
    min_lag_ms = settings.integer("min.compaction.lag.ms")
    return dirt_of(
        leader.batches,
        log_start_offset=partition.log_start_offset,
        compacted_below=partition.compaction.compacted_below,
        stable_below=partition.high_watermark,
        # Without a lag no clock is asked.
        appended_before_ms=now_ms - min_lag_ms + 1 if min_lag_ms else _NO_LAG,
    )


Decide = Callable[[MetadataImage], ControllerResult[dict[PartitionKey, WorkDone]]]

Submit = Callable[[Decide], dict[PartitionKey, WorkDone]]
"""Commits a decision; returns what was decided, by partition."""


class CleanupPass(ABC, Generic[ReportT]):
    """Decisions of one kind as one process makes them.

    Attributes:
        kind: The kind's name in reports.
        operation: Under which its requests are counted.
        interval: The setting of the time between two inspections of a partition.
        task: Inspects one.
    """

    kind: str
    operation: str
    interval: str
    task: Callable[[CleanupOrder, Worker], Any]

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.tasks.worker.clock
        self._last: dict[PartitionKey, tuple[int, Any]] = {}
        self._all_inspected_at_ms: float = -math.inf
        self._seen_configs: object = None

    @abstractmethod
    def _is_wanted(self, settings: Settings) -> bool:
        """Return whether anything is decided on a topic's partitions."""

    @abstractmethod
    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        """Return whether an inspection of a partition that has a leader can lead to a decision."""

    @abstractmethod
    def _decide(
        self, image: MetadataImage, reports: Sequence[ReportT]
    ) -> ControllerResult[dict[PartitionKey, WorkDone]]:
        """Decide by reports, on the newest image."""

    def _apply(self, keys: Collection[PartitionKey]) -> None:
        """Have replicas do at once what was decided."""

    def _seen_of(self, order: CleanupOrder, found: ReportT | WorkDone) -> Any:
        """Return what `_is_due` is to know of an inspection."""

    def _is_due(
        self, settings: Settings, partition: PartitionRegistration, waited_ms: int, seen: Any
    ) -> bool:
        """Return whether a partition that was inspected an interval ago or more is due again."""
        return True

    def run(
        self,
        scope: Scope = None,
        *,
        is_all: bool = False,
        is_dry_run: bool = False,
        submit: Submit | None = None,
    ) -> list[UpkeepResult]:
        """Inspect partitions that are due, and decide what follows. Return a result for each on
        which something was decided (in a dry run: is due), or that could not be inspected.

        `is_all`: inspect each, however long that takes, and also if it was inspected just now.
        `is_dry_run`: commit nothing. `submit`: commits under a controller's epoch.

        Raises: as `MetadataDecider.submit`.
        """
        image = self._metadata.image
        began_ms = self._clock.monotonic_ms()
        rest_ms = image.settings().integer(self.interval) // REST_PART
        is_resting = began_ms - self._all_inspected_at_ms < rest_ms
        if is_resting and image.configs is self._seen_configs and not is_all:
            return []
        with operating(self.operation):
            due = self._due(image, scope, is_all)
            inspected: list[tuple[CleanupOrder, ReportT | WorkDone]] = []
            while len(inspected) < len(due):
                is_over = self._clock.monotonic_ms() - began_ms >= PASS_MS_MAX
                if inspected and is_over and not is_all:
                    break
                keys = due[len(inspected) : len(inspected) + INSPECTIONS_AT_ONCE]
                inspected += self._inspected(image, keys, is_dry_run)
            if scope is None and len(inspected) == len(due) and not is_dry_run:
                self._all_inspected_at_ms, self._seen_configs = began_ms, image.configs
            return self._decided(inspected, submit or self._node.submit, is_dry_run)

    def _due(self, image: MetadataImage, scope: Scope, is_all: bool) -> list[PartitionKey]:
        """Return the partitions that are due, those first that were inspected longest ago, and
        never before all others.

        The first pass of a process begins at a random place: processes that make one pass only come
        to all partitions together.
        """
        now_ms = self._clock.monotonic_ms()
        interval_ms = image.settings().integer(self.interval)
        found = [
            (PartitionKey(topic.topic_id, number), partition)
            for topic in image.topics.values()
            if (scope is None or topic.topic_id in scope)
            and self._is_wanted(image.settings(topic.topic_id))
            for number, partition in topic.partitions.items()
            if partition.leader is not None
            and partition.is_created(partition.leader)
            and self._may_be_due(partition)
        ]
        last = self._last
        # Some topics were deleted; an inspection of another thread's may be forgotten.
        if scope is None:
            last = self._last = {key: last[key] for key, _ in found if key in last}
        if found and not last:
            first = self._node.ids.random_below(len(found))
            found = [*found[first:], *found[:first]]

        def is_due(key: PartitionKey, partition: PartitionRegistration) -> bool:
            if is_all or key not in last:
                return True
            inspected_at_ms, seen = last[key]
            waited_ms = now_ms - inspected_at_ms
            settings = image.settings(key.topic_id)
            return waited_ms >= interval_ms and self._is_due(settings, partition, waited_ms, seen)

        never = (-math.inf, None)
        due = [key for key, partition in found if is_due(key, partition)]
        return sorted(due, key=lambda key: last.get(key, never)[0])

    def _inspected(
        self, image: MetadataImage, keys: Sequence[PartitionKey], is_dry_run: bool
    ) -> list[tuple[CleanupOrder, ReportT | WorkDone]]:
        now_ms, commit_ms = self._clock.now_ms(), self._node.clock.now_ms()
        orders = [
            plan_cleanup(image, key, now_ms=now_ms, commit_ms=commit_ms, is_dry_run=is_dry_run)
            for key in keys
        ]
        answers = self._node.tasks.run(self.task, orders, few=LOCAL_INSPECTIONS_MAX)
        if not is_dry_run:
            at_ms = self._clock.monotonic_ms()
            for order, found in zip(orders, answers, strict=True):
                self._last[order.key] = at_ms, self._seen_of(order, found)
        return list(zip(orders, answers, strict=True))

    def _decided(
        self,
        inspected: Sequence[tuple[CleanupOrder, ReportT | WorkDone]],
        submit: Submit,
        is_dry_run: bool,
    ) -> list[UpkeepResult]:
        reports = [found for _, found in inspected if not isinstance(found, WorkDone)]
        decided = self._decide(self._metadata.image, reports)
        done = decided.response
        if decided.records and not is_dry_run:
            done = submit(lambda newest: self._decide(newest, reports))
            self._apply(done)
        works = [
            (order, found if isinstance(found, WorkDone) else done.get(order.key, NOTHING_DONE))
            for order, found in inspected
        ]
        return [
            UpkeepResult(
                key=order.key,
                broker_id=order.addresses[0].broker_id,
                done=((self.kind, work),),
            )
            for order, work in works
            if work is not NOTHING_DONE
        ]


@dataclass(frozen=True, slots=True)
class _Retained:
    """What is remembered of an inspection: limits and high watermark then, and in how long a batch
    is too old, or may be; None: there is none."""

    limits: RetentionLimits | None
    high_watermark: Offset
    expires_in_ms: int | None


class RetentionPass(CleanupPass[RetentionReport]):
    """A partition that was inspected is due when its oldest batch is too old, has grown where its
    size counts, or has other settings. No rule of safety depends on that."""

    kind = RETENTION
    operation = RETAIN
    interval = "log.retention.check.interval.ms"
    task = staticmethod(inspect_for_retention)

    def _is_wanted(self, settings: Settings) -> bool:
        return limits_of(settings) is not None

    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        return partition.high_watermark > partition.log_start_offset

    def _seen_of(self, order: CleanupOrder, found: RetentionReport | WorkDone) -> _Retained:
        """Return what to remember of an inspection.

        One that failed, or that deletes, is due again after an interval: until its decision is
        committed, nothing else would make an idle partition due.
        """
        expires_in_ms: int | None = 0
        if not (isinstance(found, WorkDone) or found.deletes):
            at_ms = found.found.expires_at_ms
            expires_in_ms = (
                None if at_ms is None else min(at_ms - found.now_ms, INSPECT_AGAIN_MS_MAX)
            )
        limits = limits_of(order.settings)
        return _Retained(limits, order.partition.high_watermark, expires_in_ms)

    def _is_due(
        self, settings: Settings, partition: PartitionRegistration, waited_ms: int, seen: _Retained
    ) -> bool:
        limits = limits_of(settings)
        if limits is None or limits != seen.limits:
            return True
        if seen.expires_in_ms is not None and waited_ms >= seen.expires_in_ms:
            return True
        has_grown = partition.high_watermark != seen.high_watermark
        return has_grown and (limits.retention_bytes is not None or seen.expires_in_ms is None)

    def _decide(
        self, image: MetadataImage, reports: Sequence[RetentionReport]
    ) -> ControllerResult[dict[PartitionKey, WorkDone]]:
        starts = retain(image, [each for each in reports if each.deletes])
        done = {
            each.key: WorkDone(
                count=starts.response[each.key] - each.log_start_offset,
                what="records too old, or too many",
                size_bytes=each.found.removed_bytes,
            )
            for each in reports
            if each.key in starts.response
        }
        return ControllerResult(starts.records, done)

    def _apply(self, keys: Collection[PartitionKey]) -> None:
        orders = plan_log_starts(self._metadata.image, keys)
        for error in self._node.tasks.run(log_start_task, orders):
            if error is not None:
                log.info("a log start will be applied later: %s", error)


class CompactionPass(CleanupPass[CompactionReport]):
    kind = "compaction"
    operation = COMPACT
    interval = "log.cleaner.backoff.ms"
    task = staticmethod(inspect_for_compaction)

    def _is_wanted(self, settings: Settings) -> bool:
        return "compact" in settings.policies

    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        return partition.compaction.tombstones_below < partition.high_watermark

    def _decide(
        self, image: MetadataImage, reports: Sequence[CompactionReport]
    ) -> ControllerResult[dict[PartitionKey, WorkDone]]:
        decided = [
            (report, record) for report in reports if (record := compact(image, report)) is not None
        ]
        done = {
            report.key: WorkDone(
                count=1, what=f"decision: {record.cause}", size_bytes=report.dirt.dirty_bytes
            )
            for report, record in decided
        }
        return ControllerResult([record for _, record in decided], done)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOrder:
    """The replica, and the log start that was decided; and which producer ids have not expired,
    if any has."""

    address: ReplicaAddress
    log_start_offset: Offset
    registered: RegisteredProducers | None = None


def plan_log_starts(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[LogStartOrder]:
    """Return an order for each in-sync replica; the others follow when they fetch."""
    registered = registered_producers(image)
    return [
        LogStartOrder(
            address=address_of(image, key, partition, broker_id),
            log_start_offset=partition.log_start_offset,
            registered=registered,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.isr
        if partition.is_created(broker_id) and image.brokers[broker_id].is_online
    ]


def log_start_task(order: LogStartOrder, worker: Worker) -> str | None:
    """Advance one replica's log start to the decided one; return why that failed, or None. A
    task."""
    replica = worker.replicas.open(order.address)
    try:
        advance_to(replica, replica.load(), order.log_start_offset, order.registered)
    except KafkaOnSparkError as error:
        return error.message
    return None
