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
from kafka_on_spark.base.process import pauses_ms
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
    begin_leadership,
    commit_decided,
    commit_staged,
    fence_older_writers,
    no_borders,
    with_borders_over,
)
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport, is_under_min_isr, too_few_in_sync
from kafka_on_spark.node.node import THREADS, Node
from kafka_on_spark.produce.append_watch import METADATA_AWAY, AppendWatch, Wait, wait_of
from kafka_on_spark.produce.idempotence import (
    check_not_fenced,
    check_tries,
    check_writer_not_fenced,
)
from kafka_on_spark.produce.staging import ProducerRun
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
        met: What came of its last try that has ended; None: none has.
        leader: Where the replica is that it went to.
        log: That replica's log.
        appended: How that log was seen with it; None if the try did not get so far.
        leader_failure: What the try met in that log, if that failed.
        is_answered: It is.
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
    met: "PartitionReport | KafkaOnSparkError | None" = None
    leader: ReplicaAddress | None = None
    log: ReplicaLog | None = None
    appended: Appended | None = None
    leader_failure: PartitionReport | None = None
    is_answered: bool = False
    base_offset: Offset | None = None
    append_time_ms: int | None = None
    error: KafkaOnSparkError | None = None

    @property
    def size_bytes(self) -> int:
        """Of its files."""
        return sum(each.size_bytes for each in self.batch.segments)

    def is_outdated(self, image: MetadataImage) -> bool:
        """Return whether a try under way is not to be waited for: its partition has another leader,
        or does without a replica that it may wait for."""
        now, before = image.partition(self.key), self.tried
        if self.trial is None or before is None or now is None:
            return False
        return now.leader_epoch != before.leader_epoch or now.isr != before.isr

    def wait(self) -> Wait | None:
        """Return what it waits for, if that may last."""
        if self.trial is not None and self.tried is not None:
            return Wait(key=self.key, partition=self.tried, error="a root has not answered yet")
        return wait_of(self.key, self.tried, self.met, self.size_bytes)

    def anew(self) -> "AppendPart":
        """Return the same for another try beside the one under way. Each knows the `puts` of both:
        where one has landed the other conflicts, and finds it."""
        return replace(self, trial=None, appended=None, leader_failure=None, may_be_appended=True)


class AppendThreads:
    """Two pools for each set of brokers that partitions need: what waits for a root that hangs
    holds up nobody who does without. Two, so that none waits for itself: tries wait for fetches.
    """

    def __init__(self, _: Node) -> None:
        self._pools: dict[tuple[str, Set[BrokerId]], Executor] = {}

    def tries(self, brokers: Set[BrokerId]) -> Executor:
        """Return the pool for tries of partitions that need these brokers."""
        return self._pool("partition", brokers)

    def fetches(self, brokers: Set[BrokerId]) -> Executor:
        """Return the pool for their fetches."""
        return self._pool("fetch", brokers)

    def _pool(self, name: str, brokers: Set[BrokerId]) -> Executor:
        found = self._pools.get((name, brokers))
        return found or self._pools.setdefault((name, brokers), DaemonThreads(THREADS, name))

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


class Append:
    """One append under way: what was staged for its partitions is led to its answers.

    `may_decide`: it may control where nobody does. `reached_elsewhere`: brokers that its tasks on
    other hosts have written to. `take` gets each part as soon as it has its answer: others may wait
    for long.

    Attributes:
        parts: Its partitions, in order.
    """

    def __init__(
        self,
        node: Node,
        parts: Iterable[AppendPart],
        *,
        acks: str,
        timeout_ms: int,
        may_decide: bool = True,
        reached_elsewhere: frozenset[BrokerId] = frozenset(),
        take: Callable[[AppendPart], object] | None = None,
    ) -> None:
        self._node = node
        self._metadata = node.metadata
        self._threads = node.part(AppendThreads)
        self._second_inspections = node.part(SecondInspections)
        self._acks = acks
        self._deadline_ms = node.clock.monotonic_ms() + (0 if acks == "0" else timeout_ms)
        self._may_decide = may_decide
        self._reached_elsewhere = reached_elsewhere
        self._take = take
        self._watch: AppendWatch | None = None  # made once something waits
        self.parts = list(parts)

    def _waiting(self) -> AppendWatch:
        if self._watch is None:
            self._watch = AppendWatch(
                self._node,
                is_allowed=self._may_decide,
                reached_elsewhere=self._reached_elsewhere,
            )
        return self._watch

    def _is_blocked(self, key: PartitionKey) -> bool:
        return self._watch is not None and self._watch.is_blocked(key)

    def _pending(self) -> list[AppendPart]:
        return [each for each in self.parts if not each.is_answered]

    def run(
        self,
        other_ends: Mapping[PartitionKey, Offset] | None = None,
        tried: dict[PartitionKey, int] | None = None,
    ) -> list[AppendPart]:
        """Append the parts and wait for what `acks` asks; return each answered, in order.

        Each round commits what is ready; a partition that waits goes into a later round. Before the
        first round those leaders' logs are read, and waited for, that may refuse the whole append.

        `other_ends`: where partitions that get no record must end, of a conditional append.
        `tried`: partitions where an earlier try of the append may stand, with other records; which
        number stands last in each is set.

        Raises:
            What the first partition met that could not be read, and as `check_replicas`,
            `check_keys`, `check_ends` and `check_tries`: nothing was appended.
        """
        image = self._metadata.image
        if self._acks == "all":
            check_replicas(image, self.parts)
        check_keys(image, self.parts)
        read = dict.fromkeys([*(other_ends or ()), *(tried or ())])
        for each in self.parts:
            if each.expected_offset is not None or other_ends:
                read[each.key] = None
        if read:
            logs = self.read_leaders(list(read))
            check_ends(logs, self.parts, other_ends or {})
            batches = {each.key: each.batch for each in self.parts}
            check_tries(self._metadata.image, logs, batches, {} if tried is None else tried)
        self._rounds()
        return self.parts

    def _rounds(self) -> None:
        """Try all parts, round by round, until each is answered."""
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        ready = self.parts
        while True:
            self._round(ready)
            if self._acks == "0":
                self._give_up()
            pending = self._pending()
            if not pending:
                return
            left_ms = self._deadline_ms - self._node.clock.monotonic_ms()
            is_stuck = all(each.trial is not None for each in pending)
            if left_ms < (OTHER_TRIES_MS if is_stuck else 0):
                self._give_up()
                return
            self._waiting().update([wait for each in pending if (wait := each.wait()) is not None])
            self._refuse()
            error = self._pause(next(pauses))
            if error is not None:
                self._not_concluded(error)
            image = self._metadata.image
            self.parts = [each.anew() if each.is_outdated(image) else each for each in self.parts]
            ready = [
                each
                for each in self._pending()
                if each.trial is None and not self._is_blocked(each.key)
            ]

    def read_leaders(
        self, keys: Sequence[PartitionKey], fence: ProducerRun | None = None
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
            ready = [each for each in keys if each not in logs and not self._is_blocked(each)]
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
                is_over = self._node.clock.monotonic_ms() >= self._deadline_ms
                if isinstance(each.error, RootAccessDeniedError) or not is_passing or is_over:
                    raise each.error
            reports = [each.report for each in failures.values() if each.report is not None]
            self._second_inspections.record(reports)
            waits = [
                wait_of(key, image.partition(key), each.error) for key, each in failures.items()
            ]
            self._waiting().update([each for each in waits if each is not None])
            error = self._pause(next(pauses))
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
                    return read_leader(self._node, image, key)
                return fence_tries(self._node, image, key, fence)
            except LeaderFailure as failure:
                return failure

        begun = [(of, self._threads.tries(each).map(read, of)) for each, of in by_brokers.items()]
        return {key: found for of, all_of in begun for key, found in zip(of, all_of, strict=True)}

    def _pause(self, pause_ms: float) -> KafkaOnSparkError | None:
        """Sleep before another look, and catch up; return what kept it from that."""
        self._node.clock.sleep_ms(self._waiting().pause_ms(pause_ms * (0.5 + self._node.random())))
        try:
            self._second_inspections.inspect_due()
            self._metadata.catch_up()
        except METADATA_AWAY as error:
            return error
        return None

    def _round(self, ready: Sequence[AppendPart]) -> None:
        """Try the `ready` ones of the pending parts once; answer those that are finished."""
        for each in ready:
            self._begin(each)
        reports = []
        for each in self._ended(has_begun=bool(ready)):
            if isinstance(each.met, KafkaOnSparkError):
                self._failed(each, each.met)
            elif each.met is not None:
                reports.append(each.met)
        if reports:
            self._second_inspections.record(reports)
            try:
                self._conclude(reports)
            except METADATA_AWAY as error:
                self._not_concluded(error)
                return
        for each in self._pending():
            self._acknowledge(each)

    def _begin(self, part: AppendPart) -> None:
        """Begin a try."""
        image, is_first_try = self._metadata.image, part.tried is None
        part.tried, part.met = image.partition(part.key), None
        part.leader_failure = part.appended = None
        brokers = frozenset[BrokerId]() if part.tried is None else part.tried.isr
        pool = self._threads.tries(brokers)
        part.trial = pool.submit(self._try, image, part, is_first_try)

    def _ended(self, *, has_begun: bool) -> list[AppendPart]:
        """Wait for tries, if one has begun; return the parts whose try has ended."""
        tries = {each.trial: each for each in self._pending() if each.trial is not None}
        clock = self._node.clock
        began_ms = clock.monotonic_ms()
        if has_begun:
            self._threads.wait(tries.keys(), FIRST_TRY_MS, for_all=False)
        if has_begun and any(each.done() for each in tries):
            others_ms = max(OTHER_TRIES_MS, clock.monotonic_ms() - began_ms)
            self._threads.wait(tries.keys(), others_ms, for_all=True)
        ended = []
        for trial, part in tries.items():
            if trial.done():
                part.met, part.trial = trial.result(), None
                ended.append(part)
        return ended

    def _try(
        self, image: MetadataImage, part: AppendPart, is_first_try: bool
    ) -> PartitionReport | KafkaOnSparkError:
        """Place and commit one part, and have it fetched for acks=all; return what to report."""
        try:
            if part.tried is None:
                raise UnknownTopicOrPartitionError(
                    f"partition {part.key.partition} is gone: it was deleted"
                )
            may_stand = part.is_appended or part.may_be_appended
            if self._acks == "all":
                check_min_isr(image, part.key, part.tried, is_appended=may_stand)
            if not may_stand:
                check_keys(image, [part])
            commit_part(self._node, part, *place(self._node, image, part))
            return self._have_fetched(image, part, is_first_try=is_first_try)
        except LeaderFailure as failure:
            part.leader_failure = failure.report
            return failure.error
        except KafkaOnSparkError as error:
            return error

    def _have_fetched(
        self, image: MetadataImage, part: AppendPart, *, is_first_try: bool
    ) -> PartitionReport:
        """Have the rest of the ISR fetch what the leader has appended, for acks=all; return one
        report of all of them.

        What was staged for a follower is there already, and is not read and flushed again at the
        first try. A later one checks each file that was staged.
        """
        node, partition, leader, appended = self._node, part.tried, part.leader, part.appended
        assert partition is not None
        assert leader is not None
        assert appended is not None
        state = appended.state
        seen = state_report(leader, state, is_matched=True)
        own = partition_report(part.key, partition, seen, state, (), now_ms=node.clock.now_ms())
        if self._acks != "all":
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
            return fetch(order, node.replicas, node.segments, node.clock, state).report

        fetched = self._threads.fetches(partition.isr).map(one, orders)
        return merge_reports([own, *fetched])[0]

    def _conclude(self, reports: Sequence[PartitionReport]) -> None:
        """Commit all high watermarks, and which replicas leave the ISR, at once."""
        conclude_reports(self._metadata, reports, timeout_ms=self._node.timeout_ms)

    def _not_concluded(self, error: KafkaOnSparkError) -> None:
        for each in self._pending():
            each.last_error = error
        if isinstance(error, RootAccessDeniedError):
            self._give_up(is_timed_out=False)  # waiting does not help

    def _failed(self, part: AppendPart, error: KafkaOnSparkError) -> None:
        part.last_error = error
        if part.leader_failure is not None:
            self._second_inspections.record([part.leader_failure])
        if isinstance(error, CommitOutcomeUnknownError):
            part.may_be_appended = True
        if isinstance(error, _TRY_AGAIN) and not isinstance(error, RootAccessDeniedError):
            return  # a denial is answered at once: waiting gives no permission
        if part.is_appended or part.may_be_appended:
            # The error is about this try only.
            words = f"{error.message}; an earlier try of this append may be committed"
            error = type(error)(words, **{**error.context, "may_be_committed": True})
        self._answer(part, error)

    def _refuse(self) -> None:
        """Answer for what can't be written, or committed, before people make room."""
        for each in self._pending():
            if each.trial is not None:
                continue  # it may yet append
            error = self._waiting().refused(
                each.key, is_appended=each.is_appended, may_be_appended=each.may_be_appended
            )
            if error is not None:
                self._answer(each, error)

    def _acknowledge(self, part: AppendPart) -> None:
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
        read = partial(self._node.segments.borders, part.leader)
        batch, seen = appended.batch, appended.state
        if self._acks == "all" and not is_acknowledged(partition, seen, batch, part.log, read):
            return
        stands = batch or appended.last
        part.base_offset = None if stands is None else stands.base_offset
        if batch is not None and batch.has_append_time:
            part.append_time_ms = batch.appended_at_ms
        self._answer(part)

    def _give_up(self, *, is_timed_out: bool = True) -> None:
        """Answer "unknown" for the rest."""
        for each in self._pending():
            why = self._watch.why(each.key) if is_timed_out and self._watch is not None else None
            why = why or str(each.last_error or "the in-sync replicas did not catch up")
            producer = each.batch.producer
            advice = (
                "a retry with the same sequence is safe"
                if producer is not None and producer.sequence is not None
                else "a retry may append it twice (with a producer_id and a sequence it would not)"
            )
            error = RequestTimedOutError(
                f"partition {each.key.partition}: not acknowledged"
                f"{' in time' if is_timed_out else ''} ({why}); whether it will be committed is"
                f" unknown, {advice}"
            )
            self._answer(each, error)

    def _answer(self, part: AppendPart, error: KafkaOnSparkError | None = None) -> None:
        """Have a part answered: acknowledged as it is, or with an error."""
        part.error, part.is_answered = error, True
        if self._take is not None:
            self._take(part)


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
    node: Node, key: PartitionKey, partition: PartitionRegistration, leader: ReplicaAddress
) -> Iterator[None]:
    """Have an error of the leader's log raised as a LeaderFailure."""
    try:
        yield
    except KafkaOnSparkError as error:
        report = leader_failed(key, partition, leader, error, node.clock.now_ms())
        raise LeaderFailure(as_leaders_fault(error), report) from error


def read_leader(node: Node, image: MetadataImage, key: PartitionKey) -> ReplicaState | None:
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
    log = node.replicas.open(leader)
    with _of_leader(node, key, partition, leader):
        try:
            check_complete(state := log.load(), partition)
        except ReplicaLostError:  # a stale listing shows an older, shorter log
            check_complete(state := log.load(), partition)
    return state


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
    if partition.leader is None or not partition.is_created(partition.leader):
        words = "has no leader, and may have a first try of this append: bring its brokers back"
        raise LeaderFailure(
            NotLeaderOrFollowerError(f"partition {key.partition} {words}, and append again")
        )
    leader = address_of(image, key, partition, partition.leader)
    registered = registered_producers(image)
    log = node.replicas.open(leader)
    fence = partial(
        fence_producer,
        producer_id=run.producer_id,
        producer_epoch=run.producer_epoch,
        leader_epoch=partition.leader_epoch,
        registered=registered,
    )
    with _of_leader(node, key, partition, leader):
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
        fetched = fetch(order, node.replicas, node.segments, node.clock, state)
        seen = fetched.report.replica(broker_id)
        if seen is None or not seen.counts_in(partition.leader_epoch):
            words = "can't be asked, and may have a first try of this append: bring the broker back"
            absent = NotEnoughReplicasError(
                f"partition {key.partition}: the replica on broker {broker_id} {words} or let the"
                " controller fence it, and append again"
            )
            raise LeaderFailure(absent)
    return state


def place(node: Node, image: MetadataImage, part: AppendPart) -> tuple[StagedBatch, ReplicaState]:
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
    part.log = log = node.replicas.open(leader)
    with _of_leader(node, key, partition, leader):
        state = begin_leadership(log, partition)
        state = with_borders_over(state, part.puts, partial(node.segments.borders, leader))
    producer, writer = part.batch.producer, part.batch.writer
    # An earlier try has appended it; if it stands in this leader's log, no newer producer or writer
    # fences it.
    stands = part.is_appended and (find_put(state, part.puts) or find_append(state, part.batch))
    if not stands:
        # It is written now, perhaps again; a leader that was elected after a newer run began
        # knows nothing of that run.
        if producer is not None:
            check_not_fenced(image.producers, producer.producer_id, producer.producer_epoch)
        if writer is not None:
            check_writer_not_fenced(image.producers, writer)
        state = fence_older_writers(log, state, writer, registered_producers(image))
    return place_files(node.segments, part, leader, partition.leader_epoch), state


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


def commit_part(node: Node, part: AppendPart, batch: StagedBatch, state: ReplicaState) -> None:
    """Commit a placed part to its leader's table, or find where it stands already.

    If an earlier try has appended it, it may stand there and be no duplicate, and the log need not
    end where a conditional append expected.

    Raises: as `replicas.commit_staged`, `check_remembered` and `catch_up`.
    """
    assert part.tried is not None
    assert part.log is not None, "it was placed"
    assert part.leader is not None
    part.appended = appended = commit_staged(
        part.log,
        batch,
        state,
        leader_epoch=state.leader_epoch or part.tried.leader_epoch,
        now_ms=node.clock.now_ms(),
        expected_offset=None if part.is_appended else part.expected_offset,
        puts=part.puts,
        read_borders=partial(node.segments.borders, part.leader),
        check_absent=partial(check_remembered, batch.producer, node.metadata.catch_up),
    )
    part.is_duplicate = part.is_duplicate or (appended.is_duplicate and not part.is_appended)
    part.is_appended = True


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
