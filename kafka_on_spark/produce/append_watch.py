"""What an append does while it waits for a broker that fails: it probes, warns and may control.

From the first try on that meets a failing broker, the append probes the brokers in the ISRs of the
partitions that wait; its rounds sleep in between. It also watches the controller's lease, since
that controller may be dead. When the broker's session is over, and nobody holds a lease, it runs a
controller's pass for these partitions alone, which gives up nothing: claim, decision and
resignation are one commit. The fault may be the append's own, so it doubts its facts with care.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import (
    NO_ERROR,
    REFUSES_WRITES,
    CommitConflictError,
    CommitError,
    FencedLeaderEpochError,
    KafkaOnSparkError,
    NotEnoughReplicasAfterAppendError,
    ReplicaLostError,
    RequestTimedOutError,
    RootFullError,
    RootReadOnlyError,
    UnknownLeaderEpochError,
)
from kafka_on_spark.base.ids import LOST, BrokerId, PartitionEpoch, PartitionKey
from kafka_on_spark.controller.brokers import (
    OF_APPEND,
    SESSIONS_UNDISPUTED,
    GoneOn,
    leave_isrs,
    note_refused,
    reached_by_others,
    readmitted_at_ms,
    refusing_most,
)
from kafka_on_spark.controller.lease import LeaseWatch, alone, is_held
from kafka_on_spark.controller.probes import (
    GAPS_A_SESSION,
    REFUSAL_CODES,
    FailedProbes,
    ProbeResult,
    probe_orders,
    probe_where_it_appends,
    refused_writes,
)
from kafka_on_spark.metadata.image import ControllerResult, MetadataImage
from kafka_on_spark.metadata.metadata_service import ROOTS_AWAY
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import RefusedWrite
from kafka_on_spark.metadata.reports import PartitionReport
from kafka_on_spark.node.node import Node

log = logging.getLogger(__name__)

WARN_AFTER_MS: Final = 2000
WARN_AGAIN_MS: Final = 10_000
_OVERTAKEN: Final = (CommitConflictError, FencedLeaderEpochError, UnknownLeaderEpochError)

METADATA_AWAY: Final = (*ROOTS_AWAY, CommitError, ReplicaLostError, RequestTimedOutError)
"""Errors of the metadata log that an append waits out. The append's records may be in leaders' logs
already, and be committed later. If its time is up first, the append's outcome is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A partition that an append waits for.

    Attributes:
        partition: Its registration at the last try.
        refused: Members of the ISR whose roots had no room or were read-only, or who have no
            replica yet, which may be for that.
        size_bytes: Of the files that the append writes there.
    """

    key: PartitionKey
    partition: PartitionRegistration
    error: str
    refused: frozenset[BrokerId] = frozenset()
    size_bytes: int = 0


def wait_of(
    key: PartitionKey,
    tried: PartitionRegistration | None,
    met: PartitionReport | KafkaOnSparkError | None,
    size_bytes: int = 0,
) -> Wait | None:
    """Return what is waited for after a try. None: the image or a log has moved on since, so that
    the next try may well succeed."""
    if tried is None or met is None or isinstance(met, _OVERTAKEN):
        return None
    wait = partial(Wait, key=key, partition=tried, size_bytes=size_bytes)
    if isinstance(met, KafkaOnSparkError):
        by_leader = (tried.leader,) if isinstance(met, REFUSES_WRITES) else ()
        return wait(error=str(met), refused=tried.isr.intersection(by_leader))
    error: str | None = None
    refused: set[BrokerId] = set()
    for broker_id in sorted(tried.isr):
        seen = met.replica(broker_id)
        if seen is None or seen.error_code != NO_ERROR:
            why = "it has no replica yet" if seen is None else seen.error
            error = error or f"broker {broker_id}: {why}"
        if seen is None or seen.error_code in REFUSAL_CODES:
            refused.add(broker_id)
    return None if error is None else wait(error=error, refused=frozenset(refused))


def _refusing(refused: Mapping[BrokerId, RefusedWrite]) -> str:
    return ", ".join(f"broker {each}, whose root is {met}" for each, met in refused.items())


class AppendWatch:
    """Watches the partitions that one append waits for.

    `is_allowed`: the append may control, if the cluster allows it.
    `reached_elsewhere`: brokers that its tasks on other hosts have written to.
    """

    def __init__(
        self,
        node: Node,
        *,
        is_allowed: bool = True,
        reached_elsewhere: frozenset[BrokerId] = frozenset(),
    ) -> None:
        self._node = node
        self._reached_elsewhere = reached_elsewhere
        self._is_allowed = is_allowed
        self._metadata, self._clock = node.metadata, node.clock
        self._failed = FailedProbes(node.clock)
        self._before: dict[BrokerId, MetadataImage] = {}
        self._lease = LeaseWatch(node.clock)
        self._waits: dict[PartitionKey, Wait] = {}
        self._reasons: dict[PartitionKey, str] = {}
        self._denied: set[BrokerId] = set()
        self._began_ms: int | None = None
        self._probe_at_ms = 0.0
        self._warn_at_ms = 0.0
        self._may_retry_now = False
        self._refused: dict[BrokerId, RefusedWrite] = {}
        self._refuse_most = False
        self._readmitted_at_ms: dict[tuple[PartitionKey, PartitionEpoch, BrokerId], float] = {}

    def update(self, waits: Iterable[Wait | None]) -> None:
        """Probe, decide and warn, as far as due, for the partitions that still wait."""
        now_ms, self._may_retry_now = self._clock.monotonic_ms(), False
        self._refused = {}
        self._waits = {each.key: each for each in waits if each is not None}
        for each in self._failed.keys() - self._members():
            del self._failed[each]
        if not self._waits:
            return
        if self._began_ms is None:
            self._began_ms, self._warn_at_ms = now_ms, now_ms + WARN_AFTER_MS
        is_over = self._lease.is_over(self._metadata.image)
        if now_ms >= self._probe_at_ms:
            try:
                results = self._probe(now_ms)
                self._leave_refusing(each.broker_id for each in results if each.is_refused)
                answering = frozenset(each.broker_id for each in results if each.is_answer)
                may_decide = self._metadata.image.settings().boolean("auto.controller")
                if is_over and may_decide and self._is_allowed:
                    self._decide(answering, now_ms)
            except METADATA_AWAY as error:
                log.debug("an append can't decide: %s", error)
            self._probe_at_ms = now_ms + self._failed.next_in_ms(self._session_ms())
        self._warn()

    def _leave_refusing(self, refusing: Iterable[BrokerId]) -> None:
        """Have others lead and be in sync in place of roots that refuse writes: any (`refusing`),
        or those of this append. Each broker is asked again, as the disk that is registered, by a
        write of the size that failed."""
        brokers, suspects = self._metadata.image.brokers, set(refusing)
        # What was met before is asked for again: a process whose writes most roots refuse is at
        # fault itself, whichever it has met first.
        sizes = {each: known.refused.size_bytes for each, known in brokers.items() if known.refused}
        for wait in self._waits.values():
            suspects |= wait.refused
            for each in wait.refused:
                sizes[each] = max(wait.size_bytes, sizes.get(each, 0))
        if not suspects:
            return
        orders = probe_orders(brokers.values(), self._session_ms(), sizes)
        results = probe_where_it_appends(self._node, orders)
        refused = refused_writes(orders, results, self._node.host)
        if refused.keys().isdisjoint(suspects):
            return
        tried = {each.key: each.partition for each in self._waits.values()}
        gone_on = self._metadata.submit(
            lambda image: note_refused(image, refused, tried, f"an append of {self._node.caller}"),
            timeout_ms=self._session_ms(),
        )
        self._may_retry_now = bool(gone_on.moved)
        for key in gone_on.moved:
            log.warning("%s", self._in_words(key, f"goes on without {_refusing(refused)}"))
        self._refuse_most = refusing_most(refused, self._metadata.image)
        self._refused = refused

    def refused(
        self, key: PartitionKey, *, is_appended: bool, may_be_appended: bool
    ) -> KafkaOnSparkError | None:
        """Return the error of a partition that roots keep from being appended, or committed, and
        that can't do without them; None if that is not so.

        `is_appended`: it is in its leader's log. `may_be_appended`: it may be.
        """
        wait, now = self._waits.get(key), self._metadata.image.partition(key)
        if wait is None or now is None or now.partition_epoch != wait.partition.partition_epoch:
            return None
        asked = {*wait.refused, wait.partition.leader}
        if is_appended:
            asked.discard(wait.partition.leader)  # nothing more is written there
        met = {each: self._refused[each] for each in sorted(self._refused.keys() & asked)}
        if not met:
            return None
        name, isr = self._metadata.image.name_of(key), sorted(wait.partition.isr)
        why = f"too few of the ISR {isr} would be left without"
        if self._refuse_most:
            why = f"more than half of the brokers refuse writes of {self._node.caller}"
        reason = f"{_refusing(met)}, can't be left out: {why}"
        advice = "make room there or mount it writable, and append again"
        if is_appended or may_be_appended:
            return NotEnoughReplicasAfterAppendError(
                f"an append to {name} is not acknowledged, and may be committed later: {reason};"
                f" {advice} under the same producer_id and sequence, or it may be there twice"
            )
        is_full = any(each.size_bytes for each in met.values())
        kind = RootFullError if is_full else RootReadOnlyError
        return kind(f"nothing was appended to {name}: {reason}; {advice}")

    def _members(self) -> frozenset[BrokerId]:
        return frozenset().union(*(each.partition.isr for each in self._waits.values()))

    def _session_ms(self) -> int:
        return self._metadata.image.settings().integer("broker.session.timeout.ms")

    def _probe(self, began_ms: int) -> Sequence[ProbeResult]:
        brokers = self._metadata.image.brokers
        known = [brokers[each] for each in sorted(self._members()) if each in brokers]
        results = probe_where_it_appends(self._node, probe_orders(known, self._session_ms()))
        for result in results:
            self._record_probe(result, began_ms)
        return results

    def _record_probe(self, result: ProbeResult, began_ms: int) -> None:
        broker_id = result.broker_id
        if not result.is_denied:
            self._denied.discard(broker_id)
        elif broker_id not in self._denied:
            self._denied.add(broker_id)
            log.warning(
                "broker %d can't be written to by %s, which counts against nobody: %s; append as a"
                " user who may, or with other credentials",
                broker_id,
                self._node.caller,
                result.error or "access is denied",
            )
        failed = self._failed.take(result, began_ms, self._session_ms())
        if failed is None:
            self._before.pop(broker_id, None)
        elif failed.count == 1:
            self._before[broker_id] = self._metadata.image  # an older one only delays a decision
        elif (
            reached_by_others(self._before[broker_id], self._metadata.image, broker_id) is not None
        ):
            # Others reach the broker: the failures up to now say nothing about it.
            self._before[broker_id] = self._metadata.image
            del self._failed[broker_id]
            self._failed.take(result, began_ms, self._session_ms())

    def _decide(self, answering: frozenset[BrokerId], known_ms: int) -> None:
        """Run a controller's pass for the partitions that wait, if one of them needs it, so that
        nothing is given up (`leave_isrs`). The silence of a broker that others reach is this
        process's own fault."""
        silent = self._failed.silent(self._session_ms())
        only = {each.key: each.partition for each in self._waits.values()}
        if all(
            each.leader is not None and silent.keys().isdisjoint(each.isr) for each in only.values()
        ):
            return
        readmitted = self._readmitted(only, silent.keys())

        def decide(image: MetadataImage) -> ControllerResult[GoneOn | None]:
            # The facts are too old, or another process has claimed: read the log, and try again.
            if self._is_late(known_ms) or image.controller != self._lease.seen:
                return ControllerResult([], None)
            doubts = {each: self._doubt(image, each, readmitted) for each in silent}
            failing = {each: why for each, why in silent.items() if doubts[each] is None}
            why = f"decided by an append of {self._node.caller}: nobody controls"
            result = leave_isrs(image, failing, only, answering, why)
            doubted = {
                key: f"{doubts[each]}, so the fault is of {self._node.caller}"
                for key, partition in only.items()
                for each in partition.isr
                if doubts.get(each) is not None
            }
            kept = replace(result.response, kept={**result.response.kept, **doubted})
            decided = alone(image, result, self._node.controller_id, OF_APPEND)
            return ControllerResult(decided.records, kept)

        gone_on = self._metadata.submit(decide, timeout_ms=self._session_ms())
        self._reasons = {} if gone_on is None else dict(gone_on.kept)
        self._may_retry_now = gone_on is None or bool(gone_on.moved)
        for key in () if gone_on is None else gone_on.moved:
            log.warning("%s", self._in_words(key, "decided by this append, since nobody controls"))

    def _is_late(self, known_ms: int) -> bool:
        """Return whether facts of then are too old: after a freeze, or after conflicts."""
        return (self._clock.monotonic_ms() - known_ms) * GAPS_A_SESSION > self._session_ms()

    def _doubt(
        self, image: MetadataImage, broker_id: BrokerId, readmitted: Collection[BrokerId]
    ) -> str | None:
        """Return why a broker's silence may be this process's own fault, in words."""
        if broker_id in self._reached_elsewhere:
            return f"tasks on other hosts have written to broker {broker_id}"
        if broker_id in readmitted:
            return f"another process has readmitted broker {broker_id} to the ISR"
        place = reached_by_others(self._before[broker_id], image, broker_id)
        return None if place is None else f"others reach broker {broker_id} ({place})"

    def _readmitted(
        self, only: Mapping[PartitionKey, PartitionRegistration], broker_ids: Collection[BrokerId]
    ) -> frozenset[BrokerId]:
        """Return the brokers of which another process has lately readmitted a replica that an
        append had taken out: two processes would take each other's brokers out in turn.

        While a partition's epoch is the same, nobody has readmitted a replica of it. So the history
        is read once for each.
        """
        asked = {
            (key, partition.partition_epoch, broker_id)
            for key, partition in only.items()
            for broker_id in partition.isr.intersection(broker_ids)
        }
        now_ms, lately_ms = self._clock.now_ms(), SESSIONS_UNDISPUTED * self._session_ms()
        unknown = asked - self._readmitted_at_ms.keys()
        if unknown:
            end = self._metadata.image.offset
            metadata_log = self._metadata.log
            start = min(metadata_log.offset_at(now_ms - lately_ms), end)
            before = self._metadata.image_at(start)
            batches = metadata_log.read(from_offset=start, to_offset=end)
            for key, epoch, broker_id in unknown:
                at_ms = readmitted_at_ms(before, batches, key, broker_id)
                self._readmitted_at_ms[key, epoch, broker_id] = at_ms
        return frozenset(
            each[2] for each in asked if now_ms - self._readmitted_at_ms[each] < lately_ms
        )

    def is_blocked(self, key: PartitionKey) -> bool:
        """Return whether another try is of no use: the partition is as it was, and a member of its
        ISR still fails its probes.

        Not for ever: without a decision, the rounds of an append take laggards out of the ISR.
        """
        wait, partition = self._waits.get(key), self._metadata.image.partition(key)
        if wait is None or partition is None or key in self._reasons:
            return False
        patience_ms = 2 * max(
            self._session_ms(), self._metadata.image.settings().integer("controller.lease.ms")
        )
        now_ms = self._clock.monotonic_ms()
        failing = [self._failed.get(each) for each in partition.isr]
        return partition.partition_epoch == wait.partition.partition_epoch and any(
            each is not None and now_ms - each.since_ms < patience_ms for each in failing
        )

    def pause_ms(self, pause_ms: float) -> float:
        """Return how long to sleep before the next try, but not beyond the next probe or
        warning; 1 ms if something was decided."""
        if self._may_retry_now:
            return 1.0
        if not self._failed:
            return pause_ms
        due_ms = min(self._probe_at_ms, self._warn_at_ms)
        return min(pause_ms, max(due_ms - self._clock.monotonic_ms(), 1.0))

    def why(self, key: PartitionKey) -> str | None:
        """Return why a partition waits and nothing is decided for it; None: not known."""
        wait = self._waits.get(key)
        if wait is None:
            return None
        isr = sorted(wait.partition.isr)
        caller = self._node.caller
        denied = [
            f"{caller} may not write to broker {each}" for each in isr if each in self._denied
        ]
        failing = [f"broker {each}: {self._failed[each]}" for each in isr if each in self._failed]
        next_words = self._next_words(key, bool(failing))
        return "; ".join([*denied, *failing, *([next_words] if next_words else [])]) or None

    def _next_words(self, key: PartitionKey, is_failing: bool) -> str | None:
        image, partition = self._metadata.image, self._waits[key].partition
        lost = [each for each in sorted(partition.isr) if partition.directory_of(each) == LOST]
        if partition.leader is None and len(lost) == len(partition.isr):
            return (
                f"the last replica in sync, on broker {', '.join(map(str, lost))}, is lost: give"
                " its disk back as it was and run a controller, which takes it back, or has another"
                " replica lead that has all committed records; if none has, an unclean election"
                " gives up what is lost (kafka-on-spark leader-election --election-type unclean)"
            )
        if key in self._reasons:
            return f"nothing is decided: {self._reasons[key]}"
        if not is_failing and partition.leader is not None:
            return None
        if is_held(image) and image.controller is not None:
            return f"{image.controller.controller_id} controls the cluster, and decides"
        if not self._is_allowed or not image.settings().boolean("auto.controller"):
            return "nobody controls the cluster, and auto.controller=false: run a controller"
        return (
            "nobody controls the cluster, so this append decides after"
            f" broker.session.timeout.ms={self._session_ms()}"
        )

    def _warn(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._began_ms is None or now_ms < self._warn_at_ms:
            return
        self._warn_at_ms = now_ms + WARN_AGAIN_MS
        first = next(iter(self._waits))
        more = f" (and {len(self._waits) - 1} more)" if len(self._waits) > 1 else ""
        text = self.why(first) or self._waits[first].error
        seconds = (now_ms - self._began_ms) / 1000
        log.warning("an append has waited %.1f s: %s%s", seconds, self._in_words(first, text), more)

    def _in_words(self, key: PartitionKey, text: str) -> str:
        image = self._metadata.image
        partition = image.partition(key)
        if partition is None:
            return f"a partition that was deleted: {text}"
        leader = partition.leader
        led_by = "nobody leads" if leader is None else f"broker {leader} leads"
        return f"{image.name_of(key)}, which {led_by}: {text}"
