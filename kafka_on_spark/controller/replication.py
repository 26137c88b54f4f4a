"""What one look at many partitions leads to: high watermarks and ISRs, decided together.

One commit for all, but each partition's is a decision of its own: reports that are no longer
current lead to nothing, and take none of the others with them.
"""

from collections.abc import Sequence

from kafka_on_spark.controller.high_watermark import advance_high_watermark
from kafka_on_spark.controller.isr import alter_isr
from kafka_on_spark.controller.parted import raise_epoch
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.controller.restoring import release_former
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import PartitionChangeRecord, Record


def conclude(image: MetadataImage, reports: Sequence[PartitionReport]) -> ControllerResult[int]:
    """Decide what `reports` lead to. Answer: how many ISRs change.

    A partition's high watermark comes before its change, which makes its report a past one; who
    joins the ISR has all that is committed after it (I1).
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
