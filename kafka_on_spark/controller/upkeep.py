"""Upkeep: what is due of partitions and roots is done, by one scheduler.

First topics' cleanup.policy is decided (`cleanup_policy`): what is deleted need not be merged
before. Then replicas are kept small, and roots are cleaned of what killed processes left there. A
bounded share of it comes after each round of replication and in each pass of the controller; or all
that is due is done at once. `scheduler` says what is due, and how long it may take. Brokers' roots
are cleaned as a whole, and seldom; metadata roots on request only: who writes a checkpoint of the
metadata log cleans it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import Any, Final

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import (
    ERROR_NAME_BY_CODE,
    NO_ERROR,
    KafkaOnSparkError,
    NotControllerError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, PartitionKey
from kafka_on_spark.controller.cleanup_policy import (
    CleanupPass,
    CompactionPass,
    RetentionPass,
    Submit,
)
from kafka_on_spark.controller.election import change_record
from kafka_on_spark.controller.failures import Failures
from kafka_on_spark.controller.fetch_plan import Quota, accrue, wait_ms
from kafka_on_spark.controller.inspections import Finding, SecondInspections, inspect_findings
from kafka_on_spark.controller.reassignment import UNLIMITED
from kafka_on_spark.controller.scheduler import WORK_INTERVAL, DueTimes, scheduler, scope_of
from kafka_on_spark.log.replica_upkeep import plan_upkeep, upkeep_task
from kafka_on_spark.log.retention import limits_of
from kafka_on_spark.log.upkeep_work import (
    CLEAN,
    MERGE,
    NOTHING_DONE,
    VISIT_TIMES_MAX,
    WHOLE,
    UpkeepOrder,
    UpkeepResult,
)
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import (
    BrokerRegistration,
    ControllerResult,
    MetadataImage,
    submit_if_due,
)
from kafka_on_spark.metadata.partition import PartitionChange
from kafka_on_spark.metadata.records import PartitionChangeRecord
from kafka_on_spark.metadata.temporaries import clean_broker_root
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import (
    UPKEEP,
    UPKEEP_BYTES,
    UPKEEP_DONE,
    UPKEEP_FAILURES,
    UPKEEP_WRITTEN,
    operating,
)
from kafka_on_spark.store.deadlines import processor_ms
from kafka_on_spark.store.root_identity import check_directory

log = logging.getLogger(__name__)

BYTES_A_MS: Final = 64 * 1024
"""What a core reads and rewrites in a ms, about: a bound in time is one in bytes, too."""

PIECE_MS: Final = 50.0
"""What each replica may take at least."""

TASK_MS: Final = 1000.0
"""For how long a task works at a time, but for the piece that it is at."""


def plan_compaction(
    image: MetadataImage, followers: Mapping[PartitionKey, Collection[BrokerId]]
) -> list[UpkeepOrder]:
    """Return orders to compact the leaders of partitions, and these of their followers."""
    return [
        replace(order, works=("compact",))
        for order in plan_upkeep(image, followers)
        if order.is_of_leader or order.address.broker_id in followers[order.key]
    ]


def with_time(orders: Sequence[UpkeepOrder], budget_ms: float) -> list[UpkeepOrder]:
    """Return `orders` with equal parts of a time, and of the bytes that take as long; inf: without
    a bound.

    None has more than `TASK_MS`: one that is left after it comes again, while the round has time.
    """
    if not orders or budget_ms == inf:
        return list(orders)
    each_ms = max(PIECE_MS, budget_ms / len(orders))
    bytes_max = int(each_ms * BYTES_A_MS)
    task_ms = min(each_ms, TASK_MS)
    return [replace(order, work_ms_max=task_ms, bytes_max=bytes_max) for order in orders]


def visit_ms(orders: Iterable[UpkeepOrder]) -> float:
    """Return how long tasks may take, one after the other at worst."""
    return sum(VISIT_TIMES_MAX * (order.work_ms_max or PIECE_MS) for order in orders)


SeenOrphans = tuple[PartitionKey, BrokerId, LeaderEpoch, int]
"""Bytes in a replica's folder that no log names, under the leader epoch of when they were seen."""


def raise_epochs_over_orphans(
    image: MetadataImage, seen: Iterable[SeenOrphans]
) -> ControllerResult[list[PartitionKey]]:
    """Decide a new epoch, with the same leader, where orphans exceed orphan.bytes.max: once for
    what was seen under one epoch. Where nobody leads, the next election raises it."""
    records: dict[PartitionKey, PartitionChangeRecord] = {}
    for key, broker_id, epoch, size_bytes in seen:
        partition = image.partition(key)
        if partition is None or partition.leader is None or partition.leader_epoch != epoch:
            continue
        size_max = image.settings(key.topic_id).integer("orphan.bytes.max")
        if size_bytes > size_max:
            cause = f"broker {broker_id}: {size_bytes} bytes of files of epoch {epoch}"
            cause += f" that no log names, more than orphan.bytes.max {size_max}"
            change = PartitionChange(leader=partition.leader)
            records[key] = change_record(image, key, partition, change, cause)
    return ControllerResult(list(records.values()), list(records))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRow:
    """What one kind of work has done on one replica, or why it could not.

    Attributes:
        topic: The topic's name; empty: it concerns a broker's root.
        partition: The partition's number; -1: it concerns a broker's root.
        broker_id: The replica, or the root; None: the metadata log.
        count: Pieces of work that were done; in a dry run, that are due.
    """

    topic: str
    partition: int
    broker_id: BrokerId | None
    kind: str
    count: int = 0
    what: str = ""
    size_bytes: int = 0
    is_left: bool = False
    error: str = ""

    @property
    def log(self) -> str:
        """The log that was worked on, as people name it; of a root: "root"."""
        return f"{self.topic}-{self.partition}" if self.topic else "root"

    def __str__(self) -> str:
        if self.error:
            return f"{self.place}: {self.error}"
        return f"{self.place}: {self.count} {self.what} ({self.size_bytes} bytes)"

    @property
    def place(self) -> str:
        """The log, the broker and the kind of work."""
        broker = "" if self.broker_id is None else f" on broker {self.broker_id}"
        return f"{self.log}{broker}: {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """What a round of upkeep did.

    Attributes:
        visited: Replicas that were visited.
        rows: Where something was done, is left or went wrong.
        not_looked_at: What `maintain` was to look at and could not, and why, a sentence each. Of a
            share it is empty: that never looks at all.
    """

    visited: int = 0
    rows: tuple[UpkeepRow, ...] = ()
    not_looked_at: tuple[str, ...] = ()

    @property
    def is_left(self) -> bool:
        """Whether more is due, could not be done, or may be due where nobody could look."""
        return bool(self.not_looked_at) or any(row.is_left or row.error for row in self.rows)


@dataclass(slots=True)
class _Done:
    """What a share, or `maintain`, has done so far: rows by log, broker and kind of work; and how
    much time is left, inf: all that is due is done."""

    is_dry_run: bool = False
    left_ms: float = inf
    rows: dict[tuple[str, BrokerId | None, str], UpkeepRow] = field(default_factory=dict)
    visited: int = 0
    missed: dict[str, None] = field(default_factory=dict)

    def add(self, row: UpkeepRow) -> None:
        """Add what one kind of work has done now on one replica: it is left if that is left."""
        name = (row.log, row.broker_id, row.kind)
        before = self.rows.get(name)
        if before is not None:
            row = replace(
                row,
                count=row.count + before.count,
                what=row.what or before.what,
                size_bytes=row.size_bytes + before.size_bytes,
            )
        if _tells(row):
            self.rows[name] = row
        else:
            self.rows.pop(name, None)

    def report(self) -> UpkeepReport:
        return UpkeepReport(
            visited=self.visited, rows=tuple(self.rows.values()), not_looked_at=tuple(self.missed)
        )


def _tells(row: UpkeepRow) -> bool:
    return bool(row.count or row.is_left or row.error)


PIECE_BYTES: Final = 2**20
"""What each replica may rewrite at least, if a throttle lets anything through."""

PART_MS: Final = 4 * TASK_MS
"""How long the tasks of a part may take in all, one after the other at worst. Between two parts a
controller renews its lease."""


class UpkeepThrottle:
    """The quota of bytes that upkeep may read and rewrite.

    Source: log.cleaner.io.max.bytes.per.second; it accrues as the quotas of replication do.
    """

    def __init__(self) -> None:
        self._quota: Quota | None = None

    def dealt(
        self, orders: Sequence[UpkeepOrder], settings: Settings, now_ms: int
    ) -> list[UpkeepOrder]:
        """Return `orders` with the bytes that the quota lets each have: equal shares, of
        `PIECE_BYTES` at least while there is that much."""
        self._accrue(settings, now_ms)
        if self._quota is None:
            return list(orders)
        left = self._quota.credit_bytes
        share = max(left // len(orders), PIECE_BYTES)
        dealt = []
        for order in orders:
            bytes_max = share if order.bytes_max is None else min(order.bytes_max, share)
            dealt.append(replace(order, bytes_max=min(bytes_max, left)))
            left -= min(share, left)
        return dealt

    def charge(self, size_bytes: int) -> None:
        if self._quota is not None:
            self._quota = self._quota.less(size_bytes)

    def wait_ms(self, settings: Settings, now_ms: int) -> int:
        """Return how long until a byte may be read. What is read then is charged."""
        rate = self._accrue(settings, now_ms)
        return 0 if self._quota is None else wait_ms(self._quota, bytes_per_s=rate)

    def _accrue(self, settings: Settings, now_ms: int) -> int:
        rate = settings.integer("log.cleaner.io.max.bytes.per.second")
        is_limited = rate != UNLIMITED
        self._quota = accrue(self._quota, bytes_per_s=rate, now_ms=now_ms) if is_limited else None
        return rate


METADATA: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootOrder:
    """Which broker's root to clean of what killed processes left. Picklable.

    `registered_voters`: of the metadata log, all that it ever had: the root must obey one.
    """

    broker: BrokerRegistration
    registered_voters: tuple[str, ...] = ()


def _root_row(
    topic: str, broker_id: BrokerId | None = None, *, count: int = 0, error: str = ""
) -> UpkeepRow:
    return UpkeepRow(
        topic=topic,
        partition=0 if topic else -1,
        broker_id=broker_id,
        kind=CLEAN,
        count=count,
        what="files deleted",
        error=error,
    )


def clean_root_task(order: RootOrder, worker: Worker) -> str | None:
    """Remove what killed processes left on one root; return why that failed, or None. A task."""
    root, options = order.broker.root, worker.options
    try:
        check_directory(root, order.broker.directory_id, options, order.registered_voters)
        clean_broker_root(root, options)
    except KafkaOnSparkError as error:
        return error.message
    return None


def not_looked_at(image: MetadataImage, keys: Iterable[PartitionKey]) -> list[str]:
    """Return what `maintain` does not come to of `keys`, for people, a sentence each: brokers that
    are fenced, and partitions without a leader, whose log could show that something is due."""
    partitions = [(key, each) for key in keys if (each := image.partition(key)) is not None]
    used = {broker_id for _, each in partitions for broker_id in each.replicas}
    fenced = [each for each in image.brokers.values() if not each.has_upkeep]
    sentences = [
        f"broker {broker.broker_id} is fenced: its root, and its replicas"
        for broker in fenced
        if broker.broker_id in used
    ]
    for key, partition in partitions:
        settings = image.settings(key.topic_id)
        is_asked_for = limits_of(settings) is not None or "compact" in settings.policies
        has_records = partition.high_watermark > partition.log_start_offset
        if partition.leader is None and is_asked_for and has_records:
            sentences.append(
                f"{image.name_of(key)}: it has no leader, on whose log retention and compaction are"
                " decided"
            )
    return sentences


PARTITIONS_AT_ONCE: Final = 64
"""Partitions that `maintain` gives to tasks together, between two steps of its progress."""

FINISH_MS: Final = 1000.0
"""For how long a round compacts a follower that can't join the ISR before that is done."""

WAITING_PART: Final = 0.5
"""The part of a wait of this process's other work that counts as time used."""

TURNS_MAX: Final = 100_000
"""How often tasks are given out, one part after the other, until all is done that is due."""


class Upkeep:
    """The upkeep of one process. Threads may share it: one of them does a round at a time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self.passes: tuple[CleanupPass[Any], ...] = (
            RetentionPass(node),
            CompactionPass(node),
        )
        self._scheduler = node.part(scheduler)
        self._times = DueTimes(WORK_INTERVAL, node.ids.random_below)
        # The processor time that this process has had, if tasks run in it.
        is_here = node.tasks.executors is None
        self._processor_ms: Callable[[], float] = (
            processor_ms if is_here else node.clock.monotonic_ms
        )
        self._lock = threading.Lock()
        self._throttle = UpkeepThrottle()
        self._failures = node.part(Failures)

    def run_share(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        first: Collection[PartitionKey] = (),
        submit: Submit | None = None,
        after_part: Callable[[], None] = lambda: None,
    ) -> UpkeepReport:
        """Do the share of upkeep that is due since the last round. It never fails its caller.

        `first`: partitions that come before all others: the round has inspected them. `submit`
        commits under a controller's epoch. `after_part` is called after each part: a controller
        renews its lease.

        Raises:
            NotControllerError: `submit` or `after_part` does, which ends the round.
        """
        done = _Done()
        for each in self.passes:
            with self._failing(each.kind):
                scope = scope_of(self._metadata.image, topics)
                self._note(each.run(scope, submit=submit), done)
            after_part()
        if self._lock.acquire(blocking=False):  # or another thread does it
            try:
                with self._failing("round"), operating(UPKEEP):
                    self._visit_share(self._metadata.image, topics, first, after_part, done)
            finally:
                self._lock.release()
        return done.report()

    @contextmanager
    def _failing(self, kind: str) -> Iterator[None]:
        what, why = f"{kind} of upkeep, which is left to the next round", ""
        try:
            yield
        except NotControllerError:
            raise
        except KafkaOnSparkError as error:
            self._node.counts.add(UPKEEP_FAILURES, kind=kind)
            why = str(error)
        self._failures.note({what: why})

    def _note(self, results: Sequence[UpkeepResult], done: _Done) -> None:
        decisions, counts = {each.kind for each in self.passes}, self._node.counts
        tried: dict[bool, dict[str, str]] = {True: {}, False: {}}
        for result in results:
            topic = self._metadata.image.topics.get(result.key.topic_id)
            # What ended the task before as a whole has not ended this one, if it is one.
            is_task = not decisions.issuperset(kind for kind, _ in result.done)
            for kind, work in (*[(WHOLE, NOTHING_DONE)] * is_task, *result.done):
                if not done.is_dry_run and (work.count or work.error):
                    counts.add(UPKEEP_DONE, work.count, kind=kind)
                    counts.add(UPKEEP_BYTES, work.size_bytes, kind=kind)
                    counts.add(UPKEEP_WRITTEN, work.written_bytes, kind=kind)
                    # From the first piece of work on: an alert sees the first failure as a rise.
                    counts.add(UPKEEP_FAILURES, int(bool(work.error)), kind=kind)
                name = ERROR_NAME_BY_CODE.get(work.error_code, "UNKNOWN")
                row = UpkeepRow(
                    topic="deleted" if topic is None else topic.name,
                    partition=result.key.partition,
                    broker_id=result.broker_id,
                    kind=kind,
                    count=work.count,
                    what=work.what,
                    size_bytes=work.size_bytes,
                    is_left=work.is_left,
                    error="" if work.error_code == NO_ERROR else f"{name}: {work.error}",
                )
                if not done.is_dry_run:
                    tried[kind in decisions][row.place] = row.error
                if _tells(row) and not row.error:
                    log.log(logging.DEBUG if kind == MERGE else logging.INFO, "%s", row)
                done.add(row)
        # A decision fails as long as a new leader has adopted nothing.
        self._failures.note(tried[True], logging.INFO)
        self._failures.note(tried[False])

    def _visit_share(
        self,
        image: MetadataImage,
        topics: str | Iterable[str] | None,
        first: Collection[PartitionKey],
        after_part: Callable[[], None],
        done: _Done,
    ) -> None:
        if image.settings().holds_deletes(self._clock.now_ms()):
            return
        scope, began_ms = scope_of(image, topics), self._clock.monotonic_ms()
        done.left_ms = self._scheduler.begin_work(image)
        is_throttled = self._throttle.wait_ms(image.settings(), began_ms) > 0
        try:
            has_time = scope is None and done.left_ms > 0 and not is_throttled
            if has_time and self._scheduler.are_roots_due():
                mark = self._mark()
                self._clean_roots(done)
                done.left_ms -= self._taken_ms(mark)
            if done.left_ms <= 0 or self._times.are_resting(image, began_ms):
                return
            asked = [
                each for each in image.partitions() if scope is None or each[0].topic_id in scope
            ]
            due, ahead = self._times.due(image, asked, began_ms), set(first)
            due.sort(key=lambda key: key not in ahead)
            if self._visit(image, due, done, after_part) and scope is None:
                self._times.rest(began_ms)
        finally:
            self._scheduler.end_work(image, done.left_ms)

    def _mark(self) -> tuple[float, float]:
        return self._clock.monotonic_ms(), self._processor_ms()

    def _taken_ms(self, mark: tuple[float, float]) -> float:
        """Return what work has taken, since a mark, of the share of a core that upkeep has.

        Work in threads of this process takes what processors give it. On a busy machine that is a
        part of the time in which it runs and waits for processors and disks: if all of that
        counted, upkeep would fall behind just where there is most to do. It counts half at least,
        since disks have others to serve, and a round comes to its end. Of work on executors all of
        it counts.
        """
        ran_ms = self._clock.monotonic_ms() - mark[0]
        return min(ran_ms, max(self._processor_ms() - mark[1], WAITING_PART * ran_ms))

    def finish_compaction(self, keys: Iterable[PartitionKey]) -> None:
        """Compact leaders that can't be read before, however long that takes."""
        image = self._metadata.catch_up()
        with self._lock:
            orders = plan_compaction(image, dict.fromkeys(keys, frozenset()))
            self._run(orders, _Done())

    def compact_followers(self, followers: Mapping[PartitionKey, Collection[BrokerId]]) -> bool:
        """Compact followers that may not join the ISR before, and leaders, which may not be read
        before, for a bounded time; return whether any is done. It never fails its caller."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread does upkeep
        try:
            image = self._metadata.image
            some = dict(islice(followers.items(), PARTITIONS_AT_ONCE))
            orders = [
                replace(order, work_ms_max=FINISH_MS) for order in plan_compaction(image, some)
            ]
            results = self._run(orders, _Done())
            return any(
                not (order.is_of_leader or result.is_left or result.has_failed)
                for order, result in zip(orders, results, strict=True)
            )
        except KafkaOnSparkError as error:
            log.warning("followers are left to be compacted by the next round: %s", error)
            return False
        finally:
            self._lock.release()

    def _visit(
        self,
        image: MetadataImage,
        keys: Iterable[PartitionKey],
        done: _Done,
        after_part: Callable[[], None] = lambda: None,
    ) -> bool:
        """Visit partitions, each once, in parts that take a moment each; then, while there is time,
        the replicas again that have got on, and in which more is left. Return whether nothing is
        left."""
        began_ms, part_ms = self._clock.monotonic_ms(), inf if done.left_ms == inf else PART_MS
        waiting, visited = deque(keys), list[PartitionKey]()
        each_ms = done.left_ms / max(1, len(waiting))
        last: dict[tuple[PartitionKey, BrokerId], UpkeepResult] = {}
        left: deque[UpkeepOrder] = deque()
        for _ in range(TURNS_MAX):
            if done.left_ms <= 0 or not (waiting or left):
                break
            turn: list[UpkeepOrder] = []
            while (waiting or left) and visit_ms(turn) < part_ms:
                if not waiting:
                    turn.append(left.popleft())
                    continue
                visited.append(waiting.popleft())
                planned = plan_upkeep(image, visited[-1:], is_dry_run=done.is_dry_run)
                turn += with_time(planned, each_ms)
            longest_ms = max((visit_ms([each]) for each in turn), default=PART_MS)
            count = max(1, int(min(len(turn), part_ms / longest_ms)))
            for start in range(0, len(turn), count):
                after_part()
                part = turn[start : start + count]
                mark = self._mark()
                results = self._run(part, done, is_waiting=done.left_ms == inf)
                done.left_ms -= self._taken_ms(mark)
                for order, result in zip(part, results, strict=True):
                    last[result.key, result.broker_id] = result
                    if result.is_left and result.has_progressed and not done.is_dry_run:
                        left.append(order)
        return self._record(image, visited, last.values(), began_ms, done) and not waiting

    def _record(
        self,
        image: MetadataImage,
        keys: Iterable[PartitionKey],
        results: Collection[UpkeepResult],
        at_ms: int,
        done: _Done,
    ) -> bool:
        """Record visits of partitions; return whether nothing is left in any.

        Files of appends that failed change nothing that the metadata knows, so each partition is
        visited once in file.delete.delay.ms at least.
        """
        interval_ms = image.settings().integer(WORK_INTERVAL)
        left = {each.key for each in results if each.is_left}
        failed = {each.key for each in results if each.has_failed}
        for key in keys:
            partition = image.partition(key)
            if partition is None or done.is_dry_run:
                continue
            settings = image.settings(key.topic_id)
            wait_ms = interval_ms if key in failed else max(interval_ms, settings.delete_delay_ms)
            due_at_ms = at_ms if key in left else at_ms + wait_ms
            self._times.record(key, partition, settings, at_ms=at_ms, due_at_ms=due_at_ms)
        return not left

    def _run(
        self, orders: Sequence[UpkeepOrder], done: _Done, *, is_waiting: bool = False
    ) -> list[UpkeepResult]:
        """Run orders, within the throttle; `is_waiting`: once it lets any byte through."""
        if not orders:
            return []
        settings, now_ms = self._metadata.image.settings(), self._clock.monotonic_ms()
        wait_ms = self._throttle.wait_ms(settings, now_ms)
        if is_waiting and wait_ms and not done.is_dry_run:
            self._clock.sleep_ms(wait_ms)
            now_ms = self._clock.monotonic_ms()
        orders = self._throttle.dealt(orders, settings, now_ms)
        results = self._node.tasks.run_or_lose(upkeep_task, orders)
        self._throttle.charge(sum(each.moved_bytes for each in results))
        if not done.is_dry_run:
            self._raise_epochs(orders, results)
            # A follower that must compact a file before it may join the ISR has no other reader.
            for order, result in zip(orders, results, strict=True):
                for _, work in result.done:
                    if work.is_evidence:
                        found = Finding.of(order.address, work.suspect)
                        self._node.part(SecondInspections).record_finding(found)
            if self._metadata.suspects:
                inspect_findings(self._node)
        self._note(results, done)
        done.visited += len(results)
        return results

    def _raise_epochs(self, orders: Sequence[UpkeepOrder], results: Sequence[UpkeepResult]) -> None:
        """Begin a new leader epoch where too many files may be named by appends of the last one."""
        seen = [
            (order.key, result.broker_id, order.partition.leader_epoch, result.orphan_bytes)
            for order, result in zip(orders, results, strict=True)
        ]
        raised = submit_if_due(
            self._metadata.image,
            lambda image: raise_epochs_over_orphans(image, seen),
            self._node.submit,
        )
        if raised:
            log.info("%d partitions have a new leader epoch, so that orphans can go", len(raised))

    def maintain(
        self, topics: str | Iterable[str] | None, *, is_dry_run: bool = False
    ) -> UpkeepReport:
        """Do all upkeep that is due, as documented at `Cluster.maintain`."""
        retention, compaction = self.passes
        done = _Done(is_dry_run)

        def decide(each: CleanupPass[Any]) -> None:
            scope = scope_of(self._metadata.catch_up(), topics)
            results = each.run(scope, is_all=True, is_dry_run=is_dry_run)
            self._note(results, done)

        decide(retention)
        decide(compaction)
        self.run_all(topics, done=done)
        if not is_dry_run:  # from now on tombstones are about to go
            for _ in range(2):  # what is cleaned now; then the wait for tombstones begins
                decide(compaction)
        return done.report()

    def run_all(
        self,
        topics: str | Iterable[str] | None = None,
        *,
        is_dry_run: bool = False,
        done: _Done | None = None,
    ) -> UpkeepReport:
        """Do all upkeep of replicas and roots that is due now, as fast as the throttle lets it; or
        say what is due. `done`: what was done before it, which the report has, too."""
        done = _Done(is_dry_run) if done is None else done
        image = self._metadata.catch_up()
        if image.settings().holds_deletes(self._clock.now_ms()):
            done.missed["all: deletes are held (delete.hold.until.ms)"] = None
            return done.report()
        scope = scope_of(image, topics)
        keys = [key for key, _ in image.partitions() if scope is None or key.topic_id in scope]
        for start in range(0, len(keys), PARTITIONS_AT_ONCE):
            part = keys[start : start + PARTITIONS_AT_ONCE]
            with self._lock:
                image = self._metadata.catch_up()
                self._visit(image, part, done)
            done.missed |= dict.fromkeys(not_looked_at(image, part))
        if scope is None and not done.is_dry_run:
            with self._lock:
                self._clean_roots(done)
                try:
                    row = _root_row(METADATA, count=self._metadata.clean())
                except KafkaOnSparkError as error:
                    row = _root_row(METADATA, error=error.message)
                self._failures.note({row.place: row.error})
                done.add(row)
        return done.report()

    def _clean_roots(self, done: _Done) -> None:
        image = self._metadata.image
        orders = [
            RootOrder(broker=broker, registered_voters=image.registered_voters)
            for broker in image.brokers.values()
            if broker.has_upkeep
        ]
        self._scheduler.note_roots_cleaned()
        try:
            errors = self._node.tasks.run_or_lose(clean_root_task, orders)
        except KafkaOnSparkError as error:
            errors = [error.message] * len(orders)
        for order, found in zip(orders, errors, strict=True):
            row = _root_row("", order.broker.broker_id, error=found or "")
            self._failures.note({row.place: row.error})
            if found is not None:
                done.add(row)
