"""Leads the parts of an append, a partition each, from staged to acknowledged, in rounds.

A round tries each partition once: its files come into the leader's folder, one commit of the
leader's table gives the records their offsets, and the in-sync replicas fetch. One metadata commit
then moves all high watermarks. A part that is not acknowledged waits, and is tried again in
the next round, with the leader of then, until the time is up.

A try waits for the roots of its partition, and one of them may hang. So each runs in a thread, and
the round goes on without those that take much longer than the others. They are not waited for any
more once their partition has another leader, or does without the replica that they wait for.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kafka_on_spark.base.errors import (
    REFUSES_WRITES,
    CommitError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidRecordError,
    KafkaOnSparkError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RequestTimedOutError,
    RootAccessDeniedError,
    UnexpectedOffsetError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.base.process import Clock, pauses_ms
from kafka_on_spark.controller.compaction import is_compacted
from kafka_on_spark.controller.inspections import SecondInspections
from kafka_on_spark.controller.queued_reports import conclude_reports
from kafka_on_spark.log.batch import Batch, ProducerStamp, StagedBatch
from kafka_on_spark.log.fetch import (
    FetchOrder,
    as_leaders_fault,
    fetch,
    leader_failed,
    merge_reports,
    partition_report,
    state_report,
)
from kafka_on_spark.log.operations import check_complete, check_end
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
    ReplicaStore,
    append,
    begin_leadership,
    commit_decided,
    fence_older_writers,
    no_borders,
    with_borders_over,
)
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport, is_under_min_isr, too_few_in_sync
from kafka_on_spark.node.node import THREADS, Node
from kafka_on_spark.produce.append_watch import METADATA_AWAY, AppendWatch, Wait, wait_of
from kafka_on_spark.produce.idempotence import (
    check_not_fenced,
    check_tries,
    check_writer_not_fenced,
)
from kafka_on_spark.produce.stage_plan import ProducerRun
from kafka_on_spark.store.deadlines import DaemonThreads

PAUSE_MS_MIN: Final = 10.0
PAUSE_MS_MAX: Final = 1000.0

FIRST_TRY_MS: Final = 2000.0
"""A round goes on after so long though no try has ended: why they take so long is looked into."""

OTHER_TRIES_MS: Final = 500.0
"""Once a try of a round has ended the others have so long, or as long again as that one took."""

# After these, the append is tried again on a newer image, with the new leader if there is one.
_TRY_AGAIN: Final = (
    *ROOTS_AWAY,
    CommitError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
)


@dataclass(slots=True, kw_only=True)
class AppendPart:
    """One partition's part of an append, and what its tries have met.

    It is *staged*: tasks have written its files to roots of the ISR, and no commit names them. A
    try places them in the folder of the leader, whose table is fenced; then it is *appended*: a
    commit of that table gives the records their offsets. It is *answered* once it is as safe as
    `acks` asks, or with an error: it was refused, or its outcome is unknown.

    Attributes:
        key: The partition.
        batch: Its files, in task order.
        holders: Replicas whose folders have all the files.
        expected_offset: Append only if the log ends there; None: wherever it ends.
        is_appended: Some try has appended it, or has found it in the log.
        may_be_appended: A commit of it had an unknown outcome, so it can't be called not written.
        is_duplicate: It stood in the log before its first try.
        puts: Its commits that may stand, as they were put.
        last_error: The last error of a try or of the metadata log.
        tried: The partition as it was at the last try.
        trial: That try, until its end was seen.
        wait: What that try met, if it may last.
        leader: Where the replica is that it went to.
        log: That replica's log.
        appended: How that log was seen with it; None if the try did not get so far.
        leader_failure: What the try met in that log, if that failed.
        base_offset: Answered: the offset of its first record; None if it is a duplicate whose
            header the log no longer has, and not its producer's last append.
        append_time_ms: Answered: its records' timestamp, if the time of their append counts
            (LogAppendTime) and retention has not removed them.
        error: Answered: why it is not acknowledged. A RequestTimedOutError means unknown.
    """

    key: PartitionKey
    batch: StagedBatch
    holders: tuple[ReplicaAddress, ...]
    expected_offset: Offset | None = None
    is_appended: bool = False
    may_be_appended: bool = False
    is_duplicate: bool = False
    puts: list[Batch] = field(default_factory=list)
    last_error: KafkaOnSparkError | None = None
    tried: PartitionRegistration | None = None
    trial: "Future[PartitionReport | KafkaOnSparkError] | None" = None
    wait: Wait | None = None
    leader: ReplicaAddress | None = None
    log: ReplicaLog | None = None
    appended: Appended | None = None
    leader_failure: PartitionReport | None = None
    base_offset: Offset | None = None
    append_time_ms: int | None = None
    error: KafkaOnSparkError | None = None

    def is_outdated(self, image: MetadataImage) -> bool:
        """Return whether a try under way is not to be waited for: its partition has another leader,
        or does without a replica that it may wait for."""
        now, before = image.partition(self.key), self.tried
        if self.trial is None or before is None or now is None:
            return False
        return now.leader_epoch != before.leader_epoch or now.isr != before.isr

    def anew(self) -> "AppendPart":
        """Return the same for another try beside the one under way. Each knows the `puts` of both:
        where one has landed the other conflicts, and finds it."""
        return replace(self, trial=None, appended=None, leader_failure=None, may_be_appended=True)


class AppendThreads:
    """Two pools for each set of brokers that partitions need: what waits for a root that hangs
    holds up nobody who does without. Two, so that none waits for itself: tries wait for fetches.

    `new_pool`: returns a pool whose threads have this name.
    """

    def __init__(self, new_pool: Callable[[str], Executor]) -> None:
        self._new_pool = new_pool
        self._pools: dict[tuple[str, Set[BrokerId]], Executor] = {}

    def tries(self, brokers: Set[BrokerId]) -> Executor:
        """Return the pool for tries of partitions that need these brokers."""
        return self._pool("partition", brokers)

    def fetches(self, brokers: Set[BrokerId]) -> Executor:
        """Return the pool for their fetches."""
        return self._pool("fetch", brokers)

    def _pool(self, name: str, brokers: Set[BrokerId]) -> Executor:
        found = self._pools.get((name, brokers))
        return found or self._pools.setdefault((name, brokers), self._new_pool(name))

    def wait(self, tries: Collection[Future[Any]], timeout_ms: float, *, for_all: bool) -> None:
        """Wait for one of some tries, or `for_all`, for `timeout_ms` at most."""
        wait_for(tries, timeout_ms / 1000, ALL_COMPLETED if for_all else FIRST_COMPLETED)

    def close(self) -> None:
        """Take no more work; what a root that hangs keeps is not waited for."""
        for each in list(self._pools.values()):
            each.shutdown(wait=False)


class LeaderFailure(Exception):  # noqa: N818 - it never leaves this module
    """The leader's log could not be read or fenced, or it lacks committed records.

    Attributes:
        error: What the append met.
        report: The same as a report on the leader's replica; None: there is no leader.
    """

    def __init__(self, error: KafkaOnSparkError, report: PartitionReport | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.report = report


class PendingAppend:
    """One append under way: the parts that have no answer yet, and those that have one.

    `take` gets each part as soon as it has its answer. `watch`: what waits for brokers that fail.
    """

    def __init__(
        self,
        parts: Iterable[AppendPart],
        acks: str,
        watch: AppendWatch,
        take: Callable[[AppendPart], object] | None = None,
    ) -> None:
        self.acks = acks
        self.watch = watch
        self.pending = {part.key: part for part in parts}
        self.answered: dict[PartitionKey, AppendPart] = {}
        self._take = take

    def answer(self, part: AppendPart, error: KafkaOnSparkError | None = None) -> None:
        """Have a part answered: acknowledged as it is, or with an error."""
        part.error = error
        del self.pending[part.key]
        self.answered[part.key] = part
        if self._take is not None:
            self._take(part)


class Appender:
    """Appends what was staged. One a process; threads may share it."""

    def __init__(
        self,
        metadata: MetadataService,
        replicas: ReplicaStore,
        segments: SegmentStore,
        clock: Clock,
        *,
        threads: AppendThreads,
        random: Callable[[], float],
        second_inspections: SecondInspections,
    ) -> None:
        self._second_inspections = second_inspections
        self._metadata = metadata
        self._replicas = replicas
        self._segments = segments
        self._clock = clock
        self._threads = threads
        self._random = random

    def append(
        self,
        parts: Sequence[AppendPart],
        *,
        acks: str,
        timeout_ms: int,
        watch: AppendWatch,
        other_ends: Mapping[PartitionKey, Offset] | None = None,
        tried: dict[PartitionKey, int] | None = None,
        take: Callable[[AppendPart], object] | None = None,
    ) -> list[AppendPart]:
        """Append `parts` and wait for what `acks` asks; return each answered, in order.

        Each round commits what is ready; a partition that waits goes into a later round, and
        `watch` is told of it. Before the first round the leaders' logs are read that may refuse
        the append as a whole, and waited for.
        `other_ends`: where partitions that get no record must end, of a conditional append.
        `tried`: partitions where an earlier try of the append may stand, with other records; which
        number stands last in each is set.
        `take` gets each answer also as soon as there is one: others may wait for long.

        Raises:
            What the first partition met that could not be read, and as `check_replicas`,
            `check_keys`, `check_ends` and `check_tries`: nothing was appended.
        """
        image = self._metadata.image
        if acks == "all":
            check_replicas(image, parts)
        check_keys(image, parts)
        deadline_ms = self._clock.monotonic_ms() + (0 if acks == "0" else timeout_ms)
        other_ends, tried = other_ends or {}, {} if tried is None else tried
        conditional = [each.key for each in parts if each.expected_offset is not None or other_ends]
        read = dict.fromkeys([*conditional, *other_ends, *tried])
        logs = self.read_leaders(list(read), watch, deadline_ms) if read else {}
        check_ends(logs, parts, other_ends)
        check_tries(self._metadata.image, logs, {each.key: each.batch for each in parts}, tried)
        appending = PendingAppend(parts, acks, watch, take)
        self._rounds(appending, deadline_ms)
        return [appending.answered[part.key] for part in parts]

    def _rounds(self, appending: PendingAppend, deadline_ms: float) -> None:
        """Try all parts, round by round, until each is answered."""
        pending, watch = appending.pending, appending.watch
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while pending:
            image = self._metadata.image
            pending |= {
                key: each.anew() for key, each in pending.items() if each.is_outdated(image)
            }
            ready = [
                each
                for key, each in pending.items()
                if each.trial is None and not watch.is_blocked(key)
            ]
            self._round(appending, ready)
            if appending.acks == "0":
                self._give_up(appending)
            if not pending:
                return
            left_ms = deadline_ms - self._clock.monotonic_ms()
            is_stuck = all(each.trial is not None for each in pending.values())
            if left_ms < (OTHER_TRIES_MS if is_stuck else 0):
                self._give_up(appending)
                return
            watch.update([each.wait for each in pending.values() if each.wait is not None])
            self._refuse(appending)
            error = self._pause(watch, next(pauses))
            if error is not None:
                self._not_concluded(error, appending)

    def read_leaders(
        self,
        keys: Sequence[PartitionKey],
        watch: AppendWatch,
        deadline_ms: float,
        fence: ProducerRun | None = None,
    ) -> dict[PartitionKey, ReplicaState | None]:
        """Return the logs of leaders, read side by side; wait for those that can't be read.

        `fence`: the run for which older tries of its append are fenced in each (`fence_tries`).

        Raises:
            Why one can't, once the time is up, or where waiting does not help.
        """
        logs: dict[PartitionKey, ReplicaState | None] = {}
        failures: dict[PartitionKey, LeaderFailure] = {}
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while True:
            image = self._metadata.image
            ready = [each for each in keys if each not in logs and not watch.is_blocked(each)]
            for key, found in self._read(image, ready, fence).items():
                if isinstance(found, LeaderFailure):
                    failures[key] = found
                else:
                    logs[key] = found
                    failures.pop(key, None)
            if not failures:
                return logs
            for each in failures.values():
                is_passing = isinstance(each.error, (*_TRY_AGAIN, NotEnoughReplicasError))
                is_denied = isinstance(each.error, RootAccessDeniedError)
                if is_denied or not is_passing or self._clock.monotonic_ms() >= deadline_ms:
                    raise each.error
            reports = [each.report for each in failures.values() if each.report is not None]
            self._second_inspections.record(reports)
            waits = [
                wait_of(key, image.partition(key), each.error) for key, each in failures.items()
            ]
            watch.update([each for each in waits if each is not None])
            error = self._pause(watch, next(pauses))
            if isinstance(error, RootAccessDeniedError):
                raise error  # waiting gives no permission

    def _read(
        self, image: MetadataImage, keys: Iterable[PartitionKey], fence: ProducerRun | None
    ) -> dict[PartitionKey, ReplicaState | LeaderFailure | None]:
        """Read leaders' logs, each in a pool of its partition's brokers, as a try is made."""
        by_brokers: dict[Set[BrokerId], list[PartitionKey]] = {}
        for key in keys:
            partition = image.partition(key)
            brokers = frozenset[BrokerId]() if partition is None else partition.isr
            by_brokers.setdefault(brokers, []).append(key)

        def read(key: PartitionKey) -> ReplicaState | LeaderFailure | None:
            try:
                if fence is None:
                    return read_leader(image, key, replicas=self._replicas, clock=self._clock)
                return fence_tries(
                    image,
                    key,
                    run=fence,
                    replicas=self._replicas,
                    segments=self._segments,
                    clock=self._clock,
                )
            except LeaderFailure as failure:
                return failure

        begun = [(of, self._threads.tries(each).map(read, of)) for each, of in by_brokers.items()]
        return {key: found for of, all_of in begun for key, found in zip(of, all_of, strict=True)}

    def _pause(self, watch: AppendWatch, pause_ms: float) -> KafkaOnSparkError | None:
        """Sleep before another look, and catch up; return what kept it from that."""
        self._clock.sleep_ms(watch.pause_ms(pause_ms * (0.5 + self._random())))
        try:
            self._second_inspections.inspect_due()
            self._metadata.catch_up()
        except METADATA_AWAY as error:
            return error
        return None

    def _round(self, appending: PendingAppend, ready: Sequence[AppendPart]) -> None:
        """Try the `ready` ones of the pending parts once; answer those that are finished."""
        for each in ready:
            self._begin(each, appending.acks)
        ended = self._ended(list(appending.pending.values()), has_begun=bool(ready))
        self._second_inspections.record(
            each.leader_failure for each, _ in ended if each.leader_failure is not None
        )
        reports = []
        for each, met in ended:
            size_bytes = sum(segment.size_bytes for segment in each.batch.segments)
            each.wait = wait_of(each.key, each.tried, met, size_bytes)
            if isinstance(met, KafkaOnSparkError):
                self._failed(each, met, appending)
            else:
                reports.append(met)
        if reports:
            self._second_inspections.record(reports)
            try:
                self._conclude(reports)
            except METADATA_AWAY as error:
                self._not_concluded(error, appending)
                return
        for each in list(appending.pending.values()):
            self._acknowledge(each, appending)

    def _begin(self, part: AppendPart, acks: str) -> None:
        """Begin a try."""
        image, is_first_try = self._metadata.image, part.tried is None
        part.tried, part.leader_failure, part.appended = image.partition(part.key), None, None
        if part.tried is None:
            brokers, part.wait = frozenset[BrokerId](), None
        else:
            brokers = part.tried.isr
            part.wait = Wait(
                key=part.key, partition=part.tried, error="a root has not answered yet"
            )
        part.trial = self._threads.tries(brokers).submit(self._try, image, part, acks, is_first_try)

    def _ended(
        self, pending: Sequence[AppendPart], *, has_begun: bool
    ) -> list[tuple[AppendPart, PartitionReport | KafkaOnSparkError]]:
        """Wait for tries, if one has begun; return those that have ended, and what came of each."""
        tries = [each.trial for each in pending if each.trial is not None]
        began_ms = self._clock.monotonic_ms()
        if has_begun:
            self._threads.wait(tries, FIRST_TRY_MS, for_all=False)
        if has_begun and any(each.done() for each in tries):
            others_ms = max(OTHER_TRIES_MS, self._clock.monotonic_ms() - began_ms)
            self._threads.wait(tries, others_ms, for_all=True)
        ended = []
        for each in pending:
            if each.trial is not None and each.trial.done():
                ended.append((each, each.trial.result()))
                each.trial = None
        return ended

    def _try(
        self, image: MetadataImage, part: AppendPart, acks: str, is_first_try: bool
    ) -> PartitionReport | KafkaOnSparkError:
        """Place and append one part, and have it fetched for acks=all; return what to report."""
        try:
            if part.tried is None:
                raise UnknownTopicOrPartitionError(
                    f"partition {part.key.partition} is gone: it was deleted"
                )
            if acks == "all":
                is_appended = part.is_appended or part.may_be_appended
                check_min_isr(image, part.key, part.tried, is_appended=is_appended)
            if not (part.is_appended or part.may_be_appended):
                check_keys(image, [part])
            batch, state = place(
                image, part, replicas=self._replicas, segments=self._segments, clock=self._clock
            )
            assert part.leader is not None, "it was placed with the leader"
            commit_part(
                part,
                batch,
                state,
                catch_up=self._metadata.catch_up,
                now_ms=self._clock.now_ms(),
                read_borders=partial(self._segments.borders, part.leader),
            )
            return self._have_fetched(image, part, acks, is_first_try=is_first_try)
        except LeaderFailure as failure:
            part.leader_failure = failure.report
            return failure.error
        except KafkaOnSparkError as error:
            return error

    def _have_fetched(
        self, image: MetadataImage, part: AppendPart, acks: str, *, is_first_try: bool
    ) -> PartitionReport:
        """Have the rest of the ISR fetch what the leader has appended, for acks=all; return one
        report of all of them.

        What was staged for a follower is there already, and is not read and flushed again at the
        first try. A later one checks each file that was staged.
        """
        partition, leader, appended = part.tried, part.leader, part.appended
        assert partition is not None
        assert leader is not None
        assert appended is not None
        state = appended.state
        seen = state_report(leader, state, is_matched=True)
        own = partition_report(part.key, partition, seen, state, (), now_ms=self._clock.now_ms())
        if acks != "all":
            return own
        holders = {each.replica_uuid for each in part.holders} if is_first_try else set()
        staged = frozenset(part.batch.segments)
        orders = [
            FetchOrder(
                key=part.key,
                partition=partition,
                leader=leader,
                follower=address_of(image, part.key, partition, follower),
                fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
                staged=staged if partition.uuid_of(follower) in holders else frozenset(),
                registered=registered_producers(image),
            )
            for follower in partition.isr
            if follower != partition.leader and partition.is_created(follower)
        ]

        def one(order: FetchOrder) -> PartitionReport:
            return fetch(order, self._replicas, self._segments, self._clock, state).report

        fetched = self._threads.fetches(partition.isr).map(one, orders)
        return merge_reports([own, *fetched])[0]

    def _conclude(self, reports: Sequence[PartitionReport]) -> None:
        """Commit all high watermarks, and which replicas leave the ISR, at once."""
        conclude_reports(
            self._metadata,
            reports,
            timeout_ms=self._metadata.image.settings().integer("delivery.timeout.ms"),
        )

    def _not_concluded(self, error: KafkaOnSparkError, appending: PendingAppend) -> None:
        for each in appending.pending.values():
            each.last_error = error
        if isinstance(error, RootAccessDeniedError):
            self._give_up(appending, is_timed_out=False)  # waiting does not help

    def _failed(self, part: AppendPart, error: KafkaOnSparkError, appending: PendingAppend) -> None:
        part.last_error = error
        if isinstance(error, CommitOutcomeUnknownError):
            part.may_be_appended = True
        if isinstance(error, _TRY_AGAIN) and not isinstance(error, RootAccessDeniedError):
            return  # a denial is answered at once: waiting gives no permission
        if part.is_appended or part.may_be_appended:
            # The error is about this try only.
            words = f"{error.message}; an earlier try of this append may be committed"
            error = type(error)(words, **{**error.context, "may_be_committed": True})
        appending.answer(part, error)

    def _refuse(self, appending: PendingAppend) -> None:
        """Answer for what can't be written, or committed, before people make room."""
        for key, each in list(appending.pending.items()):
            if each.trial is not None:
                continue  # it may yet append
            error = appending.watch.refused(
                key, is_appended=each.is_appended, may_be_appended=each.may_be_appended
            )
            if error is not None:
                appending.answer(each, error)

    def _acknowledge(self, part: AppendPart, appending: PendingAppend) -> None:
        """Answer a part that is acknowledged under the image of now.

        It is when the high watermark has passed it **and** it stands at that offset in the log of
        the *current* leader (I2): a high watermark past its offset alone would acknowledge records
        that are lost.
        """
        partition, appended = self._metadata.image.partition(part.key), part.appended
        if partition is None or appended is None or part.trial is not None:
            return  # its last try has not ended, or not found it in its leader's log
        assert part.log is not None, "what is appended was placed"
        assert part.leader is not None
        read = partial(self._segments.borders, part.leader)
        batch, seen = appended.batch, appended.state
        if appending.acks == "all" and not is_acknowledged(partition, seen, batch, part.log, read):
            return
        stands = batch or appended.last
        part.base_offset = None if stands is None else stands.base_offset
        if batch is not None and batch.has_append_time:
            part.append_time_ms = batch.appended_at_ms
        appending.answer(part)

    def _give_up(self, appending: PendingAppend, *, is_timed_out: bool = True) -> None:
        """Answer "unknown" for the rest."""
        for key, each in list(appending.pending.items()):
            why = appending.watch.why(key) if is_timed_out else None
            why = why or str(each.last_error or "the in-sync replicas did not catch up")
            producer = each.batch.producer
            advice = (
                "a retry with the same sequence is safe"
                if producer is not None and producer.sequence is not None
                else "a retry may append it twice (with a producer_id and a sequence it would not)"
            )
            error = RequestTimedOutError(
                f"partition {key.partition}: not acknowledged{' in time' if is_timed_out else ''}"
                f" ({why}); whether it will be committed is unknown, {advice}"
            )
            appending.answer(each, error)


def check_replicas(image: MetadataImage, parts: Sequence[AppendPart]) -> None:
    """Check that acks=all can be kept for every partition of an append."""
    for part in parts:
        partition = image.partition(part.key)
        if partition is not None:
            check_min_isr(image, part.key, partition, is_appended=False)


def check_min_isr(
    image: MetadataImage,
    key: PartitionKey,
    partition: PartitionRegistration,
    *,
    is_appended: bool,
) -> None:
    """Check that acks=all can be kept for a partition now, before or after its write.

    Raises:
        NotEnoughReplicasError: It can't, and nothing was written.
        NotEnoughReplicasAfterAppendError: It can't, and the write may be committed later.
    """
    if not is_under_min_isr(image, key.topic_id, partition):
        return
    kind = NotEnoughReplicasAfterAppendError if is_appended else NotEnoughReplicasError
    raise kind(too_few_in_sync(image, key, partition))


def check_keys(image: MetadataImage, parts: Sequence[AppendPart]) -> None:
    """Check that a compacted topic gets records with keys only (KIP-135)."""
    for part in parts:
        if not part.batch.has_keyless or part.key.topic_id not in image.topics:
            continue
        settings = image.settings(part.key.topic_id)
        if is_compacted(settings):
            raise InvalidRecordError(
                f"a record for {image.name_of(part.key)} has no key, and its topic is compacted"
                f" (cleanup.policy={settings.text('cleanup.policy')}): give each record a key, or"
                " alter the setting"
            )


def check_ends(
    logs: Mapping[PartitionKey, ReplicaState | None],
    parts: Sequence[AppendPart],
    others: Mapping[PartitionKey, Offset],
) -> None:
    """Check that logs end where a conditional append expects: of its parts, and of `others`.

    What an earlier try has appended already is no reason to refuse its retry.
    """
    is_retry = False
    for part in parts:
        if part.expected_offset is None and not others:
            continue
        state = logs[part.key]
        if state is not None and find_append(state, part.batch) is not None:
            is_retry = True
        elif part.expected_offset is not None:
            _check_end(state, part.expected_offset)
    for key, expected in () if is_retry else others.items():
        _check_end(logs[key], expected)


def _check_end(state: ReplicaState | None, expected: Offset) -> None:
    if state is not None:
        check_end(state, expected)
    elif expected != 0:
        raise UnexpectedOffsetError(
            f"the log ends at 0, not at the expected {expected}: nothing was appended to it yet"
        )


@contextmanager
def _of_leader(
    key: PartitionKey, partition: PartitionRegistration, leader: ReplicaAddress, clock: Clock
) -> Iterator[None]:
    """Have an error of the leader's log raised as a LeaderFailure."""
    try:
        yield
    except KafkaOnSparkError as error:
        report = leader_failed(key, partition, leader, error, clock.now_ms())
        raise LeaderFailure(as_leaders_fault(error), report) from error


def read_leader(
    image: MetadataImage, key: PartitionKey, *, replicas: ReplicaStore, clock: Clock
) -> ReplicaState | None:
    """Return a leader's log, with all that is committed; nothing is written.

    None: nothing was ever appended to the partition, or it is gone.

    Raises:
        LeaderFailure: It can't be read, or nobody can say where the log ends: the partition has no
            leader, and may have records.
    """
    partition = image.partition(key)
    if partition is None:
        return None
    if partition.leader is None or not partition.is_created(partition.leader):
        if partition.known_log_end == 0 and not any(partition.directories):
            return None
        error = NotLeaderOrFollowerError(
            f"partition {image.name_of(key)} has no leader, so what stands in its log and where its"
            " log ends is not known, and nothing was appended: bring its brokers back, and append"
            " again"
        )
        raise LeaderFailure(error)
    leader = address_of(image, key, partition, partition.leader)
    log = replicas.open(leader)
    with _of_leader(key, partition, leader, clock):
        try:
            check_complete(state := log.load(), partition)
        except ReplicaLostError:  # a stale listing shows an older, shorter log
            check_complete(state := log.load(), partition)
    return state


def fence_tries(
    image: MetadataImage,
    key: PartitionKey,
    *,
    run: ProducerRun,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
) -> ReplicaState | None:
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
        raise LeaderFailure(
            NotLeaderOrFollowerError(f"partition {key.partition} {words}, and append again")
        )
    leader = address_of(image, key, partition, partition.leader)
    registered = registered_producers(image)
    log = replicas.open(leader)
    fence = partial(
        fence_producer,
        producer_id=run.producer_id,
        producer_epoch=run.producer_epoch,
        leader_epoch=partition.leader_epoch,
        registered=registered,
    )
    with _of_leader(key, partition, leader, clock):
        begin_leadership(log, partition)
        state = commit_decided(log, fence)
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
            raise LeaderFailure(absent)
    return state


def place(
    image: MetadataImage,
    part: AppendPart,
    *,
    replicas: ReplicaStore,
    segments: SegmentStore,
    clock: Clock,
) -> tuple[StagedBatch, ReplicaState]:
    """Fence the leader's table and have the part's files in its folder; return them, under names of
    the leader's epoch, and what stood in its log when it was fenced.

    The table is fenced at the leader epoch first, then for the append's writer. So what is placed
    can be committed by this leadership only, and an older writer appends nothing after it.

    Raises:
        LeaderFailure: The leader's log can't be read or fenced.
        NotLeaderOrFollowerError: Nobody leads.
        ProducerFencedError: A newer run of the producer, or a newer writer, has begun.
        KafkaStorageError: No root that answers has the files.
    """
    key, partition = part.key, part.tried
    assert partition is not None, "a try begins with its partition"
    if partition.leader is None or not partition.is_created(partition.leader):
        raise NotLeaderOrFollowerError(f"partition {image.name_of(key)} has no leader")
    part.leader = leader = address_of(image, key, partition, partition.leader)
    part.log = log = replicas.open(leader)
    with _of_leader(key, partition, leader, clock):
        state = begin_leadership(log, partition)
        state = with_borders_over(state, part.puts, partial(segments.borders, leader))
    producer, writer = part.batch.producer, part.batch.writer
    # An earlier try has appended it; if it stands in this leader's log, no newer producer or writer
    # fences it.
    stands = part.is_appended and (find_put(state, part.puts) or find_append(state, part.batch))
    if not stands:
        # It is written now, perhaps again; a leader that was elected after a newer run began
        # knows nothing of that run.
        if producer is not None:
            check_not_fenced(image.producers, producer.producer_id, producer.producer_epoch)
        check_writer_not_fenced(image.producers, writer)
        state = fence_older_writers(log, state, writer, registered_producers(image))
    return place_files(segments, part, leader, partition.leader_epoch), state


def place_files(
    segments: SegmentStore,
    part: AppendPart,
    leader: ReplicaAddress,
    leader_epoch: LeaderEpoch,
) -> StagedBatch:
    """Have the files in the leader's folder, under names of its epoch."""
    is_there = any(each.replica_uuid == leader.replica_uuid for each in part.holders)
    files = part.batch.segments
    if is_there and all(each.epoch_in_name == leader_epoch for each in files):
        return part.batch
    renamed = part.batch.renamed(leader_epoch)
    names = [each.file_name for each in renamed.segments]
    failure: KafkaOnSparkError = KafkaStorageError("no root has the files of this append")
    for holder in part.holders:
        try:
            segments.copy(holder, leader, files, names)
        except (KafkaStorageError, CorruptLogError) as error:
            failure = error
        else:
            return renamed
    # Copying writes to the leader's root alone.
    kept = (RootAccessDeniedError, *REFUSES_WRITES)
    kind = type(failure) if isinstance(failure, kept) else KafkaStorageError
    raise kind(str(failure)) from failure


def commit_part(
    part: AppendPart,
    batch: StagedBatch,
    state: ReplicaState,
    *,
    catch_up: Callable[[], MetadataImage],
    now_ms: int,
    read_borders: ReadBorders = no_borders,
) -> None:
    """Commit a placed part to its leader's table, or find where it stands already.

    If an earlier try has appended it, it may stand there and be no duplicate, and the log need not
    end where a conditional append expected.

    Raises: as `replicas.append`, `check_remembered` and `catch_up`.
    """
    assert part.tried is not None
    assert part.log is not None, "it was placed"
    part.appended = appended = append(
        part.log,
        batch,
        state,
        leader_epoch=state.leader_epoch or part.tried.leader_epoch,
        now_ms=now_ms,
        expected_offset=None if part.is_appended else part.expected_offset,
        puts=part.puts,
        read_borders=read_borders,
        check_absent=partial(check_remembered, batch.producer, catch_up),
    )
    part.is_duplicate = part.is_duplicate or (appended.is_duplicate and not part.is_appended)
    part.is_appended = True


def check_remembered(
    producer: ProducerStamp | None, catch_up: Callable[[], MetadataImage], state: ReplicaState
) -> None:
    """Check, of a log that was read and has not an append, that it has not forgotten it either.

    What a log knows of a producer goes once the id has expired. The image that the append was
    placed by may be older than the log, and still have the id: so this looks at the newest one, and
    after the log was read. If the id expires later the commit conflicts with
    that of whoever forgets it.
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
    seen: ReplicaState,
    batch: Batch | None,
    leader: ReplicaLog,
    read_borders: ReadBorders = no_borders,
) -> bool:
    """Return whether a batch is committed, as `is_committed`. If the high watermark has moved past
    what was seen, read the leader's log again; the batch may be merged there."""
    if is_committed(partition, seen, batch):
        return True
    if batch is None or partition.high_watermark <= seen.log_end_offset:
        return False
    try:
        now = with_borders_over(leader.load(), [batch], read_borders)
        return is_committed(partition, now, batch)
    except KafkaOnSparkError:
        return False  # the next try tells why


def append_threads(_: Node) -> AppendThreads:
    """Return the threads of a process's appends: a part of its node."""
    return AppendThreads(partial(DaemonThreads, THREADS))


def appender(node: Node) -> Appender:
    """Return what appends in a process."""
    return Appender(
        node.metadata,
        node.replicas,
        node.segments,
        node.clock,
        threads=node.part(append_threads),
        random=node.random,
        second_inspections=node.part(SecondInspections),
    )
