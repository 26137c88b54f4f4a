"""A recorded change to a partition, taken over into a course of history that has left the record.

What the change says of replicas (who is assigned, who fell behind, who caught up) is a fact. Whom
it makes leader is a decision, and is taken again where the grounds for it are others.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from kafka_on_spark.controller.brokers import change_record
from kafka_on_spark.controller.election import Election, elect_leader, eligible_replicas
from kafka_on_spark.controller.recovery import ReplicaLook
from kafka_on_spark.ids import KEEP, BrokerId, Keep, PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionChange, PartitionRegistration
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.service.policy_books import PolicyBooks

T = TypeVar("T")


def is_unclean(record: PartitionChangeRecord) -> bool:
    """Return whether a recorded change is an unclean election."""
    return record.change.unclean_generation is not KEEP


def has_same_grounds(mine: PartitionRegistration, other: PartitionRegistration) -> bool:
    """Return whether all that a decision about leader and ISR looks at is equal."""
    return _grounds(mine) == _grounds(other)


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


def decided_anew(
    image: MetadataImage,
    record: PartitionChangeRecord,
    was: PartitionRegistration,
    now: PartitionRegistration,
) -> PartitionChangeRecord | None:
    """Return what `record`, which led from `was` to `now`, would have been in `image`.

    None: nothing would have changed. The assignment is as recorded; who left the ISR leaves it,
    who joined joins it, and the leader that was chosen is chosen if it may be.
    """
    mine = image.partition(record.key)
    assert mine is not None, "asked of partitions that are there"
    eligible = image.eligible_brokers()
    joined = (now.isr - was.isr) & eligible
    isr = ((mine.isr | joined) - (was.isr - now.isr)).intersection(now.replicas)
    # The last member stays, unless it is assigned no more.
    isr = isr or mine.isr.intersection(now.replicas) or now.isr
    moved = _assigned_as(mine, now)
    minimum = image.settings(record.topic_id).integer("min.insync.replicas")
    elr = eligible_replicas(moved, isr, minimum) - isr
    settled = replace(moved, isr=isr, elr=elr, leader=mine.leader if mine.leader in isr else None)
    change = PartitionChange(
        replicas=_or_keep(now.replicas, mine.replicas),
        replica_uuids=_or_keep(now.replica_uuids, mine.replica_uuids),
        directories=_or_keep(now.directories, mine.directories),
        adding_replicas=_or_keep(now.adding_replicas, mine.adding_replicas),
        removing_replicas=_or_keep(now.removing_replicas, mine.removing_replicas),
        isr=_or_keep(isr, mine.isr),
        elr=_or_keep(elr, mine.elr),
        leader=_leader(record, settled, mine, eligible),
    )
    if change == PartitionChange():
        return None
    return change_record(image, record.key, mine, change, record.cause or "")


def _or_keep(value: T, before: T) -> T | Keep:
    return KEEP if value == before else value


def _assigned_as(mine: PartitionRegistration, now: PartitionRegistration) -> PartitionRegistration:
    isr = mine.isr.intersection(now.replicas)
    return replace(
        mine,
        replicas=now.replicas,
        replica_uuids=now.replica_uuids,
        directories=now.directories,
        adding_replicas=now.adding_replicas,
        removing_replicas=now.removing_replicas,
        isr=isr,
        elr=mine.elr.intersection(now.replicas),
        leader=mine.leader if mine.leader in isr else None,
    )


def _leader(
    record: PartitionChangeRecord,
    settled: PartitionRegistration,
    mine: PartitionRegistration,
    eligible: frozenset[BrokerId],
) -> BrokerId | Keep | None:
    chosen = record.change.leader
    if isinstance(chosen, int) and chosen in settled.isr & eligible:
        return KEEP if chosen == mine.leader else chosen
    if settled.leader is not None:
        return KEEP
    elected = elect_leader(settled, eligible=eligible, election=Election.ONLINE).leader
    if elected is not None and elected not in settled.isr:
        elected = None  # one from the ELR is elected when the pass ends
    return KEEP if elected == mine.leader else elected


def caught_up(
    image: MetadataImage, key: PartitionKey, recorded: PartitionRegistration
) -> PartitionChangeRecord | None:
    """Return what brings replicas into the ISR that are in sync in the record; None: nobody.

    A course that has left the record has other members out of sync, and nothing recorded says
    when they would have come back. Once the recorded partition commits with them they have.
    """
    mine = image.partition(key)
    assert mine is not None, "asked of partitions that are there"
    joining = (recorded.isr - mine.isr) & image.eligible_brokers()
    joining = frozenset(each for each in joining if mine.is_made(each))
    if not joining or mine.leader is None:
        return None
    minimum = image.settings(key.topic_id).integer("min.insync.replicas")
    isr = mine.isr | joining
    change = PartitionChange(isr=isr, elr=eligible_replicas(mine, isr, minimum))
    return change_record(image, key, mine, change, "caught up, as in the record")


def known_looks(
    image: MetadataImage, keys: Iterable[PartitionKey], books: PolicyBooks
) -> list[ReplicaLook]:
    """Return what the metadata knows of replicas that could lead, as looks at their logs.

    A replica has what was committed when it was last in sync, and perhaps more.
    """
    eligible = image.eligible_brokers()
    looks = []
    for key in keys:
        mine = image.partition(key)
        assert mine is not None, "asked of partitions that are there"
        for broker_id in mine.replicas:
            if broker_id not in eligible or not mine.is_made(broker_id):
                continue
            reach = books.reach(key, broker_id)
            has_all = reach.offset >= mine.high_watermark
            looks.append(
                ReplicaLook(
                    key=key,
                    broker_id=broker_id,
                    partition_epoch=mine.partition_epoch,
                    high_watermark=mine.high_watermark,
                    log_start_offset=mine.log_start_offset,
                    log_end_offset=max(reach.offset, mine.log_start_offset),
                    last_epoch=reach.leader_epoch,
                    epoch_below_high_watermark=reach.leader_epoch if has_all else None,
                    chain_digest=reach.chain_digest,
                    chain_at_high_watermark=mine.high_watermark_chain if has_all else None,
                )
            )
    return looks
