"""One follower's fetch from its leader: adopt, copy, commit, report.

Runs in a task, on an executor or in a thread, and may run twice at the same time: every step is
a conditional commit. It answers with a report and never raises for what a root or a table does:
one partition's failure stops no other. Source: Kafka's AbstractFetcherThread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.reports import PartitionReport, ReplicaReport
from kafka_on_spark.errors import (
    CommitConflictError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ReplicaLostError,
)
from kafka_on_spark.ids import Offset, PartitionKey
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import Batch, Segment
from kafka_on_spark.log.epochs import latest_epoch_with_records
from kafka_on_spark.log.fetching import OffsetPlace, check_fetch, first_batches, place_of
from kafka_on_spark.log.leadership import check_leader_epoch
from kafka_on_spark.log.state import LogChange, ReplicaState
from kafka_on_spark.log.truncation import follow
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.ports import Clock, ReplicaAddress, ReplicaLog, ReplicaStore, SegmentStore
from kafka_on_spark.service.fetch_reports import (
    ends_alike,
    failed_report,
    missing_batches,
    partition_report,
    state_report,
)
from kafka_on_spark.service.log_starts import advance_to
from kafka_on_spark.service.replicas import begin_leadership

ATTEMPTS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """One follower's fetch, planned on an image.

    Attributes:
        key: The partition.
        partition: Its registration in that image.
        leader: The leader's replica.
        follower: The follower's; None to look at the leader only.
        fetch_bytes_max: Bytes a commit; one batch at least. Source: replica.fetch.max.bytes.
        copy_bytes_max: Bytes in all, of a throttle's; one batch at least, unless 0; None: all
            that there is.
        is_anew: Both tables are opened without what this process knows of them: a second look.
        suspect: A file of the follower's, or of the leader's where there is none, that was found
            bad.
    """

    key: PartitionKey
    partition: PartitionRegistration
    leader: ReplicaAddress
    follower: ReplicaAddress | None
    fetch_bytes_max: int
    copy_bytes_max: int | None = None
    is_anew: bool = False
    suspect: Segment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What a fetch did and saw: one row back to the driver.

    Attributes:
        report: Leader and at most one follower.
        copied_bytes: Segments committed to the follower, in bytes.
        copied_records: The same in records.
        truncated_records: Records cut from the follower.
    """

    report: PartitionReport
    copied_bytes: int = 0
    copied_records: int = 0
    truncated_records: int = 0


class _RefusedError(Exception):
    """A side of the fetch can't go on; carries its report."""

    def __init__(self, report: ReplicaReport) -> None:
        super().__init__(report.error)
        self.report = report


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
    opened = replicas.open_anew if order.is_anew else replicas.open
    leader_log = opened(order.leader)
    follower_state: ReplicaState | None = None
    fetcher = _Fetcher(order, segments)
    follower_log = None if order.follower is None else opened(order.follower)
    follower_report = None
    try:
        if follower_log is not None:  # before its leader: what it has, the leader must have
            follower_state = fetcher.load_follower(follower_log)
    except _RefusedError as refused:
        follower_report = refused.report
    try:
        if leader_state is None:
            leader_state = fetcher.load_leader(leader_log)
        fetcher.check_leadership(leader_state)
    except _RefusedError as refused:
        return fetcher.result(refused.report, None, follower_report, clock)
    try:
        if follower_log is not None and follower_state is not None:
            leader_state = fetcher.check_lead(leader_log, leader_state, follower_state)
            follower_state = fetcher.catch_up(follower_log, follower_state, leader_state)
            follower_report = fetcher.report_follower(follower_state, leader_state)
    except _RefusedError as refused:
        if refused.report.broker_id == order.leader.broker_id:
            return fetcher.result(refused.report, None, None, clock)
        follower_report = refused.report
    return fetcher.result(fetcher.report_leader(leader_state), leader_state, follower_report, clock)


class _Fetcher:
    """The steps of one fetch, and what they moved."""

    def __init__(self, order: FetchOrder, segments: SegmentStore) -> None:
        self._order = order
        self._segments = segments
        self._epoch = order.partition.leader_epoch
        self.copied_bytes = 0
        self.copied_records = 0
        self.truncated_records = 0

    def load_follower(self, follower_log: ReplicaLog) -> ReplicaState:
        """Return the follower's state, unless it has seen a later leadership."""
        assert self._order.follower is not None
        try:
            state = follower_log.load()
            self._check_suspect(self._order.follower, state)
            if state.is_fenced_above(self._epoch):  # the plan is stale
                check_leader_epoch(state.leader_epoch, self._epoch)
        except KafkaOnSparkError as error:
            raise _RefusedError(failed_report(self._order.follower, error)) from error
        return state

    def load_leader(self, leader_log: ReplicaLog) -> ReplicaState:
        """Return the leader's state, fenced at the current epoch: else it can't be planned on."""
        try:
            state = begin_leadership(leader_log, self._order.partition)
            if self._order.follower is None:
                self._check_suspect(self._order.leader, state)
            return advance_to(leader_log, state, self._order.partition.log_start_offset)
        except KafkaOnSparkError as error:
            raise _RefusedError(failed_report(self._order.leader, error)) from error

    def _check_suspect(self, address: ReplicaAddress, state: ReplicaState) -> None:
        """Check the file that was found bad, if the log still names it: old ones are removed."""
        suspect = self._order.suspect
        if suspect is not None and any(suspect in batch.segments for batch in state.batches):
            self._segments.check(address, suspect)

    def check_leadership(self, leader: ReplicaState) -> None:
        """Check that the leader's log, as it was seen, is of the leadership of the plan."""
        try:
            check_leader_epoch(leader.leader_epoch, self._epoch)
        except KafkaOnSparkError as error:
            raise _RefusedError(failed_report(self._order.leader, error)) from error

    def check_lead(
        self, leader_log: ReplicaLog, leader: ReplicaState, follower: ReplicaState
    ) -> ReplicaState:
        """Return a look at the leader that is not older than the follower's log.

        A follower under the same fence with the larger end means a stale look; if it stands,
        one of both lost or changed commits.
        """
        if not follower.is_fenced_at(self._epoch):
            return leader
        if not _is_above(follower, leader):
            return leader
        leader = self.load_leader(leader_log)
        if _is_above(follower, leader):
            raise self._parted(follower)
        return leader

    def catch_up(
        self, follower_log: ReplicaLog, follower: ReplicaState, leader: ReplicaState
    ) -> ReplicaState:
        """Adopt the leadership and take what the leader has up to its end as seen."""
        assert self._order.follower is not None
        try:
            if self._lacks(follower) is not None:
                follower = self.load_follower(follower_log)  # a stale look is no loss
            for _ in range(ATTEMPTS_MAX):
                lacks = self._lacks(follower)
                if lacks is not None:
                    raise lacks
                try:
                    follower = self._adopt(follower_log, follower, leader)
                    return self._take_all(follower_log, follower, leader)
                except CommitConflictError:
                    # A twin or a newer leadership was here; what it left decides.
                    follower = self.load_follower(follower_log)
            raise KafkaStorageError("commits to the follower keep conflicting")
        except KafkaOnSparkError as error:
            raise _RefusedError(failed_report(self._order.follower, error)) from error

    def _adopt(
        self, follower_log: ReplicaLog, follower: ReplicaState, leader: ReplicaState
    ) -> ReplicaState:
        change = follow(follower, leader, leader_epoch=self._epoch, floor=self._floor())
        if change is None:
            return follower
        cut_records = max(0, follower.log_end_offset - change.log_end_offset)
        follower = follower_log.commit(follower, change)
        self.truncated_records += cut_records
        return follower

    def _lacks(self, follower: ReplicaState) -> ReplicaLostError | None:
        """Return what a log that must be complete lacks of what the register has as committed.

        Who is in sync or eligible ends at the high watermark or above it and has its chain
        digest; both hold of a later register, too. Nothing is known of what lies below the log
        start.
        """
        partition = self._order.partition
        end, mark = follower.log_end_offset, partition.high_watermark
        if not self._must_be_complete():
            return None
        if end < mark:
            return ReplicaLostError(
                "the replica is shorter than what is committed", end=end, high_watermark=mark
            )
        if follower.log_start_offset > mark:
            return None
        if follower.chain_at(mark) != partition.high_watermark_chain:
            return ReplicaLostError(
                "the replica has other records than those that are committed", high_watermark=mark
            )
        return None

    def _floor(self) -> Offset:
        """Return the end below which this follower must not fall (I14).

        Who is in sync has all committed records, and so has an eligible leader replica; an
        end below the high watermark means that it lost some. Anybody else may lack them, and
        may hold a deposed leader's in their place.
        """
        return self._order.partition.high_watermark if self._must_be_complete() else Offset(0)

    def _must_be_complete(self) -> bool:
        """Return whether the follower is in sync or eligible, so that records rest on it."""
        partition = self._order.partition
        assert self._order.follower is not None
        return self._order.follower.broker_id in partition.isr | partition.elr

    def _take_all(
        self, follower_log: ReplicaLog, follower: ReplicaState, leader: ReplicaState
    ) -> ReplicaState:
        if not self._is_one_log(follower, leader):
            return follower
        missing = missing_batches(follower, leader)
        while missing and (bytes_max := self._bytes_max()):
            taken = first_batches(missing, bytes_max)
            self._copy([segment for batch in taken for segment in batch.segments])
            change = self._continued(follower, taken)
            follower = follower_log.commit(follower, change)
            self.copied_bytes += sum(batch.size_bytes for batch in taken)
            self.copied_records += sum(batch.record_count for batch in taken)
            missing = missing[len(taken) :]
        return advance_to(follower_log, follower, self._order.partition.log_start_offset)

    def _bytes_max(self) -> int:
        """Return how many bytes the next commit may bring; 0: nothing more this time."""
        dealt = self._order.copy_bytes_max
        if dealt is None:
            return max(1, self._order.fetch_bytes_max)
        return max(0, min(max(1, self._order.fetch_bytes_max), dealt - self.copied_bytes))

    def _is_one_log(self, follower: ReplicaState, leader: ReplicaState) -> bool:
        """Return whether the leader's log continues the follower's, so that more can be taken.

        Kafka's check of a fetch first, by epochs; then the chain, which tells logs apart that
        were written twice under one epoch.
        """
        if _is_above(follower, leader):  # a twin has taken more than was seen of the leader
            return False
        last_epoch = latest_epoch_with_records(follower)
        parted = check_fetch(leader, follower.log_end_offset, last_fetched_epoch=last_epoch)
        if parted is None and ends_alike(follower, leader):
            return True
        raise self._parted(follower)

    def _parted(self, follower: ReplicaState) -> _RefusedError:
        """Return the report of a follower whose log is not its leader's under the leader's epoch.

        A follower takes all it has from its leaders, so one of both lost or changed commits. Both
        logs compute, or they would not have been read, and the leader has proved to have what
        the register has. A follower that has not is bad; so is one outside ISR and ELR, on which
        nothing rests: it is fetched anew. Of two that have, nobody knows which is right: it is
        not guessed (DESIGN §6).
        """
        assert self._order.follower is not None
        error = self._lacks(follower)
        if error is None and not self._must_be_complete():
            error = ReplicaLostError(
                "the replica has another log than its leader", end=follower.log_end_offset
            )
        if error is not None:
            return _RefusedError(failed_report(self._order.follower, error))
        return _RefusedError(
            state_report(
                self._order.follower, follower, is_matched=False, is_parted=True, missing=()
            )
        )

    def _continued(self, follower: ReplicaState, batches: Sequence[Batch]) -> LogChange:
        """Decide to take `batches`; what does not compute is the leader's fault."""
        try:
            return operations.append_fetched(follower, batches, leader_epoch=self._epoch)
        except CorruptLogError as error:
            raise _RefusedError(failed_report(self._order.leader, error)) from error

    def _copy(self, segments: Sequence[Segment]) -> None:
        """Have the files in the follower's folder; a source that is damaged, or can't be read, is
        the leader's."""
        assert self._order.follower is not None
        try:
            self._segments.copy(self._order.leader, self._order.follower, segments)
        except CorruptLogError as error:
            raise _RefusedError(failed_report(self._order.leader, error)) from error
        except KafkaStorageError as error:
            if error.context.get("broker_id") != self._order.leader.broker_id:
                raise
            raise _RefusedError(failed_report(self._order.leader, error)) from error

    def report_follower(self, follower: ReplicaState, leader: ReplicaState) -> ReplicaReport:
        """Return what the follower's log says, compared with the leader's."""
        assert self._order.follower is not None
        is_matched = ends_alike(follower, leader)
        return state_report(
            self._order.follower,
            follower,
            is_matched=is_matched,
            missing=missing_batches(follower, leader) if is_matched else (),
        )

    def report_leader(self, leader: ReplicaState) -> ReplicaReport:
        """Return what the leader's own log says."""
        return state_report(self._order.leader, leader, is_matched=True, missing=())

    def result(
        self,
        leader: ReplicaReport,
        leader_state: ReplicaState | None,
        follower: ReplicaReport | None,
        clock: Clock,
    ) -> FetchResult:
        """Return the row."""
        report = partition_report(
            self._order.key,
            self._order.partition,
            leader,
            leader_state,
            () if follower is None else (follower,),
            now_ms=clock.now_ms(),
        )
        return FetchResult(
            report=report,
            copied_bytes=self.copied_bytes,
            copied_records=self.copied_records,
            truncated_records=self.truncated_records,
        )


def _is_above(follower: ReplicaState, leader: ReplicaState) -> bool:
    return place_of(leader, follower.log_end_offset) is OffsetPlace.ABOVE_END
