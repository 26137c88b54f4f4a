"""Which replica leads a partition: the clean election, and the unclean one.

Every rule about who may lead stands here and nowhere else. The caller says which brokers are
eligible: registered, unfenced and not shutting down. The chosen leader proves its log when it
fences its table.
"""

from collections.abc import Sequence
from enum import Enum

from kafka_on_spark.base.ids import LOST, BrokerId, ReplicaUuid, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import ReplicaInspection


def eligible_replicas(
    partition: PartitionRegistration, isr: frozenset[BrokerId], min_isr: int
) -> frozenset[BrokerId]:
    """Return the eligible leader replicas of `partition` once its ISR is `isr` (KIP-966).

    Below the minimum the high watermark stands still, so a replica that was in sync, or eligible,
    still has all that is committed. At the minimum the high watermark moves on without it. Source:
    PartitionChangeBuilder.populateTargetElr.
    """
    if len(isr) >= min(min_isr, len(partition.replicas)):
        return frozenset()
    return frozenset(
        each
        for each in (partition.elr | partition.isr) - isr
        if partition.directory_of(each) != LOST
    )


class Election(Enum):
    """What a clean election may do to give a partition a leader (KIP-460)."""

    ONLINE = "online"  # keep the leader if it may stay, else take one from the ISR or the ELR
    PREFERRED = "preferred"  # as ONLINE, but try the preferred leader first


def elect_leader(
    partition: PartitionRegistration,
    *,
    eligible: frozenset[BrokerId],
    election: Election,
    suspects: frozenset[ReplicaUuid],
) -> BrokerId | None:
    """Choose a leader that has every committed record; None if no replica of ISR or ELR may lead.

    A replica that was lost never leads. None of `suspects`, which this process has found bad once,
    is chosen: what it lacks is not known yet. One that leads leads on.
    """
    candidates = eligible.intersection(partition.replicas)
    if LOST in partition.directories:
        candidates = frozenset(each for each in candidates if partition.directory_of(each) != LOST)
    trusted = candidates
    if not suspects.isdisjoint(partition.replica_uuids):
        trusted = frozenset(each for each in candidates if partition.uuid_of(each) not in suspects)
    in_sync = partition.isr & trusted
    if election is Election.PREFERRED and partition.replicas[0] in in_sync:
        return partition.replicas[0]
    if partition.leader in partition.isr & candidates:
        return partition.leader
    for pool in (in_sync, partition.elr & trusted):
        if pool:
            return min(pool, key=partition.replicas.index)
    return None


def is_unclean_allowed(image: MetadataImage, topic_id: TopicId) -> bool:
    """Return whether the settings allow a topic's partitions an unclean election (KIP-106)."""
    return image.settings(topic_id).boolean("unclean.leader.election.enable")


def choose_unclean_leader(
    image: MetadataImage,
    topic_id: TopicId,
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
    *,
    is_requested: bool,
) -> ReplicaInspection | None:
    """Choose a leader that may lack committed records; None unless a setting or a request allows
    it, or if nobody answers."""
    if not (is_requested or is_unclean_allowed(image, topic_id)):
        return None
    return furthest_replica(partition, inspections, eligible=image.eligible_brokers())


def furthest_replica(
    partition: PartitionRegistration,
    inspections: Sequence[ReplicaInspection],
    *,
    eligible: frozenset[BrokerId],
) -> ReplicaInspection | None:
    """Return the eligible replica whose log is of the latest leadership, the longest of those, the
    first of those in order of preference; None if there is none.

    Eligibility bounds the unclean election, too: Kafka once forgot it for one kind and elected a
    fenced broker (KAFKA-19522). A replica that was never created, or was lost, never leads.
    """
    candidates = [
        each
        for each in inspections
        if each.broker_id in eligible.intersection(partition.replicas)
        and partition.is_created(each.broker_id)
    ]

    def rank(inspection: ReplicaInspection) -> tuple[int, int, int]:
        epoch = -1 if inspection.last_epoch is None else inspection.last_epoch
        place = partition.replicas.index(inspection.broker_id)
        return (epoch, inspection.log_end_offset, -place)

    return max(candidates, key=rank, default=None)
