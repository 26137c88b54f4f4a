"""Passes over compacted topics: replicas' tables are inspected, and one commit has what is decided.

Only a leader that is fenced at the leadership of the order, and that proves to have all that is
committed, says what is dirty. Replicas that can't be read are left out of the report.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.compaction import (
    CompactionReport,
    ReplicaProgress,
    compact,
    is_compacted,
)
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
from kafka_on_spark.log.compaction import Dirt, dirt_of
from kafka_on_spark.log.epochs import check_leader_epoch
from kafka_on_spark.log.replica_operations import check_complete
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import too_old_by_ms
from kafka_on_spark.metadata.result import ControllerResult

_NO_LAG: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOrder:
    """A partition by the image of the plan, its replicas that were created, the leader's first, and
    the time of the process that decides: by its wall clock, and that of what it commits."""

    key: PartitionKey
    partition: PartitionRegistration
    addresses: tuple[ReplicaAddress, ...]
    min_lag_ms: int
    now_ms: int
    commit_ms: int


def plan_compaction_inspection(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    times: PassTimes,
) -> CompactionOrder:
    leader = partition.leader
    assert leader is not None
    others = [
        each
        for each in partition.replicas
        if each != leader and partition.is_created(each) and image.is_eligible(each)
    ]
    return CompactionOrder(
        key=key,
        partition=partition,
        addresses=tuple(address_of(image, key, partition, each) for each in (leader, *others)),
        min_lag_ms=image.settings(key.topic_id).integer("min.compaction.lag.ms"),
        now_ms=times.now_ms,
        commit_ms=times.commit_ms,
    )


def inspect_for_compaction(
    order: CompactionOrder, replicas: ReplicaStore, root_now_ms: RootNow
) -> Inspected[CompactionReport]:
    """Inspect a partition's tables; return a report for the decision, or why there is none."""
    partition = order.partition
    try:
        leader = replicas.open(order.addresses[0]).load()
        check_leader_epoch(leader.leader_epoch, partition.leader_epoch)
        check_complete(leader, partition)
        root_ms = root_now_ms(order.addresses[0])
        now_ms = too_old_by_ms(order.now_ms, root_ms, order.commit_ms)
    except KafkaOnSparkError as error:
        return Inspected.failed(error)
    seen = {order.addresses[0].broker_id: _progress(order.addresses[0], leader)}
    for address in order.addresses[1:]:
        try:
            seen[address.broker_id] = _progress(address, replicas.open(address).load())
        except KafkaOnSparkError:
            continue  # a member that is not seen holds the decision up; others do not
    report = CompactionReport(
        key=order.key,
        leader_epoch=partition.leader_epoch,
        dirt=leader_dirt(leader, partition, min_lag_ms=order.min_lag_ms, now_ms=now_ms),
        replicas=seen,
        cleaned_below=partition.compaction.cleaned_below,
        now_ms=now_ms,
        latest_ms=max(order.now_ms, root_ms, order.commit_ms),
    )
    return Inspected(report=report)


def _progress(address: ReplicaAddress, state: ReplicaState) -> ReplicaProgress:
    return ReplicaProgress(address.replica_uuid, state.log_end_offset, state.compaction)


def leader_dirt(
    leader: ReplicaState, partition: PartitionRegistration, *, min_lag_ms: int, now_ms: int
) -> Dirt:
    """Return the dirty part of a leader's log. `min_lag_ms`: min.compaction.lag.ms."""
    return dirt_of(
        leader.batches,
        log_start_offset=partition.log_start_offset,
        compacted_below=partition.compaction.compacted_below,
        stable_below=partition.high_watermark,
        # Without a lag no clock is asked.
        appended_before_ms=now_ms - min_lag_ms + 1 if min_lag_ms else _NO_LAG,
    )


class CompactionPasses(Passes[CompactionOrder, CompactionReport]):
    kind = "compaction"
    interval = "log.cleaner.backoff.ms"

    def _is_wanted(self, settings: Settings) -> bool:
        return is_compacted(settings)

    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        """There is a leader, and something to compact."""
        return (
            partition.leader is not None
            and partition.is_created(partition.leader)
            and partition.compaction.tombstones_below < partition.high_watermark
        )

    _plan = staticmethod(plan_compaction_inspection)

    def _run_inspections(
        self, orders: Sequence[CompactionOrder]
    ) -> list[Inspected[CompactionReport]]:
        return self._node.tasks.run(compaction_task, orders, few=LOCAL_INSPECTIONS_MAX)

    def _decide(
        self,
        image: MetadataImage,
        inspected: Sequence[tuple[CompactionOrder, Inspected[CompactionReport]]],
        submit: Submit,
        is_dry_run: bool,
    ) -> Iterable[UpkeepRow]:
        """Commit what the reports lead to, on the image of the commit."""
        reports = [answer.report for _, answer in inspected if answer.report is not None]

        def decide(newest: MetadataImage) -> ControllerResult[dict[PartitionKey, str]]:
            records = [each for report in reports if (each := compact(newest, report)) is not None]
            return ControllerResult(records, {each.key: each.cause or "" for each in records})

        found = decide(self._metadata.image)
        causes = found.response if is_dry_run or not found.records else submit(decide)
        return [_row(order, answer, causes.get(order.key)) for order, answer in inspected]


def _row(
    order: CompactionOrder, answer: Inspected[CompactionReport], cause: str | None
) -> UpkeepRow:
    return UpkeepRow(
        topic=order.addresses[0].topic,
        partition=order.key.partition,
        broker_id=order.addresses[0].broker_id,
        kind=CompactionPasses.kind,
        count=int(cause is not None),
        what="" if cause is None else f"decision: {cause}",
        size_bytes=0 if cause is None or answer.report is None else answer.report.dirt.dirty_bytes,
        error=answer.error or "",
    )


def compaction_task(order: CompactionOrder, worker: Worker) -> Inspected[CompactionReport]:
    """Return what of one partition may be compacted, and how far its replicas are. A task."""
    return inspect_for_compaction(order, worker.replicas, worker.root_now_ms)
