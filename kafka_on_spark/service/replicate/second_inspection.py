"""Second inspections of replicas that this process has found bad: only they make a verdict.

A first inspection changes nothing: it may have met a disk that was just going away, a stale listing
or an old image. The same process inspects the replica a second time, later, with a newer image and
with nothing cached. Only a replica that is bad again, under the same uuid, is lost (I22). A process
does not use the first inspections of others. Of many processes that find a replica bad, one commits
the verdict, and the reports of the others change nothing.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from kafka_on_spark.controller.commands.expiry import registered_producers
from kafka_on_spark.controller.partitions.reports import PartitionReport, ReplicaReport
from kafka_on_spark.errors import ClusterClosedError, KafkaOnSparkError, RootAccessDeniedError
from kafka_on_spark.ids import BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.log.addresses import ReplicaAddress, address_of
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.replicate.fetching.fetch import FetchOrder, RunFetches
from kafka_on_spark.service.replicate.fetching.fetch_reports import is_evidence, merge_reports
from kafka_on_spark.service.replicate.lasting_errors import LastingErrors

log = logging.getLogger(__name__)


POLL_MS: Final = 10.0
"""How long to wait before asking again whether another thread has ended its inspections."""

TRIES_MAX: Final = 3
"""Second inspections of one finding: the partition may change while a replica is inspected."""

NAMES_MAX: Final = 8
"""Replicas that are named of those that are left."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A replica that was found bad, by its log or by one of its files."""

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    segment: Segment | None = None


@dataclass(slots=True)
class _Found:
    """When (on this process's monotonic clock) it was found, and how often inspected since."""

    at_ms: float
    tries: int = 0


class SecondInspections:
    """The findings of one process. Threads may share it.

    `run` runs fetches in this process. `lasting` counts the errors of all inspections, and sets
    unreadable replicas aside when second inspections are due.
    """

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        *,
        run: RunFetches,
        timeout_ms: int,
        lasting: LastingErrors | None = None,
    ) -> None:
        self._lasting = lasting
        self._metadata = metadata
        self._clock = clock
        self._run = run
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._found: dict[Finding, _Found] = {}
        self._under_way = 0

    def now_ms(self) -> float:
        """Return the time by which inspections are due."""
        return self._clock.monotonic_ms()

    def record(self, reports: Iterable[PartitionReport]) -> None:
        """Record the replicas that reports call bad for the first time, and those with errors."""
        for report in reports:
            if self._lasting is not None:
                self._lasting.record(report)
            for seen in (report.leader, *report.followers):
                if seen.is_bad and not seen.is_bad_twice:
                    self.record_finding(Finding(report.key, seen.broker_id, seen.replica_uuid))

    def record_unread(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Record a replica that a reader could not read, if `error` says that it is bad."""
        if is_evidence(error):
            self.record_finding(
                Finding(address.key, address.broker_id, address.replica_uuid, segment)
            )

    def record_finding(self, finding: Finding) -> None:
        """Record one finding; its delay begins with the first record of it."""
        if not is_assigned(self._metadata.image, finding):
            return
        with self._lock:
            self._found.setdefault(finding, _Found(self._clock.monotonic_ms()))

    def wait_ms(self, found_by_ms: float = inf) -> float | None:
        """Return how long until a second inspection is due; None: there is no finding, or none that
        was found by then."""
        with self._lock:
            first_ms = min((each.at_ms for each in self._found.values()), default=inf)
        if first_ms == inf or first_ms > found_by_ms:
            return None
        return max(0.0, first_ms + self._delay_ms() - self._clock.monotonic_ms())

    def finish(self, run: RunFetches | None = None, *, deadline_ms: float | None = None) -> int:
        """Wait for the second inspections that are due by `deadline_ms` (monotonic; None: for all,
        for as long as a command may take), and run their fetches by `run`, or in this process;
        return how many ISRs changed.

        With a deadline, only those of what was found by now: inspections that each find something
        anew would hold a round up until then.

        Raises: as `MetadataDecider.conclude`. The findings stay.
        """
        changes, began_ms = 0, self._clock.monotonic_ms()
        found_by_ms = inf if deadline_ms is None else began_ms
        is_all = deadline_ms is None
        if deadline_ms is None:
            deadline_ms = began_ms + self._delay_ms() + self._timeout_ms
        while (wait_ms := self._due_in_ms(found_by_ms)) is not None:
            due_ms = self._clock.monotonic_ms() + wait_ms
            if due_ms > deadline_ms:
                if is_all:
                    self._tell_left(deadline_ms - began_ms)
                break
            if wait_ms > 0:
                self._clock.sleep_ms(wait_ms)
            changes += self.inspect_due(run)
        return changes + self._set_aside_unreadable()

    def _tell_left(self, waited_ms: float) -> None:
        with self._lock:
            found = list(self._found)
        names = sorted({_named(self._metadata.image, each) for each in found})
        log.warning(
            "replicas that were found bad are not inspected a second time, and so not taken for"
            " lost, after %.0f s: %s; run `kafka-on-spark replicate`, which finds them again, and"
            " raise delivery.timeout.ms if their disks are slow",
            waited_ms / 1000,
            ", ".join(names[:NAMES_MAX]) or "another thread still inspects them",
        )

    def _due_in_ms(self, found_by_ms: float) -> float | None:
        """Return `wait_ms`, or a moment if another thread runs the last inspections now."""
        wait_ms = self.wait_ms(found_by_ms)
        with self._lock:
            return POLL_MS if wait_ms is None and self._under_way else wait_ms

    def inspect_due(self, run: RunFetches | None = None) -> int:
        """Inspect again what is due, with fetches by `run` or in this process; commit that replicas
        that are bad again are lost; return how many ISRs changed.

        Raises: as `MetadataDecider.conclude`. The findings stay.
        """
        due = self._take_due()
        if not due:
            return self._set_aside_unreadable()
        try:
            return self._inspect_again(due, run or self._run)
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
                self._under_way -= 1

    def _set_aside_unreadable(self) -> int:
        return 0 if self._lasting is None else self._lasting.set_aside_unreadable()

    def _delay_ms(self) -> int:
        return self._metadata.image.settings().integer("replica.verdict.delay.ms")

    def _take_due(self) -> dict[Finding, _Found]:
        latest_ms = self._clock.monotonic_ms() - self._delay_ms()
        with self._lock:
            due = {key: each for key, each in self._found.items() if each.at_ms <= latest_ms}
            for finding in due:
                del self._found[finding]
            self._under_way += bool(due)
        return due

    def _requeue(self, due: dict[Finding, _Found]) -> None:
        with self._lock:
            for finding, found in due.items():
                self._found.setdefault(finding, found)

    def _inspect_again(self, due: dict[Finding, _Found], run: RunFetches) -> int:
        image = self._metadata.catch_up()
        orders = [order for finding in due for order in plan_second_inspection(image, finding)]
        if not orders:
            return 0
        suspects = {(each.key, each.broker_id, each.replica_uuid) for each in due}
        found = [result.report for result in run(orders)]
        reports = [_confirmed(report, suspects) for report in merge_reports(found)]
        changes = self._metadata.conclude(reports, timeout_ms=self._timeout_ms)
        self._keep_undecided(due, reports)
        self.record(reports)
        return changes

    def _keep_undecided(
        self, due: dict[Finding, _Found], reports: Sequence[PartitionReport]
    ) -> None:
        """Keep confirmed findings that were not decided on, since the partition had changed."""
        bad = {
            (report.key, seen.broker_id, seen.replica_uuid)
            for report in reports
            for seen in (report.leader, *report.followers)
            if seen.is_bad_twice
        }
        image = self._metadata.image
        again = {}
        for finding, found in due.items():
            found.tries += 1
            is_open = is_assigned(image, finding) and found.tries < TRIES_MAX
            if is_open and (finding.key, finding.broker_id, finding.replica_uuid) in bad:
                again[finding] = found
        self._requeue(again)


def _confirmed(
    report: PartitionReport, suspects: set[tuple[PartitionKey, BrokerId, ReplicaUuid]]
) -> PartitionReport:
    def confirmed(seen: ReplicaReport) -> ReplicaReport:
        is_suspect = (report.key, seen.broker_id, seen.replica_uuid) in suspects
        return replace(seen, is_bad_twice=True) if is_suspect and seen.is_bad else seen

    followers = tuple(map(confirmed, report.followers))
    return replace(report, leader=confirmed(report.leader), followers=followers)


def is_assigned(image: MetadataImage, finding: Finding) -> bool:
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
    if partition is None or not is_assigned(image, finding):
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
    return [
        FetchOrder(
            key=finding.key,
            partition=partition,
            leader=address_of(image, finding.key, partition, leader),
            follower=None if each is None else address_of(image, finding.key, partition, each),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
            copy_bytes_max=1,
            is_uncached=True,
            suspect=finding.segment,
            registered=registered_producers(image),
        )
        for each in followers
    ]


def _named(image: MetadataImage, finding: Finding) -> str:
    topic = image.topics.get(finding.key.topic_id)
    name = "a deleted topic" if topic is None else topic.name
    return f"{name}-{finding.key.partition} on broker {finding.broker_id}"
