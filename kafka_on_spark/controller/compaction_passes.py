"""Passes over compacted topics: looks at replicas' tables, and one commit of what is decided."""

from collections.abc import Iterable, Sequence

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.compaction import CompactionReport, compact, is_compacted
from kafka_on_spark.controller.looks import Look
from kafka_on_spark.controller.passes import Passes, Submit
from kafka_on_spark.controller.replica_looks import (
    CompactionLookOrder,
    plan_compaction_look,
)
from kafka_on_spark.controller.upkeep_report import UpkeepRow
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.result import ControllerResult


class CompactionPasses(Passes[CompactionLookOrder, CompactionReport]):
    """Decisions of compaction as one process makes them."""

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

    _plan = staticmethod(plan_compaction_look)

    def _decide(
        self,
        image: MetadataImage,
        looked: Sequence[tuple[CompactionLookOrder, Look[CompactionReport]]],
        submit: Submit,
        is_dry_run: bool,
    ) -> Iterable[UpkeepRow]:
        """Commit what the reports lead to, on the image of the commit."""
        reports = [look.report for _, look in looked if look.report is not None]

        def decide(newest: MetadataImage) -> ControllerResult[dict[PartitionKey, str]]:
            records = [each for report in reports if (each := compact(newest, report)) is not None]
            return ControllerResult(records, {each.key: each.cause or "" for each in records})

        found = decide(self._metadata.image)
        causes = found.response if is_dry_run or not found.records else submit(decide)
        return [_row(order, look, causes.get(order.key)) for order, look in looked]


def _row(order: CompactionLookOrder, look: Look[CompactionReport], cause: str | None) -> UpkeepRow:
    return UpkeepRow(
        topic=order.addresses[0].topic,
        partition=order.key.partition,
        broker_id=order.addresses[0].broker_id,
        kind=CompactionPasses.kind,
        count=int(cause is not None),
        what="" if cause is None else f"decision: {cause}",
        size_bytes=0 if cause is None or look.report is None else look.report.dirt.dirty_bytes,
        error=look.error or "",
    )
