"""The loops of a process that serves a cluster: one controls it, or waits for that, and one runs
rounds of replication and upkeep while this process is the controller.

What fails is noted, told once and tried again, for ever: a disk comes back, a full one gets room, a
mode is set right. A loop ends when it is told to, or if it can't go on: the cluster is another one,
or the process has lost what it runs on.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, Protocol

from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import (
    ClusterClosedError,
    ClusterNotFoundError,
    KafkaOnSparkError,
    NotControllerError,
)
from kafka_on_spark.ports.counting import NO_RECORDER, PASS_MS, Recorder
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.control.controller_report import AfterPass, ControllerReport
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.service.serve.looks import PASS, ROUND, ROUNDS, Looks, Role
from kafka_on_spark.service.serve.watched import EndingClock, ServingEnd, WatchedMetadata

log = logging.getLogger(__name__)

FOR_EVER_MS: Final = 2**62
RETRY_MS_MIN: Final = 500.0
RETRY_MS_MAX: Final = 30_000.0
"""A standby takes over within that time of the moment at which it can."""

TOLD_MAX: Final = 20
"""Failures of one round that are logged one by one; all are counted."""

COPY_MS_MAX: Final = 20_000.0
"""For how long a round goes on copying. Inspections and upkeep follow, which must not wait for
hours; and what has failed is tried again by the next round, within replica.lag.time.max.ms."""

TAKING_OVER_MS: Final = 100.0
"""How often the loop of rounds looks whether this process is the controller."""

FINAL: Final = (ClusterNotFoundError, ClusterClosedError)
"""Errors after which this process can't go on: what was opened is gone for good."""


class Controlling(Protocol):
    """A controllership: `ControllerLoop`."""

    def run(self, duration_ms: int | None) -> ControllerReport:
        """Control the cluster for so long; then resign."""
        ...

    def resign(self) -> None:
        """Resign, unless another has claimed."""
        ...


MakeController = Callable[[MetadataDecider, Clock, AfterPass], Controlling]


class Serving:
    """The loops of one process, which a thread each runs, until `ending` is set: one that waits
    ends at once, and one that works when it waits next.

    `run_round` runs a round of replication. `why_lost` says why the process can't go on at all,
    such as a session of Spark that has ended; None: it can.
    """

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        *,
        looks: Looks,
        ending: threading.Event,
        controller_id: str,
        make_controller: MakeController,
        run_round: Callable[[], ReplicationReport],
        why_lost: Callable[[], str | None] = lambda: None,
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        self._recorder = recorder
        self._ending = ending
        self._metadata = WatchedMetadata(metadata, looks, controller_id)
        self._clock = EndingClock(clock, self._ending)
        self._looks = looks
        self._make_controller = make_controller
        self._run_round = run_round
        self._why_lost = why_lost
        self._controlling: Controlling | None = None
        self._told: frozenset[str] = frozenset()
        self.failure: str | None = None

    def resign(self) -> None:
        """Resign for a loop that does not end by itself."""
        if self._controlling is not None:
            self._controlling.resign()

    def control(self) -> None:
        """Stand by and control, in turns, until the end."""
        self._repeat(self._control_once, PASS)

    def replicate(self) -> None:
        """Run rounds while this process is the controller, until the end."""
        self._repeat(self._rounds, ROUND)

    def _repeat(self, work: Callable[[], None], what: str) -> None:
        pauses = pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX)
        while not self._ending.is_set():
            began = self._looks.count(what)
            try:
                try:
                    work()
                except NotControllerError as error:
                    log.info("%s", error)
                except FINAL as error:
                    self._fail(str(error))
                except Exception as error:
                    self._note_failure(what, error)
                    if self._looks.count(what) > began:
                        pauses = pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX)
                    self._clock.sleep_ms(next(pauses))
            except ServingEnd:
                return

    def _control_once(self) -> None:
        self._controlling = self._make_controller(self._metadata, self._clock, self._note_pass)
        self._controlling.run(FOR_EVER_MS)

    def _note_pass(self, report: ControllerReport, took_ms: int) -> None:
        self._recorder.observe(PASS_MS, took_ms)
        self._recovered(PASS, self._looks.note_end(PASS, _pass_said(report), took_ms))

    def _rounds(self) -> None:
        while True:
            self._looks.move(ROUNDS)
            if self._looks.seen.role is not Role.CONTROLLER:
                self._clock.sleep_ms(TAKING_OVER_MS)
                continue
            began_ms = self._clock.monotonic_ms()
            with self._looks.under_way(ROUND):
                report = self._run_round()
            self._looks.move(ROUNDS)
            took_ms = self._clock.monotonic_ms() - began_ms
            self._recovered(ROUND, self._looks.note_end(ROUND, _round_said(report), took_ms))
            self._tell(frozenset((*report.failures, *report.upkeep_failures)))
            self._clock.sleep_ms(self._pause_ms(report))

    def _pause_ms(self, report: ReplicationReport) -> float:
        """Return how long the next round waits: as long as a pass, or until it can do more."""
        settings = self._metadata.image.settings()
        pause_ms = float(settings.integer("broker.heartbeat.interval.ms"))
        if report.resume_after_ms is not None:
            pause_ms = min(pause_ms, max(report.resume_after_ms, RETRY_MS_MIN))
        return pause_ms

    def _note_failure(self, what: str, error: Exception) -> None:
        lost = self._why_lost()
        if lost is not None:
            self._fail(lost)
        elif self._looks.note_failure(what, str(error) or type(error).__name__):
            log.warning(
                "a %s has failed, and is tried again: %s", what, error, exc_info=_is_bug(error)
            )

    def _tell(self, failures: frozenset[str]) -> None:
        """Log what has begun to fail, and what fails no more; a thing that stays is told once."""
        for each in sorted(failures - self._told)[:TOLD_MAX]:
            log.warning("%s", each)
        ended = len(self._told - failures)
        if ended:
            log.info("%d of %d failures are over", ended, len(self._told))
        self._told = failures

    def _fail(self, why: str) -> None:
        self.failure = why
        self._ending.set()

    def _recovered(self, what: str, error: str | None) -> None:
        if error is not None:
            log.info("a %s has come to its end again", what)


def _is_bug(error: Exception) -> bool:
    return not isinstance(error, KafkaOnSparkError | OSError)


def _pass_said(report: ControllerReport) -> dict[str, object]:
    return {
        "fenced": list(report.fenced),
        "unfenced": list(report.unfenced),
        "not_judged": list(report.denied),
        "leaders_moved": report.leaders_moved,
        "tables_removed": report.tables_removed,
        "records_deleted": report.records_deleted,
    }


def _round_said(report: ReplicationReport) -> dict[str, object]:
    return {
        "partitions_with_work": report.partition_count,
        "inspected": report.slice_count,
        "not_inspected_in_time": report.not_looked_at,
        "copied_records": report.copied_records,
        "copied_bytes": report.copied_bytes,
        "isr_changes": report.isr_changes,
        "is_caught_up": report.is_caught_up,
        "failure_count": len(report.failures),
        "failures": list(report.failures[:TOLD_MAX]),
        "upkeep_failure_count": len(report.upkeep_failures),
        "upkeep_failures": list(report.upkeep_failures[:TOLD_MAX]),
    }
