"""Staged → placed → appended: an append's files come into the folder of its partition's leader, and
one commit of the leader's table gives the records their offsets.

The table is fenced first: at the leader epoch, then for the append's writer. So what is placed can
be committed by this leadership only, and an older writer appends nothing after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kafka_on_spark.base.errors import (
    REFUSES_WRITES,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import LeaderEpoch, PartitionKey
from kafka_on_spark.base.process import Clock
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Batch, ProducerStamp, Segment, StagedBatch
from kafka_on_spark.log.fetch import FetchOrder, fetch
from kafka_on_spark.log.fetch_reports import as_leaders_fault, leader_failed
from kafka_on_spark.log.open_puts import find_put
from kafka_on_spark.log.producer_state import fence_producer, find_append, may_have_forgotten
from kafka_on_spark.log.producers import registered_producers
from kafka_on_spark.log.replica_operations import (
    ReadBorders,
    append,
    begin_leadership,
    check_complete,
    commit_decided,
    fence_older_writers,
    no_borders,
    with_borders_over,
)
from kafka_on_spark.log.replicas import ReplicaStore, SegmentStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.produce.preconditions import has_unknown_end
from kafka_on_spark.produce.producer_runs import check_not_fenced
from kafka_on_spark.produce.producers import check_writer_not_fenced
from kafka_on_spark.produce.stage_plan import ProducerRun
from kafka_on_spark.produce.stages import AppendedPart, PlacedPart, StagedPart

CatchUp = Callable[[], MetadataImage]
"""Returns an image with all that was committed before the call."""


def append_placed(
    placed: PlacedPart,
    *,
    catch_up: CatchUp,
    is_appended: bool,
    is_duplicate: bool,
    now_ms: int,
    puts: list[Batch] | None = None,
    read_borders: ReadBorders = no_borders,
) -> AppendedPart:
    """Commit a placed part to its leader's table, or find where it stands already.

    `is_appended`: an earlier try has appended it, so that it may stand there and be no duplicate,
    and the log need not end where a conditional append expected. `is_duplicate`: that try found it
    in the log. `puts`: as in `replica_operations.append`.

    Raises: as `replica_operations.append`, `check_remembered` and `catch_up`.
    """
    appended = append(
        placed.log,
        placed.batch,
        placed.state,
        leader_epoch=placed.state.leader_epoch or placed.partition.leader_epoch,
        now_ms=now_ms,
        expected_offset=None if is_appended else placed.part.expected_offset,
        puts=puts,
        read_borders=read_borders,
        check_absent=partial(check_remembered, placed.batch.producer, catch_up),
    )
    return AppendedPart(
        placed=placed,
        batch=appended.batch,
        state=appended.state,
        is_duplicate=is_duplicate or (appended.is_duplicate and not is_appended),
        last=appended.last,
    )


def check_remembered(
    producer: ProducerStamp | None, catch_up: CatchUp, state: ReplicaState
) -> None:
    """Check, of a log that was read and has not an append, that it has not forgotten it either.

    What a log knows of a producer goes once the id has expired. The image that the append was
    placed by may be older than the log, and still have the id: so this looks at the newest one, and
    after the log was read. If the id expires later the commit conflicts with
    that of whoever forgets it.

    Raises:
        ProducerFencedError: A newer run of the producer has begun.
        UnknownProducerIdError: The id has expired.
        And as `catch_up`.
    """
    if producer is not None and may_have_forgotten(state):
        check_not_fenced(catch_up().producers, producer.producer_id, producer.producer_epoch)


@dataclass(frozen=True, slots=True)
class LeaderFailure:
    """The leader's log could not be read or fenced, or it lacks committed records.

    Attributes:
        error: What the append met.
        report: The same as a report on the leader's replica; None: there is no leader.
    """

    error: KafkaOnSparkError
    report: PartitionReport | None


def read_leader(
    image: MetadataImage, key: PartitionKey, *, replicas: ReplicaStore, clock: Clock
) -> ReplicaState | LeaderFailure | None:
    """Return a leader's log, with all that is committed; nothing is written.

    None: nothing was ever appended to the partition, or it is gone.
    """
    partition = image.partition(key)
    if partition is None:
        return None
    if has_unknown_end(partition):
        error = NotLeaderOrFollowerError(
            f"partition {image.name_of(key)} has no leader, so what stands in its log and where its"
            " log ends is not known, and nothing was appended: bring its brokers back, and append"
            " again"
        )
        return LeaderFailure(error, None)
    if partition.leader is None or not partition.is_created(partition.leader):
        return None
    leader = address_of(image, key, partition, partition.leader)
    log = replicas.open(leader)
    try:
        try:
            check_complete(state := log.load(), partition)
        except ReplicaLostError:  # a stale listing shows an older, shorter log
            check_complete(state := log.load(), partition)
    except KafkaOnSparkError as error:
        report = leader_failed(key, partition, leader, error, clock.now_ms())
        return LeaderFailure(as_leaders_fault(error), report)
    return state


def fence_tries(
    image: MetadataImage,
    key: PartitionKey,
    *,
    run: ProducerRun,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
) -> ReplicaState | LeaderFailure | None:
    """Return a leader's log once no older try of a run's append can come into the partition late.

    The leader's log has the run's epoch, and each replica that may lead next has adopted this
    leadership, which cuts off what the leader lacks. One case is left open: all of these are lost,
    and a replica from outside is elected because it proves to have all committed records.
    """
    partition = image.partition(key)
    if partition is None:
        return None
    if partition.leader is None or not partition.is_created(partition.leader):
        words = "has no leader, and may have a first try of this append: bring its brokers back"
        error = NotLeaderOrFollowerError(f"partition {key.partition} {words}, and append again")
        return LeaderFailure(error, None)
    leader, registered = (
        address_of(image, key, partition, partition.leader),
        registered_producers(image),
    )
    log = replicas.open(leader)
    fence = partial(
        fence_producer,
        producer_id=run.producer_id,
        producer_epoch=run.producer_epoch,
        leader_epoch=partition.leader_epoch,
        registered=registered,
    )
    try:
        begin_leadership(log, partition)
        state = commit_decided(log, fence)
    except KafkaOnSparkError as met:
        report = leader_failed(key, partition, leader, met, clock.now_ms())
        return LeaderFailure(as_leaders_fault(met), report)
    for broker_id in sorted((partition.isr | partition.elr) - {partition.leader}):
        if not partition.is_created(broker_id):
            continue
        order = FetchOrder(
            key=key,
            partition=partition,
            leader=leader,
            follower=address_of(image, key, partition, broker_id),
            fetch_bytes_max=0,
            copy_bytes_max=0,
            registered=registered,
        )
        seen = fetch(order, replicas, segments, clock, state).report.replica(broker_id)
        if seen is None or not seen.counts_in(partition.leader_epoch):
            words = "can't be asked, and may have a first try of this append: bring the broker back"
            absent = NotEnoughReplicasError(
                f"partition {key.partition}: the replica on broker {broker_id} {words} or let the"
                " controller fence it, and append again"
            )
            return LeaderFailure(absent, None)
    return state


def place(
    image: MetadataImage,
    part: StagedPart,
    partition: PartitionRegistration,
    *,
    is_appended: bool,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
    puts: Sequence[Batch] = (),
) -> PlacedPart | LeaderFailure:
    """Fence the leader's table and have the part's files in its folder.

    `is_appended`: an earlier try has appended it; if it stands in this leader's log, no newer
    producer or writer fences it. `puts`: its commits that may stand.

    Raises:
        NotLeaderOrFollowerError: Nobody leads.
        ProducerFencedError: A newer run of the producer, or a newer writer, has begun.
        KafkaStorageError: No root that answers has the files.
    """
    if partition.leader is None or not partition.is_created(partition.leader):
        raise NotLeaderOrFollowerError(f"partition {image.name_of(part.key)} has no leader")
    leader = address_of(image, part.key, partition, partition.leader)
    log = replicas.open(leader)
    try:
        state = begin_leadership(log, partition)
        state = with_borders_over(state, puts, partial(segments.borders, leader))
    except KafkaOnSparkError as error:
        report = leader_failed(part.key, partition, leader, error, clock.now_ms())
        return LeaderFailure(as_leaders_fault(error), report)
    producer, writer = part.batch.producer, part.batch.writer
    if not (is_appended and (find_put(state, puts) or find_append(state, part.batch))):
        # It is written now, perhaps again; a leader that was elected after a newer run began
        # knows nothing of that run.
        if producer is not None:
            check_not_fenced(image.producers, producer.producer_id, producer.producer_epoch)
        check_writer_not_fenced(image.producers, writer)
        state = fence_older_writers(log, state, writer, registered_producers(image))
    return PlacedPart(
        part=part,
        batch=place_files(segments, part, leader, partition.leader_epoch),
        partition=partition,
        leader=leader,
        log=log,
        state=state,
    )


def place_files(
    segments: SegmentStore,
    part: StagedPart,
    leader: ReplicaAddress,
    leader_epoch: LeaderEpoch,
) -> StagedBatch:
    """Have the files in the leader's folder, under names of its epoch.

    Raises:
        KafkaStorageError: No root that answers has them.
    """
    is_there = any(each.replica_uuid == leader.replica_uuid for each in part.holders)
    files = part.batch.segments
    if is_there and all(each.epoch_in_name == leader_epoch for each in files):
        return part.batch
    renamed = part.batch.renamed(leader_epoch)
    names = [each.file_name for each in renamed.segments]
    _copy_from_any(segments, part.holders, leader, files, names)
    return renamed


def _copy_from_any(
    segments: SegmentStore,
    holders: Sequence[ReplicaAddress],
    leader: ReplicaAddress,
    files: Sequence[Segment],
    names: Sequence[str],
) -> None:
    failure: KafkaOnSparkError = KafkaStorageError("no root has the files of this append")
    for holder in holders:
        try:
            segments.copy(holder, leader, files, names)
        except (KafkaStorageError, CorruptLogError) as error:
            failure = error
        else:
            return
    # Copying writes to the leader's root alone.
    kept = (RootAccessDeniedError, *REFUSES_WRITES)
    kind = type(failure) if isinstance(failure, kept) else KafkaStorageError
    raise kind(str(failure)) from failure
