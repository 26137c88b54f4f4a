"""Appended → acknowledged: the ISR fetches an append, and the high watermark passes it.

Each other in-sync replica fetches. What was staged for it is there already, and is not read and
flushed again at the first try. A metadata commit then moves the
high watermark. An append is acknowledged when the high watermark has passed it **and** it stands at
that offset in the log of the *current* leader (I2): a high watermark past its offset alone would
acknowledge records that are lost.
"""

from concurrent.futures import Executor

from kafka_on_spark.base.errors import KafkaOnSparkError, RequestTimedOutError
from kafka_on_spark.base.process import Clock
from kafka_on_spark.log.addresses import address_of
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.fetch import FetchOrder, fetch
from kafka_on_spark.log.fetch_reports import merge_reports, partition_report, state_report
from kafka_on_spark.log.producers import registered_producers
from kafka_on_spark.log.replica_operations import ReadBorders, no_borders, with_borders_over
from kafka_on_spark.log.replicas import ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.produce.stages import AnsweredPart, AppendedPart, StagedPart


def fetch_to_isr(
    image: MetadataImage,
    appended: AppendedPart,
    *,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
    threads: Executor,
    is_first_try: bool,
) -> PartitionReport:
    """Have the rest of the ISR fetch an appended part; return the report of the whole ISR.

    `is_first_try`: the part was staged just now. A later try checks each file that was staged.
    """

    def one(order: FetchOrder) -> PartitionReport:
        return fetch(order, replicas, segments, clock, appended.state).report

    own = report_leader(appended, clock.now_ms())
    orders = _fetch_orders(image, appended, is_first_try=is_first_try)
    return merge_reports([own, *threads.map(one, orders)])[0]


def report_leader(appended: AppendedPart, now_ms: int) -> PartitionReport:
    """Return the report of the leader that has appended a part."""
    placed, state = appended.placed, appended.state
    leader = state_report(placed.leader, state, is_matched=True, missing=())
    return partition_report(placed.part.key, placed.partition, leader, state, (), now_ms=now_ms)


def _fetch_orders(
    image: MetadataImage, appended: AppendedPart, *, is_first_try: bool
) -> list[FetchOrder]:
    placed, part, key = appended.placed, appended.placed.part, appended.placed.part.key
    partition = placed.partition
    holders = {each.replica_uuid for each in part.holders} if is_first_try else set()
    staged = frozenset(part.batch.segments)
    return [
        FetchOrder(
            key=key,
            partition=partition,
            leader=placed.leader,
            follower=address_of(image, key, partition, follower),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
            staged=staged if partition.uuid_of(follower) in holders else frozenset(),
            registered=registered_producers(image),
        )
        for follower in partition.isr
        if follower != partition.leader and partition.is_created(follower)
    ]


def acknowledge(
    appended: AppendedPart,
    partition: PartitionRegistration,
    *,
    acks: str,
    read_borders: ReadBorders = no_borders,
) -> AnsweredPart | None:
    """Return the part acknowledged, if it is under `partition`, which is the registered one now."""
    log, batch = appended.placed.log, appended.batch
    if acks == "all" and not is_acknowledged(partition, appended.state, batch, log, read_borders):
        return None
    stands = batch or appended.last
    return AnsweredPart(
        key=appended.placed.part.key,
        base_offset=None if stands is None else stands.base_offset,
        record_count=appended.placed.part.batch.record_count,
        is_duplicate=appended.is_duplicate,
        append_time_ms=batch.appended_at_ms
        if batch is not None and batch.has_append_time
        else None,
    )


def is_committed(partition: PartitionRegistration, seen: ReplicaState, batch: Batch | None) -> bool:
    """Return whether the high watermark has passed this very append (I2).

    `seen` is the log in which the append was seen, and must be that of the current leader. Even
    then a leader that was rolled back may have taken other records at the same offsets in the same
    epoch, and those may be the committed ones. So `seen` must have the append's chain digest at
    the append's end, and the registered one at the high watermark. `batch`: None if the log
    no longer has its header, which it loses below the high watermark only.
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
    partition: PartitionRegistration,
    seen: ReplicaState,
    batch: Batch | None,
    leader: ReplicaLog,
    read_borders: ReadBorders = no_borders,
) -> bool:
    """Return the same. If the high watermark has moved past what was seen, read the leader's log
    again; the batch may be merged there."""
    if is_committed(partition, seen, batch):
        return True
    if batch is None or partition.high_watermark <= seen.log_end_offset:
        return False
    try:
        now = with_borders_over(leader.load(), [batch], read_borders)
        return is_committed(partition, now, batch)
    except KafkaOnSparkError:
        return False  # the next try tells why


def not_acknowledged(part: StagedPart, why: str, *, is_timed_out: bool) -> RequestTimedOutError:
    """Return the error of a partition whose outcome is unknown; `is_timed_out`: its time was up."""
    producer = part.batch.producer
    advice = (
        "a retry with the same sequence is safe"
        if producer is not None and producer.sequence is not None
        else "a retry may append it twice (with a producer_id and a sequence it would not)"
    )
    return RequestTimedOutError(
        f"partition {part.key.partition}: not acknowledged{' in time' if is_timed_out else ''}"
        f" ({why}); whether it will be committed is unknown, {advice}"
    )
