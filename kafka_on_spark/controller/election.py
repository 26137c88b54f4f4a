"""Which replica leads a partition. Pure: the caller says who is eligible.

Election is separate from the change it leads to, so that every rule about *who* may lead is in
this file and nowhere else. Whoever is chosen here proves its log when it fences its table.
"""

from dataclasses import dataclass
from enum import Enum

from kafka_on_spark.ids import LOST, BrokerId
from kafka_on_spark.metadata.partition import PartitionRegistration


def eligible_replicas(
    partition: PartitionRegistration, isr: frozenset[BrokerId], min_isr: int
) -> frozenset[BrokerId]:
    """Return the eligible leader replicas of `partition` once its ISR is `isr` (KIP-966).

    Below the minimum the high watermark stands still, so whoever was in sync, or eligible, still
    has all that is committed. At the minimum it moves on without them. Source:
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
    """What an election may do to give a partition a leader (KIP-460)."""

    ONLINE = "online"  # keep the leader if it may stay, else take one from the ISR or the ELR
    PREFERRED = "preferred"  # as ONLINE, but try the preferred leader first
    UNCLEAN = "unclean"  # as ONLINE, then any eligible replica: may lose records


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """The outcome of one election.

    Attributes:
        leader: The broker chosen, or None where no replica may lead.
        is_unclean: True if the leader was not known complete, so committed records may be lost.
    """

    leader: BrokerId | None
    is_unclean: bool = False


def elect_leader(
    partition: PartitionRegistration,
    *,
    eligible: frozenset[BrokerId],
    election: Election,
) -> ElectionResult:
    """Choose the leader of `partition`.

    `eligible` is every broker that is registered, unfenced and not shutting down. Eligibility
    bounds every branch, the unclean one too: Kafka once forgot it for one kind of unclean
    election and elected a fenced broker (KAFKA-19522). A replica that was lost never leads.
    """
    candidates = eligible.intersection(partition.replicas)
    if LOST in partition.directories:
        candidates = frozenset(each for each in candidates if partition.directory_of(each) != LOST)
    in_sync = partition.isr & candidates
    if election is Election.PREFERRED and partition.replicas[0] in in_sync:
        return ElectionResult(partition.replicas[0])
    if partition.leader in in_sync:
        return ElectionResult(partition.leader)
    for pool in (in_sync, partition.elr & candidates):
        if pool:
            return ElectionResult(min(pool, key=partition.replicas.index))
    if election is not Election.UNCLEAN:
        return ElectionResult(None)
    made = (each for each in partition.replicas if each in candidates and partition.is_made(each))
    unclean = next(made, None)
    return ElectionResult(unclean, is_unclean=unclean is not None)
