"""One follower's fetch from its leader: adopt its leadership, copy, commit, report.

It runs in a task and may run twice at the same time: every step is a conditional commit. Each
step returns an outcome (`fetch_outcomes.py`), so that a fetch never raises for what a root or a
table does: one partition's failure stops no other. Source: Kafka's AbstractFetcherThread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from kafka_on_spark.controller.partitions.reports import PartitionReport
from kafka_on_spark.errors import (
    CommitConflictError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.log import operations
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.epochs import latest_epoch_with_records
from kafka_on_spark.log.follower.fetch_checks import (
    becomes_a_copy,
    check_fetch,
    check_tombstones,
    first_batches,
    is_above,
)
from kafka_on_spark.log.follower.truncation import fetch_start
from kafka_on_spark.log.leadership import check_leader_epoch
from kafka_on_spark.log.merged_segment import LogPart
from kafka_on_spark.log.producers import RegisteredProducers
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.ports.replicas import ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.service.replica.log_starts import try_to_advance
from kafka_on_spark.service.replica.replica_operations import begin_leadership
from kafka_on_spark.service.replicate.fetching.comparing import Compared, follow_by, read_to_compare
from kafka_on_spark.service.replicate.fetching.complete_followers import (
    end_offset_min,
    loss_of,
    must_be_complete,
)
from kafka_on_spark.service.replicate.fetching.fetch_outcomes import (
    Conflict,
    Diverged,
    FetchOutcome,
    FollowerRefused,
    LeaderRefused,
    answer_of,
)
from kafka_on_spark.service.replicate.fetching.fetch_reports import (
    ends_alike,
    missing_batches,
    report_of,
)
from kafka_on_spark.service.replicate.fetching.fetched_files import bring_files

ATTEMPTS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """One follower's fetch, planned on an image.

    Attributes:
        key: The partition.
        partition: Its registration in that image.
        leader: The leader's replica.
        follower: The follower's replica; None: the fetch inspects the leader only.
        fetch_bytes_max: Bytes a commit; one batch at least. Source: replica.fetch.max.bytes.
        copy_bytes_max: Bytes that a throttle grants; one batch at least, unless 0; None: no bound.
        copy_ms_max: For how long it copies; one commit at least.
        is_uncached: Both tables are opened without what this process knows of them.
        suspect: A file that was found bad: of the follower, or of the leader if there is none.
        registered: The producer ids that have not expired; None: none has, or it is not known.
    """

    key: PartitionKey
    partition: PartitionRegistration
    leader: ReplicaAddress
    follower: ReplicaAddress | None
    fetch_bytes_max: int
    copy_bytes_max: int | None = None
    copy_ms_max: float = inf
    is_uncached: bool = False
    suspect: Segment | None = None
    registered: RegisteredProducers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What a fetch did and saw: one row back to the driver.

    Attributes:
        report: On the leader and at most one follower.
        copied_bytes: Bytes of the segments that were committed to the follower.
        copied_records: Their records.
        truncated_records: Records cut from the follower.
    """

    report: PartitionReport
    copied_bytes: int = 0
    copied_records: int = 0
    truncated_records: int = 0


RunFetches = Callable[[Sequence[FetchOrder]], list[FetchResult]]
"""Runs fetches, and returns a result for each, in order."""

FollowerOutcome = ReplicaState | LeaderRefused | FollowerRefused | Diverged
"""What becomes of a follower whose leader could be read."""


def fetch(
    order: FetchOrder,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
    leader_state: ReplicaState | None = None,
) -> FetchResult:
    """Bring `order.follower` up to its leader; return what was seen of both.

    `leader_state`: what the caller has just seen of the leader, fenced at the order's epoch.
    """
    fetcher = _Fetcher(order, replicas, segments, clock)
    outcome = fetcher.run(leader_state)
    seen = report_of(outcome, order.partition, order.leader, order.follower, now_ms=clock.now_ms())
    return FetchResult(
        report=seen,
        copied_bytes=fetcher.copied_bytes,
        copied_records=fetcher.copied_records,
        truncated_records=fetcher.truncated_records,
    )


class _Fetcher:
    """The steps of one fetch, and what they moved."""

    def __init__(
        self, order: FetchOrder, replicas: ReplicaStore, segments: SegmentStore, clock: Clock
    ) -> None:
        opened = replicas.open_uncached if order.is_uncached else replicas.open
        self._order = order
        self._partition = order.partition
        self._epoch = order.partition.leader_epoch
        self._segments = segments
        self._clock = clock
        self._leader_log = opened(order.leader)
        self._follower_log = None if order.follower is None else opened(order.follower)
        self._compared: ReplicaState | None = None  # the leader's, with what was read to compare
        self._begins_empty = False
        self.copied_bytes = self.copied_records = self.truncated_records = 0

    def run(self, leader: ReplicaState | None) -> FetchOutcome:
        """Fetch, and return what became of both sides."""
        # The follower is read before its leader: what it has, the leader must have.
        follower = None if self._follower_log is None else self._read_follower()
        seen = answer_of(lambda: self._check_leadership(leader), LeaderRefused)
        if isinstance(seen, LeaderRefused):
            return FetchOutcome(seen, follower if isinstance(follower, FollowerRefused) else None)
        if not isinstance(follower, ReplicaState):
            return FetchOutcome(seen, follower)
        newest = self._leader_beside(seen, follower)
        if isinstance(newest, LeaderRefused):
            return FetchOutcome(newest, None)
        if not isinstance(newest, ReplicaState):
            return FetchOutcome(seen, newest)
        after = self._catch_up(follower, newest)
        if isinstance(after, LeaderRefused):
            return FetchOutcome(after, None)
        return FetchOutcome(self._compared or newest, after)

    def _read_follower(self) -> ReplicaState | FollowerRefused:
        """Return the follower's state, unless it has seen a later leadership."""
        return answer_of(self._load_follower, FollowerRefused)

    def _load_follower(self) -> ReplicaState:
        address, replica = self._follower_side()
        state = replica.load()
        self._check_suspect(address, replica, state)
        if state.is_fenced_above(self._epoch):  # the plan is stale
            check_leader_epoch(state.leader_epoch, self._epoch)
        return state

    def _load_leader(self) -> ReplicaState:
        """Return the leader's state, fenced at the current epoch: else it can't be planned on."""
        state = begin_leadership(self._leader_log, self._partition)
        if self._follower_log is None:
            self._check_suspect(self._order.leader, self._leader_log, state)
        return self._advanced(self._leader_log, state)

    def _check_suspect(
        self, address: ReplicaAddress, replica: ReplicaLog, state: ReplicaState
    ) -> None:
        """Check the file that was found bad, if the log names it before and after: old files are
        removed, also while one of them is read."""
        suspect = self._order.suspect
        if suspect is None or not _names(state, suspect):
            return
        try:
            self._segments.check(address, suspect)
        except CorruptLogError:
            if _names(replica.load(), suspect):
                raise

    def _check_leadership(self, seen: ReplicaState | None) -> ReplicaState:
        """Return the leader's state if it is of the leadership that the fetch was planned on."""
        leader = self._load_leader() if seen is None else seen
        check_leader_epoch(leader.leader_epoch, self._epoch)
        return leader

    def _leader_beside(
        self, leader: ReplicaState, follower: ReplicaState
    ) -> ReplicaState | LeaderRefused | FollowerRefused | Diverged:
        """Return a state of the leader that is not older than the follower's.

        If a follower under the same fence has the larger end, the leader's state is stale and is
        read again. If the follower is still ahead, one of both has lost or changed commits.
        """
        if not follower.is_fenced_at(self._epoch) or not is_above(follower, leader):
            return leader
        newest = answer_of(self._load_leader, LeaderRefused)
        if isinstance(newest, ReplicaState) and is_above(follower, newest):
            return self._diverged(follower)
        return newest

    def _catch_up(self, follower: ReplicaState, leader: ReplicaState) -> FollowerOutcome:
        """Adopt the leadership, and take what the leader has up to its end as seen."""
        broker_id = self._follower_side()[0].broker_id
        if loss_of(self._partition, broker_id, follower) is not None:
            newest = self._read_follower()  # a stale state is no loss
            if isinstance(newest, FollowerRefused):
                return newest
            follower = newest
        for _ in range(ATTEMPTS_MAX):
            loss = loss_of(self._partition, broker_id, follower)
            if loss is not None:
                return FollowerRefused(loss)
            after = self._follow(follower, leader)
            if not isinstance(after, Conflict):
                return after
            # A twin or a newer leadership was here; what it left decides.
            newest = self._read_follower()
            if isinstance(newest, FollowerRefused):
                return newest
            follower = newest
        return FollowerRefused(KafkaStorageError("commits to the follower keep conflicting"))

    def _follow(self, follower: ReplicaState, leader: ReplicaState) -> FollowerOutcome | Conflict:
        """Compare both logs, adopt the leadership, and take what the follower lacks."""
        compared = read_to_compare(
            follower,
            leader,
            segments=self._segments,
            follower_address=self._follower_side()[0],
            leader_address=self._order.leader,
            leader_epoch=self._epoch,
        )
        if not isinstance(compared, Compared):
            return compared
        self._compared = compared.leader
        after = self._adopt(compared.follower, compared.leader)
        if not isinstance(after, ReplicaState):
            return after
        return self._take_all(after, compared.leader)

    def _adopt(
        self, follower: ReplicaState, leader: ReplicaState
    ) -> ReplicaState | Conflict | FollowerRefused:
        """Move the follower to the leadership: fence and truncation in one commit."""
        address = self._follower_side()[0]
        floor = end_offset_min(self._partition, address.broker_id)
        change = answer_of(
            lambda: follow_by(self._segments, address, follower, leader, self._epoch, floor),
            FollowerRefused,
        )
        if change is None:
            return follower
        if isinstance(change, FollowerRefused):
            return change
        after = self._commit(follower, change)
        if isinstance(after, ReplicaState):
            self.truncated_records += max(0, follower.log_end_offset - change.log_end_offset)
        return after

    def _commit(
        self, follower: ReplicaState, change: LogChange
    ) -> ReplicaState | Conflict | FollowerRefused:
        """Commit a change of the follower's log; return the state after it."""
        try:
            return self._follower_side()[1].commit(follower, change)
        except CommitConflictError:
            return Conflict()
        except KafkaOnSparkError as error:
            return FollowerRefused(error)

    def _take_all(self, follower: ReplicaState, leader: ReplicaState) -> FollowerOutcome | Conflict:
        """Copy and commit what the follower lacks, as far as the order's bytes and time go."""
        if is_above(follower, leader):  # a twin has taken more than was seen of the leader
            return follower
        missing = self._missing(follower, leader)
        if not isinstance(missing, tuple):
            return missing
        self._begins_empty = not follower.batches  # each commit is decided on the one before
        until_ms = self._clock.monotonic_ms() + self._order.copy_ms_max
        while missing and (bytes_max := self._bytes_max(until_ms)):
            taken = first_batches(missing, bytes_max)
            after = self._copy_and_commit(follower, taken, leader)
            if not isinstance(after, ReplicaState):
                return after
            follower = after
            self.copied_bytes += sum(batch.size_bytes for batch in taken)
            self.copied_records += sum(batch.record_count for batch in taken)
            missing = missing[len(taken) :]
        return self._advanced(self._follower_side()[1], follower)

    def _advanced(self, replica: ReplicaLog, state: ReplicaState) -> ReplicaState:
        start = self._partition.log_start_offset
        return try_to_advance(replica, state, start, self._order.registered)

    def _missing(
        self, follower: ReplicaState, leader: ReplicaState
    ) -> tuple[LogPart, ...] | FollowerRefused | Diverged:
        """Return the leader's batches that the follower lacks, if the leader's log continues it.

        Kafka's check of a fetch comes first, by epochs; then the chain, which tells logs apart
        that were written twice under one epoch.
        """
        refused = answer_of(lambda: check_tombstones(follower, leader), FollowerRefused)
        if refused is not None:
            return refused
        end, last_epoch = follower.log_end_offset, latest_epoch_with_records(follower)
        divergence = answer_of(
            lambda: check_fetch(leader, end, last_fetched_epoch=last_epoch), FollowerRefused
        )
        if isinstance(divergence, FollowerRefused):
            return divergence
        if divergence is not None or not ends_alike(follower, leader):
            return self._diverged(follower)
        return answer_of(lambda: missing_batches(follower, leader), FollowerRefused)

    def _copy_and_commit(
        self, follower: ReplicaState, batches: Sequence[LogPart], leader: ReplicaState
    ) -> FollowerOutcome | Conflict:
        """Copy the files of `batches`, then commit the batches to the follower's log."""
        start_offset = fetch_start(follower, leader)
        assert start_offset is not None, "the logs end alike"
        brought = bring_files(
            self._segments,
            self._order.leader,
            self._follower_side()[0],
            batches,
            start_offset=start_offset,
            leader_epoch=self._epoch,
        )
        if isinstance(brought, LeaderRefused | FollowerRefused):
            return brought
        takes_all = self._begins_empty and batches[-1] is leader.batches[-1]
        try:
            change = operations.append_fetched(
                follower,
                brought,
                leader_epoch=self._epoch,
                leader_compaction=leader.compaction,
                leader_producers=leader.producers,
                is_whole=takes_all or becomes_a_copy(follower, batches, leader),
            )
        except CorruptLogError as error:  # batches whose chain does not compute are the leader's
            return LeaderRefused(error)
        except KafkaOnSparkError as error:
            return FollowerRefused(error)
        return self._commit(follower, change)

    def _bytes_max(self, until_ms: float) -> int:
        """Return how many bytes the next commit may bring; 0: nothing more this time."""
        if self.copied_bytes and self._clock.monotonic_ms() >= until_ms:
            return 0
        at_once = max(1, self._order.fetch_bytes_max)
        granted = self._order.copy_bytes_max
        return at_once if granted is None else max(0, min(at_once, granted - self.copied_bytes))

    def _diverged(self, follower: ReplicaState) -> FollowerRefused | Diverged:
        """Return the outcome of a follower whose log is not its leader's under the leader's epoch.

        One of both lost or changed commits. The chains of both compute, and the leader has proved
        to have what is committed. A follower that lacks some of that is bad. So is one outside ISR
        and ELR, on which nothing rests: it is fetched again. Of two logs that have all of it nobody
        knows which is right: the fetch does not guess.
        """
        broker_id = self._follower_side()[0].broker_id
        loss = loss_of(self._partition, broker_id, follower)
        if loss is not None:
            return FollowerRefused(loss)
        if must_be_complete(self._partition, broker_id):
            return Diverged(follower)
        error = "the replica has another log than its leader"
        return FollowerRefused(ReplicaLostError(error, end=follower.log_end_offset))

    def _follower_side(self) -> tuple[ReplicaAddress, ReplicaLog]:
        assert self._order.follower is not None
        assert self._follower_log is not None
        return self._order.follower, self._follower_log


def _names(state: ReplicaState, segment: Segment) -> bool:
    return any(segment in batch.segments for batch in state.batches)
