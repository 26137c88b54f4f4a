"""What one process has counted and timed since it began, in bounded memory.

Apart from those who tell it: they know no labels but their own, and nothing of what is kept.
"""

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from kafka_on_spark.errors import CommitConflictError, CommitOutcomeUnknownError
from kafka_on_spark.ids import KEEP, BrokerId, PartitionKey, TopicId
from kafka_on_spark.metadata.image import MetadataImage
from kafka_on_spark.metadata.partition import PartitionRegistration
from kafka_on_spark.metadata.records import (
    HighWatermarkRecord,
    MetadataBatch,
    PartitionChangeRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kafka_on_spark.ports.counting import (
    COMMIT_MS,
    COMMITS,
    COMMITTED,
    CONFLICT,
    ELECTIONS,
    FAILED,
    ISR_EXPANDS,
    ISR_SHRINKS,
    MESSAGES_IN,
    REPLICATION_BYTES_IN,
    REPLICATION_MESSAGES_IN,
    UNCLEAN_ELECTIONS,
    UNKNOWN,
    FigureName,
    Recorder,
    timed,
)
from kafka_on_spark.service.describe.metric import Distribution, Metric
from kafka_on_spark.service.metadata.metadata_watch import MetadataWatch

BOUNDS_MS: Final = (
    *(1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0),
    *(1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0, 120_000.0),
)
"""Classes of times: a commit to a local disk takes some ms, a round that copies much minutes."""

SERIES_MAX: Final = 1000
"""So many sets of labels a figure; what comes later is counted together."""

OTHERS: Final = "(others)"
"""The value of each label of what is counted together. No topic has a name like that."""

BEGUN: Final[Sequence[tuple[FigureName, Mapping[str, str]]]] = (
    *((COMMITS, {"outcome": each}) for each in (COMMITTED, CONFLICT, UNKNOWN, FAILED)),
    *((each, {}) for each in (ISR_SHRINKS, ISR_EXPANDS, ELECTIONS, UNCLEAN_ELECTIONS)),
    *((each, {}) for each in (REPLICATION_BYTES_IN, REPLICATION_MESSAGES_IN)),
)
"""Counts of a cluster whose labels are known before anything happens. They begin at 0: Prometheus
sees no increase in a series that is not there until it is 1, and no alert would tell the first."""

T = TypeVar("T")
_Labels = tuple[tuple[str, str | int], ...]


class Counts:
    """A Recorder that keeps what it is told, until somebody asks. `now_ms` never goes back.

    `begun` are there from the start, at 0.
    """

    def __init__(
        self,
        now_ms: Callable[[], float],
        begun: Iterable[tuple[FigureName, Mapping[str, str]]] = (),
    ) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._counts: dict[FigureName, dict[_Labels, float]] = {}
        self._times: dict[FigureName, dict[_Labels, tuple[list[int], list[float]]]] = {}
        for figure, labels in begun:
            self.count(figure, 0, **labels)

    def now_ms(self) -> float:
        """Return the process's clock that never goes back, ms."""
        return self._now_ms()

    def count(self, figure: FigureName, amount: float = 1, /, **labels: str | int) -> None:
        """Add to a count."""
        with self._lock:
            of_figure = self._counts.setdefault(figure, {})
            place = _place(of_figure, labels)
            of_figure[place] = of_figure.get(place, 0) + amount

    def observe(self, figure: FigureName, took_ms: float, /, **labels: str | int) -> None:
        """Add a time to a distribution."""
        with self._lock:
            of_figure = self._times.setdefault(figure, {})
            place = _place(of_figure, labels)
            counts, sums = of_figure.setdefault(place, ([0] * (len(BOUNDS_MS) + 1), [0.0]))
            counts[bisect_left(BOUNDS_MS, took_ms)] += 1
            sums[0] += took_ms

    def forget(self, **labels: str | int) -> None:
        """Forget all that has these labels, which makes room for others."""
        gone = set(labels.items())
        with self._lock:
            for counts in self._counts.values():
                _drop(counts, gone)
            for times in self._times.values():
                _drop(times, gone)

    def metrics(self) -> list[Metric]:
        """Return all of it, by figure and labels."""
        with self._lock:
            counted = [
                Metric(
                    type=figure.type,
                    name=figure.name,
                    labels=dict(labels),
                    value=value,
                    is_counter=True,
                )
                for figure, of_figure in self._counts.items()
                for labels, value in of_figure.items()
            ]
            measured = [
                (figure, labels, Distribution(BOUNDS_MS, tuple(counts), sums[0]))
                for figure, of_figure in self._times.items()
                for labels, (counts, sums) in of_figure.items()
            ]
        return counted + [
            Metric(
                type=figure.type,
                name=figure.name,
                labels=dict(labels),
                value=each.count,
                is_counter=True,
                distribution=each,
            )
            for figure, labels, each in measured
        ]


def _place(known: Mapping[_Labels, object], labels: Mapping[str, str | int]) -> _Labels:
    """Return the labels to count under: the given ones, while there is room for more."""
    place = tuple(labels.items())
    if place in known or len(known) < SERIES_MAX:
        return place
    return tuple((name, OTHERS) for name in labels)


def _drop(of_figure: dict[_Labels, T], labels: set[tuple[str, str | int]]) -> None:
    for place in [each for each in of_figure if labels <= set(each)]:
        del of_figure[place]


class CountedMetadata(MetadataWatch):
    """Counts commits and decisions."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Count and time a commit, by its outcome."""
        outcome = UNKNOWN
        try:
            with timed(self._recorder, COMMIT_MS):
                yield
            outcome = COMMITTED
        except Exception as error:
            outcome = _outcome_of(error)
            raise
        finally:
            self._recorder.count(COMMITS, outcome=outcome)

    def replayed(
        self, before: MetadataImage, batches: Sequence[MetadataBatch], after: MetadataImage
    ) -> None:
        """Count what was decided."""
        count_decisions(self._recorder, before, batches, after)


def _outcome_of(error: Exception) -> str:
    if isinstance(error, CommitConflictError):
        return CONFLICT
    return UNKNOWN if isinstance(error, CommitOutcomeUnknownError) else FAILED


_Standing = tuple[frozenset[BrokerId], BrokerId | None]
"""A partition's ISR and its leader."""


def count_decisions(
    recorder: Recorder,
    before: MetadataImage,
    batches: Iterable[MetadataBatch],
    after: MetadataImage,
) -> None:
    """Count what batches decided of partitions, which lead from one image to another. What was
    counted of a topic, or of a broker, goes with it."""
    raised: set[PartitionKey] = set()
    standings: dict[PartitionKey, _Standing] = {}
    gone = _Gone(before)
    for batch in batches:
        for record in batch.records:
            if isinstance(record, HighWatermarkRecord):
                raised.add(record.key)
            elif isinstance(record, PartitionRecord):
                standings[record.key] = (record.registration.isr, record.registration.leader)
            elif isinstance(record, PartitionChangeRecord):
                _count_change(recorder, before, standings, record)
            else:
                gone.note(record)
    gone.forget(recorder, after)
    for key in raised:
        _count_committed(recorder, key, before.partition(key), after)


class _Gone:
    """The topics and brokers that decisions end, which begin at `before`."""

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._made: dict[TopicId, str] = {}
        self._topics: set[str] = set()
        self._brokers: set[BrokerId] = set()

    def note(self, record: Record) -> None:
        """Note what a record ends."""
        if isinstance(record, TopicRecord):
            self._made[record.topic_id] = record.topic
        elif isinstance(record, RemoveTopicRecord):
            known = self._before.topics.get(record.topic_id)
            name = self._made.get(record.topic_id) if known is None else known.name
            self._topics.update(() if name is None else (name,))
        elif isinstance(record, UnregisterBrokerRecord):
            self._brokers.add(record.broker_id)

    def forget(self, recorder: Recorder, after: MetadataImage) -> None:
        """Forget what was counted of these, but for names and ids that others have by now."""
        for name in self._topics - after.topic_ids.keys():
            recorder.forget(topic=name)
        for broker_id in self._brokers - after.brokers.keys():
            recorder.forget(broker=broker_id)


def begun_topics(counted: Iterable[Metric], image: MetadataImage) -> list[Metric]:
    """Return what was committed to topics of which nothing was counted yet: 0, so that the first
    records are a rise. None is returned where a topic may be counted under `OTHERS`, or may come to
    be, since there are too many."""
    known = {each.labels["topic"] for each in counted if (each.type, each.name) == MESSAGES_IN}
    if OTHERS in known or len(image.topic_ids) > SERIES_MAX:
        return []
    return [
        Metric(
            type=MESSAGES_IN.type,
            name=MESSAGES_IN.name,
            labels={"topic": each},
            value=0,
            is_counter=True,
        )
        for each in sorted(image.topic_ids.keys() - known)
    ]


def _count_committed(
    recorder: Recorder, key: PartitionKey, then: PartitionRegistration | None, after: MetadataImage
) -> None:
    now = after.partition(key)
    if now is None:
        return
    more = now.high_watermark - (0 if then is None else then.high_watermark)
    if more > 0:
        recorder.count(MESSAGES_IN, more, topic=after.topics[key.topic_id].name)


def _count_change(
    recorder: Recorder,
    before: MetadataImage,
    standings: dict[PartitionKey, _Standing],
    record: PartitionChangeRecord,
) -> None:
    change = record.change
    if change.isr is KEEP and change.leader is KEEP:
        return
    standing = standings.get(record.key)
    if standing is None:
        known = before.partition(record.key)
        if known is None:
            return
        standing = (known.isr, known.leader)
    isr = standing[0] if change.isr is KEEP else change.isr
    leader = standing[1] if change.leader is KEEP else change.leader
    standings[record.key] = (isr, leader)
    if standing[0] - isr:
        recorder.count(ISR_SHRINKS)
    if isr - standing[0]:
        recorder.count(ISR_EXPANDS)
    if leader is not None and leader != standing[1]:
        recorder.count(ELECTIONS)
        if change.unclean_generation is not KEEP:
            recorder.count(UNCLEAN_ELECTIONS)
