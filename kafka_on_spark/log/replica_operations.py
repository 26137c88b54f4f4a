"""Operations on replicas' tables: load, decide, commit, and again after a conflict."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.base.errors import (
    CommitConflictError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import NO_CHAIN, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.log import operations, producer_state
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Batch, Border, MergedSegment, StagedBatch, WriterFence
from kafka_on_spark.log.compaction import was_cut_below_target
from kafka_on_spark.log.producer_state import (
    RegisteredProducers,
    find_put,
    not_above,
    registered_producers,
    unread_over,
    with_batches,
)
from kafka_on_spark.log.replicas import ReplicaLog, ReplicaStore
from kafka_on_spark.log.state import LastAppend, LogChange, ReplicaState
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import has_all_committed

log = logging.getLogger(__name__)

ReadBorders = Callable[[MergedSegment], tuple[Border, ...]]
"""Reads the borders in the file of a replica's merged segment."""


def no_borders(merged: MergedSegment) -> tuple[Border, ...]:
    """Read none, where no commit was put that may stand."""
    return ()


CheckState = Callable[[ReplicaState], None]
"""Refuses, by an error, to say of a log that was read that it has not an append."""


def anything_goes(state: ReplicaState) -> None:
    """Refuse nothing."""


ATTEMPTS_MAX: Final = 32
"""A table has one writer by design: twins and deposed leaders cause a few conflicts only."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append to one table, and the table after it.

    Attributes:
        batch: The batch in the log; None if the log no longer has its header.
        is_duplicate: The log had it before.
        last: Without a batch, where it stands, if that is known.
    """

    state: ReplicaState
    batch: Batch | None
    is_duplicate: bool
    last: LastAppend | None = None


def commit_decided(
    replica: ReplicaLog, decide: Callable[[ReplicaState], LogChange | None]
) -> ReplicaState:
    """Commit what `decide` says of the newest state; return the state after it.

    Raises:
        KafkaStorageError: Commits kept conflicting.
        And what `decide` and the log raise.
    """
    for _ in range(ATTEMPTS_MAX):
        state = replica.load()
        change = decide(state)
        if change is None:
            return state
        try:
            return replica.commit(state, change)
        except CommitConflictError:
            continue
    raise KafkaStorageError("commits to a replica keep conflicting", attempts=ATTEMPTS_MAX)


def begin_leadership(replica: ReplicaLog, partition: PartitionRegistration) -> ReplicaState:
    """Fence a leader's table at the partition's epoch, if its log has all committed records (I2).

    A log that has not is read again before it is called lost: a stale listing shows an older,
    shorter one.

    Raises:
        FencedLeaderEpochError: The table has adopted a later leadership: the image is old.
        NotLeaderOrFollowerError: The log start has moved on: the image is old.
        ReplicaLostError: The log lacks committed records; the replica is bad.
    """

    def decide(state: ReplicaState) -> LogChange | None:
        if partition.begins_empty and state.log_end_offset < partition.log_start_offset:
            return operations.truncate_fully_and_start_at(
                state,
                partition.log_start_offset,
                leader_epoch=partition.leader_epoch,
                # The log begins anew, with nothing: of what it had nobody knows whether it stands.
                producers=not_above(with_batches(state.producers, state.batches), Offset(0)),
                chain_before=NO_CHAIN,
            )
        change = operations.adopt(
            state,
            leader_epoch=partition.leader_epoch,
            truncate_to=None,
            floor=Offset(0),  # check_complete names what is missing
        )
        check_complete(state, partition)
        return change

    try:
        return commit_decided(replica, decide)
    except ReplicaLostError:
        return commit_decided(replica, decide)


def fence_older_writers(
    replica: ReplicaLog,
    state: ReplicaState,
    writer: WriterFence | None,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """Write a writer's epoch to a leader's table, last seen at `state`, before it appends.

    This takes one commit, the first time that a writer appends to a partition. `registered`: the
    producer ids that have not expired, if it is known.
    """
    if writer is None:
        return state
    leader_epoch = state.leader_epoch
    assert leader_epoch is not None, "a leadership has begun"
    if producer_state.fence_writer(state, writer, leader_epoch=leader_epoch) is None:
        return state
    return commit_decided(
        replica,
        lambda now: producer_state.fence_writer(
            now, writer, leader_epoch=leader_epoch, registered=registered
        ),
    )


def check_complete(state: ReplicaState, partition: PartitionRegistration) -> None:
    """Check that the log proves to have every record that `partition` has committed.

    Raises:
        NotLeaderOrFollowerError: The log start has moved on, or the log is merged past the high
            watermark: the image is old; or the replica is in neither ISR nor ELR, and may be
            behind.
        ReplicaLostError: The log lacks committed records; the replica is bad.
    """
    if state.log_start_offset > partition.log_start_offset:
        # Records were deleted since: the image is old, and says nothing of this log.
        raise NotLeaderOrFollowerError(
            "the log starts above the log start of this image: refresh",
            start=state.log_start_offset,
            log_start=partition.log_start_offset,
        )
    if proves_complete(state, partition):
        return
    if state.is_merged_over(partition.high_watermark):
        raise NotLeaderOrFollowerError(
            "the log is merged past the high watermark of this image: refresh",
            high_watermark=partition.high_watermark,
        )
    # Of a replica that only catches up, this is no fault.
    is_member = state.identity.broker_id in partition.isr | partition.elr
    kind = ReplicaLostError if is_member else NotLeaderOrFollowerError
    raise kind(
        "the log does not have all committed records",
        start=state.log_start_offset,
        end=state.log_end_offset,
        high_watermark=partition.high_watermark,
    )


def check_readable(state: ReplicaState, partition: PartitionRegistration) -> None:
    """Check that the log can be read up to the high watermark of `partition`.

    The image may be older than the log. What is merged was committed: a log that is merged past
    that high watermark has all below it, if it has the registered epoch there. A log start that has
    moved on says nothing against the records that are left. What compaction has removed from every
    member of the ISR is not read from a replica that still has it (I27).

    Raises: as `check_complete`; for a log start only where it is above that high watermark.
    """
    mark = partition.high_watermark
    if partition.log_start_offset < state.log_start_offset <= mark:
        partition = replace(partition, log_start_offset=state.log_start_offset)
    if not state.compaction.may_count(partition.compaction):
        raise NotLeaderOrFollowerError(
            "the replica is not compacted as far as it must be to be read: the next round of"
            " replication or pass of a controller does that",
            finished_below=state.compaction.finished_below,
            cleaned_below=partition.compaction.cleaned_below,
        )
    if lacks_replaced_records(state, partition):
        raise NotLeaderOrFollowerError(
            "the log lacks records that an unclean election has made the last of their keys again:"
            " read another",
            compacted_below=state.compaction.compacted_below,
            high_watermark=mark,
        )
    if (
        state.is_merged_over(mark)
        and state.log_start_offset <= partition.log_start_offset
        and state.epoch_at(Offset(mark - 1)) == partition.high_watermark_epoch
    ):
        return
    check_complete(state, partition)


def lacks_replaced_records(state: ReplicaState, partition: PartitionRegistration) -> bool:
    """Return whether a log lacks records that are the last of their keys again, since an unclean
    election has cut those that had replaced them (I27). The chain does not show it.

    What its leader has is all that is left.
    """
    if state.identity.broker_id == partition.leader:
        return False
    fence = state.leader_epoch
    return was_cut_below_target(
        state.compaction,
        high_watermark=partition.high_watermark,
        has_followed=fence is not None and fence >= partition.leader_epoch,
    )


def proves_complete(state: ReplicaState, partition: PartitionRegistration) -> bool:
    """Return whether the log has every record that `partition` has committed."""
    below = Offset(partition.high_watermark - 1)
    return has_all_committed(
        partition,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        epoch_below_high_watermark=state.epoch_at(below),
        chain_at_high_watermark=state.chain_at(partition.high_watermark),
    )


def with_borders_over(
    state: ReplicaState, puts: Sequence[Batch], read_borders: ReadBorders
) -> ReplicaState:
    """Return a log with the borders that tell whether commits that were put stand in it."""
    while (merged := unread_over(state, puts)) is not None:
        state = state.with_borders(merged, read_borders(merged))
    return state


def append(
    replica: ReplicaLog,
    staged: StagedBatch,
    state: ReplicaState,
    *,
    leader_epoch: LeaderEpoch,
    now_ms: int,
    expected_offset: Offset | None = None,
    puts: list[Batch] | None = None,
    read_borders: ReadBorders = no_borders,
    check_absent: CheckState = anything_goes,
) -> Appended:
    """Append `staged` to a leader's table last seen at `state`, or find it there.

    After a conflict the same files get offsets from the new log end; no byte is written again.
    `puts`: the commits of this append that may stand; this call adds its own. An append is never
    put again while one of them may stand, also if the batch was merged since.
    `check_absent` is called with each state that has not the append, after that was read.

    Raises: as `operations.append`, the log, `find_put` and `check_absent`.
    """
    puts = [] if puts is None else puts
    for _ in range(ATTEMPTS_MAX):
        state = with_borders_over(state, puts, read_borders)
        stands = find_put(state, puts)
        if stands is not None:
            return Appended(state, stands, is_duplicate=False)  # a commit of this append
        try:
            decided = operations.append(
                state,
                staged,
                leader_epoch=leader_epoch,
                now_ms=now_ms,
                expected_offset=expected_offset,
            )
        except OutOfOrderSequenceError:
            check_absent(state)
            raise
        if not isinstance(decided, LogChange):
            return Appended(state, decided.batch, is_duplicate=True, last=decided.last)
        check_absent(state)
        [batch] = decided.adds
        assert isinstance(batch, Batch), "an append makes a batch"
        puts.append(batch)
        try:
            return Appended(replica.commit(state, decided), batch, is_duplicate=False)
        except CommitConflictError:
            puts.remove(batch)  # certainly not written
            state = replica.load()
    raise KafkaStorageError("commits to the leader keep conflicting", attempts=ATTEMPTS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartOrder:
    """The replica, and the log start that was decided; and which producer ids have not expired,
    if any has."""

    address: ReplicaAddress
    log_start_offset: Offset
    registered: RegisteredProducers | None = None


def plan_log_starts(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[LogStartOrder]:
    """Return an order for each in-sync replica; the others follow when they fetch."""
    registered = registered_producers(image)
    return [
        LogStartOrder(
            address=address_of(image, key, partition, broker_id),
            log_start_offset=partition.log_start_offset,
            registered=registered,
        )
        for key in keys
        if (partition := image.partition(key)) is not None
        for broker_id in partition.isr
        if partition.is_created(broker_id) and image.brokers[broker_id].is_online
    ]


def run_log_start(order: LogStartOrder, replicas: ReplicaStore) -> str | None:
    """Move a replica's log start to the decided one; return why that failed, or None."""
    replica = replicas.open(order.address)
    try:
        advance_to(replica, replica.load(), order.log_start_offset, order.registered)
    except KafkaOnSparkError as error:
        return error.message
    return None


def advance_to(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """Move a log's start to `offset`, if its end is not below; return the state after it."""
    if offset > state.log_end_offset:
        return state
    try:
        while (change := operations.advance_log_start(state, offset, registered)) is not None:
            state = replica.commit(state, change)
    except CommitConflictError:
        pass  # another process has done it, or the next fetch will
    return state


def try_to_advance(
    replica: ReplicaLog,
    state: ReplicaState,
    offset: Offset,
    registered: RegisteredProducers | None = None,
) -> ReplicaState:
    """As `advance_to`, for whoever reads a log that needs no log start to be read.

    That a replica can't drop records yet says nothing against what it has: it must not cost a sound
    leader its leadership, nor a follower its place in the ISR. Upkeep tries it again, and reports.
    """
    try:
        return advance_to(replica, state, offset, registered)
    except KafkaOnSparkError as error:
        log.warning("a log start is left to upkeep: %s", error)
        return state


def log_start_task(order: LogStartOrder, worker: Worker) -> str | None:
    """Advance one replica's log start, to drop deleted records. A task."""
    return run_log_start(order, worker.replicas)
