"""One follower's fetch from its leader: adopt its leadership, copy, commit, report.

It runs in a task and may run twice at the same time: every step is a conditional commit. A fetch
never raises for what a root or a table does, so that one partition's failure stops no other: the
step that meets an error knows whose replica it is, and says so by LeaderRefusedError or
FollowerRefusedError, which the report tells. The appender reports its own reading of a leader the
same way. Source: Kafka's AbstractFetcherThread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    CommitConflictError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import BrokerId, ChainDigest, Clock, Offset, PartitionKey
from kafka_on_spark.log import operations
from kafka_on_spark.log.batch import LogPart, Segment
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.producer_state import RegisteredProducers, registered_producers
from kafka_on_spark.log.replicas import ReplicaLog, ReplicaStore, begin_leadership, try_to_advance
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import (
    LogChange,
    ReplicaAddress,
    ReplicaState,
    address_of,
    check_leader_epoch,
)
from kafka_on_spark.log.truncation import (
    becomes_a_copy,
    check_fetch,
    check_tombstones,
    epoch_history,
    fetch_start,
    first_batches,
    follow,
    latest_epoch_with_records,
    part_to_keep,
    unread_borders,
)
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaReport
from kafka_on_spark.store.deadlines import until_committed

BORDERS_MAX: Final = 1024
"""The newest borders of a leader's log that a report has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOrder:
    """One follower's fetch, planned on an image.

    Attributes:
        follower: The follower's replica; None: the fetch inspects the leader only.
        fetch_bytes_max: Bytes a commit; one batch at least. Source: replica.fetch.max.bytes.
        copy_bytes_max: Bytes that a throttle grants; one batch at least, unless 0; None: no bound.
        copy_ms_max: For how long it copies; one commit at least.
        is_uncached: Both tables are opened without what this process knows of them.
        staged: Files that were staged just now for the follower, which has them, flushed.
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
    staged: frozenset[Segment] = frozenset()
    suspect: Segment | None = None
    registered: RegisteredProducers | None = None


def fetch_orders(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    followers: Iterable[BrokerId | None],
    **fields: Any,
) -> list[FetchOrder]:
    """Return a fetch for each of some followers of a partition that has a leader; None: a fetch
    that inspects the leader only. `fields`: of all orders."""
    assert partition.leader is not None
    return [
        FetchOrder(
            key=key,
            partition=partition,
            leader=address_of(image, key, partition, partition.leader),
            follower=None if each is None else address_of(image, key, partition, each),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
            registered=registered_producers(image),
            **fields,
        )
        for each in followers
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """What a fetch did and saw: one row back to the driver. The report is on the leader and at most
    one follower; what was copied was committed to the follower."""

    report: PartitionReport
    copied_bytes: int = 0
    copied_records: int = 0
    truncated_records: int = 0


PartitionFetches = tuple[FetchOrder, ...]
"""The fetches of one partition, each with another follower."""

RunFetches = Callable[[Sequence[FetchOrder]], list[FetchResult]]
"""Runs fetches, and returns a result for each, in order."""


class _RefusedError(Exception):
    """A side of the fetch can't go on: the error's code says why, as in Kafka."""

    def __init__(self, error: KafkaOnSparkError) -> None:
        self.error = error


class LeaderRefusedError(_RefusedError):
    """The leader's replica can't be fetched from."""


class FollowerRefusedError(_RefusedError):
    """The follower's replica can't be fetched for."""


class DivergedError(Exception):
    """The follower's log is not its leader's, and it is not known which of the two is right."""

    def __init__(self, follower: ReplicaState) -> None:
        self.follower = follower


@contextmanager
def _refused_by(side: type[_RefusedError]) -> Iterator[None]:
    """Turn an error into the refusal of one side, but for a conflict: it is decided again."""
    try:
        yield
    except CommitConflictError:
        raise
    except KafkaOnSparkError as error:
        raise side(error) from error


def fetch(
    order: FetchOrder,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
    leader_state: ReplicaState | None = None,
    *,
    open_uncached: Callable[[ReplicaAddress], ReplicaLog] | None = None,
) -> FetchResult:
    """Bring `order.follower` up to its leader; return what was seen of the leader, and of the
    follower after it, or why that failed.

    `leader_state`: what the caller has just seen of the leader, fenced at the order's epoch.
    `open_uncached`: instead of the store's, for an order that is uncached.
    """
    opened: Callable[[ReplicaAddress], ReplicaLog] = replicas.open
    if order.is_uncached:
        opened = open_uncached or replicas.open_uncached
    fetcher = _Fetcher(order, opened, segments, clock)
    followers: list[ReplicaReport] = []
    failure: KafkaOnSparkError | None = None
    # The follower is read before its leader: what it has, the leader must have.
    follower: ReplicaState | None = None
    try:
        if order.follower is not None:
            follower = fetcher.known_follower(leader_state) or fetcher.load_follower()
    except FollowerRefusedError as refused:
        followers = [failed_report(fetcher.follower, refused.error)]
    try:
        with _refused_by(LeaderRefusedError):
            fetcher.leader = leader_state or fetcher.load_leader()
            check_leader_epoch(fetcher.leader.leader_epoch, order.partition.leader_epoch)
        if follower is not None:
            follower = fetcher.catch_up(follower)
            followers = [state_report(fetcher.follower, follower, fetcher.leader)]
    except LeaderRefusedError as refused:
        failure = refused.error
    except FollowerRefusedError as refused:
        followers = [failed_report(fetcher.follower, refused.error)]
    except DivergedError as diverged:
        seen = diverged.follower
        followers = [state_report(fetcher.follower, seen, fetcher.leader, is_diverged=True)]
    leader = failure or fetcher.leader
    return FetchResult(
        report=partition_report(
            order.key, order.partition, order.leader, leader, followers, now_ms=clock.now_ms()
        ),
        copied_bytes=fetcher.copied_bytes,
        copied_records=fetcher.copied_records,
        truncated_records=fetcher.truncated_records,
    )


def fetch_task(
    order: FetchOrder,
    worker: Worker,
    open_uncached: Callable[[ReplicaAddress], ReplicaLog] | None = None,
) -> FetchResult:
    """Fetch, as `fetch` does. A task."""
    result = fetch(
        order, worker.replicas, worker.segments, worker.clock, open_uncached=open_uncached
    )
    if order.follower is not None and result.copied_records:
        worker.replicas.open(order.follower).maintain()  # a checkpoint may be due
    return result


def inspect_partition_task(orders: PartitionFetches, worker: Worker) -> list[FetchResult]:
    """Run the fetches of a partition's replicas, one after the other. A task.

    Each replica is opened uncached once: opening a table takes most of an inspection's time, and of
    three replicas the leader's would be opened twice. Each `load` brings the log up to date, so no
    follower is compared with an older leader.
    """
    open_uncached = cache(worker.replicas.open_uncached)
    return [fetch_task(order, worker, open_uncached) for order in orders]


class _Fetcher:
    """The steps of one fetch, and what they moved. `leader`: its state, once it was read."""

    leader: ReplicaState

    def __init__(
        self,
        order: FetchOrder,
        opened: Callable[[ReplicaAddress], ReplicaLog],
        segments: SegmentStore,
        clock: Clock,
    ) -> None:
        self._order = order
        self._partition = order.partition
        self._epoch = order.partition.leader_epoch
        self._segments = segments
        self._clock = clock
        self._leader_log = opened(order.leader)
        if order.follower is not None:
            self.follower, self._follower_log = order.follower, opened(order.follower)
        self.copied_bytes = self.copied_records = self.truncated_records = 0

    def known_follower(self, leader: ReplicaState | None) -> ReplicaState | None:
        """Return what this process knows of the follower, if it lacks nothing but files that were
        staged for it just now, in a leader's state that was just seen: their commit proves that it
        is the newest."""
        known, staged = self._follower_log.known_soon(), self._order.staged
        if leader is None or known is None or known.leader_epoch != self._epoch or not staged:
            return None
        lacking = leader.batches_between(known.log_end_offset, leader.log_end_offset)
        is_staged = all(staged.issuperset(each.segments) for each in lacking)
        is_same = known.compaction == leader.compaction and fetch_start(known, leader) is not None
        return known if lacking and is_staged and is_same else None

    @_refused_by(FollowerRefusedError)
    def load_follower(self) -> ReplicaState:
        """Return the follower's state, unless it has seen a later leadership."""
        state = self._follower_log.load()
        if self._order.suspect is not None:
            self._check_suspect(self._order.suspect, self.follower, self._follower_log, state)
        operations.check_not_above(state, self._epoch)  # otherwise the plan is stale
        return state

    @_refused_by(LeaderRefusedError)
    def load_leader(self) -> ReplicaState:
        """Return the leader's state, fenced at the current epoch."""
        state = begin_leadership(self._leader_log, self._partition)
        if self._order.suspect is not None and self._order.follower is None:
            self._check_suspect(self._order.suspect, self._order.leader, self._leader_log, state)
        start, registered = self._partition.log_start_offset, self._order.registered
        return try_to_advance(self._leader_log, state, start, registered)

    def _check_suspect(
        self, suspect: Segment, address: ReplicaAddress, replica: ReplicaLog, state: ReplicaState
    ) -> None:
        """Check the file that was found bad, if the log names it before and after: old files are
        removed, also while one of them is read."""
        if not _names(state, suspect):
            return
        try:
            self._segments.check(address, suspect)
        except CorruptLogError:
            if _names(replica.load(), suspect):
                raise

    def catch_up(self, follower: ReplicaState) -> ReplicaState:
        """Adopt the leadership, and take what the leader has up to its end as seen.

        If a follower under the same fence has the larger end, the leader's state is stale and is
        read again. If the follower is still ahead, one of both has lost or changed commits.
        """
        seen = self.leader
        if loss_of(self._partition, self.follower.broker_id, follower) is not None:
            follower = self.load_follower()  # a stale state is no loss

        def take(follower: ReplicaState) -> ReplicaState:
            # After a conflict a twin or a newer leadership was here; what it left decides.
            nonlocal seen
            end, is_fenced = follower.log_end_offset, follower.leader_epoch == self._epoch
            if is_fenced and end > seen.log_end_offset:
                seen = self.load_leader()
                if end > seen.log_end_offset:
                    raise self._diverged(follower)
            loss = loss_of(self._partition, self.follower.broker_id, follower)
            if loss is not None:
                raise FollowerRefusedError(loss)
            follower, self.leader = self._read_to_compare(follower, seen)
            return self._take_all(self._adopt(follower, self.leader), self.leader)

        with _refused_by(FollowerRefusedError):
            return until_committed(self.load_follower, take, follower, clock=self._clock)

    def _read_to_compare(
        self, follower: ReplicaState, leader: ReplicaState
    ) -> tuple[ReplicaState, ReplicaState]:
        """Return both logs with all borders that tell up to where they are one.

        Headers tell where two logs part, but inside a merged segment only its file keeps where
        batches ended. Nearly always none need be read.
        """
        with _refused_by(FollowerRefusedError):
            while (found := unread_borders(follower, leader, self._epoch)) is not None:
                if found.is_leaders:
                    with _refused_by(LeaderRefusedError):
                        borders = self._segments.borders(self._order.leader, found.merged)
                    leader = leader.with_borders(found.merged, borders)
                else:
                    borders = self._segments.borders(self.follower, found.merged)
                    follower = follower.with_borders(found.merged, borders)
        return follower, leader

    def _adopt(self, follower: ReplicaState, leader: ReplicaState) -> ReplicaState:
        """Move the follower to the leadership: fence and truncation in one commit. What it keeps of
        a merged segment that it cuts is written first."""
        address, epoch = self.follower, self._epoch
        if follower.leader_epoch == epoch and follower.log_end_offset >= leader.log_start_offset:
            return follower  # under one epoch nothing is cut
        is_floored = must_be_complete(self._partition, address.broker_id)
        floor = self._partition.high_watermark if is_floored else Offset(0)  # never cut below it
        kept = None
        with _refused_by(FollowerRefusedError):
            cut = part_to_keep(follower, leader, epoch, floor)
            if cut is not None:
                merged, end_offset = cut
                kept = self._segments.rewrite(
                    address,
                    address,
                    (merged,),
                    leader_epoch=epoch,
                    start_offset=merged.base_offset,
                    end_offset=end_offset,
                )
            change = follow(follower, leader, leader_epoch=epoch, floor=floor, kept_part=kept)
        if change is None:
            return follower
        after = self._commit(follower, change)
        self.truncated_records += max(0, follower.log_end_offset - change.log_end_offset)
        return after

    @_refused_by(FollowerRefusedError)
    def _commit(self, follower: ReplicaState, change: LogChange) -> ReplicaState:
        return self._follower_log.commit(follower, change)

    def _take_all(self, follower: ReplicaState, leader: ReplicaState) -> ReplicaState:
        """Copy and commit what the follower lacks, as far as the order's bytes and time go, if the
        leader's log continues it.

        Kafka's check of a fetch comes first, by epochs; then the chain, which tells logs apart
        that were written twice under one epoch.
        """
        order, end = self._order, follower.log_end_offset
        with _refused_by(FollowerRefusedError):
            if follower.compaction != leader.compaction:
                check_tombstones(follower, leader)
            last_epoch = latest_epoch_with_records(follower)
            divergence = check_fetch(leader, end, last_fetched_epoch=last_epoch)
            start = fetch_start(follower, leader)
            if divergence is not None or start is None:
                raise self._diverged(follower)
        # The first may begin below the follower's end: an emptied follower takes the batch that it
        # begins in as a whole, and of a merged segment the rest is taken.
        missing = leader.batches_between(end, leader.log_end_offset)
        until_ms = self._clock.monotonic_ms() + order.copy_ms_max
        while missing:
            bytes_max = max(1, order.fetch_bytes_max)
            if order.copy_bytes_max is not None:
                bytes_max = min(bytes_max, order.copy_bytes_max - self.copied_bytes)
            is_over = self.copied_bytes > 0 and self._clock.monotonic_ms() >= until_ms
            if is_over or bytes_max <= 0:
                break
            taken = first_batches(missing, bytes_max)
            follower = self._copy_and_commit(follower, taken, leader, start)
            self.copied_bytes += sum(batch.size_bytes for batch in taken)
            self.copied_records += sum(batch.record_count for batch in taken)
            missing, start = missing[len(taken) :], follower.log_end_offset
        log_start = self._partition.log_start_offset
        return try_to_advance(self._follower_log, follower, log_start, order.registered)

    def _copy_and_commit(
        self,
        follower: ReplicaState,
        batches: Sequence[LogPart],
        leader: ReplicaState,
        start_offset: Offset,
    ) -> ReplicaState:
        """Copy the files of `batches`, then commit what they have from `start_offset` on to the
        follower's log.

        A source that is damaged, or can't be read, is the leader's.
        """
        try:
            change = operations.append_fetched(
                follower,
                self._bring_files(batches, start_offset),
                leader_epoch=self._epoch,
                leader_compaction=leader.compaction,
                leader_producers=leader.producers,
                is_whole=follower.compaction != leader.compaction
                and becomes_a_copy(follower, batches, leader),
            )
        except CorruptLogError as error:  # also batches whose chain does not compute
            raise LeaderRefusedError(error) from error
        except KafkaOnSparkError as error:
            of = error.context.get("broker_id") if isinstance(error, KafkaStorageError) else None
            if of == self._order.leader.broker_id:
                raise LeaderRefusedError(error) from error
            raise FollowerRefusedError(error) from error
        return self._commit(follower, change)

    def _bring_files(self, parts: Sequence[LogPart], start_offset: Offset) -> list[LogPart]:
        """Have the files of neighbouring parts of the leader's log in the follower's folder; return
        the parts as the follower's log names them.

        A follower's names are its own: a path is added to a table only under the fence in its name
        (I26). So a batch that was cut and comes back under a later leadership comes under another
        path than the one that a cleaner removes. What has the name of an append under this epoch
        keeps it: it was shipped there. Of a merged segment that begins below `start_offset`, what
        is from there on becomes a segment of its own.
        """
        source, target = self._order.leader, self.follower
        is_cut = parts[0].base_offset < start_offset
        whole = parts[1:] if is_cut else parts
        brought: list[LogPart] = []
        segments: list[Segment] = []
        named: list[Segment] = []
        for part in whole:
            brought.append(part.named_under(self._epoch))
            segments += part.segments
            named += brought[-1].segments
        is_staged = named == segments and self._order.staged.issuperset(segments)
        self._segments.copy(source, target, segments, named, is_staged=is_staged)
        if not is_cut:
            return brought
        rest = self._segments.rewrite(
            source,
            target,
            parts[:1],
            leader_epoch=self._epoch,
            start_offset=start_offset,
            end_offset=parts[0].end_offset,
        )
        return [rest, *brought]

    def _diverged(self, follower: ReplicaState) -> FollowerRefusedError | DivergedError:
        """Return the outcome of a follower whose log is not its leader's under the leader's epoch.

        One of both lost or changed commits. The chains of both compute, and the leader has proved
        to have what is committed. A follower that lacks some of that is bad. So is one outside ISR
        and ELR, on which nothing rests: it is fetched again. Of two logs that have all of it nobody
        knows which is right: the fetch does not guess.
        """
        broker_id = self.follower.broker_id
        loss = loss_of(self._partition, broker_id, follower)
        if loss is not None:
            return FollowerRefusedError(loss)
        if must_be_complete(self._partition, broker_id):
            return DivergedError(follower)
        error = "the replica has another log than its leader"
        return FollowerRefusedError(ReplicaLostError(error, end=follower.log_end_offset))


def _names(state: ReplicaState, segment: Segment) -> bool:
    return any(segment in batch.segments for batch in state.batches)


def must_be_complete(partition: PartitionRegistration, broker_id: BrokerId) -> bool:
    """Return whether a replica is in the ISR or the ELR, so that committed records rest on it."""
    return broker_id in partition.isr | partition.elr


def loss_of(
    partition: PartitionRegistration, broker_id: BrokerId, log: ReplicaState
) -> ReplicaLostError | None:
    """Return what a replica that must be complete lacks of the committed records; None: nothing.

    Its log ends at the high watermark or above it and has its chain digest; both hold of a later
    registration, too. Nothing is known of what lies below the log start, nor of a border in a
    merged segment: what was merged is committed by a later registration.
    """
    end, high_watermark = log.log_end_offset, partition.high_watermark
    if not must_be_complete(partition, broker_id):
        return None
    if end < high_watermark:
        return ReplicaLostError(
            "the replica is shorter than what is committed", end=end, high_watermark=high_watermark
        )
    if log.log_start_offset > high_watermark or log.merged_over(high_watermark) is not None:
        return None
    if log.chain_at(high_watermark) != partition.high_watermark_chain:
        return ReplicaLostError(
            "the replica has other records than those that are committed",
            high_watermark=high_watermark,
        )
    return None


def partition_report(
    key: PartitionKey,
    partition: PartitionRegistration,
    leader: ReplicaAddress,
    seen: ReplicaState | KafkaOnSparkError,
    followers: Sequence[ReplicaReport] = (),
    *,
    now_ms: int,
) -> PartitionReport:
    since_ms = None
    borders: list[tuple[Offset, ChainDigest]] = []
    if isinstance(seen, KafkaOnSparkError):
        report = failed_report(leader, seen)
        epoch_start = report.log_end_offset
    else:
        report = state_report(leader, seen, seen)
        mark = partition.high_watermark
        above = seen.batches_between(mark, seen.log_end_offset)
        since_ms = above[0].appended_at_ms if above else None
        digest = seen.chain_at(mark)
        borders = [] if digest is None else [(mark, digest)]
        borders += [(each.end_offset, each.chain_digest) for each in above[-BORDERS_MAX:]]
        leaderships = epoch_history(seen)
        epoch_start = leaderships[-1].start_offset if leaderships else seen.log_end_offset
    return PartitionReport(
        key=key,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        known_end=partition.log_end_offset,
        leader=report,
        epoch_start_offset=epoch_start,
        uncommitted_since_ms=since_ms,
        followers=tuple(followers),
        now_ms=now_ms,
        borders=tuple(borders),
    )


def state_report(
    address: ReplicaAddress, state: ReplicaState, leader: ReplicaState, *, is_diverged: bool = False
) -> ReplicaReport:
    is_matched = not is_diverged and fetch_start(state, leader) is not None
    error = None if is_matched else CorruptLogError("its log differs from the leader's at its end")
    missing: Sequence[LogPart] = ()
    if is_matched:
        missing = leader.batches_between(state.log_end_offset, leader.log_end_offset)
    missing_since_ms, missing_bytes = None, 0
    if missing:
        missing_since_ms = missing[0].appended_at_ms
        missing_bytes = sum(batch.size_bytes for batch in missing)
    return ReplicaReport(
        broker_id=address.broker_id,
        replica_uuid=address.replica_uuid,
        directory_id=address.directory_id,
        fence=state.leader_epoch,
        log_end_offset=state.log_end_offset,
        last_epoch=state.batches[-1].leader_epoch if state.batches else None,
        chain_digest=state.chain_digest,
        is_matched=is_matched,
        is_diverged=is_diverged,
        missing_since_ms=missing_since_ms,
        missing_bytes=missing_bytes,
        compacted_below=state.compaction.finished_below,
        error_code=NO_ERROR if error is None else error.code,
        error=None if error is None else str(error),
    )


def failed_report(address: ReplicaAddress, error: KafkaOnSparkError) -> ReplicaReport:
    """Return the report of a replica that could not be read or written.

    A lost, mistaken or corrupt replica is bad. A root that does not answer is away, not bad.
    """
    code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
    if isinstance(error, CommitOutcomeUnknownError):
        code = KafkaStorageError.code
    file = error.context.get("segment")
    return ReplicaReport(
        broker_id=address.broker_id,
        replica_uuid=address.replica_uuid,
        directory_id=address.directory_id,
        error_code=code,
        error=str(error),
        is_bad=is_evidence(error),
        bad_file=None if file is None else str(file),
    )


def merge_reports(reports: Iterable[PartitionReport]) -> list[PartitionReport]:
    """Return one report a partition: each follower's, and the leader's with the highest log end.

    A leader that some fetch could not read counts as unread, so nothing is decided.
    """
    merged: dict[PartitionKey, PartitionReport] = {}
    for report in reports:
        known = merged.setdefault(report.key, report)
        if known is report:
            continue
        one, other = known.leader, report.leader
        is_further = (other.error_code != NO_ERROR, other.log_end_offset) > (
            one.error_code != NO_ERROR,
            one.log_end_offset,
        )
        since = [
            each.uncommitted_since_ms
            for each in (known, report)
            if each.uncommitted_since_ms is not None
        ]
        merged[report.key] = replace(
            report if is_further else known,
            uncommitted_since_ms=min(since, default=None),
            followers=(*known.followers, *report.followers),
        )
    return list(merged.values())
