"""The change to one partition that a decision leads to, the clean election, and its record.

Kafka's PartitionChangeBuilder: a decision says who leaves, joins or is lost; the rules for what
that does to ISR, ELR and leader stand here. The caller of the clean election says which
brokers are eligible: registered, unfenced and not shutting down. The chosen leader proves its log
when it fences its table.
"""

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from itertools import repeat

from kafka_on_spark.base.ids import KEEP, LOST, BrokerId, Keep, PartitionKey, ReplicaUuid
from kafka_on_spark.metadata.image import MetadataImage, TopicImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration, construct_many
from kafka_on_spark.metadata.records import PartitionChangeRecord


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


def change_record(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    change: PartitionChange,
    cause: str,
) -> PartitionChangeRecord:
    """Return the record of `change`, with the epochs after it. The changed registration is valid:
    `merge` has checked it."""
    change = partition.completed(change)
    partition.merge(change)
    leader_epoch, partition_epoch = partition.epochs_after(change)
    return PartitionChangeRecord(
        topic_id=key.topic_id,
        partition=key.partition,
        change=change,
        topic=image.topics[key.topic_id].name,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        cause=cause,
    )


def change_records(
    topic: TopicImage,
    changes: Sequence[tuple[int, PartitionRegistration, PartitionChange]],
    cause: str,
) -> list[PartitionChangeRecord]:
    """Return the records of changes to a topic's partitions, as `change_record` makes one.

    The caller has checked the changes (by `merge`), and none of them needs `completed`.
    """
    count = len(changes)
    epochs = [partition.epochs_after(change) for _, partition, change in changes]
    return construct_many(
        PartitionChangeRecord,
        {
            "topic_id": repeat(topic.topic_id, count),
            "partition": [number for number, _, _ in changes],
            "change": [change for _, _, change in changes],
            "topic": repeat(topic.name, count),
            "leader_epoch": [leader_epoch for leader_epoch, _ in epochs],
            "partition_epoch": [partition_epoch for _, partition_epoch in epochs],
            "cause": repeat(cause, count),
        },
        count,
    )


def lost_change(
    image: MetadataImage, partition: PartitionRegistration, broker_id: BrokerId
) -> PartitionChange:
    """Return the change that marks a bad replica as lost.

    Its directory becomes LOST and it leaves ISR and ELR; if it led, another replica takes over.
    The last member of the ISR stays in it: the partition goes offline and loses no records.
    """
    place = partition.replicas.index(broker_id)
    directories = (*partition.directories[:place], LOST, *partition.directories[place + 1 :])
    isr = partition.isr - {broker_id}
    if not isr:
        leader = None if partition.leader is not None else KEEP
        return PartitionChange(directories=directories, leader=leader)
    without = replace(
        partition,
        isr=isr,
        elr=partition.elr - {broker_id},
        leader=None if partition.leader == broker_id else partition.leader,
    )
    eligible = image.eligible_brokers() - {broker_id}
    change = change_between(partition, without, eligible, image.suspects)
    return replace(change, directories=directories)


def change_of_isr(
    partition: PartitionRegistration,
    isr: frozenset[BrokerId],
    *,
    leader: BrokerId | None,
    min_isr: int,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange | None:
    """Return the change after which `isr` is in sync; None if nothing changes.

    `leader` leads on; without one, a broker of `eligible` that does not leave is elected
    (`elect_leader`). If nobody would be in sync, the present members stay, since no other replica
    has their records, and the ELR may lead meanwhile. Source: PartitionChangeBuilder.
    """
    kept = isr or partition.isr
    elr = eligible_replicas(partition, kept, min_isr)
    without = replace(partition, isr=kept, elr=elr, leader=leader)
    change = change_between(partition, without, eligible - (partition.isr - isr), suspects)
    return None if change == PartitionChange() else change


def change_between(
    before: PartitionRegistration,
    after: PartitionRegistration,
    eligible: frozenset[BrokerId],
    suspects: frozenset[ReplicaUuid],
) -> PartitionChange:
    """Return the change of ISR, ELR and leader from `before` to `after`.

    If `after` has no leader, one is elected if possible. A leader from the ELR is alone in sync.
    The members of the ISR before it have every committed record as well, since the high watermark
    stood still: they become eligible (KIP-966).
    """
    leader: BrokerId | Keep | None = KEEP
    isr, elr = after.isr, after.elr
    if after.leader is None:
        elected = elect_leader(
            after, eligible=eligible, election=Election.ONLINE, suspects=suspects
        )
        leader = KEEP if elected == before.leader else elected
    if isinstance(leader, int) and leader not in isr:
        others = (isr | elr) - {leader}
        isr = frozenset({leader})
        elr = frozenset(each for each in others if after.directory_of(each) != LOST)
    return PartitionChange(
        isr=isr if isr != before.isr else KEEP,
        elr=elr if elr != before.elr else KEEP,
        leader=leader,
    )
