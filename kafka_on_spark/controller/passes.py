"""Passes of retention and compaction over partitions: a bounded number of inspections, one commit.

The passes of the controller are in `controller_loop`. What a process remembers of its inspections
is its own and costs inspections if it is lost; nothing rests on it. Threads may share a kind,
without waiting for each other.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kafka_on_spark.base.config import Settings
from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.sweep import Scope, scope_of
from kafka_on_spark.controller.upkeep_report import UpkeepRow, upkeep_totals
from kafka_on_spark.log.addresses import ReplicaAddress
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.result import ControllerResult
from kafka_on_spark.node.node import Node

ReportT = TypeVar("ReportT")

log = logging.getLogger(__name__)


RootNow = Callable[[ReplicaAddress], int]
"""Returns the time of a replica's root, ms: the modification time of a file that it writes there.
Raises KafkaStorageError if the root does not answer."""


class PassTimes(NamedTuple):
    """When inspections are planned, by the clock of the process and by that of what it commits, and
    whether they change nothing."""

    now_ms: int
    commit_ms: int
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected(Generic[ReportT]):
    """What was seen; None: it could not be, for `error`."""

    report: ReportT | None = None
    error: str | None = None

    @classmethod
    def failed(cls, error: KafkaOnSparkError) -> "Inspected[ReportT]":
        return cls(error=error.message)


INSPECTIONS_AT_ONCE: Final = 32
"""Partitions that are inspected together, and at least in a pass."""

LOCAL_INSPECTIONS_MAX: Final = 8
"""So few logs are read in this process faster than a Spark job begins."""

PASS_MS_MAX: Final = 1000
"""For how long a pass goes on with further inspections."""

REST_PART: Final = 2
"""Of the interval between two inspections: once all that was due was inspected, passes ask
about none for so long. Without this, an idle controller of ten thousand partitions took several
percent of a core for it."""

Decide = Callable[[MetadataImage], ControllerResult[dict[PartitionKey, Any]]]

Submit = Callable[[Decide], dict[PartitionKey, Any]]
"""Commits a decision; returns what was decided, by partition."""


class PassOrder(Protocol):
    @property
    def key(self) -> PartitionKey: ...


OrderT = TypeVar("OrderT", bound=PassOrder)


class Passes(ABC, Generic[OrderT, ReportT]):
    """Decisions of one kind as one process makes them.

    Attributes:
        kind: The kind's name in rows.
        interval: The setting of the time between two inspections of a partition.
    """

    kind: str
    interval: str

    def __init__(self, node: Node) -> None:
        self._node = node
        self._totals = node.part(upkeep_totals)
        self._metadata = node.metadata
        self._clock = node.tasks.worker.clock
        self._last: dict[PartitionKey, tuple[int, Any]] = {}
        self._all_inspected_at_ms: float = -math.inf
        self._seen_configs: object = None

    @abstractmethod
    def _is_wanted(self, settings: Settings) -> bool:
        """Return whether anything is decided on a topic's partitions."""

    @abstractmethod
    def _may_be_due(self, partition: PartitionRegistration) -> bool:
        """Return whether an inspection of a partition can lead to a decision."""

    @abstractmethod
    def _plan(
        self,
        image: MetadataImage,
        key: PartitionKey,
        partition: PartitionRegistration,
        times: PassTimes,
    ) -> OrderT: ...

    @abstractmethod
    def _run_inspections(self, orders: Sequence[OrderT]) -> list[Inspected[ReportT]]:
        """Inspect partitions."""

    @abstractmethod
    def _decide(
        self,
        image: MetadataImage,
        inspected: Sequence[tuple[OrderT, Inspected[ReportT]]],
        submit: Submit,
        is_dry_run: bool,
    ) -> Iterable[UpkeepRow]:
        """Decide by inspections, and commit it but in a dry run; return a row for each."""

    def _seen_of(self, order: OrderT, answer: Inspected[ReportT]) -> Any:
        """Return what `_is_due` is to know of an inspection."""

    def _is_due(
        self, settings: Settings, partition: PartitionRegistration, waited_ms: int, seen: Any
    ) -> bool:
        """Return whether a partition that was inspected an interval ago or more is due again."""
        return True

    def run(
        self,
        topics: Scope = None,
        *,
        is_all: bool = False,
        is_dry_run: bool = False,
        submit: Submit | None = None,
    ) -> tuple[UpkeepRow, ...]:
        """Inspect partitions that are due, of `topics` or of all, and decide what follows. Return
        a row for each on which something was decided (in a dry run: is due), or that could not be
        inspected.

        `is_all`: inspect each, however long that takes, and also if it was inspected just now.
        `is_dry_run`: commit nothing. `submit`: commits under a controller's epoch.

        Raises: as `MetadataDecider.submit`.
        """
        image = self._metadata.image
        began_ms = self._clock.monotonic_ms()
        rest_ms = image.settings().integer(self.interval) // REST_PART
        is_resting = began_ms - self._all_inspected_at_ms < rest_ms
        if is_resting and image.configs is self._seen_configs and not is_all:
            return ()
        times = PassTimes(self._clock.now_ms(), self._node.clock.now_ms(), is_dry_run)
        orders = [
            self._plan(image, key, partition, times)
            for key, partition in self._due(image, topics, is_all)
        ]
        answers: list[Inspected[ReportT]] = []
        while len(answers) < len(orders):
            is_over = self._clock.monotonic_ms() - began_ms >= PASS_MS_MAX
            if answers and is_over and not is_all:
                break
            answers += self._inspect(
                image, orders[len(answers) : len(answers) + INSPECTIONS_AT_ONCE], is_dry_run
            )
        if topics is None and len(answers) == len(orders) and not is_dry_run:
            self._all_inspected_at_ms, self._seen_configs = began_ms, image.configs
        inspected = list(zip(orders, answers, strict=False))
        rows = self._decide(image, inspected, submit or self._submit, is_dry_run)
        return tuple(row for row in rows if row.count or row.error)

    def run_share(self, topics: str | Iterable[str] | None = None) -> None:
        """Make a pass over topics, one topic, or all. It never fails its caller."""
        try:
            self.run(scope_of(self._metadata.image, topics))
        except KafkaOnSparkError as error:
            self._totals.count(self.kind, 0, 0, failed=True)
            log.warning("%s is left to the next round: %s", self.kind, error)

    def run_all(
        self, topics: str | Iterable[str] | None = None, *, is_dry_run: bool = False
    ) -> tuple[UpkeepRow, ...]:
        """Do as `run` at every partition of topics, one topic, or all.

        Raises:
            InvalidRequestError: `topics` is no name and no list of them.
            UnknownTopicOrPartitionError: A topic does not exist.
            And as `MetadataDecider.submit`.
        """
        scope = scope_of(self._metadata.catch_up(), topics)
        return self.run(scope, is_all=True, is_dry_run=is_dry_run)

    def _due(
        self, image: MetadataImage, topics: Scope, is_all: bool
    ) -> list[tuple[PartitionKey, PartitionRegistration]]:
        """Return the partitions that are due, those first that were inspected longest ago, and
        never before all others.

        The first pass of a process begins at a random place: processes that make one pass only come
        to all partitions together.
        """
        now_ms = self._clock.monotonic_ms()
        interval_ms = image.settings().integer(self.interval)
        found = [
            (PartitionKey(topic.topic_id, number), partition)
            for topic in image.topics.values()
            if (topics is None or topic.topic_id in topics)
            and self._is_wanted(image.settings(topic.topic_id))
            for number, partition in topic.partitions.items()
            if self._may_be_due(partition)
        ]
        last = self._last
        # Some topics were deleted; an inspection of another thread's may be forgotten.
        if topics is None:
            last = self._last = {key: last[key] for key, _ in found if key in last}
        if found and not last:
            start = self._node.ids.random_below(len(found))
            found = [*found[start:], *found[:start]]

        def is_due(key: PartitionKey, partition: PartitionRegistration) -> bool:
            if is_all or key not in last:
                return True
            inspected_at_ms, seen = last[key]
            waited_ms = now_ms - inspected_at_ms
            settings = image.settings(key.topic_id)
            return waited_ms >= interval_ms and self._is_due(settings, partition, waited_ms, seen)

        never = (-math.inf, None)
        due = [each for each in found if is_due(*each)]
        return sorted(due, key=lambda each: last.get(each[0], never)[0])

    def _inspect(
        self, image: MetadataImage, orders: Sequence[OrderT], is_dry_run: bool
    ) -> list[Inspected[ReportT]]:
        answers = self._run_inspections(orders)
        for order, answer in zip(orders, answers, strict=True):
            if answer.error is not None:
                log.info("no %s of %s: %s", self.kind, image.name_of(order.key), answer.error)
            if not is_dry_run:
                self._last[order.key] = self._clock.monotonic_ms(), self._seen_of(order, answer)
                self._totals.count(self.kind, 0, 0, failed=answer.error is not None)
        return answers

    def _submit(self, decide: Decide) -> dict[PartitionKey, Any]:
        return self._metadata.submit(decide, timeout_ms=self._node.timeout_ms)
