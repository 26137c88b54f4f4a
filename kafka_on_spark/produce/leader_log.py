"""One partition's batch at its leader: the leader's log is read, fenced and committed to, and tells
whether the batch is acknowledged.

A leader's log is complete, or nothing is read from it or appended to it. What fails there is
recorded as the leader's, so that another one is elected.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from kafka_on_spark.base.errors import (
    REFUSES_WRITES,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.controller.inspections import SecondInspections
from kafka_on_spark.log.batch import Batch, ProducerStamp, StagedBatch
from kafka_on_spark.log.fetch import fetch, fetch_orders, partition_report
from kafka_on_spark.log.producer_state import (
    fence_producer,
    find_append,
    find_put,
    may_have_forgotten,
    registered_producers,
)
from kafka_on_spark.log.replicas import (
    Appended,
    ReadBorders,
    ReplicaLog,
    begin_leadership,
    commit_decided,
    commit_staged,
    fence_older_writers,
    with_borders_over,
)
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of, check_complete
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.node.node import Node
from kafka_on_spark.produce.idempotence import check_not_fenced, check_writer_not_fenced
from kafka_on_spark.produce.staging import ProducerRun


@dataclass(slots=True, kw_only=True)
class PartitionBatch:
    """One partition's records in an append, and how far they are.

    It is *staged*: tasks have written its files to roots of the ISR, and no commit names them. A
    try places them in the folder of the leader, whose table is fenced; then it is *appended*: a
    commit of that table gives the records their offsets. It is *answered* once it is as safe as
    `acks` asks, or with an error: it was refused, or its outcome is unknown.

    Attributes:
        staged: Its files, in task order.
        holders: Replicas whose folders have all the files.
        expected_offset: Append only if the log ends there; None: wherever it ends.
        is_appended: Some try has appended it, or has found it in the log.
        may_be_appended: A commit of it had an unknown outcome, so it can't be called not written.
        is_duplicate: It stood in the log before its first try.
        puts: Its commits that may stand, as they were put.
        last_error: The last error of a try or of the metadata log.
        registration: The partition as it was at the last try.
        running: That try, until its end was seen.
        result: What came of its last try that has ended; None: none has.
        leader: Where the replica is that it went to.
        replicas: Where that replica is, and those that were to fetch it from there.
        appended: How that log was seen with it; None if the try did not get so far.
        base_offset: Answered: the offset of its first record; None if it is a duplicate whose
            header the log no longer has, and not its producer's last append.
        append_time_ms: Answered: its records' timestamp, if the time of their append counts
            (LogAppendTime) and retention has not removed them.
        error: Answered: why it is not acknowledged. A RequestTimedOutError means unknown.
    """

    key: PartitionKey
    staged: StagedBatch
    holders: tuple[ReplicaAddress, ...]
    expected_offset: Offset | None = None
    is_appended: bool = False
    may_be_appended: bool = False
    is_duplicate: bool = False
    puts: list[Batch] = field(default_factory=list)
    last_error: KafkaOnSparkError | None = None
    registration: PartitionRegistration | None = None
    running: "Future[PartitionReport | KafkaOnSparkError] | None" = None
    result: "PartitionReport | KafkaOnSparkError | None" = None
    leader: ReplicaAddress | None = None
    log: ReplicaLog | None = None
    replicas: list[ReplicaAddress] = field(default_factory=list)
    appended: Appended | None = None
    is_answered: bool = False
    base_offset: Offset | None = None
    append_time_ms: int | None = None
    error: KafkaOnSparkError | None = None

    @property
    def size_bytes(self) -> int:
        """Of its files."""
        return sum(each.size_bytes for each in self.staged.segments)

    def is_outdated(self, image: MetadataImage) -> bool:
        """Return whether a try under way is not to be waited for: its partition has another leader,
        or does without a replica that it may wait for."""
        now, before = image.partition(self.key), self.registration
        if self.running is None or before is None or now is None:
            return False
        return now.leader_epoch != before.leader_epoch or now.isr != before.isr

    def anew(self) -> "PartitionBatch":
        """Return the same for another try beside the one under way. Both share the list `puts`:
        where one's commit has landed the other's conflicts, and finds it."""
        return replace(self, running=None, appended=None, may_be_appended=True)


def leader_of(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration
) -> ReplicaAddress:
    """Return where a partition's leader is. NotLeaderOrFollowerError: there is none, so nobody can
    say where the log ends."""
    if partition.leader is None or not partition.is_created(partition.leader):
        words = "has no leader: bring its brokers back, and append again"
        raise NotLeaderOrFollowerError(f"partition {image.name_of(key)} {words}")
    return address_of(image, key, partition, partition.leader)


@contextmanager
def _of_leader(
    node: Node, key: PartitionKey, partition: PartitionRegistration, leader: ReplicaAddress
) -> Iterator[None]:
    """Record an error as the leader's: its log can't be read or fenced, or lacks committed records.
    A damaged log may be retried: another replica may lead before the append's time is up."""
    try:
        yield
    except KafkaOnSparkError as error:
        report = partition_report(key, partition, leader, error, now_ms=node.clock.now_ms())
        node.part(SecondInspections).record([report])
        if isinstance(error, CorruptLogError):
            words = f"the leader's log can't be read: {error}"
            raise ReplicaLostError(words, **error.context) from error
        raise


def read_leader(node: Node, image: MetadataImage, key: PartitionKey) -> ReplicaState | None:
    """Return a leader's log, with all that is committed; nothing is written. None: nothing was ever
    appended to the partition, or it is gone. NotLeaderOrFollowerError: it has no leader, and may
    have records; or why the log can't be read."""
    partition = image.partition(key)
    if partition is None:
        return None
    is_new = partition.known_log_end == 0 and not partition.was_begun
    if is_new and (partition.leader is None or not partition.is_created(partition.leader)):
        return None
    leader = leader_of(image, key, partition)
    with _of_leader(node, key, partition, leader):
        log, check = node.replicas.open(leader), partial(check_complete, partition=partition)
        return commit_decided(log, check)  # which decides nothing


def fence_tries(
    node: Node, image: MetadataImage, key: PartitionKey, run: ProducerRun
) -> ReplicaState | None:
    """Return a leader's log once no older try of a run's append can come into the partition late.

    The leader's log has the run's epoch, and each replica that may lead next has adopted this
    leadership, which cuts off what the leader lacks. One case is left open: all of these are lost,
    and a replica from outside is elected because it proves to have all committed records.
    """
    partition = image.partition(key)
    if partition is None:
        return None
    leader = leader_of(image, key, partition)
    log = node.replicas.open(leader)
    fence = partial(
        fence_producer,
        producer_id=run.producer_id,
        producer_epoch=run.producer_epoch,
        leader_epoch=partition.leader_epoch,
        registered=registered_producers(image),
    )
    with _of_leader(node, key, partition, leader):
        begin_leadership(log, partition)
        state = commit_decided(log, fence)
    may_lead = sorted((partition.isr | partition.elr) - {partition.leader})
    others = [each for each in may_lead if partition.is_created(each)]
    orders = fetch_orders(image, key, partition, others, copy_bytes_max=0)
    for broker_id, order in zip(others, orders, strict=True):
        fetched = fetch(order, node.replicas, node.segments, node.clock, state)
        seen = fetched.report.replica(broker_id)
        if seen is None or not seen.counts_in(partition.leader_epoch):
            words = "can't be asked, and may have a first try of this append: bring the broker back"
            raise NotEnoughReplicasError(
                f"partition {key.partition}: the replica on broker {broker_id} {words} or let the"
                " controller fence it, and append again"
            )
    return state


def place(
    node: Node, image: MetadataImage, batch: PartitionBatch
) -> tuple[StagedBatch, ReplicaState]:
    """Fence the leader's table and have the batch's files in its folder; return them, under names
    of the leader's epoch, and what stood in its log when it was fenced.

    The table is fenced at the leader epoch first, then for the append's writer. So what is placed
    can be committed by this leadership only, and an older writer appends nothing after it.

    Raises:
        NotLeaderOrFollowerError: Nobody leads.
        CommitOutcomeUnknownError: The leader's log has lost the append.
        Why the leader's log can't be read or fenced.
        ProducerFencedError: A newer run of the producer, or a newer writer, has begun.
        KafkaStorageError: No root that answers has the files.
    """
    key, partition, staged = batch.key, batch.registration, batch.staged
    assert partition is not None, "a try begins with its partition"
    batch.leader = leader = leader_of(image, key, partition)
    batch.replicas = [leader]
    batch.log = log = node.replicas.open(leader)
    with _of_leader(node, key, partition, leader):
        is_first = batch.last_error is None and not batch.puts and not batch.is_appended
        state = begin_leadership(log, partition, log.known_soon() if is_first else None)
        if batch.puts:
            state = with_borders_over(state, batch.puts, partial(node.segments.borders, leader))
    # An earlier try has appended it; if it stands in this leader's log, no newer producer or writer
    # fences it.
    stands = batch.is_appended and (find_put(state, batch.puts) or find_append(state, staged))
    if not stands:
        check_names_unused(batch, state)
        # It is written now, perhaps again; a leader that was elected after a newer run began
        # knows nothing of that run.
        if staged.producer is not None:
            producer = staged.producer
            check_not_fenced(image.producers, producer.producer_id, producer.producer_epoch)
        if staged.writer is not None:
            check_writer_not_fenced(image.producers, staged.writer)
            state = fence_older_writers(log, state, staged.writer, registered_producers(image))
    return place_files(node.segments, batch, leader, partition.leader_epoch), state


def check_names_unused(batch: PartitionBatch, state: ReplicaState) -> None:
    """Check, of a batch that its leader's log has not, that the log has not lost it in this epoch:
    a follower may have had its files, and takes none of the same name again (I26)."""
    if batch.is_appended and any(put.leader_epoch == state.leader_epoch for put in batch.puts):
        raise CommitOutcomeUnknownError(
            "the leader's log had the append and lost it when its disk went back, and a follower"
            " may still have it: elect another leader, and the append goes on"
        )


def place_files(
    segments: SegmentStore,
    batch: PartitionBatch,
    leader: ReplicaAddress,
    leader_epoch: LeaderEpoch,
) -> StagedBatch:
    """Have the files in the leader's folder, under names of its epoch."""
    is_there = any(each.replica_uuid == leader.replica_uuid for each in batch.holders)
    files = batch.staged.segments
    if is_there and all(each.epoch_in_name == leader_epoch for each in files):
        return batch.staged
    renamed = batch.staged.renamed(leader_epoch)
    failure: KafkaOnSparkError = KafkaStorageError("no root has the files of this append")
    for holder in batch.holders:
        try:
            segments.copy(holder, leader, files, renamed.segments)
        except (KafkaStorageError, CorruptLogError) as error:
            failure = error
        else:
            return renamed
    # Copying writes to the leader's root alone.
    kept = (RootAccessDeniedError, *REFUSES_WRITES)
    kind = type(failure) if isinstance(failure, kept) else KafkaStorageError
    raise kind(str(failure)) from failure


def commit_batch(
    node: Node, batch: PartitionBatch, placed: StagedBatch, state: ReplicaState
) -> None:
    """Commit a placed batch to its leader's table, or find where it stands already. If an earlier
    try has appended it, it may stand there and be no duplicate."""
    assert batch.registration is not None
    assert batch.log is not None, "it was placed"
    assert batch.leader is not None
    batch.appended = appended = commit_staged(
        batch.log,
        placed,
        state,
        leader_epoch=state.leader_epoch or batch.registration.leader_epoch,
        now_ms=node.clock.now_ms(),
        expected_offset=batch.expected_offset,
        puts=batch.puts,
        read_borders=partial(node.segments.borders, batch.leader),
        check_absent=partial(check_remembered, placed.producer, node.metadata.catch_up),
    )
    batch.is_duplicate = batch.is_duplicate or (appended.is_duplicate and not batch.is_appended)
    batch.is_appended = True


def check_remembered(
    producer: ProducerStamp | None, catch_up: Callable[[], MetadataImage], state: ReplicaState
) -> None:
    """Check, of a log that was read and has not an append, that it has not forgotten it either.

    What a log knows of a producer goes once the id has expired. The image that the append was
    placed by may be older than the log, and still have the id: so this looks at the newest one, and
    after the log was read. If the id expires later the commit conflicts with that of whoever
    forgets it.
    """
    if producer is not None and may_have_forgotten(state):
        check_not_fenced(catch_up().producers, producer.producer_id, producer.producer_epoch)


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
    appended: Appended,
    leader: ReplicaLog,
    read_borders: ReadBorders = lambda merged: (),
) -> bool:
    """Return whether a batch is committed, as `is_committed`. If the high watermark has moved past
    what was seen, read the leader's log again; the batch may be merged there."""
    seen, batch = appended.state, appended.batch
    if is_committed(partition, seen, batch):
        return True
    if batch is None or partition.high_watermark <= seen.log_end_offset:
        return False
    try:
        now = with_borders_over(leader.load(), [batch], read_borders)
        return is_committed(partition, now, batch)
    except KafkaOnSparkError:
        return False  # the next try tells why
