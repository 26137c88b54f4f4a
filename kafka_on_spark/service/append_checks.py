"""What is refused of an append before its first commit, so that nothing is half done."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.controller.high_watermark import is_under_min_isr, min_isr
from kafka_on_spark.controller.reports import PartitionReport
from kafka_on_spark.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    UnexpectedOffsetError,
)
from kafka_on_spark.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log.operations import check_end
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import ReplicaStore
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


def is_committed(
    partition: PartitionRegistration,
    report: PartitionReport | None,
    *,
    seen_epoch: LeaderEpoch | None,
    end_offset: Offset | None,
) -> bool:
    """Return whether the high watermark has passed an append, and it is this one that it passed.

    The append must have been seen in the log of the very leader that leads (P*6). Even so,
    whoever moved the high watermark may have seen other records there: a leader that was set
    back since takes appends at offsets that its followers hold already. So every member of the
    ISR must have been seen in this round, matching the leader and with the append (FAULTS b.5,
    b.13). `report`: what this round saw. `end_offset`: of the append; None: it was committed and
    has left the log since.
    """
    if seen_epoch != partition.leader_epoch or report is None:
        return False
    if end_offset is None:
        return True
    seen = [report.replica(broker_id) for broker_id in partition.isr]
    return partition.high_watermark >= end_offset and all(
        member is not None
        and member.counts_in(partition.leader_epoch)
        and member.log_end_offset >= end_offset
        for member in seen
    )


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
