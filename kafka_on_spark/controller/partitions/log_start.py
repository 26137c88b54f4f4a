"""Where a partition's log starts: delete-records and retention.

The log start is decided here, in the metadata log, at most the high watermark; replicas apply it
afterwards and never run ahead. So no replica ever starts above what another may lack.
"""

from collections.abc import Mapping

from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import HighWatermarkRecord


def delete_records(
    image: MetadataImage, key: PartitionKey, before_offset: Offset | None
) -> ControllerResult[Offset]:
    """Decide that records below `before_offset` are deleted; None: all that is committed.

    Answer: the log start after it. Source: Partition.deleteRecordsOnLeader (KIP-107).

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        PolicyViolationError: cleanup.policy does not say delete.
        OffsetOutOfRangeError: The offset is negative or above the high watermark.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError("there is no such partition to delete records of")
    if not _is_deleting(image, key):
        raise PolicyViolationError(
            f"records of {image.name_of(key)} can't be deleted by offset: its cleanup.policy is"
            f" {image.settings(key.topic_id).text('cleanup.policy')!r}, and 'delete' is needed"
        )
    return raise_log_start(
        image, key, partition.high_watermark if before_offset is None else before_offset
    )


def delete_records_of_all(
    image: MetadataImage, offsets: Mapping[PartitionKey, Offset | None]
) -> ControllerResult[dict[PartitionKey, Offset]]:
    """Decide deletions in several partitions, all or none. Answer: their log starts afterwards.

    Raises: as `delete_records`.
    """
    results = {key: delete_records(image, key, offset) for key, offset in offsets.items()}
    records = [record for result in results.values() for record in result.records]
    return ControllerResult(records, {key: each.response for key, each in results.items()})


def raise_log_start(
    image: MetadataImage, key: PartitionKey, offset: Offset
) -> ControllerResult[Offset]:
    """Decide that the log starts at `offset`, or where it does if that is above.

    Raises:
        OffsetOutOfRangeError: The offset is negative or above the high watermark.
    """
    partition = image.topics[key.topic_id].partitions[key.partition]
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRangeError(
            f"the log of {image.name_of(key)} can't start at {offset}: give an offset from 0 to"
            f" its high watermark {partition.high_watermark}"
        )
    if offset <= partition.log_start_offset:
        return ControllerResult([], partition.log_start_offset)
    record = HighWatermarkRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        high_watermark=None,
        high_watermark_epoch=None,
        high_watermark_chain=None,
        log_end_offset=partition.log_end_offset,
        log_start_offset=offset,
    )
    return ControllerResult([record], offset)


def apply_retention(
    image: MetadataImage, key: PartitionKey, leader: ReplicaState, *, now_ms: int
) -> ControllerResult[Offset]:
    """Decide what retention.ms and retention.bytes delete of a log as its leader has it.

    Answer: the log start afterwards. A topic that is only compacted keeps everything. No service
    calls this yet: this version records the settings. Kafka's vectors hold the rule.
    """
    partition = image.topics[key.topic_id].partitions[key.partition]
    if not _is_deleting(image, key):
        return ControllerResult([], partition.log_start_offset)
    settings = image.settings(key.topic_id)
    start_offset = retained_from(
        leader,
        high_watermark=partition.high_watermark,
        now_ms=now_ms,
        retention_ms=_bound(settings.integer("retention.ms")),
        retention_bytes=_bound(settings.integer("retention.bytes")),
    )
    return raise_log_start(image, key, start_offset)


def retained_from(
    state: ReplicaState,
    *,
    high_watermark: Offset,
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> Offset:
    """Return the log start that retention leads to: it removes whole batches, the oldest first.

    A batch is removed while the batches after it have at least `retention_bytes`, or if its newest
    record is older than `retention_ms`; None sets no bound. A batch that is not wholly below the
    high watermark stays, and every batch after it. Source: UnifiedLog.deleteOldSegments.
    """
    kept = [batch for batch in state.batches if batch.end_offset > state.log_start_offset]
    surplus = sum(batch.size_bytes for batch in kept) - (retention_bytes or 0)
    start_offset = state.log_start_offset
    for batch in kept:
        surplus -= batch.size_bytes
        is_surplus = retention_bytes is not None and surplus >= 0
        is_expired = retention_ms is not None and _newest_ms(batch) < now_ms - retention_ms
        if batch.end_offset > high_watermark or not (is_surplus or is_expired):
            break
        start_offset = batch.end_offset
    return start_offset


def _newest_ms(batch: Batch) -> int:
    return max(segment.timestamp_max_us for segment in batch.segments) // 1000


def low_watermark(
    image: MetadataImage, partition: PartitionRegistration, log_starts: Mapping[BrokerId, Offset]
) -> Offset:
    """Return the offset below which no live replica has records any more.

    `log_starts`: of the replicas that were inspected; of others all records count as kept.
    Source: Partition.lowWatermarkIfLeader.
    """
    live = [each for each in partition.replicas if image.is_eligible(each)]
    return min((log_starts.get(each, Offset(0)) for each in live), default=Offset(0))


def _is_deleting(image: MetadataImage, key: PartitionKey) -> bool:
    words = image.settings(key.topic_id).text("cleanup.policy").split(",")
    return "delete" in (word.strip() for word in words)


def _bound(setting: int) -> int | None:
    """Return a retention setting's bound; -1 stands for none."""
    return None if setting < 0 else setting
