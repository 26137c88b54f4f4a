"""What a round's reports lead to: high watermarks, ISRs and raised epochs, decided together.

One commit has the decisions of all partitions. Each is independent: a report that is not current
any more leads to nothing, and does not affect the others.
"""

from collections.abc import Sequence

from kafka_on_spark.controller.partitions.high_watermark import advance_high_watermark
from kafka_on_spark.controller.partitions.isr import alter_isr
from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.controller.verdicts.diverged_logs import raise_epoch
from kafka_on_spark.controller.verdicts.lost_replica_restore import release_former
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record


def conclude(image: MetadataImage, reports: Sequence[PartitionReport]) -> ControllerResult[int]:
    """Decide what `reports` lead to. Answer: how many ISRs change.

    A partition's high watermark comes before its change, after which the report is not current. A
    replica that joins the ISR has all that is committed afterwards (I1).
    """
    records: list[Record] = []
    for report in reports:
        watermark = advance_high_watermark(image, report)
        if watermark is not None:
            records.append(watermark)
        raised = None if watermark is None else watermark.high_watermark
        change = raise_epoch(image, report) or alter_isr(image, report, high_watermark=raised)
        change = change or release_former(image, report)
        if change is not None:
            records.append(change)
    changes = sum(isinstance(record, PartitionChangeRecord) for record in records)
    return ControllerResult(records, changes)
