"""One append under way: the batches of its partitions go from staged to acknowledged, in rounds.

A round tries each partition once: its files come into the leader's folder, one commit of the
leader's table gives the records their offsets, and the in-sync replicas fetch. One metadata commit
then moves all high watermarks. A batch that is not acknowledged waits, and is tried again in
the next round, with the leader of then, until the time is up.

A try waits for the roots of its partition, and one of them may hang. So each runs in a thread, and
the round goes on without those that take much longer than the others. They are not waited for any
more once their partition has another leader, or does without the replica that they wait for.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitError,
    CommitOutcomeUnknownError,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
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
from kafka_on_spark.base.ids import BrokerId, Offset, PartitionKey
from kafka_on_spark.controller.inspections import SecondInspections, inspect_findings
from kafka_on_spark.controller.isr import (
    conclude,
    decode_queued,
    encode_reports,
    without_suspects,
)
from kafka_on_spark.log.fetch import (
    failed_report,
    fetch,
    fetch_orders,
    merge_reports,
    partition_report,
    state_report,
)
from kafka_on_spark.log.operations import check_end
from kafka_on_spark.log.producer_state import find_append
from kafka_on_spark.log.segments import begin_at
from kafka_on_spark.log.state import ReplicaAddress, ReplicaState, address_of
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY, MetadataService
from kafka_on_spark.metadata.reports import (
    PartitionReport,
    ReplicaReport,
    is_under_min_isr,
    too_few_in_sync,
)
from kafka_on_spark.node.node import THREADS, Node
from kafka_on_spark.produce.append_watch import METADATA_AWAY, AppendWatch, wait_of
from kafka_on_spark.produce.idempotence import check_tries
from kafka_on_spark.produce.leader_log import (
    PartitionBatch,
    commit_batch,
    fence_tries,
    is_acknowledged,
    place,
    read_leader,
)
from kafka_on_spark.produce.records import topic_limits
from kafka_on_spark.produce.staging import ProducerRun
from kafka_on_spark.store.deadlines import Call, DaemonThreads, pauses_ms

T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_MS_MIN: Final = 10.0
PAUSE_MS_MAX: Final = 1000.0

FIRST_TRY_MS: Final = 2000.0
"""A round goes on after so long though no try has ended: why they take so long is looked into."""

OTHER_TRIES_MS: Final = 500.0
"""Once a try of a round has ended the others have so long, or as long again as that one took."""

EXPECTING_MS: Final = 20.0
"""Between two looks whether a try has ended while others are expected to get so far."""

_NOT_ANSWERED: Final = KafkaStorageError("a root has not answered yet")

# After these, the append is tried again on a newer image, with the new leader if there is one.
_TRY_AGAIN: Final = (
    *ROOTS_AWAY,
    CommitError,
    CorruptLogError,
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    NotLeaderOrFollowerError,
    ReplicaLostError,
    UnknownLeaderEpochError,
)


class AppendThreads:
    """A pool for each set of brokers that partitions need: a root that hangs delays those
    partitions alone that need it. Tries have threads there; their fetches have those of the roots.
    """

    def __init__(self, _: Node) -> None:
        self._pools: dict[Set[BrokerId], Executor] = {}

    def pool(self, brokers: Set[BrokerId]) -> Executor:
        """Return the pool for tries of partitions that need these brokers."""
        found = self._pools.get(brokers)
        return found or self._pools.setdefault(brokers, DaemonThreads(THREADS, "partition"))

    def at_roots(
        self, work: Callable[[ReplicaAddress], T], addresses: Iterable[ReplicaAddress]
    ) -> list[T | KafkaStorageError]:
        """Return what `work` returns for each address, done side by side, each in one call to its
        root; or why that call did not come to its end."""
        found: list[T | KafkaStorageError] = []
        for call in [begin_at(each, partial(work, each)) for each in addresses]:
            try:
                found.append(call.in_time() if isinstance(call, Call) else call)
            except KafkaStorageError as error:
                found.append(error)
        return found

    def wait(self, tries: Collection[Future[Any]], timeout_ms: float, *, for_all: bool) -> None:
        """Wait for one of some tries, or `for_all`, for `timeout_ms` at most."""
        wait_for(tries, timeout_ms / 1000, ALL_COMPLETED if for_all else FIRST_COMPLETED)

    def close(self) -> None:
        """Take no more work; what a root that hangs keeps is not waited for."""
        for each in list(self._pools.values()):
            each.shutdown(wait=False)


class AppendRounds:
    """One append: what was staged for its partitions is led to its answers.

    `may_decide`: it may control where nobody does. `reached_elsewhere`: brokers that its tasks on
    other hosts have written to. `take` gets each batch as soon as it has its answer: others may
    wait for long.
    """

    def __init__(
        self,
        node: Node,
        batches: Iterable[PartitionBatch],
        *,
        acks: str,
        timeout_ms: int,
        may_decide: bool = True,
        reached_elsewhere: frozenset[BrokerId] = frozenset(),
        take: Callable[[PartitionBatch], object] | None = None,
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
        # What tries expect to report once all replicas have fetched; None of one that failed.
        self._expected: SimpleQueue[PartitionReport | None] = SimpleQueue()
        self.batches = list(batches)

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

    def _pending(self) -> list[PartitionBatch]:
        return [each for each in self.batches if not each.is_answered]

    def check(
        self, other_ends: Mapping[PartitionKey, Offset], may_have: Collection[PartitionKey]
    ) -> int:
        """Check, before the first round, what may refuse the whole append; leaders' logs are read
        for that, and waited for. Return the last sequence of its producer in `may_have`.

        `other_ends`: where partitions that get no record must end, of a conditional append.
        `may_have`: partitions where an earlier try may stand, with other records.

        Raises:
            What the first partition met that could not be read, and as `check_min_isr`,
            `check_keys`, `check_ends` and `check_tries`: nothing was appended.
        """
        image = self._metadata.image
        if self._acks == "all":
            for each in self.batches:
                check_min_isr(image, each.key, is_appended=False)
        check_keys(image, self.batches)
        read = dict.fromkeys([*other_ends, *may_have])
        for each in self.batches:
            if each.expected_offset is not None or other_ends:
                read[each.key] = None
        if not read:
            return -1
        logs = self.read_leaders(list(read))
        check_ends(logs, self.batches, other_ends)
        staged = {each.key: each.staged for each in self.batches}
        return check_tries(self._metadata.image, logs, staged, may_have)

    def run(self) -> list[PartitionBatch]:
        """Append the batches and wait for what `acks` asks; return each answered, in order.

        Each round commits what is ready; a partition that waits goes into a later round.
        """
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        ready = self.batches
        while True:
            self._round(ready)
            if self._acks == "0":
                self._give_up()
            pending = self._pending()
            if not pending:
                break
            left_ms = self._deadline_ms - self._node.clock.monotonic_ms()
            is_stuck = all(each.running is not None for each in pending)
            if left_ms < (OTHER_TRIES_MS if is_stuck else 0):
                self._give_up()
                break
            self._waiting().update(
                wait_of(
                    each.key,
                    each.registration,
                    each.result if each.running is None else _NOT_ANSWERED,
                    each.size_bytes,
                )
                for each in pending
            )
            self._answer_early()
            error = self._pause(next(pauses))
            if error is not None:
                self._not_concluded(error)
            image = self._metadata.image
            self.batches = [
                each.anew() if each.is_outdated(image) else each for each in self.batches
            ]
            ready = [
                each
                for each in self._pending()
                if each.running is None and not self._is_blocked(each.key)
            ]
        if self._metadata.suspects:
            inspect_findings(self._node)
        return self.batches

    def read_leaders(
        self, keys: Sequence[PartitionKey], fence: ProducerRun | None = None
    ) -> dict[PartitionKey, ReplicaState | None]:
        """Return the logs of leaders, read side by side; wait for those that can't be read, or
        raise why one can't, once the time is up, or where waiting does not help. `fence`: the run
        for which older tries of its append are fenced in each (`fence_tries`)."""
        logs: dict[PartitionKey, ReplicaState | None] = {}
        failures: dict[PartitionKey, KafkaOnSparkError] = {}
        pauses = pauses_ms(PAUSE_MS_MIN, PAUSE_MS_MAX)
        while True:
            image = self._metadata.image
            ready = [each for each in keys if each not in logs and not self._is_blocked(each)]
            for key, found in self._read(image, ready, fence).items():
                if isinstance(found, KafkaOnSparkError):
                    failures[key] = found
                else:
                    logs[key] = found
                    failures.pop(key, None)
            if not failures:
                return logs
            for each in failures.values():
                is_passing = isinstance(each, (*_TRY_AGAIN, NotEnoughReplicasError))
                is_over = self._node.clock.monotonic_ms() >= self._deadline_ms
                if isinstance(each, RootAccessDeniedError) or not is_passing or is_over:
                    raise each
            self._waiting().update(
                wait_of(key, image.partition(key), each) for key, each in failures.items()
            )
            error = self._pause(next(pauses))
            if isinstance(error, RootAccessDeniedError):
                raise error  # waiting gives no permission

    def _read(
        self, image: MetadataImage, keys: Iterable[PartitionKey], fence: ProducerRun | None
    ) -> dict[PartitionKey, ReplicaState | KafkaOnSparkError | None]:
        """Read leaders' logs, each in a pool of its partition's brokers, as a try is made."""
        by_brokers: dict[Set[BrokerId], list[PartitionKey]] = {}
        for key in keys:
            partition = image.partition(key)
            brokers = frozenset[BrokerId]() if partition is None else partition.isr
            by_brokers.setdefault(brokers, []).append(key)

        def read(key: PartitionKey) -> ReplicaState | KafkaOnSparkError | None:
            try:
                if fence is None:
                    return read_leader(self._node, image, key)
                return fence_tries(self._node, image, key, fence)
            except KafkaOnSparkError as error:
                return error

        begun = [(of, self._threads.pool(each).map(read, of)) for each, of in by_brokers.items()]
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

    def _round(self, ready: Sequence[PartitionBatch]) -> None:
        image, began_ms = self._metadata.image, self._node.clock.monotonic_ms()
        reports: list[PartitionReport] = []
        for each in ready:
            is_first_try = each.registration is None
            each.registration = image.partition(each.key)
            each.result = each.appended = None
            brokers = frozenset[BrokerId]() if each.registration is None else each.registration.isr
            pool = self._threads.pool(brokers)
            each.running = pool.submit(self._try, image, each, is_first_try)
        self._expect(ready)
        for each in self._ended(began_ms, has_begun=bool(ready)):
            if isinstance(each.result, KafkaOnSparkError):
                self._failed(each, each.result)
            elif each.result is not None:
                reports.append(each.result)
        if reports:
            try:
                # One commit moves all high watermarks and takes replicas out of ISRs.
                conclude_reports(self._metadata, reports, timeout_ms=self._node.timeout_ms)
            except METADATA_AWAY as error:
                self._not_concluded(error)
                return
        for each in self._pending():
            self._acknowledge(each)

    def _expect(self, ready: Sequence[PartitionBatch]) -> None:
        """On a store, have the file of the decision put that follows if all replicas fetch, while
        they do: in a round of all batches, and unless a try fails or ends before."""
        if not self._metadata.is_far or ready != self.batches:
            return
        tries = [each.running for each in ready if each.running is not None]
        reports: dict[PartitionKey, PartitionReport] = {}
        until_ms = self._node.clock.monotonic_ms() + FIRST_TRY_MS
        while len(reports) < len(ready):
            if any(map(Future.done, tries)) or self._node.clock.monotonic_ms() > until_ms:
                return
            with suppress(Empty):
                report = self._expected.get(timeout=EXPECTING_MS / 1000)
                if report is None:
                    return
                reports[report.key] = report
        expected = [reports[each.key] for each in ready]
        self._metadata.expect(partial(conclude, reports=expected))

    def _ended(self, began_ms: int, *, has_begun: bool) -> list[PartitionBatch]:
        """Wait for tries, if one has begun, at `began_ms`; return the batches whose try ended."""
        tries = {each.running: each for each in self._pending() if each.running is not None}
        clock = self._node.clock
        if has_begun:
            self._threads.wait(tries.keys(), FIRST_TRY_MS, for_all=False)
        if has_begun and any(each.done() for each in tries):
            others_ms = max(OTHER_TRIES_MS, clock.monotonic_ms() - began_ms)
            self._threads.wait(tries.keys(), others_ms, for_all=True)
        ended = []
        for running, batch in tries.items():
            if running.done():
                batch.result, batch.running = running.result(), None
                ended.append(batch)
        return ended

    def _try(
        self, image: MetadataImage, batch: PartitionBatch, is_first_try: bool
    ) -> PartitionReport | KafkaOnSparkError:
        """Place and commit one batch, and have it fetched for acks=all; return what to report."""
        try:
            if batch.registration is None:
                raise UnknownTopicOrPartitionError(
                    f"partition {batch.key.partition} is gone: it was deleted"
                )
            may_stand = batch.is_appended or batch.may_be_appended
            if self._acks == "all":
                check_min_isr(image, batch.key, is_appended=may_stand)
            if not may_stand:
                check_keys(image, [batch])
            self._open_early(image, batch)
            commit_batch(self._node, batch, *place(self._node, image, batch))
            report = self._have_fetched(image, batch, is_first_try=is_first_try)
            replicas = (report.leader, *report.followers)
            if self._second_inspections.failing or any(each.error_code for each in replicas):
                self._second_inspections.record([report])
            return report
        except KafkaOnSparkError as error:
            self._expected.put(None)
            return error

    def _open_early(self, image: MetadataImage, batch: PartitionBatch) -> None:
        """On a store, begin to read the tables that this process does not know, while the leader's
        is read and committed to."""
        partition = batch.registration
        if not self._metadata.is_far or self._acks != "all" or partition is None:
            return
        for each in filter(partition.is_created, partition.isr):
            address = address_of(image, batch.key, partition, each)
            self._node.replicas.open(address).open_early()

    def _have_fetched(
        self, image: MetadataImage, batch: PartitionBatch, *, is_first_try: bool
    ) -> PartitionReport:
        """Have the rest of the ISR fetch what the leader has appended, for acks=all; return one
        report of all of them, or else of the leader.

        What was staged for a follower is there already, and is not read and flushed again at the
        first try. A later one checks each file that was staged.
        """
        node, partition, leader = self._node, batch.registration, batch.leader
        appended = batch.appended
        assert partition is not None
        assert leader is not None
        assert appended is not None
        state = appended.state
        holders = batch.holders if is_first_try else ()
        staged = frozenset(batch.staged.segments)
        isr = partition.isr if self._acks == "all" else ()
        others = (each for each in isr if each != partition.leader and partition.is_created(each))
        orders = {
            each.follower: replace(each, staged=staged) if each.follower in holders else each
            for each in fetch_orders(image, batch.key, partition, others)
            if each.follower is not None
        }
        batch.replicas += orders

        if self._metadata.is_far:
            followers = [state_report(each, state, state) for each in orders]
            now_ms = node.clock.now_ms()
            self._expected.put(
                partition_report(batch.key, partition, leader, state, followers, now_ms=now_ms)
            )

        def fetched(follower: ReplicaAddress) -> PartitionReport:
            order = orders[follower]
            return fetch(order, node.replicas, node.segments, node.clock, state).report

        reports: list[PartitionReport] = []
        failed: list[ReplicaReport] = []
        for follower, found in zip(orders, self._threads.at_roots(fetched, orders), strict=True):
            if isinstance(found, KafkaStorageError):
                failed.append(failed_report(follower, found))
            else:
                reports.append(found)
        if failed or not reports:
            now_ms = node.clock.now_ms()
            own = partition_report(batch.key, partition, leader, state, failed, now_ms=now_ms)
            reports.append(own)
        [report] = merge_reports(reports)
        return report

    def _not_concluded(self, error: KafkaOnSparkError) -> None:
        for each in self._pending():
            each.last_error = error
        if isinstance(error, RootAccessDeniedError):
            self._give_up(is_timed_out=False)  # waiting does not help

    def _failed(self, batch: PartitionBatch, error: KafkaOnSparkError) -> None:
        batch.last_error = error
        if isinstance(error, CommitOutcomeUnknownError):
            batch.may_be_appended = True
        if isinstance(error, _TRY_AGAIN) and not isinstance(error, RootAccessDeniedError):
            return  # a denial is answered at once: waiting gives no permission
        if batch.is_appended or batch.may_be_appended:
            # The error is about this try only.
            words = f"{error.message}; an earlier try of this append may be committed"
            error = type(error)(words, **{**error.context, "may_be_committed": True})
        self._answer(batch, error)

    def _answer_early(self) -> None:
        """Answer for what can't be written, or committed, before people make room."""
        for each in self._pending():
            if each.running is not None:
                continue  # it may yet append
            error = self._waiting().refused(
                each.key, is_appended=each.is_appended, may_be_appended=each.may_be_appended
            )
            if error is not None:
                self._answer(each, error)

    def _acknowledge(self, batch: PartitionBatch) -> None:
        """Answer a batch that is acknowledged under the image of now.

        It is when the high watermark has passed it **and** it stands at that offset in the log of
        the *current* leader (I2): a high watermark past its offset alone would acknowledge records
        that are lost.
        """
        partition, appended = self._metadata.image.partition(batch.key), batch.appended
        if partition is None or appended is None or batch.running is not None:
            return  # its last try has not ended, or not found it in its leader's log
        assert batch.log is not None, "what is appended was placed"
        assert batch.leader is not None
        read = partial(self._node.segments.borders, batch.leader)
        if self._acks == "all" and not is_acknowledged(partition, appended, batch.log, read):
            return
        if self._acks == "1" and appended.state.leader_epoch != partition.leader_epoch:
            return  # another may lead by now, without it
        stands = appended.batch or appended.last
        batch.base_offset = None if stands is None else stands.base_offset
        if appended.batch is not None and appended.batch.has_append_time:
            batch.append_time_ms = appended.batch.appended_at_ms
        self._answer(batch)

    def _give_up(self, *, is_timed_out: bool = True) -> None:
        """Answer "unknown" for the rest."""
        for each in self._pending():
            why = self._watch.why(each.key) if is_timed_out and self._watch is not None else None
            why = why or str(each.last_error or "the in-sync replicas did not catch up")
            producer = each.staged.producer
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

    def _answer(self, batch: PartitionBatch, error: KafkaOnSparkError | None = None) -> None:
        batch.error, batch.is_answered = error, True
        if self._take is not None:
            self._take(batch)


def conclude_reports(
    metadata: MetadataService, reports: Sequence[PartitionReport], *, timeout_ms: int
) -> None:
    """Commit what `reports` lead to, and those that other processes have queued while they wait for
    the commit lock. A report is a fact, and what follows from it is decided on the image of the
    process that commits: it makes no difference which process that is."""

    def decide(image: MetadataImage) -> ControllerResult[int]:
        own = conclude(image, reports)
        try:
            queued = metadata.lock.queued_reports() if own.records else ()
            if not queued:
                return own
            others = decode_queued(queued, exclude={report.key for report in reports})
            return conclude(image, [*reports, *others])
        except Exception:  # the processes that queued them decide on them, too
            log.warning("queued reports are left to their processes", exc_info=True)
            return own

    def encoded() -> bytes:
        suspects = metadata.suspects  # another process's are others
        return encode_reports([without_suspects(each, suspects) for each in reports])

    metadata.submit(decide, queued=encoded, timeout_ms=timeout_ms)


def check_min_isr(image: MetadataImage, key: PartitionKey, *, is_appended: bool) -> None:
    """Check that acks=all can be kept for a partition now: or raise NotEnoughReplicasError before
    its write, and NotEnoughReplicasAfterAppendError if the write may be committed later."""
    partition = image.partition(key)
    if partition is None or not is_under_min_isr(image, key.topic_id, partition):
        return
    kind = NotEnoughReplicasAfterAppendError if is_appended else NotEnoughReplicasError
    raise kind(too_few_in_sync(image, key, partition))


def check_keys(image: MetadataImage, batches: Iterable[PartitionBatch]) -> None:
    """Check that a compacted topic gets records with keys only (KIP-135)."""
    for batch in batches:
        topic = image.topics.get(batch.key.topic_id)
        if topic is None or not batch.staged.has_keyless:
            continue
        limits = topic_limits(image, topic)
        if limits.needs_key:
            raise limits.lacks_key()


def check_ends(
    logs: Mapping[PartitionKey, ReplicaState | None],
    batches: Iterable[PartitionBatch],
    others: Mapping[PartitionKey, Offset],
) -> None:
    """Check that logs end where a conditional append expects: of its batches, and of `others`.

    What an earlier try has appended already is no reason to refuse its retry.
    """
    is_retry = False
    for batch in batches:
        if batch.expected_offset is None and not others:
            continue
        state = logs[batch.key]
        if state is not None and find_append(state, batch.staged) is not None:
            is_retry = True
        elif batch.expected_offset is not None:
            _check_end(state, batch.expected_offset)
    for key, expected in () if is_retry else others.items():
        _check_end(logs[key], expected)


def _check_end(state: ReplicaState | None, expected: Offset) -> None:
    if state is not None:
        check_end(state, expected)
    elif expected != 0:
        raise UnexpectedOffsetError(
            f"the log ends at 0, not at the expected {expected}: nothing was appended to it yet"
        )
