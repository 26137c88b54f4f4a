"""A cluster that one process serves until it is told to end: opened as soon as it can be, then
controlled, replicated and kept up, in threads.

What fails is logged once and tried again, for ever: a disk comes back, a full one gets room, a mode
is set right. The process ends by itself if it can't go on: the cluster is another one, or the
session of Spark that runs its tasks has ended.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    ClusterNotFoundError,
    KafkaOnSparkError,
    NotControllerError,
)
from kafka_on_spark.controller.controller_loop import ControllerLoop
from kafka_on_spark.controller.failures import TOLD_MAX, Failures
from kafka_on_spark.controller.lease import is_held, is_held_by, lease_ms
from kafka_on_spark.controller.replication_round import ReplicationReport, replicate
from kafka_on_spark.metadata.metadata_service import is_failing
from kafka_on_spark.node.node import Node, open_node
from kafka_on_spark.observe.figures import metrics_of
from kafka_on_spark.observe.history import log_transitions
from kafka_on_spark.spark.spark_executors import SparkExecutors
from kafka_on_spark.store import counts
from kafka_on_spark.store.counts import PASS_MS, Metric, operating
from kafka_on_spark.store.deadlines import WakingClock, pauses_ms
from kafka_on_spark.store.roots import StorageOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

METADATA: Final = "metadata"
PASS: Final = "pass"
ROUND: Final = "round"
"""What may fail: reading the metadata, a pass of the controller, a round of replication. The loops
of the latter two have a thread each."""

FOR_EVER_MS: Final = 2**62
RETRY_MS_MIN: Final = 500.0
RETRY_MS_MAX: Final = 30_000.0
"""A standby takes over within that time of the moment at which it can."""

COPY_MS_MAX: Final = 20_000.0
"""For how long a round goes on copying. Inspections and upkeep follow, which must not wait for
hours; and what has failed is tried again by the next round, within replica.lag.time.max.ms."""

STALLED_MS: Final = 600_000
ROUNDS_STALLED_MS: Final = 86_400_000
"""A loop is healthy that has moved within that time. A round may take that long: it copies an
append as a whole, for hours if it must."""

TAKING_OVER_MS: Final = 100.0
"""How often the loop of rounds looks whether this process is the controller."""


_NAMES: Final = re.compile("[0-9a-f]{20,}")
"""Files that a try would have written have other names in the next one."""


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
        """Wait; raise _EndOfServing if the process is to end."""
        if self._ended.wait(duration_ms / 1000):
            raise _EndOfServing


class ServedCluster:
    """The cluster at `metadata_root`, served by threads of this process; tasks run on `spark`.

    Attributes:
        ended: Set once the loops are to end, whoever says so.
        failure: Why it could not go on; None: it was told to end, or goes on.
        node: The cluster, once it is open.
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
        self._moved_at_ms = dict.fromkeys((PASS, ROUND), self._clock.monotonic_ms())
        self._threads: list[threading.Thread] = []
        self.node: Node | None = None
        self._controlling: ControllerLoop | None = None
        self._failing: dict[str, str] = {}
        self._pauses: dict[str, Iterator[float]] = {}
        self._last_round = ReplicationReport()

    def begin(self, *, only_opens: bool = False) -> None:
        """Open the cluster and do all that it needs, or nothing more."""
        if only_opens:
            self._start("serve", lambda: self._repeat(PASS, self._stand_open))
            return
        control = operating(counts.CONTROL)(self._control)
        replicate = operating(counts.REPLICATE)(self._replicate)
        self._start("serve", lambda: self._repeat(PASS, control))
        self._start("rounds", lambda: self._repeat(ROUND, replicate))

    def end(self, within_ms: int) -> bool:
        """Have the loops end, resign and close; return whether all of it was done in time.

        What is under way after that time is abandoned with the process, as if that was killed.
        """
        until_ms = self._clock.monotonic_ms() + within_ms
        self.ended.set()
        if not self._join(until_ms):
            log.info("a pass or a round is abandoned, which costs a standby a lease")
            return False
        if self.node is not None:
            self._start("leave", self.node.close)
        return self._join(until_ms)

    def _start(self, name: str, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _join(self, until_ms: int) -> bool:
        for each in self._threads:
            each.join(max(until_ms - self._clock.monotonic_ms(), 0) / 1000)
        return not any(each.is_alive() for each in self._threads)

    def _repeat(self, what: str, work: Callable[[], None]) -> None:
        """Do it again and again; a failure that stays is logged once. Without one loop the process
        would do half of its work, and nobody would see that: once it ends, by whatever, the process
        is to end."""
        try:
            while not self.ended.is_set():
                try:
                    work()
                except NotControllerError as error:
                    log.info("%s", error)
                except FINAL:
                    raise
                except Exception as error:
                    self._wait_out(what, error)
        except _EndOfServing:
            pass
        except KafkaOnSparkError as error:
            self.failure = str(error)
        except BaseException as error:
            self.failure = f"it has ended by an error of its own: {error!r}"
            log.exception("a loop has ended")
        finally:
            self.ended.set()

    def _wait_out(self, what: str, error: Exception) -> None:
        """Wait before the next try; raise ServingFailedError if tasks can't run any more."""
        if self._spark is not None:
            from kafka_on_spark.spark.jvm import has_ended  # imports pyspark

            if has_ended(self._spark):
                raise ServingFailedError("the Spark session has ended: start this process again")
        if what not in self._failing:
            self._pauses[what] = pauses_ms(RETRY_MS_MIN, RETRY_MS_MAX)
        text, before = str(error) or type(error).__name__, self._failing.get(what, "")
        if _NAMES.sub("", text) != _NAMES.sub("", before):
            is_bug = not isinstance(error, KafkaOnSparkError | OSError)
            log.warning("%s: has failed, and is tried again: %s", what, error, exc_info=is_bug)
        self._failing[what] = text
        self._clock.sleep_ms(next(self._pauses[what]))

    def _note_success(self, what: str) -> None:
        if self._failing.pop(what, None) is not None:
            log.info("%s: has come to its end again", what)

    def _open(self) -> Node:
        """Open the cluster, if that was not done yet. ServingFailedError: it can't be opened, and
        waiting does not help."""
        if self.node is None:
            try:
                executors = (
                    None if self._spark is None else SparkExecutors(self._spark, self._options)
                )
                node = open_node(self._root, self._options, executors)
            except KafkaOnSparkError as error:
                if is_failing(error):
                    raise
                raise ServingFailedError(str(error)) from None
            node.metadata.after_replay = log_transitions
            self.node = node
        return self.node

    def _stand_open(self) -> None:
        self._open()
        self._note_success(PASS)
        self.ended.wait()

    def _control(self) -> None:
        """Stand by, and control once that can be done."""
        self._moved_at_ms[PASS] = self._clock.monotonic_ms()
        opened = self._open()

        def note_pass(took_ms: int) -> None:
            opened.counts.add(PASS_MS, took_ms)
            self._note_success(PASS)
            quorum = opened.metadata.log.last_seen()
            voters = () if quorum is None else quorum.voters
            opened.part(Failures).note(
                {f"voter {each.voter}": each.problem or "" for each in voters}
            )

        self._controlling = ControllerLoop(opened, clock=self._clock, after_pass=note_pass)
        self._controlling.run(FOR_EVER_MS)

    def _replicate(self) -> None:
        """Run a round if this process is the controller, and wait for the next one."""
        self._moved_at_ms[ROUND] = self._clock.monotonic_ms()
        node = self.node
        if node is None or not is_held_by(node.metadata.image, node.controller_id):
            self._clock.sleep_ms(TAKING_OVER_MS)
            return
        report = replicate(node, copy_ms_max=COPY_MS_MAX)
        self._last_round = report
        self.round_count += 1
        self._note_success(ROUND)
        settings = node.metadata.image.settings()
        pause_ms = float(settings.integer("broker.heartbeat.interval.ms"))
        if report.resume_after_ms is not None:
            pause_ms = min(pause_ms, max(report.resume_after_ms, RETRY_MS_MIN))
        self._clock.sleep_ms(pause_ms)

    def health(self) -> dict[str, Any]:
        """Return whether the loops move; only a restart helps one that does not. A root that is
        away stops no loop: each of its calls ends by a timeout."""
        now_ms = self._clock.monotonic_ms()
        moved_at_ms = dict(self._moved_at_ms)
        if self._controlling is not None:
            moved_at_ms[PASS] = self._controlling.moved_at_ms
        most_ms = {PASS: STALLED_MS, ROUND: ROUNDS_STALLED_MS}
        reasons = [
            f"the loop of {loop}s has not moved for {(now_ms - at_ms) / 1000:.1f} s"
            for loop, at_ms in moved_at_ms.items()
            if now_ms - at_ms > most_ms[loop]
        ]
        return {"ok": not reasons, "reasons": reasons}

    def readiness(self) -> dict[str, Any]:
        """Return whether this process has read the metadata within a lease, and its last pass and
        round have not failed; with what it is, and what its last round has left to do."""
        failing, node = self._failures(), self.node
        reasons = [f"{what}: {why}" for what, why in failing.items()]
        held = None if node is None else node.metadata.image.controller
        if self.ended.is_set() or node is None:
            role = "ending" if self.ended.is_set() else "starting"
            reasons.insert(0, f"it is {role}")
        elif METADATA not in failing and is_held_by(node.metadata.image, node.controller_id):
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
                "failures": sorted(set(report.failures))[:TOLD_MAX],
            },
            "reasons": reasons,
        }

    def _failures(self) -> dict[str, str]:
        """Return what fails now. Once the metadata were not read within a lease, what this process
        knows of the cluster is old; once its own lease was not renewed for as long, another process
        may be the controller. A standby makes neither passes nor rounds: those that it made before
        say nothing any more."""
        failing, node = dict(self._failing), self.node
        if node is None:  # it could not be opened
            return dict.fromkeys((METADATA,), failing[PASS]) if PASS in failing else {}
        image, now_ms = node.metadata.image, self._clock.monotonic_ms()
        if is_held_by(image, node.controller_id):
            loop = self._controlling
            age_ms = 0 if loop is None else now_ms - loop.renewed_at_ms
            if age_ms >= lease_ms(image):
                text = f"its lease was last renewed {age_ms / 1000:.1f} s ago, and may be another's"
                failing.setdefault(PASS, text)
        elif is_held(image):
            failing = {}
        age_ms = now_ms - node.metadata.read_at_ms
        if age_ms > lease_ms(image):
            failing[METADATA] = f"it was last read {age_ms / 1000:.1f} s ago, and a lease is over"
        return failing

    def metrics(self) -> list[Metric]:
        """Return what is known, from memory; local disks are asked for their room."""
        failing = self._failures()
        figures = [
            Metric("Serving", "failing", labels={"look": what}, value=int(what in failing))
            for what in (METADATA, PASS, ROUND)
        ]
        if self.node is not None:
            figures += metrics_of(self.node, is_cut_off=METADATA in failing)
        return figures
