"""Refuses an append before its first commit, so that nothing is half done."""

from collections.abc import Mapping, Sequence

from kafka_on_spark.controller.partitions.compaction import is_compacted
from kafka_on_spark.controller.partitions.min_isr import is_under_min_isr, too_few_in_sync
from kafka_on_spark.errors import (
    InvalidRecordError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    UnexpectedOffsetError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.log.operations import check_end
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.replicas import ReplicaStore
from kafka_on_spark.service.append.stages import StagedPart


def check_replicas(image: MetadataImage, parts: Sequence[StagedPart]) -> None:
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
    raise kind(too_few_in_sync(image, key, partition))


def check_keys(image: MetadataImage, parts: Sequence[StagedPart]) -> None:
    """Check that a compacted topic gets records with keys only (KIP-135).

    Raises:
        InvalidRecordError: A record has none, and nothing was written.
    """
    for part in parts:
        if not part.batch.has_keyless or part.key.topic_id not in image.topics:
            continue
        settings = image.settings(part.key.topic_id)
        if is_compacted(settings):
            raise InvalidRecordError(
                f"a record for {image.name_of(part.key)} has no key, and its topic is compacted"
                f" (cleanup.policy={settings.text('cleanup.policy')}): give each record a key, or"
                " alter the setting"
            )


def keys_of_ends(
    parts: Sequence[StagedPart], others: Mapping[PartitionKey, Offset]
) -> list[PartitionKey]:
    """Return the partitions whose logs `check_ends` looks at: for where they end, or for an earlier
    try of the append."""
    asked = [part.key for part in parts if part.expected_offset is not None or others]
    return [*asked, *others]


def has_unknown_end(partition: PartitionRegistration) -> bool:
    """Return whether nobody can say now where a partition's log ends: it has no leader, and may
    have records."""
    is_unmade = partition.known_log_end == 0 and not any(partition.directories)
    is_led = partition.leader is not None and partition.is_created(partition.leader)
    return not (is_led or is_unmade)


def check_ends(
    image: MetadataImage,
    replicas: ReplicaStore,
    parts: Sequence[StagedPart],
    others: Mapping[PartitionKey, Offset],
) -> None:
    """Check that logs end where a conditional append expects: of its parts, and of `others`.

    What an earlier try has appended already is no reason to refuse its retry.

    Raises:
        UnexpectedOffsetError: One ends elsewhere.
        NotLeaderOrFollowerError: One has no leader, so where it ends is not known.
    """
    is_retry = False
    for part in parts:
        if part.expected_offset is None and not others:
            continue
        state = _leader_state(image, replicas, part.key)
        if state is not None and find_append(state, part.batch) is not None:
            is_retry = True
        elif part.expected_offset is not None:
            _check_end(state, part.expected_offset)
    for key, expected in () if is_retry else others.items():
        _check_end(_leader_state(image, replicas, key), expected)


def _leader_state(
    image: MetadataImage, replicas: ReplicaStore, key: PartitionKey
) -> ReplicaState | None:
    """Return the leader's log; None if the partition never had a replica, or is gone."""
    partition = image.partition(key)
    if partition is None:
        return None
    if has_unknown_end(partition):
        raise NotLeaderOrFollowerError(
            f"partition {image.name_of(key)} has no leader, so where its log ends is not known, and"
            " nothing was appended: bring its brokers back, and append again"
        )
    if partition.leader is None or not partition.is_created(partition.leader):
        return None
    return replicas.open(address_of(image, key, partition, partition.leader)).load()


def _check_end(state: ReplicaState | None, expected: Offset) -> None:
    if state is not None:
        check_end(state, expected)
    elif expected != 0:
        raise UnexpectedOffsetError(
            f"the log ends at 0, not at the expected {expected}: nothing was appended to it yet"
        )
