"""Calls to roots and their deadlines: a call that hangs is left, and its caller gets an error.

Each root has bounded pools of daemon threads, and every call to the root runs in one of them. So a
root that hangs holds these threads, and nobody who calls another root. `within` with seconds is one
step on the root: a read, a put. `within` without seconds is a whole operation, whose steps have the
deadlines: what the operation computes between two steps may take any time.

With `STUCK_MAX` calls beyond their deadlines a root is away: no call to it begins until one of them
returns.

The pools are a module global: threads that hang belong to the process, whichever cluster began
them, and outlive that cluster. It can go once the system can interrupt such a call.
"""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.daemon_threads import DaemonThreads, Job, check_not_forked, current_job
from kafka_on_spark.store.storage_options import is_local

T = TypeVar("T")
Arguments = ParamSpec("Arguments")


class _HasRoot(Protocol):
    @property
    def root(self) -> str: ...


S = TypeVar("S", bound=_HasRoot)

SHORT_CALL_SECONDS: Final = 5.0
"""For a call that a sound local disk answers in milliseconds: a stat, a listing, a read."""

LONG_CALL_SECONDS: Final = 30.0
"""For a flush, a commit, the opening of a table: a disk may be busy with other work."""

STORE_SHORT_CALL_SECONDS: Final = 60.0
STORE_LONG_CALL_SECONDS: Final = 240.0
"""On a store, whose client has its own deadlines and retries: 180 s in all."""

FLUSH_BYTES_A_SECOND: Final = 4 * 2**20
"""What the slowest usable disk flushes."""

READ_BYTES_A_SECOND: Final = 16 * 2**20
"""What the slowest usable disk reads."""

THREADS_A_ROOT: Final = 16
"""Calls that a root gets at once; and so many more that calls to other roots wait for, such as
reads for a copy: two roots that only copied from each other would else stand still."""

STUCK_MAX: Final = 4
"""Calls to one root that may hang before no more calls to it begin."""

POOLS_MAX: Final = 64
"""Roots whose pools are kept though nothing runs there."""

_SLICE_SECONDS: Final = 0.25


class RootHangsError(KafkaStorageError):
    """A call was left: what it puts may still land."""


class Call(Job[T]):
    """A call to a root. `seconds`: as in `within`.

    Attributes:
        root: The root, also of its steps, which run in the same thread.
        is_for_another: A call to another root waits for it.
        until: When it has to have a thread, then the deadline of its current step; None between
            two steps.
    """

    def __init__(self, root: str, work: Callable[[], T], seconds: float | None = None) -> None:
        super().__init__(work)
        self.root = root
        self.is_for_another = _current_call() is not None
        self.until: float | None = None
        self._seconds = seconds
        self.extend(long_call_seconds(root) if seconds is None else seconds)

    def began(self) -> None:
        """Have the deadlines run from now on."""
        if self._seconds is None:
            self.until = None
        else:
            self.extend(self._seconds)

    def extend(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    @property
    def is_stuck(self) -> bool:
        until = self.until  # read once: the call's own thread may move it meanwhile
        return until is not None and time.monotonic() >= until

    def in_time(self, seconds: float | None = None) -> T:
        """Return what it returns. `seconds`: for all of it, whatever deadlines its steps have.

        Raises:
            RootHangsError: It is not done by a deadline. It may go on.
            KafkaStorageError: It had no thread by then, and never begins.
            And what the call raises.
        """
        last = None if seconds is None else time.monotonic() + seconds
        while True:
            ends = [each for each in (self.until, last) if each is not None]
            until = min(ends, default=None)
            left = _SLICE_SECONDS if until is None else until - time.monotonic()
            with suppress(TimeoutError):  # or the call's own, which `result` raises again
                return self.result(min(max(left, 0.0), _SLICE_SECONDS))
            if self.done():
                return self.result()
            if left <= 0:
                self.until = until  # it is stuck, though its step may take longer
                raise self.leave()

    def leave(self) -> KafkaStorageError:
        """Wait for it no more; return the error of its caller, as `in_time`."""
        if _pools_of(self.root)[self.is_for_another].withdraw(self):
            return KafkaStorageError(f"{self.root} does not answer: all its threads wait for it")
        self.is_left = True
        return RootHangsError(f"{self.root} does not answer: a call to it hangs")


_Pools = tuple[DaemonThreads, DaemonThreads]
"""A root's, by whether calls to other roots wait for its jobs."""

_pools: Final[dict[str, _Pools]] = {}


def _pools_of(root: str) -> _Pools:
    pools = _pools.get(root)
    if pools is None:
        if len(_pools) >= POOLS_MAX:
            for name, (own, others) in list(_pools.items()):
                if not own.running and not others.running:
                    _pools.pop(name, None)
        made = DaemonThreads(THREADS_A_ROOT, root), DaemonThreads(THREADS_A_ROOT, root)
        pools = _pools.setdefault(root, made)
    return pools


def begin(root: str, work: Callable[[], T], seconds: float | None = None) -> Call[T]:
    """Begin a call to `root` in one of its threads; the caller waits for it `in_time`.

    Raises:
        KafkaStorageError: The root is away, or the process can't start a thread.
        ClusterClosedError: This process was forked from one that had used a cluster.
    """
    check_not_forked()
    pools, stuck = _pools_of(root), 0
    if len(pools[0].running) + len(pools[1].running) >= STUCK_MAX:
        running = [job for each in pools for job in list(each.running)]
        stuck = sum(isinstance(each, Call) and each.is_stuck for each in running)
    if stuck >= STUCK_MAX:
        raise KafkaStorageError(
            f"{root} is away: it does not answer, {stuck} calls to it hang, and no more calls begin"
            " until one of them returns"
        )
    call = Call(root, work, seconds)
    pools[call.is_for_another].begin(call)
    return call


def within(root: str, work: Callable[[], T], seconds: float | None = None) -> T:
    """Return what `work` returns: a step on `root` of at most `seconds`; None: a whole operation,
    whose steps have deadlines of their own.

    Raises:
        RootHangsError: The root does not answer in time. The work may still go on.
        KafkaStorageError: The root is away: the work was not begun.
        And what `work` raises.
    """
    call = _current_call()
    if call is None:
        return begin(root, work, seconds).in_time()
    if call.is_left:
        raise KafkaStorageError(f"{root} did not answer in time: no caller waits for it any more")
    is_another = root != call.root and not root.startswith(f"{call.root}/")
    until = call.until
    if is_another:
        call.until = None  # the other one has deadlines, and hangs its own threads
    elif seconds is not None:
        call.extend(seconds)
    try:
        return begin(root, work, seconds).in_time() if is_another else work()
    finally:
        # The step around this one has made progress, too.
        call.until = until and max(until, time.monotonic() + SHORT_CALL_SECONDS)


def _current_call() -> Call[Any] | None:
    job = current_job()
    return job if isinstance(job, Call) else None


def on_root(
    operation: "Callable[Concatenate[S, Arguments], T]",
) -> "Callable[Concatenate[S, Arguments], T]":
    """Make a method of an object on a root run `within` that root."""

    @wraps(operation)
    def run(self: S, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> T:
        return within(self.root, partial(operation, self, *args, **kwargs))

    return run


def extend_deadline(seconds: float = SHORT_CALL_SECONDS) -> None:
    """Report progress of the current step, such as a piece of a long file."""
    call = _current_call()
    if call is not None and call.until is not None:
        call.extend(seconds)


def short_call_seconds(root: str) -> float:
    """Return how long a stat, a listing or a read may take on `root`."""
    return SHORT_CALL_SECONDS if is_local(root) else STORE_SHORT_CALL_SECONDS


def long_call_seconds(root: str, size_bytes: int = 0) -> float:
    """Return how long a commit, a flush or the opening of a table may take on `root`."""
    seconds = LONG_CALL_SECONDS if is_local(root) else STORE_LONG_CALL_SECONDS
    return seconds + size_bytes / FLUSH_BYTES_A_SECOND


class RootLock:
    """A lock that a thread may take twice; waiters get an error if its owner's call hangs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._owner: Call[Any] | None = None

    def __enter__(self) -> None:
        mine = _current_call()
        while not self._lock.acquire(timeout=_SLICE_SECONDS):
            owner = self._owner  # read once: it may release the lock meanwhile
            if (mine and mine.is_left) or (owner and (owner.is_left or owner.is_stuck)):
                raise KafkaStorageError(f"{self._root} does not answer: a call to it hangs")
        self._owner = mine

    def __exit__(self, *error: object) -> None:
        self._lock.release()


os.register_at_fork(after_in_child=_pools.clear)
