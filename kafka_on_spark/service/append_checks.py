"""What is refused of an append before its first commit, so that nothing is half done."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.controller.high_watermark import is_under_min_isr, min_isr
from kafka_on_spark.errors import (
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    UnexpectedOffsetError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.operations import check_end
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaLog, ReplicaStore
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.append_parts import StagedPartition


def check_replicas(image: MetadataImage, parts: Sequence[StagedPartition]) -> None:
    """Check that acks=all can be kept for every partition of an append.

    Raises:
        NotEnoughReplicasError: One is under its minimum.
    """
    for part in parts:
        partition = image.partition(part.key)
        if partition is not None:
            check_min_isr(image, part.key, partition, is_appended=False)


def check_min_isr(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    *,
    is_appended: bool,
) -> None:
    """Check that acks=all can be kept for a partition now, before or after its write.

    Raises:
        NotEnoughReplicasError: It can't, and nothing was written.
        NotEnoughReplicasAfterAppendError: It can't, and the write may be committed later.
    """
    if not is_under_min_isr(image, key.topic_id, partition):
        return
    kind = NotEnoughReplicasAfterAppendError if is_appended else NotEnoughReplicasError
    raise kind(
        f"partition {image.name_of(key)} has {len(partition.isr)} replicas in sync, and"
        f" acks=all needs {min_isr(image, key.topic_id, partition)}"
        " (min.insync.replicas): bring brokers back, or append with acks=1"
    )


def is_committed(partition: PartitionRegistration, seen: ReplicaState, batch: Batch | None) -> bool:
    """Return whether the high watermark has passed an append, and it is this one that it passed.

    The append must have been seen in the log of the very leader that leads (P*6): `seen`. Even
    so, a leader that was set back since takes other records at the same offsets, of the same
    epoch, and somebody may have committed those: so that log must have the append's chain digest
    at its end, and the register's at the high watermark (FAULTS b.5, b.13). `batch`: None, if it
    was committed and has left the log since.
    """
    if seen.leader_epoch != partition.leader_epoch:
        return False
    if batch is None:
        return True
    return (
        partition.high_watermark >= batch.end_offset
        and seen.chain_at(batch.end_offset) == batch.chain_digest
        and seen.chain_at(partition.high_watermark) == partition.high_watermark_chain
    )


def is_acknowledged(
    partition: PartitionRegistration, seen: ReplicaState, batch: Batch | None, leader: ReplicaLog
) -> bool:
    """Return the same; where somebody else has moved the high watermark behind what was seen, by
    reading the append back from its leader's log."""
    if is_committed(partition, seen, batch):
        return True
    if batch is None or partition.high_watermark <= seen.log_end_offset:
        return False
    try:
        return is_committed(partition, leader.load(), batch)
    except KafkaOnSparkError:
        return False  # the next try says why


def check_ends(
    image: MetadataImage,
    replicas: ReplicaStore,
    parts: Sequence[StagedPartition],
    others: Mapping[PartitionKey, Offset],
) -> None:
    """Check that logs end where a conditional append expects: of its parts, and of `others`.

    What an earlier try has appended already is no reason to refuse its retry.

    Raises:
        UnexpectedOffsetError: One ends elsewhere.
    """
    is_retry = False
    for part in parts:
        if part.expected_offset is None and not others:
            continue
        state = _leader_state(image, replicas, part.key)
        if state is not None and find_append(state, part.staged) is not None:
            is_retry = True
        elif part.expected_offset is not None:
            _check_end(state, part.expected_offset)
    for key, expected in () if is_retry else others.items():
        _check_end(_leader_state(image, replicas, key), expected)


def _leader_state(
    image: MetadataImage, replicas: ReplicaStore, key: PartitionKey
) -> ReplicaState | None:
    """Return the leader's log; None if the partition has no records yet, or no leader now."""
    partition = image.partition(key)
    if partition is None or partition.leader is None or not partition.is_made(partition.leader):
        return None
    return replicas.open(address_of(image, key, partition, partition.leader)).load()


def _check_end(state: ReplicaState | None, expected: Offset) -> None:
    if state is not None:
        check_end(state, expected)
    elif expected != 0:
        raise UnexpectedOffsetError(
            f"the log ends at 0, not at the expected {expected}: nothing was appended to it yet"
        )
