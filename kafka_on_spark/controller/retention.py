"""Passes of retention: leaders' logs are inspected, and one commit has the log starts that follow.

A partition that was inspected is due when its oldest batch is too old, has grown where its size
counts, or has other settings. No rule of safety depends on that. A wrong clock must not delete:
what looks too old by the clock of the process that decides is judged again by the earliest of
three.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import Offset, PartitionKey
from kafka_on_spark.controller.log_start import RetentionReport, cause_of, retain
from kafka_on_spark.controller.passes import (
    LOCAL_INSPECTIONS_MAX,
    Inspected,
    Passes,
    PassTimes,
    RootNow,
    Submit,
)
from kafka_on_spark.controller.upkeep_report import UpkeepRow
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.epochs import check_leader_epoch
from kafka_on_spark.log.producer_state import RegisteredProducers, registered_producers
from kafka_on_spark.log.replica_operations import (
    check_complete,
    log_start_task,
    plan_log_starts,
    try_to_advance,
)
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.retention import Retained, RetentionLimits, limits_of, retained
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import too_old_by_ms

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOrder:
    """A partition, its leader's replica, its limits, and the time of the process that decides.

    `now_ms` is by its own clock, `commit_ms` by that of what it commits. `is_dry_run`: a log start
    that was decided before is not applied. `registered`: the producer ids that have not expired, if
    any has.
    """

    key: PartitionKey
    partition: PartitionRegistration
    address: ReplicaAddress
    limits: RetentionLimits
    now_ms: int
    commit_ms: int
    is_dry_run: bool = False
    registered: RegisteredProducers | None = None


def plan_retention(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, times: PassTimes
) -> RetentionOrder:
    limits = limits_of(image.settings(key.topic_id))
    assert partition.leader is not None
    assert limits is not None
    return RetentionOrder(
        key=key,
        partition=partition,
        address=address_of(image, key, partition, partition.leader),
        limits=limits,
        now_ms=times.now_ms,
        commit_ms=times.commit_ms,
        is_dry_run=times.is_dry_run,
        registered=registered_producers(image),
    )


def inspect_leader(
    order: RetentionOrder, replicas: ReplicaStore, root_now_ms: RootNow
) -> Inspected[RetentionReport]:
    """Inspect one leader's log; return what may be deleted of it, or why that can't be said.

    Only a table that is fenced at the leadership of the order, and that proves to have all that is
    committed, says anything. It also applies the log start that was decided before.
    """
    partition = order.partition
    try:
        replica = replicas.open(order.address)
        state = replica.load()
        check_leader_epoch(state.leader_epoch, partition.leader_epoch)
        check_complete(state, partition)
        if not order.is_dry_run:
            start, registered = partition.log_start_offset, order.registered
            state = try_to_advance(replica, state, start, registered)
        now_ms = order.now_ms

        def found_at(time_ms: int) -> Retained:
            return retained(
                state,
                order.limits,
                log_start_offset=partition.log_start_offset,
                high_watermark=partition.high_watermark,
                now_ms=time_ms,
            )

        found = found_at(now_ms)
        if found.newest_ms is not None:
            now_ms = too_old_by_ms(now_ms, root_now_ms(order.address), order.commit_ms)
            found = found_at(now_ms)
    except KafkaOnSparkError as error:
        return Inspected.failed(error)
    report = RetentionReport(
        key=order.key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        log_start_offset=partition.log_start_offset,
        limits=order.limits,
        now_ms=now_ms,
        found=found,
    )
    return Inspected(report=report)


INSPECT_AGAIN_MS_MAX: Final = 60 * 60 * 1000
"""A wall clock that was wrong at the last inspection is put right within this."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is remembered of an inspection: limits and high watermark then, and in how long a batch
    is too old, or may be; None: there is none."""

    limits: RetentionLimits
    high_watermark: Offset
    expires_in_ms: int | None


class Retention(Passes[RetentionOrder, RetentionReport]):
    """Retention as one process does it."""

    kind = "retention"
    interval = "log.retention.check.interval.ms"

    def _is_wanted(self, settings: Settings) -> bool:
        return limits_of(settings) is not None

    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        return (
            partition.leader is not None
            and partition.is_created(partition.leader)
            and partition.high_watermark > partition.log_start_offset
        )

    _plan = staticmethod(plan_retention)

    def _run_inspections(
        self, orders: Sequence[RetentionOrder]
    ) -> list[Inspected[RetentionReport]]:
        return self._node.tasks.run(retention_task, orders, few=LOCAL_INSPECTIONS_MAX)

    def _seen_of(self, order: RetentionOrder, answer: Inspected[RetentionReport]) -> _Seen:
        """Return what to remember of an inspection.

        One that failed, or that deletes, is due again after an interval: until its decision is
        committed, nothing else would make an idle partition due.
        """
        expires_in_ms: int | None = 0
        found = answer.report
        if found is not None and not found.deletes:
            at_ms = found.found.expires_at_ms
            expires_in_ms = (
                None if at_ms is None else min(at_ms - found.now_ms, INSPECT_AGAIN_MS_MAX)
            )
        return _Seen(order.limits, order.partition.high_watermark, expires_in_ms)

    def _is_due(
        self, settings: Settings, partition: PartitionRegistration, waited_ms: int, seen: _Seen
    ) -> bool:
        limits = limits_of(settings)
        if limits != seen.limits:
            return True
        if seen.expires_in_ms is not None and waited_ms >= seen.expires_in_ms:
            return True
        has_grown = partition.high_watermark != seen.high_watermark
        by_size = seen.limits.retention_bytes is not None
        return has_grown and (by_size or seen.expires_in_ms is None)

    def _decide(
        self,
        image: MetadataImage,
        inspected: Sequence[tuple[RetentionOrder, Inspected[RetentionReport]]],
        submit: Submit,
        is_dry_run: bool,
    ) -> Iterable[UpkeepRow]:
        """Commit the new log starts of all partitions, and have their replicas apply them."""
        deleting = [
            answer.report
            for _, answer in inspected
            if answer.report is not None and answer.report.deletes
        ]
        starts = {report.key: report.found.log_start_offset for report in deleting}
        if starts and not is_dry_run:
            starts = submit(lambda newest: retain(newest, deleting))
            for report in deleting:
                if report.key in starts:
                    count = starts[report.key] - report.log_start_offset
                    self._totals.count(self.kind, count, report.found.removed_bytes)
                    log.info(
                        "%s: %s",
                        image.name_of(report.key),
                        cause_of(report, report.log_start_offset),
                    )
            applied = plan_log_starts(self._metadata.image, starts)
            for error in self._node.tasks.run(log_start_task, applied):
                if error is not None:
                    log.info("a log start will be applied later: %s", error)
        return [_row(order, result, starts.get(order.key)) for order, result in inspected]


def _row(
    order: RetentionOrder, result: Inspected[RetentionReport], start: Offset | None
) -> UpkeepRow:
    report = result.report
    row = UpkeepRow(
        topic=order.address.topic,
        partition=order.key.partition,
        broker_id=order.address.broker_id,
        kind=Retention.kind,
        error=result.error or "",
    )
    if report is None or start is None:
        return row
    return replace(
        row,
        count=start - report.log_start_offset,
        what="records too old, or too many",
        size_bytes=report.found.removed_bytes,
    )


def retention_task(order: RetentionOrder, worker: Worker) -> Inspected[RetentionReport]:
    """Return what retention may delete of one leader's log. A task."""
    return inspect_leader(order, worker.replicas, worker.root_now_ms)
