"""One look at a leader's log: what retention may delete of it. A task, one partition each.

A wrong clock must not delete: what looks too old by the clock of the process that decides is judged
again by the earliest of three.
"""

from dataclasses import dataclass

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.expiry import registered_producers
from kafka_on_spark.controller.log_start import LeaderLook
from kafka_on_spark.controller.looks import Look, LookTimes, RootNow
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.leadership import check_leader_epoch
from kafka_on_spark.log.log_starts import try_to_advance
from kafka_on_spark.log.producers import RegisteredProducers
from kafka_on_spark.log.replica_operations import check_complete
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.retention import Retained, RetentionLimits, limits_of, retained
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import too_old_by_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOrder:
    """A partition, its leader's replica, its limits, and the time of the process that decides.

    `now_ms` is by its own clock, `commit_ms` by that of what it commits. `is_dry_run`: a log start
    that was decided before is not applied. `registered`: the producer ids that have not expired, if
    any has.
    """

    key: PartitionKey
    partition: PartitionRegistration
    address: ReplicaAddress
    limits: RetentionLimits
    now_ms: int
    commit_ms: int
    is_dry_run: bool = False
    registered: RegisteredProducers | None = None


def plan_look(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, times: LookTimes
) -> LookOrder:
    """Return the order to look at the leader of `partition`, which has one, and has limits."""
    limits = limits_of(image.settings(key.topic_id))
    assert partition.leader is not None
    assert limits is not None
    return LookOrder(
        key=key,
        partition=partition,
        address=address_of(image, key, partition, partition.leader),
        limits=limits,
        now_ms=times.now_ms,
        commit_ms=times.commit_ms,
        is_dry_run=times.is_dry_run,
        registered=registered_producers(image),
    )


def run_look(order: LookOrder, replicas: ReplicaStore, root_now_ms: RootNow) -> Look[LeaderLook]:
    """Look at one leader's log; return what may be deleted of it, or why that can't be said.

    Only a table that is fenced at the leadership of the order, and that proves to have all that is
    committed, says anything. It also applies the log start that was decided before.
    """
    partition = order.partition
    try:
        replica = replicas.open(order.address)
        state = replica.load()
        check_leader_epoch(state.leader_epoch, partition.leader_epoch)
        check_complete(state, partition)
        if not order.is_dry_run:
            start, registered = partition.log_start_offset, order.registered
            state = try_to_advance(replica, state, start, registered)
        now_ms = order.now_ms

        def found_at(time_ms: int) -> Retained:
            return retained(
                state,
                order.limits,
                log_start_offset=partition.log_start_offset,
                high_watermark=partition.high_watermark,
                now_ms=time_ms,
            )

        found = found_at(now_ms)
        if found.newest_ms is not None:
            now_ms = too_old_by_ms(now_ms, root_now_ms(order.address), order.commit_ms)
            found = found_at(now_ms)
    except KafkaOnSparkError as error:
        return Look.failed(error)
    look = LeaderLook(
        key=order.key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        log_start_offset=partition.log_start_offset,
        limits=order.limits,
        now_ms=now_ms,
        found=found,
    )
    return Look(report=look)
