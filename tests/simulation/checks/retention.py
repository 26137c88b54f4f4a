"""What must hold of a deletion by retention when it is decided (docs/architecture.md, I16)."""

from kafka_on_spark.metadata.image import MetadataImage, is_current
from kafka_on_spark.metadata.records import HighWatermarkRecord
from tests.simulation.checks.ledger import Ledger, require


def deleted_is_due(
    ledger: Ledger, image: MetadataImage, record: HighWatermarkRecord, now_ms: float
) -> None:
    """I16: by the true time, which no process and no disk need have, all batches that go are too
    old or too many in the log of the leader of now.

    `image` is the one that the record was committed to. A leader's disk that has lost commits since
    it was looked at tells nothing. What was merged since is judged by its batches.
    """
    partition, settings = image.partition(record.key), image.settings(record.key.topic_id)
    start = record.log_start_offset
    if start is None or not (record.cause or "").startswith("retention"):
        return
    if partition is None or partition.leader is None or not is_current(record, partition):
        return
    table = ledger.live_table(record.key, partition, partition.leader)
    if table is None or table.is_suspect or table.state.log_end_offset < partition.high_watermark:
        return
    limit_ms, limit_bytes = map(settings.integer, ("retention.ms", "retention.bytes"))
    batches = ledger.appended(record.key, table.state.batches)
    left = sum(each.size_bytes for each in batches if each.end_offset > partition.log_start_offset)
    appended_ms = 0
    for batch in batches:
        appended_ms = max(appended_ms, batch.appended_at_ms)
        if batch.end_offset <= partition.log_start_offset:
            continue
        if batch.base_offset >= start:
            break
        left -= batch.size_bytes
        stamped_ms = max(each.timestamp_max_us for each in batch.segments) // 1000
        is_old = now_ms - min(stamped_ms, appended_ms) > limit_ms
        require(
            batch.end_offset <= start and (is_old or 0 <= limit_bytes <= left),
            "I16",
            f"{record.key.partition}: {batch.base_offset} to {batch.end_offset}, appended"
            f" {now_ms - appended_ms} ms ago, goes below {start}: {record.cause}",
        )
