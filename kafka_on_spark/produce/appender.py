"""Leads the parts of an append from staged to acknowledged, in rounds, until each is answered.

A round tries each partition once: place, append, and have the in-sync replicas fetch. One metadata
commit then moves all high watermarks. A part that is not acknowledged waits, and is tried again in
the next round, with the leader of then, until the time is up.

A try waits for the roots of its partition, and one of them may hang. So each runs in a thread, and
the round goes on without those that take much longer than the others. They are not waited for any
more once their partition has another leader, or does without the replica that they wait for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Executor, Future
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from kafka_on_spark.base.back_off import pauses_ms
from kafka_on_spark.base.errors import (
    CommitError,
    CommitOutcomeUnknownError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaOnSparkError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    RootAccessDeniedError,
    UnknownLeaderEpochError,
    UnknownTopicOrPartitionError,
)
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.base.process import Clock
from kafka_on_spark.controller.queued_reports import conclude_reports
from kafka_on_spark.controller.second_inspection import SecondInspections
from kafka_on_spark.log.batch import Batch
from kafka_on_spark.log.replicas import ReplicaStore, SegmentStore
from kafka_on_spark.log.state import ReplicaState
from kafka_on_spark.metadata.commit_wait import ROOTS_AWAY
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.metadata_service import MetadataService
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.produce.acknowledging import (
    acknowledge,
    fetch_to_isr,
    not_acknowledged,
    report_leader,
)
from kafka_on_spark.produce.append_watch import METADATA_AWAY, AppendWatch, Wait, wait_of
from kafka_on_spark.produce.placing import (
    LeaderFailure,
    append_placed,
    fence_tries,
    place,
    read_leader,
)
from kafka_on_spark.produce.preconditions import (
    check_ends,
    check_keys,
    check_min_isr,
    check_replicas,
    check_tries,
    keys_of_ends,
)
from kafka_on_spark.produce.stage_plan import ProducerRun
from kafka_on_spark.produce.stages import AnsweredPart, AppendedPart, PlacedPart, StagedPart

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


@dataclass(slots=True)
class _Pending:
    """A partition that is not acknowledged yet, and what its tries have met.

    Attributes:
        part: What was staged.
        is_appended: Some try has appended it, or has found it in the log.
        may_be_appended: A commit of it had an unknown outcome, so it can't be called not written.
        is_duplicate: It stood in the log before its first try.
        puts: Its commits that may stand, as they were put.
        appended: As the last try left it; None if that try did not get so far.
        leader_failure: What the last try met in the leader's log, if that failed.
        last_error: The last error of a try or of the metadata log.
        tried: The partition as it was at the last try.
        trial: That try, until its end was seen.
        wait: What that try met, if it may last.
    """

    part: StagedPart
    is_appended: bool = False
    may_be_appended: bool = False
    is_duplicate: bool = False
    puts: list[Batch] = field(default_factory=list)
    appended: AppendedPart | None = None
    leader_failure: PartitionReport | None = None
    last_error: KafkaOnSparkError | None = None
    tried: PartitionRegistration | None = None
    trial: "Future[PartitionReport | KafkaOnSparkError] | None" = None
    wait: Wait | None = None

    def is_outdated(self, image: MetadataImage) -> bool:
        """Return whether a try under way is not to be waited for: its partition has another leader,
        or does without a replica that it may wait for."""
        now = image.partition(self.part.key)
        if self.trial is None or self.tried is None or now is None:
            return False
        before = self.tried
        return now.leader_epoch != before.leader_epoch or now.isr != before.isr

    def anew(self) -> "_Pending":
        """Return the same for another try beside the one under way. Each knows the `puts` of both:
        where one has landed the other conflicts, and finds it."""
        return replace(self, trial=None, appended=None, leader_failure=None, may_be_appended=True)


_Pendings = dict[PartitionKey, _Pending]


class _Answers:
    """The answers of partitions; `take` gets each as soon as there is one."""

    def __init__(self, take: Callable[[AnsweredPart], None] | None) -> None:
        self._take = take
        self._answers: dict[PartitionKey, AnsweredPart] = {}

    def put(self, answer: AnsweredPart) -> None:
        self._answers[answer.key] = answer
        if self._take is not None:
            self._take(answer)

    def of(self, parts: Iterable[StagedPart]) -> list[AnsweredPart]:
        return [self._answers[part.key] for part in parts]


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
        parts: Sequence[StagedPart],
        *,
        acks: str,
        timeout_ms: int,
        watch: AppendWatch,
        other_ends: Mapping[PartitionKey, Offset] | None = None,
        tried: dict[PartitionKey, int] | None = None,
        take: Callable[[AnsweredPart], None] | None = None,
    ) -> list[AnsweredPart]:
        """Append `parts` and wait for what `acks` asks; return an answer for each, in order.

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
        self._check_logs(
            parts, other_ends or {}, {} if tried is None else tried, watch, deadline_ms
        )
        pending = {part.key: _Pending(part) for part in parts}
        answers = _Answers(take)
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
            self._round(pending, answers, acks, ready)
            if acks == "0":
                self._give_up(pending, answers, watch)
            if not pending:
                break
            left_ms = deadline_ms - self._clock.monotonic_ms()
            is_stuck = all(each.trial is not None for each in pending.values())
            if left_ms < (OTHER_TRIES_MS if is_stuck else 0):
                self._give_up(pending, answers, watch)
                break
            watch.update([each.wait for each in pending.values() if each.wait is not None])
            self._refuse(pending, answers, watch)
            error = self._pause(watch, next(pauses))
            if error is not None:
                self._not_concluded(error, pending, answers)
        return answers.of(parts)

    def _check_logs(
        self,
        parts: Sequence[StagedPart],
        other_ends: Mapping[PartitionKey, Offset],
        tried: dict[PartitionKey, int],
        watch: AppendWatch,
        deadline_ms: float,
    ) -> None:
        """Check what stands in logs against an append as a whole, as `append` says."""
        read = dict.fromkeys([*keys_of_ends(parts, other_ends), *tried])
        logs = self.read_leaders(list(read), watch, deadline_ms)
        check_ends(logs, parts, other_ends)
        check_tries(self._metadata.image, logs, parts, tried)

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
        read = partial(read_leader, image, replicas=self._replicas, clock=self._clock)
        if fence is not None:
            read = partial(
                fence_tries,
                image,
                run=fence,
                replicas=self._replicas,
                segments=self._segments,
                clock=self._clock,
            )
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

    def _round(
        self, pending: _Pendings, answers: _Answers, acks: str, ready: Sequence[_Pending]
    ) -> None:
        """Try the `ready` ones of the pending partitions once; move the finished to `answers`."""
        for each in ready:
            self._begin(each, acks)
        ended = self._ended(list(pending.values()), has_begun=bool(ready))
        self._second_inspections.record(
            each.leader_failure for each, _ in ended if each.leader_failure is not None
        )
        reports = []
        for each, attempt in ended:
            size_bytes = sum(segment.size_bytes for segment in each.part.batch.segments)
            each.wait = wait_of(each.part.key, each.tried, attempt, size_bytes)
            if isinstance(attempt, KafkaOnSparkError):
                self._failed(each, attempt, pending, answers)
            else:
                reports.append(attempt)
        if reports:
            self._second_inspections.record(reports)
            try:
                self._conclude(reports)
            except METADATA_AWAY as error:
                self._not_concluded(error, pending, answers)
                return
        for each in list(pending.values()):
            self._acknowledge(each, acks, pending, answers)

    def _begin(self, each: _Pending, acks: str) -> None:
        """Begin a try."""
        image, key, is_first_try = self._metadata.image, each.part.key, each.tried is None
        each.tried, each.leader_failure, each.appended = image.partition(key), None, None
        if each.tried is None:
            brokers, each.wait = frozenset[BrokerId](), None
        else:
            brokers = each.tried.isr
            each.wait = Wait(key=key, partition=each.tried, error="a root has not answered yet")
        each.trial = self._threads.tries(brokers).submit(
            self._try, image, each, acks, brokers, is_first_try
        )

    def _ended(
        self, pending: Sequence[_Pending], *, has_begun: bool
    ) -> list[tuple[_Pending, PartitionReport | KafkaOnSparkError]]:
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
        self,
        image: MetadataImage,
        each: _Pending,
        acks: str,
        brokers: Set[BrokerId],
        is_first_try: bool,
    ) -> PartitionReport | KafkaOnSparkError:
        """Place and append one part, and have it fetched for acks=all; return what to report."""
        try:
            placed = self._place(image, each, acks)
            if isinstance(placed, LeaderFailure):
                each.leader_failure = placed.report
                return placed.error
            each.appended = append_placed(
                placed,
                catch_up=self._metadata.catch_up,
                is_appended=each.is_appended,
                is_duplicate=each.is_duplicate,
                now_ms=self._clock.now_ms(),
                puts=each.puts,
                read_borders=partial(self._segments.borders, placed.leader),
            )
            each.is_appended, each.is_duplicate = True, each.appended.is_duplicate
            return self._report(image, each.appended, acks, brokers, is_first_try=is_first_try)
        except KafkaOnSparkError as error:
            return error

    def _place(self, image: MetadataImage, each: _Pending, acks: str) -> PlacedPart | LeaderFailure:
        key, partition = each.part.key, each.tried
        if partition is None:
            raise UnknownTopicOrPartitionError(f"partition {key.partition} is gone: it was deleted")
        is_appended = each.is_appended or each.may_be_appended
        if acks == "all":
            check_min_isr(image, key, partition, is_appended=is_appended)
        if not is_appended:
            check_keys(image, [each.part])
        return place(
            image,
            each.part,
            partition,
            is_appended=each.is_appended,
            replicas=self._replicas,
            segments=self._segments,
            clock=self._clock,
            puts=each.puts,
        )

    def _report(
        self,
        image: MetadataImage,
        appended: AppendedPart,
        acks: str,
        brokers: Set[BrokerId],
        *,
        is_first_try: bool,
    ) -> PartitionReport:
        if acks != "all":
            return report_leader(appended, self._clock.now_ms())
        return fetch_to_isr(
            image,
            appended,
            replicas=self._replicas,
            segments=self._segments,
            clock=self._clock,
            threads=self._threads.fetches(brokers),
            is_first_try=is_first_try,
        )

    def _conclude(self, reports: Sequence[PartitionReport]) -> None:
        """Commit all high watermarks, and which replicas leave the ISR, at once."""
        conclude_reports(
            self._metadata,
            reports,
            timeout_ms=self._metadata.image.settings().integer("delivery.timeout.ms"),
        )

    def _not_concluded(
        self, error: KafkaOnSparkError, pending: _Pendings, answers: _Answers
    ) -> None:
        for each in pending.values():
            each.last_error = error
        if isinstance(error, RootAccessDeniedError):
            self._give_up(pending, answers, None)

    def _failed(
        self, each: _Pending, error: KafkaOnSparkError, pending: _Pendings, answers: _Answers
    ) -> None:
        each.last_error = error
        if isinstance(error, CommitOutcomeUnknownError):
            each.may_be_appended = True
        if isinstance(error, _TRY_AGAIN) and not isinstance(error, RootAccessDeniedError):
            return  # a denial is answered at once: waiting gives no permission
        if each.is_appended or each.may_be_appended:
            # The error is about this try only.
            words = f"{error.message}; an earlier try of this append may be committed"
            error = type(error)(words, **{**error.context, "may_be_committed": True})
        del pending[each.part.key]
        answers.put(AnsweredPart(key=each.part.key, error=error))

    def _refuse(self, pending: _Pendings, answers: _Answers, watch: AppendWatch) -> None:
        """Answer for what can't be written, or committed, before people make room."""
        for key, each in list(pending.items()):
            if each.trial is not None:
                continue  # it may yet append
            error = watch.refused(
                key, is_appended=each.is_appended, may_be_appended=each.may_be_appended
            )
            if error is not None:
                del pending[key]
                answers.put(AnsweredPart(key=key, error=error))

    def _acknowledge(
        self, each: _Pending, acks: str, pending: _Pendings, answers: _Answers
    ) -> None:
        """Move `each` to `answers` if it is acknowledged under the image of now."""
        partition = self._metadata.image.partition(each.part.key)
        if partition is None or each.appended is None or each.trial is not None:
            return  # its last try has not ended, or not found it in its leader's log
        read = partial(self._segments.borders, each.appended.placed.leader)
        answer = acknowledge(each.appended, partition, acks=acks, read_borders=read)
        if answer is not None:
            del pending[each.part.key]
            answers.put(answer)

    def _give_up(self, pending: _Pendings, answers: _Answers, watch: AppendWatch | None) -> None:
        """Answer "unknown" for the rest; at once without `watch`, where waiting does not help."""
        for key, each in pending.items():
            why = None if watch is None else watch.why(key)
            why = why or str(each.last_error or "the in-sync replicas did not catch up")
            error = not_acknowledged(each.part, why, is_timed_out=watch is not None)
            answers.put(AnsweredPart(key=key, error=error))
        pending.clear()
