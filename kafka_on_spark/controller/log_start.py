"""Where a partition's log starts: decided in the metadata log, applied by replicas afterwards."""

from kafka_on_spark.errors import (
    OffsetOutOfRangeError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.records import HighWatermarkRecord

TO_HIGH_WATERMARK = Offset(-1)


def delete_records(
    image: MetadataImage, key: PartitionKey, before_offset: Offset
) -> HighWatermarkRecord | None:
    """Decide the deletion of the records below `before_offset` (-1: of all committed ones).

    None if the log starts there or later already. Source: KIP-107, Partition.deleteRecordsOnLeader.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        PolicyViolationError: The topic's cleanup.policy does not delete.
        OffsetOutOfRangeError: The offset is negative, or above the high watermark.
    """
    partition = image.partition(key)
    if partition is None:
        raise UnknownTopicOrPartitionError(f"there is no partition {key.partition} of this topic")
    policy = image.settings(key.topic_id).text("cleanup.policy")
    if "delete" not in policy:
        raise PolicyViolationError(
            f"records of a topic with cleanup.policy={policy} can't be deleted by offset: alter it"
            " to one with delete first"
        )
    offset = partition.high_watermark if before_offset == TO_HIGH_WATERMARK else before_offset
    if not 0 <= offset <= partition.high_watermark:
        raise OffsetOutOfRangeError(
            f"records before {before_offset} can't be deleted: give an offset from 0 to the high"
            f" watermark {partition.high_watermark}, or -1 for that"
        )
    if offset <= partition.log_start_offset:
        return None
    return HighWatermarkRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        high_watermark=None,
        high_watermark_epoch=None,
        log_end_offset=partition.log_end_offset,
        log_start_offset=offset,
    )
