"""What topics' cleanup.policy asks for: leaders' logs are inspected, and one commit decides.

Retention decides where logs start (`log_start`), compaction how far they are compacted
(`compaction`). Only a leader that is fenced at the leadership of the order, and that proves to have
all that is committed, says anything. A wrong clock must not delete: what looks too old by the clock
of the process that decides is judged by the earliest of three. Threads may share a pass, without
waiting for each other.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeVar

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey, too_old_by_ms
from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
)
from kafka_on_spark.controller.log_start import RetentionReport, retain
from kafka_on_spark.controller.scheduler import DueTimes, Scope
from kafka_on_spark.log.compaction import Dirt, dirt_of
from kafka_on_spark.log.replica_upkeep import LOG_START, plan_upkeep, upkeep_task
from kafka_on_spark.log.retention import limits_of, retained
from kafka_on_spark.log.state import (
    ReplicaAddress,
    ReplicaState,
    address_of,
    check_complete,
    check_leader_epoch,
)
from kafka_on_spark.log.upkeep_work import NOTHING_DONE, UpkeepOrder, UpkeepResult, WorkDone
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
    """

    key: PartitionKey
    partition: PartitionRegistration
    addresses: tuple[ReplicaAddress, ...]
    settings: Settings
    now_ms: int
    commit_ms: int


def plan_cleanup(
    image: MetadataImage, key: PartitionKey, *, now_ms: int, commit_ms: int
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
    )


def inspect_for_retention(order: CleanupOrder, worker: Worker) -> RetentionReport | WorkDone:
    """Return what may be deleted of one leader's log, or work that has failed. A task."""
    partition, limits = order.partition, limits_of(order.settings)
    assert limits is not None
    now_ms = order.now_ms
    try:
        state = worker.replicas.open(order.addresses[0]).load()
        # What is committed is the same before the leader has begun its leadership.
        state = _leaders_log(order, state, has_begun=False)
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


def _leaders_log(
    order: CleanupOrder, state: ReplicaState, *, has_begun: bool = True
) -> ReplicaState:
    known, asked = state.leader_epoch, order.partition.leader_epoch
    if has_begun or (known is not None and known > asked):
        check_leader_epoch(known, asked)
    check_complete(state, order.partition)
    return state


def _progress(address: ReplicaAddress, state: ReplicaState) -> ReplicaProgress:
    return ReplicaProgress(address.replica_uuid, state.log_end_offset, state.compaction)


def leader_dirt(
    leader: ReplicaState, partition: PartitionRegistration, settings: Settings, *, now_ms: int
) -> Dirt:
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
        operation: Under which its requests are counted.
        interval: The setting of the time between two inspections of a partition.
    """

    kind: str
    operation: str
    interval: str
    task: Callable[[CleanupOrder, Worker], Any]

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.tasks.worker.clock
        self._times = DueTimes(self.interval, node.ids.random_below)

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

    def _due_in_ms(self, found: ReportT | WorkDone, interval_ms: int) -> tuple[float, bool]:
        """Return how long until a partition is due again after what was `found`, an interval at
        least; and whether it is due before if it changes."""
        return interval_ms, True

    def run(
        self,
        scope: Scope = None,
        *,
        is_all: bool = False,
        is_dry_run: bool = False,
        submit: Submit | None = None,
        image: MetadataImage | None = None,
    ) -> list[UpkeepResult]:
        """Inspect partitions that are due, and decide what follows. Return a result for each: what
        was decided (in a dry run: is due), or why it could not be inspected.

        `is_all`: inspect each, however long that takes, and also if it was inspected just now.
        `is_dry_run`: commit nothing. `submit`: commits under a controller's epoch. `image`: of a
        dry run, other than the newest.
        """
        image = self._metadata.image if image is None else image
        began_ms = self._clock.monotonic_ms()
        holds = image.settings().holds_deletes(self._node.clock.now_ms())
        if (holds and not is_dry_run) or (not is_all and self._times.are_resting(image, began_ms)):
            return []
        with operating(self.operation):
            asked = self._candidates(image, scope)
            due = [key for key, _ in asked] if is_all else self._times.due(image, asked, began_ms)
            inspected: list[tuple[CleanupOrder, ReportT | WorkDone]] = []
            while len(inspected) < len(due):
                is_over = self._clock.monotonic_ms() - began_ms >= PASS_MS_MAX
                if inspected and is_over and not is_all:
                    break
                keys = due[len(inspected) : len(inspected) + INSPECTIONS_AT_ONCE]
                inspected += self._inspected(image, keys, is_dry_run)
            if scope is None and len(inspected) == len(due) and not is_dry_run:
                self._times.rest(began_ms)
            return self._decided(image, inspected, submit or self._node.submit, is_dry_run)

    def _candidates(
        self, image: MetadataImage, scope: Scope
    ) -> list[tuple[PartitionKey, PartitionRegistration]]:
        return [
            (PartitionKey(topic.topic_id, number), partition)
            for topic in image.topics.values()
            if (scope is None or topic.topic_id in scope)
            and self._is_wanted(image.settings(topic.topic_id))
            for number, partition in topic.partitions.items()
            if partition.leader is not None
            and partition.is_created(partition.leader)
            and self._may_be_due(partition)
        ]

    def _inspected(
        self, image: MetadataImage, keys: Sequence[PartitionKey], is_dry_run: bool
    ) -> list[tuple[CleanupOrder, ReportT | WorkDone]]:
        now_ms, commit_ms = self._clock.now_ms(), self._node.clock.now_ms()
        orders = [plan_cleanup(image, key, now_ms=now_ms, commit_ms=commit_ms) for key in keys]
        answers = self._node.tasks.run(self.task, orders, few=LOCAL_INSPECTIONS_MAX)
        inspected = list(zip(orders, answers, strict=True))
        if not is_dry_run:
            at_ms, interval_ms = self._clock.monotonic_ms(), image.settings().integer(self.interval)
            for order, found in inspected:
                due_in_ms, is_due_if_changed = self._due_in_ms(found, interval_ms)
                partition = order.partition if is_due_if_changed else None
                due_at_ms = at_ms + due_in_ms
                self._times.record(
                    order.key, partition, order.settings, at_ms=at_ms, due_at_ms=due_at_ms
                )
        return inspected

    def _decided(
        self,
        image: MetadataImage,
        inspected: Sequence[tuple[CleanupOrder, ReportT | WorkDone]],
        submit: Submit,
        is_dry_run: bool,
    ) -> list[UpkeepResult]:
        reports = [found for _, found in inspected if not isinstance(found, WorkDone)]
        decided = self._decide(image, reports)
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
        ]


class RetentionPass(CleanupPass[RetentionReport]):
    """A partition that was inspected is due when its oldest batch is too old, or if it has grown
    where its size counts. One whose inspection failed, or deletes, is due after an interval: until
    its decision is committed, nothing else would make an idle partition due."""

    kind = RETENTION
    operation = RETAIN
    interval = "log.retention.check.interval.ms"
    task = staticmethod(inspect_for_retention)

    def _is_wanted(self, settings: Settings) -> bool:
        return limits_of(settings) is not None

    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        return partition.high_watermark > partition.log_start_offset

    def _due_in_ms(self, found: RetentionReport | WorkDone, interval_ms: int) -> tuple[float, bool]:
        if isinstance(found, WorkDone) or found.deletes:
            return interval_ms, True
        expires_at_ms = found.found.expires_at_ms
        if expires_at_ms is None:
            return inf, True
        wait_ms = min(expires_at_ms - found.now_ms, INSPECT_AGAIN_MS_MAX)
        return max(interval_ms, wait_ms), found.limits.retention_bytes is not None

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
        for result in self._node.tasks.run(upkeep_task, orders):
            for _, work in result.done:
                if work.error:
                    log.info("a log start will be applied later: %s", work.error)


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


def plan_log_starts(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[UpkeepOrder]:
    """Return an order for each in-sync replica to drop what is below the log start that was
    decided; the others follow when they fetch."""
    return [
        replace(order, works=(LOG_START,))
        for order in plan_upkeep(image, keys)
        if order.address.broker_id in order.partition.isr
    ]
