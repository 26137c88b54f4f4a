"""Where a partition's log starts: delete-records.

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
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
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


def _is_deleting(image: MetadataImage, key: PartitionKey) -> bool:
    words = image.settings(key.topic_id).text("cleanup.policy").split(",")
    return "delete" in (word.strip() for word in words)
