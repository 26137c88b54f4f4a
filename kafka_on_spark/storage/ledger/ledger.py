"""Counts what a process asks of roots: requests, bytes and CPU, by operation and topic.

Whoever calls a root says what it asks of it (`asked`); for whom, is known by the thread: an
operation begins with `operating`, and threads that work for it carry its account along. On S3 the
client's own events are counted, so that every retry is there. On a local disk, and on other stores,
each call counts as what it would ask of S3.

The account of what no operation has begun is a module global: such a call belongs to the process.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from kafka_on_spark.ports.ledger import (
    METADATA,
    NO_TOPIC,
    OTHER,
    LedgerReport,
    LedgerRow,
    RequestKind,
    summed,
)

T = TypeVar("T")

ROWS_MAX: Final = 10_000
"""So many pairs of an operation and a topic; what comes later is counted under no topic's name."""

LISTED_AT_ONCE: Final = 1000
"""Names in one answer to a listing. Source: max-keys of S3's ListObjectsV2."""

NOT_COUNTED: Final = (
    "What Spark's executors write for an append of a DataFrame, and what Spark's queries read.",
    "Tasks of executors that failed, or ran a second time.",
    "Bytes of listings and of headers, and of the checkpoints that delta-rs writes and reads.",
    "CPU of threads that Arrow, delta-rs and stores' clients begin, and of what no operation began:"
    " it is in the process's CPU alone.",
    "On disks: failures and second tries, which a store bills as requests.",
)
"""What no ledger has."""

_ID_LENGTH: Final = 32
_METADATA_FOLDERS: Final = ("snapshots", "groups")
_OF_A_ROOT: Final = ("_probe", "_race")


class _Sums:
    __slots__ = ("bytes_in", "bytes_out", "cpu_ns", "requests")

    def __init__(self) -> None:
        self.requests: dict[RequestKind, int] = {}
        self.bytes_in = self.bytes_out = self.cpu_ns = 0


class Ledger:
    """What was asked since it was made, in bounded memory. Threads share it."""

    def __init__(self) -> None:
        self._began_at_ms = time.time_ns() // 1_000_000
        self._cpu_before_ns = time.process_time_ns()
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str], _Sums] = {}

    def ask(
        self,
        operation: str,
        topic: str,
        kind: RequestKind,
        count: int = 1,
        bytes_in: int = 0,
        bytes_out: int = 0,
    ) -> None:
        """Count requests of one kind, and the bytes of their objects."""
        with self._lock:
            sums = self._of(operation, topic)
            sums.requests[kind] = sums.requests.get(kind, 0) + count
            sums.bytes_in += bytes_in
            sums.bytes_out += bytes_out

    def compute(self, operation: str, topic: str, cpu_ns: int) -> None:
        """Count time that a thread has computed."""
        with self._lock:
            self._of(operation, topic).cpu_ns += cpu_ns

    def add(self, rows: Iterable[LedgerRow]) -> None:
        """Count what another process says that it has asked."""
        with self._lock:
            for row in rows:
                sums = self._of(row.operation, row.topic)
                for kind, count in row.requests.items():
                    sums.requests[kind] = sums.requests.get(kind, 0) + count
                sums.bytes_in += row.bytes_in
                sums.bytes_out += row.bytes_out
                sums.cpu_ns += int(row.cpu_ms * 1_000_000)

    def _of(self, operation: str, topic: str) -> _Sums:
        place = (operation, topic)
        found = self._sums.get(place)
        if found is None:
            if len(self._sums) >= ROWS_MAX:
                place = (operation, OTHER)
            found = self._sums.setdefault(place, _Sums())
        return found

    def rows(self) -> tuple[LedgerRow, ...]:
        """Return all of it."""
        with self._lock:
            return summed(
                LedgerRow(
                    operation=operation,
                    topic=topic,
                    requests=dict(sums.requests),
                    bytes_in=sums.bytes_in,
                    bytes_out=sums.bytes_out,
                    cpu_ms=sums.cpu_ns / 1_000_000,
                )
                for (operation, topic), sums in self._sums.items()
            )

    def report(self) -> LedgerReport:
        """Return all of it, with what no operation of this process has begun."""
        return LedgerReport(
            rows=summed((*self.rows(), *PROCESS.rows())),
            began_at_ms=self._began_at_ms,
            ended_at_ms=time.time_ns() // 1_000_000,
            process_cpu_ms=(time.process_time_ns() - self._cpu_before_ns) / 1_000_000,
            not_counted=NOT_COUNTED,
        )

    def operating(self, operation: str, topic: str = NO_TOPIC) -> AbstractContextManager[None]:
        """Have the block be one operation; of one within it, the inner one counts alone. `topic`:
        for which the threads compute, if that is known; whose files are asked for, their paths
        tell."""
        return _ChargedTo(_Account(self, operation, topic))


class _Account(NamedTuple):
    """The account that is charged. `is_free`: what is asked of a disk has no like on a store."""

    ledger: Ledger
    operation: str
    topic: str
    is_free: bool = False


PROCESS: Final = Ledger()
"""Has what no operation has begun."""


class _Measured:
    """The one ledger of all clusters, while a whole call is measured."""

    def __init__(self) -> None:
        self.ledger: Ledger | None = None


_measured: Final = _Measured()


def ledger_of_a_cluster() -> Ledger:
    """Return the ledger of a cluster that is opened: one of its own, or the one of the call."""
    return _measured.ledger or Ledger()


@contextmanager
def measuring() -> Iterator[Ledger]:
    """Have all clusters that are opened in the block count on one ledger."""
    _measured.ledger = Ledger()
    try:
        yield _measured.ledger
    finally:
        _measured.ledger = None


_account: Final[ContextVar[_Account | None]] = ContextVar("account", default=None)


class _Charged(threading.local):
    """Up to where this thread's CPU is charged, ns."""

    def __init__(self) -> None:
        self.until_ns = 0


_charged: Final = _Charged()


def _charge(account: _Account | None) -> None:
    now_ns = time.thread_time_ns()
    if account is not None:
        account.ledger.compute(account.operation, account.topic, now_ns - _charged.until_ns)
    _charged.until_ns = now_ns


class _ChargedTo:
    """A block that is charged to an account. A class, since each call to a root has one: what
    `contextmanager` makes of a generator takes twice as long."""

    __slots__ = ("_account", "_before")

    def __init__(self, account: _Account) -> None:
        self._account = account

    def __enter__(self) -> None:
        self._before = _account.get()
        _charge(self._before)
        _account.set(self._account)

    def __exit__(self, *error: object) -> None:
        _charge(self._account)
        _account.set(self._before)


class _Uncounted:
    """A block in which no requests are counted."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _account.get()
        _account.set((self._before or _Account(PROCESS, OTHER, ""))._replace(is_free=True))

    def __exit__(self, *error: object) -> None:
        _account.set(self._before)


def within_operation(operation: str) -> AbstractContextManager[None]:
    """Have the block be another operation, for the same topic and on the same ledger."""
    account = _account.get()
    return nullcontext() if account is None else _ChargedTo(account._replace(operation=operation))


def for_topic(topic: object) -> AbstractContextManager[None]:
    """Have the block compute for one topic. What can't be a topic's name, a caller's mistake that
    is refused later, is no topic."""
    account = _account.get()
    if account is None:
        return nullcontext()
    return _ChargedTo(account._replace(topic=topic if isinstance(topic, str) else NO_TOPIC))


def on_a_disk_alone() -> AbstractContextManager[None]:
    """Count no requests in the block: it asks a disk for what no store is asked for."""
    return _Uncounted()


def current_operation() -> str:
    """Return the operation of this thread."""
    account = _account.get()
    return OTHER if account is None else account.operation


def count_for_current(rows: Iterable[LedgerRow]) -> None:
    """Count what another process has asked for this thread's operation."""
    account = _account.get()
    (PROCESS if account is None else account.ledger).add(rows)


def carried(work: Callable[[], T]) -> Callable[[], T]:
    """Return `work` for another thread, charged to the account of this one."""
    account = _account.get()
    if account is None:
        return work

    def run() -> T:
        with _ChargedTo(account):
            return work()

    return run


def asked(
    kind: RequestKind, path: str, *, count: int = 1, bytes_in: int = 0, bytes_out: int = 0
) -> None:
    """Count requests for the file at `path`, which tells the topic."""
    account = _account.get()
    if account is None:
        PROCESS.ask(OTHER, topic_of(path), kind, count, bytes_in, bytes_out)
    elif not account.is_free:
        account.ledger.ask(account.operation, topic_of(path), kind, count, bytes_in, bytes_out)


def topic_of(path: str) -> str:
    """Return the topic of whose files one is, by its path; NO_TOPIC: it is a root's own."""
    folder, _, name = path.rpartition("/")
    return _topic_in(folder if name and _before_id(name) is None else path.rstrip("/"))


@lru_cache(maxsize=4096)
def _topic_in(folder: str) -> str:
    parts = folder.split("/")
    for number in range(len(parts) - 1, -1, -1):
        part = parts[number]
        if part.startswith(f"{METADATA}-"):
            return METADATA
        name = _before_id(part)
        if name is not None and name not in _OF_A_ROOT:
            # A replica's folder stands in its topic's.
            above = _before_id(parts[number - 1]) if number and name.isdecimal() else None
            return name if above is None else above
    return METADATA if parts[-1] in _METADATA_FOLDERS else NO_TOPIC


def _before_id(name: str) -> str | None:
    """Return what stands before the id at the end of a folder's name; None: it has no id."""
    return name[: -_ID_LENGTH - 1] if name[-_ID_LENGTH - 1 : -_ID_LENGTH] == "-" else None


def pages_of(name_count: int) -> int:
    """Return how many requests list a folder of so many names."""
    return max(1, -(-name_count // LISTED_AT_ONCE))
