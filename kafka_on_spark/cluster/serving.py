"""A cluster that one process serves until it is told to end: opened as soon as it can be, then
controlled, replicated and kept up, in threads.

What fails is logged once and tried again, for ever: a disk comes back, a full one gets room, a mode
is set right. The process ends by itself if it can't go on: the cluster is another one, or the
session of Spark that runs its tasks has ended.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.cluster.figures import metrics_of
from kafka_on_spark.controller.commands.lease import is_held, is_held_by, lease_ms
from kafka_on_spark.controller.pace.back_off import pauses_ms
from kafka_on_spark.errors import (
    ClusterClosedError,
    ClusterNotFoundError,
    KafkaOnSparkError,
    NotControllerError,
)
from kafka_on_spark.ports.counting import PASS_MS
from kafka_on_spark.service.control.controller_loop import ControllerLoop
from kafka_on_spark.service.describe.metric import Metric
from kafka_on_spark.service.metadata.metadata_outage import is_failing
from kafka_on_spark.service.replicate.replication_report import ReplicationReport
from kafka_on_spark.spark.wiring import accounts
from kafka_on_spark.spark.wiring.accounts import charged
from kafka_on_spark.spark.wiring.services import Services, check_created
from kafka_on_spark.storage.calls.clock import WakingClock
from kafka_on_spark.storage.roots.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

METADATA: Final = "metadata"
PASS: Final = "pass"
ROUND: Final = "round"
"""What may fail: reading the metadata, a pass of the controller, a round of replication."""

CONTROL: Final = "control"
ROUNDS: Final = "rounds"
"""The loops, a thread each."""

FOR_EVER_MS: Final = 2**62
RETRY_MS_MIN: Final = 500.0
RETRY_MS_MAX: Final = 30_000.0
"""A standby takes over within that time of the moment at which it can."""

COPY_MS_MAX: Final = 20_000.0
"""For how long a round goes on copying. Inspections and upkeep follow, which must not wait for
hours; and what has failed is tried again by the next round, within replica.lag.time.max.ms."""

ROUNDS_STALLED_MS: Final = 86_400_000
"""A round may take that long: it copies an append as a whole, for hours if it must."""

TAKING_OVER_MS: Final = 100.0
"""How often the loop of rounds looks whether this process is the controller."""

TOLD_MAX: Final = 20
"""Failures of one round that are logged one by one, and shown."""

PASS_PART: Final = 0.6
"""Of the time that the end may take: for the loops to end by themselves. The rest is for resigning
in place of one that does not, and for closing."""


class ServingFailedError(KafkaOnSparkError):
    """This process can't serve the cluster any more; only another one can."""


FINAL: Final = (ClusterNotFoundError, ClusterClosedError, ServingFailedError)
"""Errors after which this process can't go on: what was opened is gone for good."""


class _EndOfServing(BaseException):
    """The process was told to end. Not an Exception: nothing that goes on after a failure catches
    it."""


class _EndingClock(WakingClock):
    """A clock whose sleepers are woken, and leave what they do, once the process is to end."""

    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait.

        Raises:
            _EndOfServing: The process is to end.
        """
        if self._ended.wait(duration_ms / 1000):
            raise _EndOfServing


class ServedCluster:
    """The cluster at `metadata_root`, served by threads of this process; tasks run on `spark`.

    Attributes:
        ended: Set once the loops are to end, whoever says so.
        failure: Why it could not go on; None: it was told to end, or goes on.
        round_count: How many rounds have come to their end.
    """

    def __init__(
        self, metadata_root: str, options: StorageOptions, spark: "SparkSession | None"
    ) -> None:
        self._root = metadata_root
        self._options = options
        self._spark = spark
        self.ended = threading.Event()
        self.failure: str | None = None
        self.round_count = 0
        self._clock = _EndingClock(self.ended)
        self._started_at_ms = self._clock.monotonic_ms()
        self._moved_at_ms = {CONTROL: self._started_at_ms}
        self._threads: list[threading.Thread] = []
        self._services: Services | None = None
        self._controlling: ControllerLoop | None = None
        self._failing: dict[str, str] = {}
        self._last_round = ReplicationReport()

    def begin(self) -> None:
        """Begin to serve, in threads."""
        control = charged(self._control, accounts.CONTROL)
        self._start(lambda: self._keep(lambda: self._repeat(PASS, control)), "serve")

    def end(self, within_ms: int) -> bool:
        """Have the loops end, resign and close; return whether all of it was done in time.

        What is under way after that time is abandoned with the process, as if that was killed.
        """
        until_ms = self._clock.monotonic_ms() + within_ms
        self.ended.set()
        is_quiet = self._join(int(until_ms - (1 - PASS_PART) * within_ms))
        if not is_quiet:
            log.info("a pass or a round is abandoned: it does not end in time")
        self._start(lambda: self._leave(is_quiet=is_quiet), "leave")
        return self._join(until_ms)

    def _leave(self, *, is_quiet: bool) -> None:
        try:
            if self._controlling is not None and not is_quiet:
                self._controlling.resign()
            if self._services is not None:
                self._services.close()
        except KafkaOnSparkError as error:
            log.info("the end is not a clean one, which costs a standby a lease: %s", error)

    def _join(self, until_ms: int) -> bool:
        for each in tuple(self._threads):
            each.join(max(until_ms - self._clock.monotonic_ms(), 0) / 1000)
        return not any(each.is_alive() for each in self._threads)

    def _start(self, work: Callable[[], object], name: str) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self, loop: Callable[[], object]) -> None:
        """Run a loop. Without it the process would do half of its work, and nobody would see that:
        once it ends, by whatever, the process is to end."""
        try:
            loop()
        except _EndOfServing:
            pass
        except KafkaOnSparkError as error:
            self.failure = str(error)
        except BaseException as error:
            self.failure = f"it has ended by an error of its own: {error!r}"
            log.exception("a loop has ended")
        finally:
            self.ended.set()

    def _opened(self) -> Services:
        """Return the cluster, opened if it was not yet; then rounds begin.

        Raises:
            ClusterNotFoundError: There is no cluster.
            ServingFailedError: It can't be opened, and waiting does not help.
            KafkaOnSparkError: Its root does not answer.
        """
        if self._services is None:
            try:
                services = Services.open(self._root, self._options, self._spark)
                check_created(services, self._root)
            except KafkaOnSparkError as error:
                if is_failing(error):
                    raise
                raise ServingFailedError(str(error)) from None
            self._services = services
            rounds = charged(self._replicate, accounts.REPLICATE)
            self._start(lambda: self._keep(lambda: self._repeat(ROUND, rounds)), "rounds")
        return self._services

    def _repeat(self, what: str, work: Callable[[], None]) -> None:
        pauses = pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX)
        while not self.ended.is_set():
            try:
                work()
            except NotControllerError as error:
                log.info("%s", error)
            except FINAL:
                raise
            except Exception as error:
                self._check_spark()
                if what not in self._failing:
                    pauses = pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX)
                self._note_failure(what, error)
                self._clock.sleep_ms(next(pauses))

    def _control(self) -> None:
        """Open the cluster, stand by, and control once that can be done."""
        self._moved_at_ms[CONTROL] = self._clock.monotonic_ms()
        services = self._opened()

        def note_pass(took_ms: int) -> None:
            services.counts.observe(PASS_MS, took_ms)
            self._note_success(PASS)

        self._controlling = services.keeping.controller_loop(
            clock=self._clock, after_pass=note_pass
        )
        self._controlling.run(FOR_EVER_MS)

    def _replicate(self) -> None:
        """Run a round if this process is the controller, and wait for the next one."""
        services = self._opened()
        self._moved_at_ms[ROUNDS] = self._clock.monotonic_ms()
        if not is_held_by(services.metadata.image, services.controller_id):
            self._clock.sleep_ms(TAKING_OVER_MS)
            return
        before = self._last_round
        report = services.keeping.replicate(copy_ms_max=COPY_MS_MAX)
        self._last_round = report
        self.round_count += 1
        self._note_success(ROUND)
        self._tell(_failures_of(before), _failures_of(report))
        settings = services.metadata.image.settings()
        pause_ms = float(settings.integer("broker.heartbeat.interval.ms"))
        if report.resume_after_ms is not None:
            pause_ms = min(pause_ms, max(report.resume_after_ms, RETRY_MS_MIN))
        self._clock.sleep_ms(pause_ms)

    def _tell(self, before: frozenset[str], now: frozenset[str]) -> None:
        """Log what has begun to fail, and what fails no more; a thing that stays is told once."""
        for each in sorted(now - before)[:TOLD_MAX]:
            log.warning("%s", each)
        ended = len(before - now)
        if ended:
            log.info("%d of %d failures are over", ended, len(before))

    def _note_failure(self, what: str, error: Exception) -> None:
        text = str(error) or type(error).__name__
        if self._failing.get(what) != text:
            is_bug = not isinstance(error, KafkaOnSparkError | OSError)
            log.warning("%s: has failed, and is tried again: %s", what, error, exc_info=is_bug)
        self._failing[what] = text

    def _note_success(self, what: str) -> None:
        if self._failing.pop(what, None) is not None:
            log.info("%s: has come to its end again", what)

    def _check_spark(self) -> None:
        """Check that tasks can run.

        Raises:
            ServingFailedError: They can't any more.
        """
        if self._spark is None:
            return
        from kafka_on_spark.spark.jvm import has_ended  # imports pyspark

        if has_ended(self._spark):
            raise ServingFailedError("the Spark session has ended: start this process again")

    def health(self, stalled_ms: int) -> dict[str, Any]:
        """Return whether the loops move; only a restart helps one that does not. A root that is
        away stops no loop: each of its calls ends by a timeout."""
        now_ms = self._clock.monotonic_ms()
        ages_ms = {loop: now_ms - at_ms for loop, at_ms in self._moved_at_ms.items()}
        if self._controlling is not None:
            ages_ms[CONTROL] = now_ms - self._controlling.moved_at_ms
        reasons = [
            f"the loop of {loop} has not moved for {age_ms / 1000:.1f} s"
            for loop, age_ms in ages_ms.items()
            if age_ms > (stalled_ms if loop == CONTROL else ROUNDS_STALLED_MS)
        ]
        return {"ok": not reasons, "reasons": reasons}

    def readiness(self) -> dict[str, Any]:
        """Return whether this process has read the metadata within a lease, and its last pass and
        round have not failed; with what it is, and what its last round has left to do."""
        failing = self._failures()
        reasons = [f"{what}: {why}" for what, why in failing.items()]
        services = self._services
        held = None if services is None else services.metadata.image.controller
        if self.ended.is_set() or services is None:
            role = "ending" if self.ended.is_set() else "starting"
            reasons.insert(0, f"it is {role}")
        elif METADATA not in failing and is_held_by(
            services.metadata.image, services.controller_id
        ):
            role = "controller"
        else:
            role = "standby"
        report = self._last_round
        return {
            "ok": not reasons,
            "role": role,
            "controller": None if held is None else held.controller_id,
            "round": {
                "count": self.round_count,
                "not_inspected_in_time": report.not_looked_at,
                "is_caught_up": report.is_caught_up,
                "failures": sorted(_failures_of(report))[:TOLD_MAX],
            },
            "reasons": reasons,
        }

    def _failures(self) -> dict[str, str]:
        """Return what fails now. Once the metadata were not read within a lease, another process
        may be the controller, and what this one knows of the cluster is old. A standby makes
        neither passes nor rounds: those that it made before say nothing any more."""
        failing, services = dict(self._failing), self._services
        if services is None:  # it could not be opened
            return dict.fromkeys((METADATA,), failing[PASS]) if PASS in failing else {}
        image = services.metadata.image
        if is_held(image) and not is_held_by(image, services.controller_id):
            failing = {}
        age_ms = self._clock.monotonic_ms() - services.metadata.read_at_ms
        if age_ms > lease_ms(image):
            failing[METADATA] = f"it was last read {age_ms / 1000:.1f} s ago, and a lease is over"
        return failing

    def metrics(self) -> list[Metric]:
        """Return what is known, from memory; local disks are asked for their room."""
        failing = self._failures()
        up_ms = self._clock.monotonic_ms() - self._started_at_ms
        figures = [Metric(type="Serving", name="up-ms", value=up_ms)]
        for what in (METADATA, PASS, ROUND):
            value = int(what in failing)
            figures.append(
                Metric(type="Serving", name="failing", labels={"look": what}, value=value)
            )
        if self._services is not None:
            figures += metrics_of(self._services, is_cut_off=METADATA in failing)
        return figures


def _failures_of(report: ReplicationReport) -> frozenset[str]:
    return frozenset((*report.failures, *report.upkeep_failures))
