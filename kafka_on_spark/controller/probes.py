"""Probes of brokers' roots, in place of heartbeats: who is probed, and when a broker is silent.

It is silent once its probes failed often enough, over all of its session: the same rule for the
controller's loop and for an append that waits. A process that was frozen has seen nothing
meanwhile: if two probes are too far apart, the count starts again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    REFUSES_WRITES,
    UNKNOWN_SERVER_ERROR,
    KafkaOnSparkError,
    ProtocolError,
    RootAccessDeniedError,
    RootReadOnlyError,
)
from kafka_on_spark.base.ids import BrokerId, Clock, DirectoryId
from kafka_on_spark.base.text import visible
from kafka_on_spark.log.worker import Worker
from kafka_on_spark.metadata.image import BrokerRegistration
from kafka_on_spark.metadata.records import RefusedWrite
from kafka_on_spark.node.node import Node
from kafka_on_spark.store.counts import PROBE, PROBE_FAILURES, PROBE_MS, Counts, operating
from kafka_on_spark.store.deadlines import begin
from kafka_on_spark.store.root_identity import probe_root

PROBES_MIN: Final = 3

GAPS_A_SESSION: Final = 3
"""Two probes may be this part of a session apart, and no further."""

PROBES_A_SESSION: Final = 6
"""Twice as many as there must be: a probe that is late by as much again leaves no gap."""

PROBE_TIMEOUT_MS_MIN: Final = 1000
"""However short a session is: a busy machine takes its time."""

UNJUDGED_MS_MIN: Final = 10_000
"""However short a session is: how long a pass waits for a judgement of brokers that fail."""


def probe_timeout_ms(session_ms: int) -> int:
    """Return after which time a probe is given up: a part of a session, so that one that hangs is
    no gap between its neighbours."""
    return max(session_ms // 4, PROBE_TIMEOUT_MS_MIN)


def judgement_ms_max(session_ms: int) -> int:
    """Return how long a pass waits until each failing broker's session is over: three sessions."""
    return max(3 * session_ms, UNJUDGED_MS_MIN)


@dataclass(frozen=True, slots=True)
class Silence:
    """Probes of one broker that have failed in a row, by a clock that never goes back: since when
    the first and the last of them had, how many, and what the last met."""

    since_ms: int
    last_ms: int
    count: int
    error: str

    def is_over(self, session_ms: int) -> bool:
        return self.count >= PROBES_MIN and self.last_ms - self.since_ms >= session_ms

    def __str__(self) -> str:
        seconds = (self.last_ms - self.since_ms) / 1000
        return f"probe failed {self.count} times in {seconds:.1f} s ({self.error})"


def after_failure(
    before: Silence | None, began_ms: int, ended_ms: int, error: str, session_ms: int
) -> Silence | None:
    """Return what a failed probe leads to, after those that had failed before it, if any. None: the
    probing process was frozen meanwhile, and the probe does not count."""
    gap_ms = session_ms / GAPS_A_SESSION
    if ended_ms - began_ms > probe_timeout_ms(session_ms) + gap_ms:
        return None
    if before is None or began_ms - before.last_ms > gap_ms:
        return Silence(ended_ms, ended_ms, 1, error)
    return replace(before, last_ms=ended_ms, count=before.count + 1, error=error)


def next_probe_in_ms(silence: Silence, session_ms: int) -> float:
    """Return how long after its last probe began a failing broker is to be probed again.

    At the latest at the session's end, so that nobody waits for a broker for longer than that.
    """
    left_ms = session_ms - (silence.last_ms - silence.since_ms)
    pause_ms = session_ms / PROBES_A_SESSION
    return min(pause_ms, left_ms) if left_ms > 0 else pause_ms


PROBE_BYTES: Final = 5
"""What a probe writes that no size is given for."""

SIZE_BYTES_MAX: Final = 2**26
"""Of a write that is tried: whoever has room for that is not full."""

WRITE_BYTES_A_SECOND: Final = 2**24
"""Of the slowest disk that is allowed for."""


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """Which root to probe, which disk it must be, and for how long it may be waited for.
    `size_bytes`: a write of that size is tried, too."""

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    timeout_ms: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a root answered; NO_ERROR, or why not. `took_ms`: where it was asked, if that was
    measured."""

    broker_id: BrokerId
    error_code: int
    error: str | None = None
    took_ms: float | None = field(default=None, compare=False)

    @property
    def is_answer(self) -> bool:
        """Whether the root answers, is its disk, and takes writes."""
        return self.error_code == NO_ERROR

    @property
    def is_denied(self) -> bool:
        """Whether the root refused the caller, which learns nothing about the root by it."""
        return self.error_code == RootAccessDeniedError.code

    @property
    def is_refused(self) -> bool:
        """Whether the root is the broker's disk, and has no room or is read-only."""
        return self.error_code in REFUSAL_CODES


REFUSAL_CODES: Final = frozenset(each.code for each in REFUSES_WRITES)


def probe_orders(
    brokers: Iterable[BrokerRegistration],
    session_ms: int,
    sizes: Mapping[BrokerId, int] | None = None,
) -> list[ProbeOrder]:
    timeout_ms = probe_timeout_ms(session_ms)
    orders = []
    for each in brokers:
        size_bytes = min((sizes or {}).get(each.broker_id, 0), SIZE_BYTES_MAX)
        write_ms = size_bytes * 1000 // WRITE_BYTES_A_SECOND
        orders.append(
            ProbeOrder(
                each.broker_id, each.root, each.directory_id, timeout_ms + write_ms, size_bytes
            )
        )
    return orders


def refused_writes(
    orders: Iterable[ProbeOrder], results: Iterable[ProbeResult], host: str
) -> dict[BrokerId, RefusedWrite]:
    sizes = {each.broker_id: each.size_bytes or PROBE_BYTES for each in orders}
    return {
        each.broker_id: RefusedWrite(
            0 if each.error_code == RootReadOnlyError.code else sizes[each.broker_id], (host,)
        )
        for each in results
        if each.is_refused
    }


def probe_task(order: ProbeOrder, worker: Worker) -> ProbeResult:
    """Check that one root answers, is the broker's disk, and takes writes. A task."""
    began_ms, code, words = worker.clock.precise_ms(), NO_ERROR, None
    try:
        begin(
            order.root,
            lambda: probe_root(order.root, order.directory_id, worker.options, order.size_bytes),
        ).in_time(order.timeout_ms / 1000)
    except KafkaOnSparkError as error:
        code = error.code if isinstance(error, ProtocolError) else UNKNOWN_SERVER_ERROR
        words = visible(error.message)  # the cause of a fencing, which is printed for people
    return ProbeResult(order.broker_id, code, words, worker.clock.precise_ms() - began_ms)


def probe(node: Node, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
    """Probe roots where tasks run, and count the probes."""
    with operating(PROBE):
        results = node.tasks.run(probe_task, orders)
    count_probes(node.counts, results)
    return results


def probe_where_it_appends(node: Node, orders: Sequence[ProbeOrder]) -> list[ProbeResult]:
    """Probe roots from this process, which commits appends, and from the executors, which write
    their files: a root is reachable if one executor reaches it. KafkaStorageError: Spark has given
    the job up, so the result is unknown."""
    results = node.tasks.run_here(probe_task, orders)
    failed = [order for order, each in zip(orders, results, strict=True) if not each.is_answer]
    found = node.tasks.run_or_lose(probe_task, failed, on_each=True)
    elsewhere = {each.broker_id for each in found if each.is_answer}
    return [
        ProbeResult(each.broker_id, NO_ERROR) if each.broker_id in elsewhere else each
        for each in results
    ]


def count_probes(counts: Counts, results: Iterable[ProbeResult]) -> None:
    """Count probes by broker, with how long they took. A count of failures begins with the first
    probe, at 0 if that is answered: an alert sees the first failure as a rise."""
    for each in results:
        if each.took_ms is not None:
            counts.add(PROBE_MS, each.took_ms, broker=each.broker_id)
        counts.add(PROBE_FAILURES, int(not each.is_answer), broker=each.broker_id)


class FailedProbes(dict[BrokerId, Silence]):
    """Brokers whose last probes failed, by this process's clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def take(self, result: ProbeResult, began_ms: int, session_ms: int) -> Silence | None:
        """Take the result of a probe that has just ended; return the failures in a row with it.

        None: it did not fail, or does not count. A refusal for want of permission does not count
        as a failure, and ends a row of failures.
        """
        broker_id = result.broker_id
        before = self.pop(broker_id, None)
        if result.is_answer or result.is_denied:
            return None
        now_ms, error = self._clock.monotonic_ms(), result.error or "it failed"
        failed = after_failure(before, began_ms, now_ms, error, session_ms)
        if failed is not None:
            self[broker_id] = failed
        return failed

    def silent(self, session_ms: int) -> dict[BrokerId, str]:
        """Return the brokers whose session is over, and why, in words."""
        return {
            broker_id: str(each) for broker_id, each in self.items() if each.is_over(session_ms)
        }

    def next_in_ms(self, session_ms: int) -> float:
        waits = (next_probe_in_ms(each, session_ms) for each in self.values())
        return min(waits, default=session_ms / PROBES_A_SESSION)
