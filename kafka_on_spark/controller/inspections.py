"""Inspections: of a replica that may be bad, of a lost replica, and of those that nobody leads.

`election` and `isr` decide by inspections of replicas without a leader, and of lost ones. A
controller's pass and a sweep run them. Of a lost replica each file is read: headers alone would
prove a table whose files are gone or damaged, and that may be why the replica was called lost.

When a replica is bad (I22, I23). One finding, a replica's uuid and the file that is missing or
wrong, or the log, changes nothing: it may have met a disk that was just going away, a stale listing
or an old image. The same process must find the same again, replica.verdict.delay.ms later: on a
newer image, with nothing cached, on the same disk before and after; a file counts only if the log
names it before and after. The time between the two only lets pass what passes: the second reading
proves what it says by itself. Until then this process neither counts the replica nor proposes it as
a leader; of other processes it uses no findings.

An error of a read says that a replica is away, never that it is bad. A follower leaves the ISR by
its lag; a leader would stop its partition for ever. So another member leads, and the ISR goes on
without it, once every inspection has failed for a whole session, at least three of them, and the
root's probe answers this process. An error that refuses the request of the caller is not counted.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Final

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    FencedLeaderEpochError,
    InconsistentClusterError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    RootAccessDeniedError,
)
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey, ReplicaUuid
from kafka_on_spark.controller.election import WholeReplica, leaderless, lost_replicas
from kafka_on_spark.controller.isr import conclude, leave_unreadable
from kafka_on_spark.controller.probes import probe_orders, probe_task
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.log.evidence import is_evidence
from kafka_on_spark.log.fetch import (
    FetchOrder,
    RunFetches,
    fetch_orders,
    fetch_task,
    merge_reports,
)
from kafka_on_spark.log.replicas import ReplicaStore
from kafka_on_spark.log.segments import SegmentStore
from kafka_on_spark.log.state import (
    ReplicaAddress,
    ReplicaState,
    address_of,
    has_lost_replacements,
    proves_complete,
)
from kafka_on_spark.log.truncation import are_too_many_to_cut, fetch_start
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.quorum.raft import Generation, check_generation
from kafka_on_spark.metadata.reports import PartitionReport, ReplicaInspection, ReplicaReport
from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionOrder:
    """Which replica to inspect, and its partition in the image of the plan. `leader`, of a lost
    replica: the leader's; None: none was created, or this broker leads."""

    address: ReplicaAddress
    partition: PartitionRegistration
    leader: ReplicaAddress | None = None


def inspect_replica(order: InspectionOrder, worker: Worker) -> ReplicaInspection | None:
    """Return what a replica's log says; None if it can't be read. A task."""
    try:
        state = worker.replicas.open(order.address).load()
    except KafkaOnSparkError:
        return None
    return inspection_of(order.address, order.partition, state)


def inspection_of(
    address: ReplicaAddress, partition: PartitionRegistration, state: ReplicaState
) -> ReplicaInspection:
    high_watermark = partition.high_watermark
    return ReplicaInspection(
        key=address.key,
        broker_id=address.broker_id,
        partition_epoch=partition.partition_epoch,
        high_watermark=high_watermark,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        last_epoch=state.batches[-1].leader_epoch if state.batches else None,
        epoch_below_high_watermark=state.epoch_at(Offset(high_watermark - 1)),
        chain_digest=state.chain_digest,
        chain_at_high_watermark=state.chain_at(high_watermark),
        compacted_below=state.compaction.compacted_below,
        fence=state.leader_epoch,
    )


def plan_inspections(
    image: MetadataImage, keys: Iterable[PartitionKey] | None = None
) -> list[InspectionOrder]:
    """Return an order for each replica of partitions without a leader, on brokers that answer."""
    return [
        order
        for key in leaderless(image, keys)
        for order in inspections_of(image, key)
        if image.is_eligible(order.address.broker_id)
    ]


def inspections_of(image: MetadataImage, key: PartitionKey) -> list[InspectionOrder]:
    partition = image.topics[key.topic_id].partitions[key.partition]
    return [
        InspectionOrder(address=address_of(image, key, partition, broker_id), partition=partition)
        for broker_id in partition.replicas
        if partition.is_created(broker_id)
    ]


LOST_AT_ONCE_MAX: Final = 64
"""Lost replicas that one pass inspects: each is read as a whole."""

REINSPECT_MS: Final = 60_000
"""How long a process does not inspect a lost replica again after it has found it bad."""


def inspect_lost(order: InspectionOrder, worker: Worker) -> bool | None:
    """Return whether a lost replica is whole, by its log and all of its files: it must have what is
    committed in the order's registration. None: not known. A task.

    It is not if it lacks records whose replacements an unclean election has cut, nor if it may have
    to cut more files than one commit can name when it follows its leader: it would be lost again.
    """
    try:
        state = worker.replicas.open_uncached(order.address).load()
        if (
            (state.leader_epoch or 0) > order.partition.leader_epoch
            or not proves_complete(state, order.partition)
            or has_lost_replacements(state, order.partition)
            or _may_be_lost_again(state, order)
        ):
            return False
        if not (is_alike := _is_its_leaders_log(state, order, worker.replicas)):
            return is_alike
        check_files(order.address, state, worker.segments)
        # The disk must be the same after all of its files were read.
        again = worker.replicas.open_uncached(order.address).load()
    except KafkaOnSparkError as error:
        return False if is_evidence(error) else None
    return True if again.version == state.version else None


def check_files(address: ReplicaAddress, state: ReplicaState, segments: SegmentStore) -> None:
    """Check that every file that a log names is there, with the bytes that its name says."""
    for batch in state.batches:
        for segment in batch.segments:
            segments.check(address, segment)


def _may_be_lost_again(state: ReplicaState, order: InspectionOrder) -> bool:
    """Return whether a replica could not follow its leader if that had another log above the high
    watermark.

    What is committed is on the leader. Without one, the replica may be the one to lead.
    """
    if order.leader is None or state.leader_epoch == order.partition.leader_epoch:
        return False
    high_watermark = order.partition.high_watermark
    return are_too_many_to_cut(state.batches_between(high_watermark, state.log_end_offset))


def _is_its_leaders_log(
    state: ReplicaState, order: InspectionOrder, replicas: ReplicaStore
) -> bool | None:
    """Return whether a replica fenced by the current leader has that leader's log; None: that is
    not known.

    A replica cuts what it has beyond an older leader's end when it follows a newer one. Under one
    fence nothing is ever cut: a replica that was lost because the logs diverge would be lost again.
    """
    if order.leader is None or state.leader_epoch != order.partition.leader_epoch:
        return True
    try:
        leader = replicas.open_uncached(order.leader).load()
    except KafkaOnSparkError:
        return None
    if leader.leader_epoch != order.partition.leader_epoch:
        return None
    if leader.merged_over(state.log_end_offset) is not None:
        return None  # its headers no longer say
    if state.log_end_offset < leader.log_start_offset:
        return True
    return fetch_start(state, leader) is not None


class LostReplicaInspector:
    """Inspects lost replicas, and remembers for a while which ones are not whole."""

    def __init__(self, node: Node) -> None:
        self._clock = node.clock
        self._tasks = node.tasks
        self._wrong: dict[ReplicaUuid, float] = {}

    def inspect(self, image: MetadataImage) -> list[WholeReplica]:
        now_ms = self._clock.monotonic_ms()
        self._wrong = {each: at for each, at in self._wrong.items() if now_ms < at + REINSPECT_MS}
        orders = [
            order
            for order in plan_lost_inspections(image)
            if order.address.replica_uuid not in self._wrong
        ][:LOST_AT_ONCE_MAX]
        if not orders:
            return []
        whole = []
        for order, result in zip(orders, self._tasks.run(inspect_lost, orders), strict=True):
            if result is False:
                self._wrong[order.address.replica_uuid] = now_ms
            elif result:
                whole.append(WholeReplica(order.address, order.partition.partition_epoch))
        return whole


def plan_lost_inspections(image: MetadataImage) -> list[InspectionOrder]:
    orders = []
    for key, partition in image.partitions_needing_work():
        for broker_id, replica_uuid in lost_replicas(image, partition):
            directory_id = image.brokers[broker_id].directory_id
            address = address_of(image, key, partition, broker_id, directory_id=directory_id)
            orders.append(
                InspectionOrder(
                    address=replace(address, replica_uuid=replica_uuid),
                    partition=partition,
                    leader=_leader_of(image, key, partition, broker_id),
                )
            )
    return orders


def _leader_of(
    image: MetadataImage, key: PartitionKey, partition: PartitionRegistration, broker_id: BrokerId
) -> ReplicaAddress | None:
    leader = partition.leader
    if leader is None or leader == broker_id or not partition.is_created(leader):
        return None
    return address_of(image, key, partition, leader)


FAILURES_MIN: Final = 3
"""Inspections that must have failed: fewer may all have met the same passing error."""

_COUNTED: Final = frozenset({KafkaStorageError.code, FencedLeaderEpochError.code})


@dataclass(slots=True)
class _Failing:
    """Inspections of a partition's leader that failed in a row, on this process's monotonic clock.

    Attributes:
        leadership: Broker, replica, and the leader epoch of the image they were planned on.
        is_fence: The replica has seen a later leadership.
    """

    leadership: tuple[BrokerId, ReplicaUuid, LeaderEpoch]
    is_fence: bool
    since_ms: float
    count: int = 0
    error: str | None = None


class UnreadableLeaders:
    """The leaders that one process can't read. Threads may share it.

    Attributes:
        failing: Those whose last inspection failed. While there is none, reports without an error
            need not be recorded.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._metadata = node.metadata
        self._clock = node.clock
        self._lock = threading.Lock()
        self.failing: dict[PartitionKey, _Failing] = {}

    def record(self, report: PartitionReport) -> None:
        seen = report.leader
        leadership = (seen.broker_id, seen.replica_uuid, report.leader_epoch)
        is_fence = seen.error_code == FencedLeaderEpochError.code
        with self._lock:
            known = self.failing.pop(report.key, None)
            if seen.error_code not in _COUNTED or seen.is_bad:
                return
            if known is None or (known.leadership, known.is_fence) != (leadership, is_fence):
                known = _Failing(leadership, is_fence, self._clock.monotonic_ms())
            known.count += 1
            known.error = seen.error
            self.failing[report.key] = known

    def replace_lasting(self) -> int:
        """Have others lead instead of those that could not be read for too long, whose failures
        are counted anew; return how many ISRs changed.

        Raises:
            InconsistentClusterError: The members of an ISR that can be read have seen a later
                leadership than the newest metadata, or the leader's root a later generation.
            And as `MetadataDecider.submit`.
        """
        session_ms = self._metadata.image.settings().integer("broker.session.timeout.ms")
        until_ms = self._clock.monotonic_ms() - session_ms
        with self._lock:
            lasting = {
                key: each
                for key, each in self.failing.items()
                if each.count >= FAILURES_MIN and each.since_ms <= until_ms
            }
            for key in lasting:
                del self.failing[key]
        image = self._metadata.catch_up() if lasting else self._metadata.image
        return sum(self._replace(image, key, failing) for key, failing in lasting.items())

    def _replace(self, image: MetadataImage, key: PartitionKey, failing: _Failing) -> bool:
        partition = image.partition(key)
        if partition is None or partition.leader is None:
            return False
        leader, uuid = partition.leader, partition.uuid_of(partition.leader)
        if (leader, uuid, partition.leader_epoch) != failing.leadership:
            return False
        broker = image.brokers[leader]
        if failing.is_fence:
            self._check_generation(image, broker.root)
        session_ms = image.settings().integer("broker.session.timeout.ms")
        [probed] = self._node.tasks.run(probe_task, probe_orders([broker], session_ms))
        if not probed.is_answer:
            return False
        members = partition.isr - {leader}
        orders = [each for each in inspections_of(image, key) if each.address.broker_id in members]
        others = [
            each for each in self._node.tasks.run(inspect_replica, orders) if each is not None
        ]
        readable = frozenset(
            each.broker_id for each in others if (each.fence or 0) <= partition.leader_epoch
        )
        if failing.is_fence and not readable and len(others) == len(members):
            raise InconsistentClusterError(
                f"the in-sync replicas of {image.name_of(key)} have seen a later leadership than"
                f" the metadata log knows ({partition.leader_epoch}): the metadata log went back;"
                " stop and restore it"
            )
        seconds = (self._clock.monotonic_ms() - failing.since_ms) / 1000
        cause = (
            f"broker {leader}: its root answers, and {failing.count} inspections of the replica"
            f" failed in {seconds:.1f} s ({failing.error}); it is not lost"
        )
        is_done = self._node.submit(
            lambda newest: leave_unreadable(
                newest, key, leader, uuid, readable=readable, cause=cause
            )
        )
        if is_done:
            log.warning("%s: %s", image.name_of(key), cause)
        return is_done

    def _check_generation(self, image: MetadataImage, root: str) -> None:
        try:
            found = self._node.tasks.worker.root_generation(root)
        except ProtocolError as error:
            log.info("the generation on %s is not known: %s", root, error)
            return
        check_generation(Generation(image.generation), Generation(found))


POLL_MS: Final = 10.0
"""How long to wait before asking again whether another thread has ended its inspections."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found bad: a replica's log, or one of its files.

    Attributes:
        file: The file's name, which has its digest; None: the log.
        segment: The file as the log names it, to be read again; None: the finding is by a fetch,
            which the second inspection repeats.
    """

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    file: str | None = None
    segment: Segment | None = field(default=None, compare=False)

    @classmethod
    def of(cls, address: ReplicaAddress, segment: Segment | None) -> "Finding":
        file = None if segment is None else segment.file_name
        return cls(address.key, address.broker_id, address.replica_uuid, file, segment)

    @classmethod
    def by(cls, report: PartitionReport, seen: ReplicaReport) -> "Finding":
        return cls(report.key, seen.broker_id, seen.replica_uuid, seen.bad_file)


class SecondInspections:
    """The findings of one process. Threads may share it.

    All inspections count the errors of leaders, and others lead when second inspections are due.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._unreadable = node.part(UnreadableLeaders)
        self.failing = self._unreadable.failing
        self._metadata = node.metadata
        self._clock = node.clock
        self._lock = threading.Lock()
        self._found: dict[Finding, float] = {}
        self._under_way: list[Finding] = []
        node.metadata.suspects = frozenset()

    def record(self, reports: Iterable[PartitionReport]) -> None:
        """Record the replicas that reports call bad for the first time, and those with errors."""
        for report in reports:
            self._unreadable.record(report)
            for seen in (report.leader, *report.followers):
                if seen.is_bad and not seen.is_bad_twice:
                    self.record_finding(Finding.by(report, seen))

    def record_finding(self, finding: Finding) -> None:
        """Record one finding; its delay begins with the first record of it."""
        if not may_be_inspected(self._metadata.image, finding):
            return
        with self._lock:
            since_ms = self._found.get(finding, self._clock.monotonic_ms())
            if finding.segment is not None:  # equal to one that can't be read again by itself
                self._found.pop(finding, None)
            self._found.setdefault(finding, since_ms)
            self._keep_suspects()

    def _keep_suspects(self) -> None:
        """Have the metadata know which replicas were found bad once, and not inspected again yet.
        The lock is held."""
        known = (*self._found, *self._under_way)
        self._metadata.suspects = frozenset(each.replica_uuid for each in known)

    def wait_ms(self, found_by_ms: float = inf) -> float | None:
        """Return how long until a second inspection is due; None: there is no finding, or none that
        was found by then."""
        with self._lock:
            first_ms = min(self._found.values(), default=inf)
        if first_ms == inf or first_ms > found_by_ms:
            return None
        return max(0.0, first_ms + self._delay_ms() - self._clock.monotonic_ms())

    def finish(self, run: RunFetches | None = None, *, deadline_ms: float | None = None) -> int:
        """Wait for the second inspections that are due by `deadline_ms` (monotonic; None: for all,
        for as long as a command may take), and run their fetches by `run`, or in this process;
        return how many ISRs changed.

        With a deadline, only those of what was found by now: inspections that each find something
        anew would hold a round up until then.

        Raises: as `MetadataService.submit`. The findings stay.
        """
        changes, began_ms = 0, self._clock.monotonic_ms()
        found_by_ms = inf if deadline_ms is None else began_ms
        if deadline_ms is None:
            deadline_ms = began_ms + self._delay_ms() + self._node.timeout_ms
        while (wait_ms := self._due_in_ms(found_by_ms)) is not None:
            due_ms = self._clock.monotonic_ms() + wait_ms
            if due_ms > deadline_ms:
                log.warning("what was found bad is not inspected again yet: the time is up")
                break
            if wait_ms > 0:
                self._clock.sleep_ms(wait_ms)
            changes += self.inspect_due(run)
        return changes + self._unreadable.replace_lasting()

    def finish_or_leave(self) -> None:
        """Run those that are due, after the answer; what fails is left to whoever finds it next."""
        try:
            self.finish()
        except KafkaOnSparkError as error:
            log.warning("what was found bad is not reported yet: %s", error)

    close = finish_or_leave

    def _due_in_ms(self, found_by_ms: float) -> float | None:
        """Return `wait_ms`, or a moment if another thread runs the last inspections now."""
        wait_ms = self.wait_ms(found_by_ms)
        with self._lock:
            return POLL_MS if wait_ms is None and self._under_way else wait_ms

    def inspect_due(self, run: RunFetches | None = None) -> int:
        """Inspect again what is due, with fetches by `run` or in this process; commit that replicas
        that are bad again are lost; return how many ISRs changed. Raises as
        `MetadataService.submit`, and keeps the findings."""
        latest_ms = self._clock.monotonic_ms() - self._delay_ms()
        with self._lock:
            due = [each for each, found_ms in self._found.items() if found_ms <= latest_ms]
            for finding in due:
                del self._found[finding]
            self._under_way += due
        if not due:
            return self._unreadable.replace_lasting()
        try:
            return self._inspect_again(due, run or partial(self._node.tasks.run_here, fetch_task))
        except ClusterClosedError:
            raise
        except RootAccessDeniedError as error:
            log.info("%d bad replicas can't be reported by this process: %s", len(due), error)
            return 0
        except BaseException:
            self._requeue(due)
            raise
        finally:
            with self._lock:
                self._under_way = [each for each in self._under_way if each not in due]
                self._keep_suspects()

    def _delay_ms(self) -> int:
        return self._metadata.image.settings().integer("replica.verdict.delay.ms")

    def _requeue(self, findings: Iterable[Finding]) -> None:
        with self._lock:
            for finding in findings:
                self._found.setdefault(finding, self._clock.monotonic_ms())
            self._keep_suspects()

    def _inspect_again(self, due: Sequence[Finding], run: RunFetches) -> int:
        image = self._metadata.catch_up()
        orders = [order for finding in due for order in plan_second_inspection(image, finding)]
        if not orders:
            return 0
        found = [result.report for result in run(orders)]
        reports = [_confirmed(report, set(due)) for report in merge_reports(found)]
        bad = {
            Finding.by(report, seen)
            for report in reports
            for seen in (report.leader, *report.followers)
            if seen.is_bad_twice
        }
        with self._lock:  # what was found whole counts again, at once
            self._under_way = [each for each in self._under_way if each not in due or each in bad]
            self._keep_suspects()
        changes = self._node.submit(lambda newest: conclude(newest, reports))
        # What was confirmed, but not decided on as the partition had changed, is inspected again.
        self._requeue(
            each for each in due if each in bad and may_be_inspected(self._metadata.image, each)
        )
        self.record(reports)
        return changes


def _confirmed(report: PartitionReport, findings: set[Finding]) -> PartitionReport:
    def confirmed(seen: ReplicaReport) -> ReplicaReport:
        is_again = seen.is_bad and Finding.by(report, seen) in findings
        return replace(seen, is_bad_twice=True) if is_again else seen

    followers = tuple(map(confirmed, report.followers))
    return replace(report, leader=confirmed(report.leader), followers=followers)


def may_be_inspected(image: MetadataImage, finding: Finding) -> bool:
    """Return whether the replica that was found bad is still assigned, and not lost."""
    partition = image.partition(finding.key)
    if partition is None or finding.broker_id not in partition.replicas:
        return False
    is_same = partition.uuid_of(finding.broker_id) == finding.replica_uuid
    return is_same and partition.is_created(finding.broker_id)


def plan_second_inspection(image: MetadataImage, finding: Finding) -> list[FetchOrder]:
    """Return the fetches that inspect a replica again; none if it is no longer assigned.

    Each follower of a leader fetches, too: a copy from the leader may be what has failed.
    """
    partition = image.partition(finding.key)
    if partition is None or not may_be_inspected(image, finding):
        return []
    leader = partition.leader
    if leader is None or not partition.is_created(leader):
        return []
    followers: list[BrokerId | None] = [finding.broker_id]
    if finding.broker_id == leader:
        followers = [None]
        if finding.segment is None:
            followers += [
                each
                for each in partition.replicas
                if each != leader and partition.is_created(each) and image.brokers[each].is_online
            ]
    return fetch_orders(
        image,
        finding.key,
        partition,
        followers,
        copy_bytes_max=1,
        is_uncached=True,
        suspect=finding.segment,
    )


def inspect_findings(node: Node) -> None:
    """Have what this process has found bad inspected a second time, after the answer."""
    inspections = node.part(SecondInspections)
    if inspections.wait_ms() is not None:
        node.maintenance.add({inspections: inspections.finish_or_leave})
