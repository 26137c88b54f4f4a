"""Passes over compacted topics: a bounded number of looks, and one commit of what is decided.

What a process remembers of its looks is its own and costs looks if it is lost; nothing rests on it.
"""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.controller.partitions.compaction import CompactionReport, compact, is_compacted
from kafka_on_spark.controller.result import ControllerResult
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import PartitionKey
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.compact.replica_looks import (
    CompactionLook,
    CompactionLookOrder,
    RunCompactionLooks,
    may_be_due,
    plan_compaction_look,
)
from kafka_on_spark.service.maintain.upkeep_report import UpkeepRow
from kafka_on_spark.service.maintain.upkeep_watch import COMPACTION, UpkeepWatch
from kafka_on_spark.service.metadata.metadata_roles import MetadataDecider
from kafka_on_spark.service.replicate.sweep_progress import Scope, scope_of

log = logging.getLogger(__name__)

LOOKS_AT_ONCE: Final = 32
"""Partitions that are looked at together, and at least in a pass."""

LOOK_MS_MAX: Final = 1000
"""For how long a pass goes on with further looks."""

Decision = Callable[[MetadataImage], ControllerResult[dict[PartitionKey, str]]]
SubmitCompaction = Callable[[Decision], dict[PartitionKey, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPassReport:
    """What one pass did.

    Attributes:
        looked_at: How many partitions were looked at.
        decided: Those that are compacted further from now on; in a dry run, that are due for it.
        rows: A row for each of these, and for each that could not be looked at.
        is_done: Nothing was left for the next pass.
    """

    looked_at: int = 0
    decided: tuple[PartitionKey, ...] = ()
    rows: tuple[UpkeepRow, ...] = ()
    is_done: bool = True


class CompactionPasses:
    """Decisions of compaction as one process makes them; `run_looks` runs the tasks.

    Threads may share it, without waiting for each other: passes at once cost looks, and nothing
    rests on what they remember.
    """

    def __init__(
        self,
        metadata: MetadataDecider,
        clock: Clock,
        commit_clock: Clock,
        *,
        run_looks: RunCompactionLooks,
        timeout_ms: int,
        random_below: Callable[[int], int],
        watch: UpkeepWatch | None = None,
    ) -> None:
        self._random_below = random_below
        self._watch = watch or UpkeepWatch(clock)
        self._metadata = metadata
        self._clock = clock
        self._commit_clock = commit_clock
        self._run_looks = run_looks
        self._timeout_ms = timeout_ms
        self._looked_at_ms: dict[PartitionKey, int] = {}
        self._all_looked_at_ms: int | None = None

    def run(
        self,
        topics: Scope = None,
        *,
        is_all: bool = False,
        is_dry_run: bool = False,
        submit: SubmitCompaction | None = None,
    ) -> CompactionPassReport:
        """Look at compacted partitions, of `topics` or of all, and decide what is due.

        `is_all`: look at each, however long that takes, and also if it was looked at just now.
        `is_dry_run`: commit nothing. `submit`: commits under a controller's epoch.

        Raises: as `MetadataDecider.submit`.
        """
        image = self._metadata.image
        began_ms = self._clock.monotonic_ms()
        backoff_ms = image.settings().integer("log.cleaner.backoff.ms")
        last_ms = self._all_looked_at_ms
        if not is_all and last_ms is not None and began_ms - last_ms < backoff_ms:
            return CompactionPassReport()  # ten thousand topics are not asked in each pass
        orders = self._due(image, topics, is_all)
        looks: list[CompactionLook] = []
        while len(looks) < len(orders):
            is_over = self._clock.monotonic_ms() - began_ms >= LOOK_MS_MAX
            if looks and is_over and not is_all:
                break
            looks += self._look(image, orders[len(looks) : len(looks) + LOOKS_AT_ONCE])
        is_done = len(looks) == len(orders)
        if topics is None and is_done and not is_dry_run:
            self._all_looked_at_ms = began_ms
        causes = self._decide([look.report for look in looks if look.report], submit, is_dry_run)
        rows = (_row(order, look, causes) for order, look in zip(orders, looks, strict=False))
        return CompactionPassReport(
            looked_at=len(looks),
            decided=tuple(causes),
            rows=tuple(row for row in rows if row.count or row.error),
            is_done=is_done,
        )

    def run_share(self, topics: str | Iterable[str] | None = None) -> CompactionPassReport:
        """Make a pass over topics, one topic, or all. It never fails its caller."""
        try:
            return self.run(scope_of(self._metadata.image, topics))
        except KafkaOnSparkError as error:
            log.warning("compaction is left to the next round: %s", error)
            return CompactionPassReport(is_done=False)

    def run_all(
        self, topics: str | Iterable[str] | None = None, *, is_dry_run: bool = False
    ) -> tuple[UpkeepRow, ...]:
        """Look at every partition of topics, one topic, or all, and decide what is due, or say what
        that is. Return a row for each partition in which something is due or went wrong.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
            And as `MetadataDecider.submit`.
        """
        scope = scope_of(self._metadata.catch_up(), topics)
        return self.run(scope, is_all=True, is_dry_run=is_dry_run).rows

    def _due(self, image: MetadataImage, topics: Scope, is_all: bool) -> list[CompactionLookOrder]:
        """Return the looks that are due, those first that were looked at longest ago, and never
        before all others.

        The first pass of a process begins at a random place: processes that make one pass only come
        to all partitions together.
        """
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        commit_ms = self._commit_clock.now_ms()
        backoff_ms = image.settings().integer("log.cleaner.backoff.ms")
        keys = [
            PartitionKey(topic.topic_id, number)
            for topic in image.topics.values()
            if (topics is None or topic.topic_id in topics)
            and is_compacted(image.settings(topic.topic_id))
            for number, partition in topic.partitions.items()
            if may_be_due(partition)
        ]
        if len(self._looked_at_ms) > 2 * len(keys):  # some topics were deleted, or are idle
            kept = set(keys)
            for key in list(self._looked_at_ms):  # a list: another thread may add to it meanwhile
                if key not in kept:
                    self._looked_at_ms.pop(key, None)
        if keys and not self._looked_at_ms:
            start = self._random_below(len(keys))
            keys = [*keys[start:], *keys[:start]]
        last = {key: self._looked_at_ms.get(key, -math.inf) for key in keys}
        due = [key for key in keys if is_all or now_ms - last[key] >= backoff_ms]
        orders = []
        for key in sorted(due, key=last.__getitem__):
            partition = image.partition(key)
            assert partition is not None, "it is of this image"
            orders.append(plan_compaction_look(image, key, partition, wall_ms, commit_ms))
        return orders

    def _look(
        self, image: MetadataImage, orders: Sequence[CompactionLookOrder]
    ) -> list[CompactionLook]:
        looks = self._run_looks(orders)
        for order, look in zip(orders, looks, strict=True):
            self._looked_at_ms[order.key] = self._clock.monotonic_ms()
            if not look.may_pass:
                self._watch.record(order.key, None, {COMPACTION: look.error})
            if look.error is not None:
                log.info("no compaction of %s: %s", image.name_of(order.key), look.error)
        return looks

    def _decide(
        self,
        reports: Sequence[CompactionReport],
        submit: SubmitCompaction | None,
        is_dry_run: bool,
    ) -> dict[PartitionKey, str]:
        """Commit what the reports lead to, on the image of the commit; return the causes."""

        def decide(image: MetadataImage) -> ControllerResult[dict[PartitionKey, str]]:
            records = [each for report in reports if (each := compact(image, report)) is not None]
            return ControllerResult(records, {each.key: each.cause or "" for each in records})

        found = decide(self._metadata.image)
        if is_dry_run or not found.records:
            return found.response
        if submit is None:
            return self._metadata.submit(decide, timeout_ms=self._timeout_ms)
        return submit(decide)


def _row(
    order: CompactionLookOrder, look: CompactionLook, causes: Mapping[PartitionKey, str]
) -> UpkeepRow:
    cause = causes.get(order.key)
    return UpkeepRow(
        topic=order.addresses[0].topic,
        partition=order.key.partition,
        broker_id=order.addresses[0].broker_id,
        kind=COMPACTION,
        count=int(cause is not None),
        what="" if cause is None else f"decision: {cause}",
        size_bytes=0 if cause is None or look.report is None else look.report.dirt.dirty_bytes,
        error=look.error or "",
    )
