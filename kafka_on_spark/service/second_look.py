"""What this process has found bad once, and looks at again before it says so.

A first look changes nothing: it may have met a disk that was just going away, a stale listing or an
image that was behind. The same process looks a second time, later, with everything opened anew and
the image caught up; only a replica that is bad again, under the same uuid, is lost (DESIGN §8).
Nobody's first look is kept for others. Of many finders one commits, the others' lead to nothing.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kafka_on_spark.controller.reports import PartitionReport, ReplicaReport
from kafka_on_spark.errors import ClusterClosedError, KafkaOnSparkError, RootAccessDeniedError
from kafka_on_spark.ids import BrokerId, PartitionKey, ReplicaUuid
from kafka_on_spark.log.batch import Segment
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports import Clock, ReplicaAddress
from kafka_on_spark.service.addresses import address_of
from kafka_on_spark.service.fetch_reports import is_evidence, merge_reports
from kafka_on_spark.service.lasting_errors import LastingErrors
from kafka_on_spark.service.metadata_service import MetadataService
from kafka_on_spark.service.replication import FetchOrder, FetchResult

log = logging.getLogger(__name__)

RunFetches = Callable[[Sequence[FetchOrder]], list[FetchResult]]

UNDER_WAY_MS: Final = 10.0
"""Between two looks at whether another thread has made its second looks."""

TRIES_MAX: Final = 3
"""Second looks at one finding: what was decided on may have changed while it was looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found bad: a replica, by what its log says or by one file of it."""

    key: PartitionKey
    broker_id: BrokerId
    replica_uuid: ReplicaUuid
    segment: Segment | None = None


@dataclass(slots=True)
class _Found:
    """When (on this process's monotonic clock) it was found, and how often looked at since."""

    at_ms: float
    tries: int = 0


class SecondLooks:
    """The findings of one process. Threads may share it.

    `run` makes fetches in this process. `lasting` is told of each look, and decides with the second
    looks what is set aside for errors that last. `may_report`: what is found may be committed;
    whoever looks at the past finds nothing about now.
    """

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        *,
        run: RunFetches,
        timeout_ms: int,
        lasting: LastingErrors | None = None,
        may_report: bool = True,
    ) -> None:
        self._lasting = lasting
        self._may_report = may_report
        self._metadata = metadata
        self._clock = clock
        self._run = run
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._found: dict[Finding, _Found] = {}
        self._under_way = 0

    def now_ms(self) -> float:
        """Return the clock by which looks are timed."""
        return self._clock.monotonic_ms()

    def note(self, reports: Iterable[PartitionReport]) -> None:
        """Take note of what is bad by a first look, and of what could not be read."""
        for report in reports:
            if self._lasting is not None:
                self._lasting.note(report)
            for seen in (report.leader, *report.followers):
                if seen.is_bad and not seen.is_bad_twice:
                    self.note_one(Finding(report.key, seen.broker_id, seen.replica_uuid))

    def note_unread(
        self, address: ReplicaAddress, segment: Segment | None, error: KafkaOnSparkError
    ) -> None:
        """Take note of a replica that a read could not read, if `error` says that it is wrong."""
        if is_evidence(error):
            self.note_one(Finding(address.key, address.broker_id, address.replica_uuid, segment))

    def note_one(self, finding: Finding) -> None:
        """Take note of one finding; the first look at it counts."""
        if not self._may_report or not is_assigned(self._metadata.image, finding):
            return
        with self._lock:
            self._found.setdefault(finding, _Found(self._clock.monotonic_ms()))

    def wait_ms(self) -> float | None:
        """Return how long until a second look is due; None: there is nothing to look at."""
        with self._lock:
            if not self._found:
                return None
            first_ms = min(each.at_ms for each in self._found.values())
        return max(0.0, first_ms + self._delay_ms() - self._clock.monotonic_ms())

    def finish(self, run: RunFetches | None = None, *, deadline_ms: float | None = None) -> int:
        """Wait for the second looks that are due by `deadline_ms` (monotonic; None: for all), and
        have them made by `run`, or in this process; return how many ISRs changed.

        Raises: as `MetadataService.conclude`. The findings stay.
        """
        changes = 0
        while (wait_ms := self._due_in_ms()) is not None:
            due_ms = self._clock.monotonic_ms() + wait_ms
            if deadline_ms is not None and due_ms > deadline_ms:
                break
            if wait_ms > 0:
                self._clock.sleep_ms(wait_ms)
            changes += self.settle(run)
        return changes + self._settle_lasting()

    def _due_in_ms(self) -> float | None:
        """Return `wait_ms`, or a moment if another thread makes the last looks just now."""
        wait_ms = self.wait_ms()
        with self._lock:
            return UNDER_WAY_MS if wait_ms is None and self._under_way else wait_ms

    def settle(self, run: RunFetches | None = None) -> int:
        """Have the second looks that are due made by `run`, or in this process; commit what is bad
        again, and return how many ISRs changed.

        Raises: as `MetadataService.conclude`. The findings stay.
        """
        due = self._take_due()
        if not due:
            return self._settle_lasting()
        try:
            return self._look_again(due, run or self._run)
        except ClusterClosedError:
            raise
        except RootAccessDeniedError as error:
            log.info("%d bad replicas can't be reported by this process: %s", len(due), error)
            return 0
        except BaseException:
            self._put_back(due)
            raise
        finally:
            with self._lock:
                self._under_way -= 1

    def _settle_lasting(self) -> int:
        return 0 if self._lasting is None else self._lasting.settle()

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

    def _put_back(self, due: dict[Finding, _Found]) -> None:
        with self._lock:
            for finding, found in due.items():
                self._found.setdefault(finding, found)

    def _look_again(self, due: dict[Finding, _Found], run: RunFetches) -> int:
        image = self._metadata.catch_up()
        orders = [order for finding in due for order in plan_second_look(image, finding)]
        if not orders:
            return 0
        suspects = {(each.key, each.broker_id, each.replica_uuid) for each in due}
        looks = [result.report for result in run(orders)]
        reports = [_said_twice(report, suspects) for report in merge_reports(looks)]
        changes = self._metadata.conclude(reports, timeout_ms=self._timeout_ms)
        self._keep_undecided(due, reports)
        self.note(reports)
        return changes

    def _keep_undecided(
        self, due: dict[Finding, _Found], reports: Sequence[PartitionReport]
    ) -> None:
        """Keep what is bad twice, and was not decided: the partition has changed meanwhile."""
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
        self._put_back(again)


def _said_twice(
    report: PartitionReport, suspects: set[tuple[PartitionKey, BrokerId, ReplicaUuid]]
) -> PartitionReport:
    def said(seen: ReplicaReport) -> ReplicaReport:
        is_suspect = (report.key, seen.broker_id, seen.replica_uuid) in suspects
        return replace(seen, is_bad_twice=True) if is_suspect and seen.is_bad else seen

    return replace(report, leader=said(report.leader), followers=tuple(map(said, report.followers)))


def is_assigned(image: MetadataImage, finding: Finding) -> bool:
    """Return whether the very replica that was found bad is still the partition's, and not lost."""
    partition = image.partition(finding.key)
    if partition is None or finding.broker_id not in partition.replicas:
        return False
    is_same = partition.uuid_of(finding.broker_id) == finding.replica_uuid
    return is_same and partition.is_made(finding.broker_id)


def plan_second_look(image: MetadataImage, finding: Finding) -> list[FetchOrder]:
    """Return the fetches that look at a replica again; none if it is no longer the partition's.

    A leader is looked at by each follower, too: a copy from it may be what has failed.
    """
    partition = image.partition(finding.key)
    if partition is None or not is_assigned(image, finding):
        return []
    leader = partition.leader
    if leader is None or not partition.is_made(leader):
        return []
    followers: list[BrokerId | None] = [finding.broker_id]
    if finding.broker_id == leader:
        followers = [None]
        if finding.segment is None:
            followers += [
                each
                for each in partition.replicas
                if each != leader and partition.is_made(each) and image.brokers[each].is_online
            ]
    return [
        FetchOrder(
            key=finding.key,
            partition=partition,
            leader=address_of(image, finding.key, partition, leader),
            follower=None if each is None else address_of(image, finding.key, partition, each),
            fetch_bytes_max=image.settings().integer("replica.fetch.max.bytes"),
            copy_bytes_max=1,
            is_anew=True,
            suspect=finding.segment,
        )
        for each in followers
    ]
