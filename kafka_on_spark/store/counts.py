"""What one process has counted and timed since it began, in bounded memory.

Requests to roots are counted by operation and kind. On S3 the client's own events are counted, so
each retry is there. A call to a disk or to another store counts as one request. These counts are a
module global, as the process's page of figures is.
"""

import collections
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_on_spark.base.metric import (
    COMMITS,
    COMMITTED,
    CONFLICT,
    ELECTIONS,
    FAILED,
    HELP,
    ISR_EXPANDS,
    ISR_SHRINKS,
    REPLICATION_BYTES_IN,
    REPLICATION_MESSAGES_IN,
    TIMES,
    UNCLEAN_ELECTIONS,
    UNKNOWN,
    FigureName,
    Metric,
    exported_name,
)

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram

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

_Labels = tuple[tuple[str, str | int], ...]

RequestKind = Literal["PUT", "COPY", "POST", "LIST", "GET", "HEAD", "DELETE"]
"""A request, by S3's words. `POST` begins and ends an upload in parts; a request that deletes many
objects is one `DELETE`."""

Requests = collections.Counter[tuple[str, RequestKind]]
"""How many requests an operation has sent, by the operation's name and the kind."""

_operation: Final[ContextVar[str]] = ContextVar("operation", default="(other)")
_sent: Final[Requests] = collections.Counter()
_lock: Final = threading.Lock()


@contextmanager
def operating(operation: str) -> Iterator[None]:
    """Have the block, or a function, be one operation; of one within it, the inner one counts
    alone. Jobs of `DaemonThreads` count for the operation that submits them."""
    before = _operation.get()
    _operation.set(operation)
    try:
        yield
    finally:
        _operation.set(before)


def current_operation() -> str:
    return _operation.get()


def count_request(kind: RequestKind, path: str, count: int = 1) -> None:
    """Count a call to the root of `path`. S3's own client counts what it sends."""
    if not path.startswith(("s3://", "s3a://")):
        with _lock:
            _sent[_operation.get(), kind] += count


def count_sent(kind: RequestKind) -> None:
    with _lock:
        _sent[_operation.get(), kind] += 1


def count_requests(requests: Requests) -> None:
    """Count what a task of an executor has sent."""
    with _lock:
        _sent.update(requests)


def requests_sent() -> Requests:
    """Return what this process has sent since it began."""
    with _lock:
        return _sent.copy()


APPEND: Final = "append"
READ: Final = "read"
CONSUME: Final = "consume"
REPLICATE: Final = "replicate"
CONTROL: Final = "control"
PROBE: Final = "probe"
RETAIN: Final = "retain"
COMPACT: Final = "compact"
UPKEEP: Final = "upkeep"
CLEAN: Final = "clean"
CHECKPOINT: Final = "checkpoint"
COMMAND: Final = "command"
DESCRIBE: Final = "describe"
QUORUM: Final = "quorum"
FSCK: Final = "fsck"
OPEN: Final = "open"
"""Operations. Each kind of upkeep of a replica is one under its own name besides."""


class Counts:
    """Keeps what it is told in counters and histograms of prometheus_client, until somebody asks.
    Threads may share it; telling never raises. `now_ms` never goes back.

    `begun` are there from the start, at 0.
    """

    def __init__(
        self,
        now_ms: Callable[[], float],
        begun: Iterable[tuple[FigureName, Mapping[str, str]]] = (),
    ) -> None:
        self.now_ms = now_ms
        self._begun = tuple(begun)
        self._lock = threading.Lock()
        self._families: dict[FigureName, Counter | Histogram] = {}
        self._series: dict[FigureName, dict[_Labels, Any]] = defaultdict(dict)

    @contextmanager
    def timed(self, figure: FigureName, **labels: str | int) -> Iterator[None]:
        """Add how long the block takes, however it ends."""
        began_ms = self.now_ms()
        try:
            yield
        finally:
            self.observe(figure, self.now_ms() - began_ms, **labels)

    def count(self, figure: FigureName, amount: float = 1, /, **labels: str | int) -> None:
        with self._lock:
            self._of(figure, labels).inc(amount)

    def observe(self, figure: FigureName, took_ms: float, /, **labels: str | int) -> None:
        """Add a time to a distribution."""
        with self._lock:
            self._of(figure, labels).observe(took_ms)

    def _of(self, figure: FigureName, labels: Mapping[str, str | int]) -> Any:
        """Return what to count in: that of the given labels, while there is room for more."""
        known = self._series[figure]
        place = tuple(labels.items())
        if place not in known and len(known) >= SERIES_MAX:
            place = tuple((name, OTHERS) for name in labels)
        if place not in known:
            family = self._families.get(figure) or _family(figure, labels)
            self._families[figure] = family
            known[place] = family.labels(**dict(place)) if place else family
        return known[place]

    def keep_only(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Forget what was counted of all other topics and brokers, which makes room."""
        with self._lock:
            for figure, known in self._series.items():
                for place in [each for each in known if _is_gone(dict(each), topics, brokers)]:
                    del known[place]
                    self._families[figure].remove(*(value for _, value in place))

    def metrics(self) -> list[Metric]:
        """Return all of it, by figure and labels."""
        with self._lock:
            for figure, labels in self._begun:
                self._of(figure, labels)
            families = list(self._families.items())
        return [each for figure, family in families for each in _metrics_in(figure, family)]


def _is_gone(
    labels: Mapping[str, str | int], topics: Collection[object], brokers: Collection[object]
) -> bool:
    topic, broker = labels.get("topic", OTHERS), labels.get("broker", OTHERS)
    is_known = topic == OTHERS or topic in topics
    return not (is_known and (broker == OTHERS or broker in brokers))


def _family(figure: FigureName, labels: Iterable[str]) -> "Counter | Histogram":
    # In the function: the import takes 15 ms, and most calls on the shell count nothing.
    from prometheus_client import Counter, Histogram

    name, words = exported_name(*figure), HELP[figure]
    if figure in TIMES:
        return Histogram(name, words, tuple(labels), registry=None, buckets=BOUNDS_MS)
    return Counter(name, words, tuple(labels), registry=None)


def _metrics_in(figure: FigureName, family: "Counter | Histogram") -> Iterator[Metric]:
    buckets: list[tuple[str, float]] = []
    for sample in (each for found in family.collect() for each in found.samples):
        if sample.name.endswith("_bucket"):
            buckets.append((sample.labels["le"], sample.value))
        elif sample.name.endswith("_total"):
            yield Metric(*figure, labels=sample.labels, value=sample.value)
        elif sample.name.endswith("_sum"):
            yield Metric(
                *figure,
                labels=sample.labels,
                value=buckets[-1][1],
                sum_ms=sample.value,
                buckets=tuple(buckets),
            )
            buckets = []
