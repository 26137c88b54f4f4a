"""Decides a recorded partition change again, on a simulated timeline that differs from the record.

What the change says of replicas (assigned, fallen behind, caught up) is a fact, and stays. The
leader that it names is a decision, and is decided again where the grounds for it differ.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.controller.partitions.election import Election, elect_leader, eligible_replicas
from kafka_on_spark.controller.partitions.min_isr import min_isr_setting
from kafka_on_spark.controller.partitions.partition_change import change_record
from kafka_on_spark.controller.partitions.reports import ReplicaInspection
from kafka_on_spark.ids import KEEP, BrokerId, Keep, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.service.what_if.policy_tally import PolicyTally

T = TypeVar("T")


def is_unclean(record: PartitionChangeRecord) -> bool:
    """Return whether a recorded change is an unclean election."""
    return record.change.unclean_generation is not KEEP


def has_same_grounds(simulated: PartitionRegistration, other: PartitionRegistration) -> bool:
    """Return whether all that a decision on leader and ISR rests on is equal."""
    return _grounds(simulated) == _grounds(other)


def _grounds(partition: PartitionRegistration) -> tuple[object, ...]:
    return (
        partition.replicas,
        partition.directories,
        partition.isr,
        partition.elr,
        partition.leader,
        partition.adding_replicas,
        partition.removing_replicas,
    )


def redecide(
    image: MetadataImage,
    record: PartitionChangeRecord,
    was: PartitionRegistration,
    now: PartitionRegistration,
) -> PartitionChangeRecord | None:
    """Return what `record`, which led from `was` to `now`, would have been in `image`.

    None: nothing would have changed. The assignment is as recorded. Replicas that left the ISR
    leave it, replicas that joined join it, and the recorded leader is chosen if it may lead.
    """
    simulated = image.partition(record.key)
    assert simulated is not None, "the caller asks of partitions that exist"
    eligible = image.eligible_brokers()
    joined = (now.isr - was.isr) & eligible
    isr = ((simulated.isr | joined) - (was.isr - now.isr)).intersection(now.replicas)
    # The last member stays, unless it is assigned no more.
    isr = isr or simulated.isr.intersection(now.replicas) or now.isr
    moved = _with_assignment_of(simulated, now)
    minimum = min_isr_setting(image, record.topic_id)
    elr = eligible_replicas(moved, isr, minimum) - isr
    adjusted = replace(
        moved, isr=isr, elr=elr, leader=simulated.leader if simulated.leader in isr else None
    )
    change = PartitionChange(
        replicas=_or_keep(now.replicas, simulated.replicas),
        replica_uuids=_or_keep(now.replica_uuids, simulated.replica_uuids),
        directories=_or_keep(now.directories, simulated.directories),
        adding_replicas=_or_keep(now.adding_replicas, simulated.adding_replicas),
        removing_replicas=_or_keep(now.removing_replicas, simulated.removing_replicas),
        isr=_or_keep(isr, simulated.isr),
        elr=_or_keep(elr, simulated.elr),
        leader=_choose_leader(record, adjusted, simulated, eligible),
    )
    if change == PartitionChange():
        return None
    return change_record(image, record.key, simulated, change, record.cause or "")


def _or_keep(value: T, before: T) -> T | Keep:
    return KEEP if value == before else value


def _with_assignment_of(
    simulated: PartitionRegistration, now: PartitionRegistration
) -> PartitionRegistration:
    isr = simulated.isr.intersection(now.replicas)
    return replace(
        simulated,
        replicas=now.replicas,
        replica_uuids=now.replica_uuids,
        directories=now.directories,
        adding_replicas=now.adding_replicas,
        removing_replicas=now.removing_replicas,
        isr=isr,
        elr=simulated.elr.intersection(now.replicas),
        leader=simulated.leader if simulated.leader in isr else None,
    )


def _choose_leader(
    record: PartitionChangeRecord,
    adjusted: PartitionRegistration,
    simulated: PartitionRegistration,
    eligible: frozenset[BrokerId],
) -> BrokerId | Keep | None:
    chosen = record.change.leader
    if isinstance(chosen, int) and chosen in adjusted.isr & eligible:
        return KEEP if chosen == simulated.leader else chosen
    if adjusted.leader is not None:
        return KEEP
    elected = elect_leader(adjusted, eligible=eligible, election=Election.ONLINE)
    if elected is not None and elected not in adjusted.isr:
        elected = None  # one from the ELR is elected when the pass ends
    return KEEP if elected == simulated.leader else elected


def catch_up_as_recorded(
    image: MetadataImage, key: PartitionKey, recorded: PartitionRegistration
) -> PartitionChangeRecord | None:
    """Return the change that lets replicas join the ISR that are in sync in the record; None: no
    replica does.

    A timeline that differs from the record has other replicas out of sync, and the record does not
    say when they would have caught up. They count as caught up once the recorded partition
    commits with them.
    """
    simulated = image.partition(key)
    assert simulated is not None, "the caller asks of partitions that exist"
    joining = (recorded.isr - simulated.isr) & image.eligible_brokers()
    joining = frozenset(each for each in joining if simulated.is_created(each))
    if not joining or simulated.leader is None:
        return None
    minimum = min_isr_setting(image, key.topic_id)
    isr = simulated.isr | joining
    change = PartitionChange(isr=isr, elr=eligible_replicas(simulated, isr, minimum))
    return change_record(image, key, simulated, change, "caught up, as in the record")


def known_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey], tally: PolicyTally
) -> list[ReplicaInspection]:
    """Return what the metadata knows of replicas that could lead, as inspections of their logs.

    A replica has what was committed when it was last in sync, and perhaps more.
    """
    eligible = image.eligible_brokers()
    inspections = []
    for key in keys:
        simulated = image.partition(key)
        assert simulated is not None, "the caller asks of partitions that exist"
        for broker_id in simulated.replicas:
            if broker_id not in eligible or not simulated.is_created(broker_id):
                continue
            reach = tally.reach(key, broker_id)
            has_all = reach.offset >= simulated.high_watermark
            inspections.append(
                ReplicaInspection(
                    key=key,
                    broker_id=broker_id,
                    partition_epoch=simulated.partition_epoch,
                    high_watermark=simulated.high_watermark,
                    log_start_offset=simulated.log_start_offset,
                    log_end_offset=max(reach.offset, simulated.log_start_offset),
                    last_epoch=reach.leader_epoch,
                    epoch_below_high_watermark=reach.leader_epoch if has_all else None,
                    chain_digest=reach.chain_digest,
                    chain_at_high_watermark=simulated.high_watermark_chain if has_all else None,
                )
            )
    return inspections
