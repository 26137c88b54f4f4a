"""Upkeep of brokers' roots: what killed processes left there. Metadata roots are cleaned with it on
request only: who writes a checkpoint of the metadata log cleans it.

Apart from replicas, which have an order each: a root is cleaned as a whole, and seldom, by the
process whose round comes first after its interval. A hint tells the others. It saves work, no more:
if it is lost or wrong, a root is cleaned twice, or by the next process that remembers by itself.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.ids import BrokerId, DirectoryId
from kafka_on_spark.metadata.broker import BrokerRegistration
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.ports.metadata import RootHints
from kafka_on_spark.ports.process import Clock
from kafka_on_spark.service.maintain.upkeep_report import UpkeepRow
from kafka_on_spark.service.maintain.upkeep_watch import ROOT, UpkeepWatch
from kafka_on_spark.service.metadata.metadata_service import MetadataService

log = logging.getLogger(__name__)

INTERVAL_MS: Final = 3_600_000
"""How often the roots of brokers are cleaned."""

METADATA: Final = "__cluster_metadata"

CLEAN: Final = "clean"
"""The kind of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitOrder:
    """Which broker's root to clean of what killed processes left. Picklable.

    Attributes:
        broker_id: The broker.
        root: Its root.
        directory_id: The disk that must be there.
        begins_at: Where an earlier visit has left it; "": nowhere.
        work_ms_max: How long the task may work; it ends the folder that it is at. None: no bound.
        registered_voters: Of the metadata log, all that it ever had: the root must obey one.
    """

    broker_id: BrokerId
    root: str
    directory_id: DirectoryId
    begins_at: str = ""
    work_ms_max: float | None = None
    registered_voters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitResult:
    """What became of a visit.

    Attributes:
        left_at: Where the next visit begins, since the time was over; "": all was cleaned.
        error: Why the root, or a part of it, was not cleaned; None: it was.
    """

    left_at: str = ""
    error: str | None = None


RunVisits = Callable[[Sequence[VisitOrder]], list[VisitResult]]


class RootUpkeep:
    """The upkeep of roots by one process. Its user calls one method at a time."""

    def __init__(
        self,
        metadata: MetadataService,
        clock: Clock,
        *,
        hints: RootHints,
        visit: RunVisits,
        watch: UpkeepWatch | None = None,
    ) -> None:
        self._watch = watch or UpkeepWatch(clock)
        self._metadata = metadata
        self._clock = clock
        self._hints = hints
        self._visit = visit
        self._cleaned_at_ms: dict[str, int] = {}
        self._failed_at_ms: dict[str, int] = {}
        self._left: dict[str, str] = {}
        # What a cleaning has met that is not at its end.
        self._errors: dict[str, str] = {}

    def run_share(self, work_ms_max: float) -> list[UpkeepRow]:
        """Clean the roots whose turn it is, for so long, but for the piece that it is at; what is
        left goes on with the next call. Return a row for each that failed."""
        image = self._metadata.image
        began_ms = self._clock.monotonic_ms()
        rows: list[UpkeepRow] = []
        for name in self._due(image):
            left_ms = work_ms_max - (self._clock.monotonic_ms() - began_ms)
            if left_ms <= 0:
                break
            if name in self._left or self._takes_turn(image, name):
                begins_at = self._left.pop(name, "")
                broker = image.brokers[BrokerId(int(name))]
                rows += self._clean(image, [broker], begins_at=begins_at, work_ms_max=left_ms)
        return rows

    def run(self) -> list[UpkeepRow]:
        """Clean all roots, and the metadata's. Return a row for each that failed, and for what went
        from the metadata's."""
        image = self._metadata.image
        self._left.clear()
        self._errors.clear()
        self._cleaned_at_ms |= dict.fromkeys(_names(image), self._clock.now_ms())
        rows = self._clean(image, _brokers(image))
        try:
            count = self._metadata.clean()
            rows += [_row(METADATA, count=count)] if count else []
        except KafkaOnSparkError as error:
            rows.append(_row(METADATA, error=error.message))
            log.warning("%s", rows[-1])
        self._write(image)
        return rows

    def _due(self, image: MetadataImage) -> list[str]:
        """Return the roots that are due by what this process knows, those left over first."""
        due = [
            name
            for name in _names(image)
            if name in self._left
            or (
                self._is_turn(self._cleaned_at_ms.get(name))
                and self._is_turn(self._failed_at_ms.get(name))
            )
        ]
        last = self._cleaned_at_ms
        return sorted(due, key=lambda name: (name not in self._left, last.get(name, 0)))

    def _is_turn(self, last_ms: int | None) -> bool:
        """Return whether it is time again. `last_ms`: the last turn; None: none is known.

        A wrong clock must neither keep the others from their turns for long nor have each of them
        take all: so a last turn counts within an interval of now, before or after.
        """
        return last_ms is None or abs(self._clock.now_ms() - last_ms) >= INTERVAL_MS

    def _takes_turn(self, image: MetadataImage, name: str) -> bool:
        """Return whether no other process has cleaned a root meanwhile, and tell them that this one
        does. A root that nobody knows to have been cleaned is due an interval from now."""
        now_ms = self._clock.now_ms()
        for each, at_ms in self._read(image).items():
            mine_ms = self._cleaned_at_ms.get(each, at_ms)
            # What is nearer to now has more to say: a turn far in the future is a wrong clock's.
            self._cleaned_at_ms[each] = min(mine_ms, at_ms, key=lambda last: abs(now_ms - last))
        last_ms = self._cleaned_at_ms.get(name)
        if not self._is_turn(last_ms):
            return False
        self._cleaned_at_ms[name] = now_ms
        self._write(image)
        return last_ms is not None

    def _read(self, image: MetadataImage) -> dict[str, int]:
        try:
            return dict(self._hints.read(image.cluster_id or ""))
        except KafkaOnSparkError as error:
            log.info("when roots were cleaned can't be read: %s", error)
            return {}

    def _write(self, image: MetadataImage) -> None:
        try:
            self._hints.write(image.cluster_id or "", self._cleaned_at_ms)
        except KafkaOnSparkError as error:
            log.debug(
                "when roots were cleaned can't be written: %s", error
            )  # who writes it says so

    def _clean(
        self,
        image: MetadataImage,
        brokers: Sequence[BrokerRegistration],
        *,
        begins_at: str = "",
        work_ms_max: float | None = None,
    ) -> list[UpkeepRow]:
        orders = [
            VisitOrder(
                broker_id=broker.broker_id,
                root=broker.root,
                directory_id=broker.directory_id,
                begins_at=begins_at,
                work_ms_max=work_ms_max,
                registered_voters=image.registered_voters,
            )
            for broker in brokers
        ]
        try:
            results = self._visit(orders)
        except KafkaOnSparkError as error:
            results = [VisitResult(error=error.message)] * len(orders)
        rows = []
        for order, result in zip(orders, results, strict=True):
            failure = self._taken(image, order.broker_id, result)
            if failure is not None and not result.left_at:
                rows.append(_row("", order.broker_id, error=failure))
                log.warning("%s", rows[-1])
        return rows

    def _taken(self, image: MetadataImage, broker_id: BrokerId, result: VisitResult) -> str | None:
        """Take what a visit has found, and return what has failed. A part that fails keeps none of
        the others from its turn, and a cleaning has failed until a whole one has not."""
        name = str(broker_id)
        if result.error is not None:
            self._errors[name] = result.error
        error = self._errors.get(name)
        if result.left_at:
            self._left[name] = result.left_at
        else:
            self._errors.pop(name, None)
            if error is not None:
                self._give_back(image, name)
        if error is not None or not result.left_at:
            self._watch.record(None, broker_id, {ROOT: error})
        return error

    def _give_back(self, image: MetadataImage, name: str) -> None:
        """Have another process clean a root before this one tries again: it may be at fault."""
        now_ms = self._clock.now_ms()
        self._failed_at_ms[name] = now_ms
        self._cleaned_at_ms[name] = max(0, now_ms - INTERVAL_MS)
        self._write(image)


def _row(
    topic: str, broker_id: BrokerId | None = None, *, count: int = 0, error: str = ""
) -> UpkeepRow:
    return UpkeepRow(
        topic=topic,
        partition=0 if topic else -1,
        broker_id=broker_id,
        kind=CLEAN,
        count=count,
        what="files deleted",
        error=error,
    )


def _brokers(image: MetadataImage) -> list[BrokerRegistration]:
    return [broker for broker in image.brokers.values() if broker.has_upkeep]


def _names(image: MetadataImage) -> list[str]:
    return [str(broker.broker_id) for broker in _brokers(image)]
