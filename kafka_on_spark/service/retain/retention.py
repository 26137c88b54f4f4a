"""Passes of retention: a bounded number of looks, one decision, and the commands that follow it.

A pass goes along the ring of all partitions and looks at those that are due. What it remembers of
them is this process's own, and costs looks if it is lost; nothing rests on it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kafka_on_spark.controller.pace.retention_looks import LastLook, can_delete, is_due, last_look
from kafka_on_spark.controller.pace.sweep import Ring
from kafka_on_spark.controller.partitions.log_start import LeaderLook, cause_of, retain
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import Offset, PartitionKey, TopicId, TopicPartition
from kafka_on_spark.log.upkeep.retention import RetentionLimits, limits_of
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.maintain.upkeep_report import UpkeepRow
from kafka_on_spark.service.maintain.upkeep_watch import RETENTION, UpkeepWatch
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.replica.log_starts import LogStartOrder, plan_log_starts
from kafka_on_spark.service.replicate.sweep_progress import scope_of
from kafka_on_spark.service.retain.laps import Laps, Walk
from kafka_on_spark.service.retain.leader_looks import LookOrder, LookResult, plan_look

log = logging.getLogger(__name__)

PLACES_A_PASS_MAX: Final = 8192
"""Partitions that a pass asks its memory about."""

LOOKS_AT_ONCE: Final = 32
"""Logs that are looked at together, and at least in a pass."""

LOOK_MS_MAX: Final = 1000
"""For how long a pass goes on with further looks."""

RunLooks = Callable[[Sequence[LookOrder]], list[LookResult]]
RunLogStarts = Callable[[Sequence[LogStartOrder]], list[str | None]]
Decision = Callable[[MetadataImage], ControllerResult[dict[PartitionKey, Offset]]]
SubmitRetention = Callable[[Decision], dict[PartitionKey, Offset]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReport:
    """What one pass of retention did; in a dry run, what is due.

    Attributes:
        looked_at: How many partitions' logs were looked at.
        log_starts: Where the logs start from which records were deleted.
        rows: Where records were deleted, or why a log could not be looked at; counts are offsets,
            and sizes those of whole batches of one replica.
        is_done: Nothing that is due was left for the next pass.
    """

    looked_at: int = 0
    log_starts: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    rows: tuple[UpkeepRow, ...] = ()
    is_done: bool = True

    @property
    def deleted_records(self) -> int:
        """Records that were deleted, by offsets."""
        return sum(row.count for row in self.rows)


class Retention:
    """Retention as one process does it, in passes; `run_looks` and others run the tasks.

    Threads may share it, without waiting for each other: passes at once cost looks, and nothing
    rests on what they remember.
    """

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        commit_clock: Clock,
        *,
        run_looks: RunLooks,
        run_log_starts: RunLogStarts,
        random_below: Callable[[int], int],
        timeout_ms: int,
        watch: UpkeepWatch | None = None,
    ) -> None:
        self._watch = watch or UpkeepWatch(clock)
        self._metadata = metadata
        self._clock = clock
        self._commit_clock = commit_clock
        self._run_looks = run_looks
        self._run_log_starts = run_log_starts
        self._random_below = random_below
        self._timeout_ms = timeout_ms
        self._last: dict[PartitionKey, LastLook] = {}
        self._begins_at: PartitionKey | None = None
        self._laps = Laps()

    def run(
        self,
        keys: Iterable[PartitionKey] | None = None,
        *,
        is_all: bool = False,
        is_dry_run: bool = False,
        submit: SubmitRetention | None = None,
    ) -> RetentionReport:
        """Look at partitions that are due, of `keys` or of all, and delete what is too old or too
        much.

        `is_all`: look at each of them, due or not, however long that takes. `is_dry_run`: delete
        nothing. `submit`: commits the decision under a controller's epoch.

        Raises: as `MetadataDecider.submit`.
        """
        image = self._metadata.image
        began_ms = self._clock.monotonic_ms()
        is_of_a_lap = keys is None and not (is_all or is_dry_run)
        if is_of_a_lap and self._laps.may_wait(image, began_ms):
            return RetentionReport()
        walk = self._next_walk(image, is_all) if keys is None else None
        orders = self._due(image, (keys or ()) if walk is None else walk.keys, is_all)
        orders = [replace(each, is_dry_run=is_dry_run) for each in orders]
        results: list[LookResult] = []
        while len(results) < len(orders):
            elapsed_ms = self._clock.monotonic_ms() - began_ms
            if results and elapsed_ms >= LOOK_MS_MAX and not is_all:
                break
            results += self._look(image, orders[len(results) : len(results) + LOOKS_AT_ONCE])
        left = orders[len(results) :]
        if walk is not None and left:
            self._begins_at = left[0].key
        deleting = [
            (order, result.look)
            for order, result in zip(orders, results, strict=False)
            if result.look is not None and result.look.deletes
        ]
        if is_dry_run:
            starts = {look.key: look.found.log_start_offset for _, look in deleting}
        else:
            starts = self._delete(image, deleting, submit)
        if walk is not None and is_of_a_lap:
            self._laps.add(image, walk, is_whole=not left, now_ms=began_ms)
        rows = (_row(order, result, starts) for order, result in zip(orders, results, strict=False))
        return RetentionReport(
            looked_at=len(results),
            log_starts={image.name_of(key): start for key, start in starts.items()},
            rows=tuple(row for row in rows if row.count or row.error),
            is_done=not left,
        )

    def run_share(self, topics: str | Iterable[str] | None = None) -> RetentionReport:
        """Make a pass over topics, one topic, or all. It never fails its caller."""
        try:
            return self.run(self._keys(self._metadata.image, topics))
        except KafkaOnSparkError as error:
            log.warning("retention is left to the next round: %s", error)
            return RetentionReport(is_done=False)

    def run_all(
        self, topics: str | Iterable[str] | None = None, *, is_dry_run: bool = False
    ) -> tuple[UpkeepRow, ...]:
        """Look at every partition of topics, one topic, or all, and delete what is due, or say what
        that is. Return a row for each partition in which something is due or went wrong.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
            And as `MetadataDecider.submit`.
        """
        image = self._metadata.catch_up()
        report = self.run(self._keys(image, topics), is_all=True, is_dry_run=is_dry_run)
        return report.rows

    def _keys(
        self, image: MetadataImage, topics: str | Iterable[str] | None
    ) -> list[PartitionKey] | None:
        scope = scope_of(image, topics)
        return None if scope is None else Ring.of(image, scope).all_keys

    def _next_walk(self, image: MetadataImage, is_all: bool) -> Walk:
        """Return the next partitions of the ring, and have the next pass go on behind them.

        The first pass of a process begins at a random place: processes that make one pass only
        would else all begin at the same one.
        """
        ring = Ring.of(image)
        if ring.count == 0:
            return Walk(0, [], 0)
        if len(self._last) > ring.count:  # some were deleted
            for key in list(self._last):  # a list: another thread may add to it meanwhile
                if key not in ring:
                    self._last.pop(key, None)
        begins_at = self._begins_at
        start = self._random_below(ring.count) if begins_at is None else ring.place(begins_at)
        start %= ring.count
        count = ring.count
        if not is_all:
            count = min(self._laps.left(image, start, of=count), PLACES_A_PASS_MAX)
        self._begins_at = ring.key_at((start + count) % ring.count)
        return Walk(start, ring.keys(start, count), ring.count)

    def _due(
        self, image: MetadataImage, keys: Iterable[PartitionKey], is_all: bool
    ) -> list[LookOrder]:
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        commit_ms = self._commit_clock.now_ms()
        limits_by_topic: dict[TopicId, RetentionLimits | None] = {}
        orders = []
        for key in keys:
            if key.topic_id not in limits_by_topic:
                limits_by_topic[key.topic_id] = limits_of(image.settings(key.topic_id))
            limits, partition = limits_by_topic[key.topic_id], image.partition(key)
            if limits is None or partition is None or not can_delete(partition):
                continue
            if is_all or is_due(partition, limits, self._last.get(key), monotonic_ms):
                orders.append(plan_look(image, key, partition, limits, now_ms, commit_ms))
        return orders

    def _look(self, image: MetadataImage, orders: Sequence[LookOrder]) -> list[LookResult]:
        """Look at logs, and remember of each what it is looked at again for.

        A look that deletes is as one that failed until its decision is committed: whatever comes
        between, the log is looked at again.
        """
        results = self._run_looks(orders)
        for order, result in zip(orders, results, strict=True):
            look = result.look
            if result.error is not None:
                log.info("no retention of %s: %s", image.name_of(order.key), result.error)
            if order.is_dry_run:
                continue
            if look is not None and look.deletes:
                self._remember(image, order, None)
                continue
            if not result.may_pass:
                self._watch.record(order.key, None, {RETENTION: result.error})
            self._remember(image, order, look)
        return results

    def _remember(self, image: MetadataImage, order: LookOrder, look: LeaderLook | None) -> None:
        """Remember a look at a partition; None: it led to nothing."""
        self._last[order.key] = last_look(
            order.limits,
            order.partition,
            None if look is None else look.found,
            wall_ms=order.now_ms if look is None else look.now_ms,
            monotonic_ms=self._clock.monotonic_ms(),
            interval_ms=image.settings().integer("log.retention.check.interval.ms"),
        )

    def _delete(
        self,
        seen: MetadataImage,
        deleting: Sequence[tuple[LookOrder, LeaderLook]],
        submit: SubmitRetention | None,
    ) -> dict[PartitionKey, Offset]:
        """Commit the new log starts of all partitions, and have their replicas apply them."""
        if not deleting:
            return {}
        starts = self._decided([look for _, look in deleting], submit)
        for order, look in deleting:
            self._watch.record(look.key, None, {RETENTION: None})
            if look.key in starts:
                self._remember(seen, order, look)
                count = starts[look.key] - look.log_start_offset
                self._watch.count(RETENTION, count, look.found.removed_bytes)
                log.info("%s: %s", seen.name_of(look.key), cause_of(look, look.log_start_offset))
        for error in self._run_log_starts(plan_log_starts(self._metadata.image, starts)):
            if error is not None:
                log.info("a log start will be applied later: %s", error)
        return starts

    def _decided(
        self, looks: Sequence[LeaderLook], submit: SubmitRetention | None
    ) -> dict[PartitionKey, Offset]:
        """Commit what looks delete; return the new log starts."""

        def decide(image: MetadataImage) -> ControllerResult[dict[PartitionKey, Offset]]:
            return retain(image, looks)

        if submit is None:
            return self._metadata.submit(decide, timeout_ms=self._timeout_ms)
        return submit(decide)


def _row(
    order: LookOrder,
    result: LookResult,
    starts: Mapping[PartitionKey, Offset],
) -> UpkeepRow:
    look = result.look
    row = UpkeepRow(
        topic=order.address.topic,
        partition=order.key.partition,
        broker_id=order.address.broker_id,
        kind=RETENTION,
        error=result.error or "",
    )
    if look is None or look.key not in starts:
        return row
    return replace(
        row,
        count=starts[look.key] - look.log_start_offset,
        what="records too old, or too many",
        size_bytes=look.found.removed_bytes,
    )
