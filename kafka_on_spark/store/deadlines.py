"""How a process keeps time: clocks, pauses between tries, deadlines of calls to roots.

A call that hangs is left, and its caller gets an error. Each root has bounded pools of daemon
threads, and every call to the root runs in one of them. So a root that hangs holds these threads,
and nobody who calls another root. `within` with a limit is one step on the root: a read, a put.
`within` without one is a whole operation, whose steps have the deadlines: what the operation
computes between two steps may take any time. With `STUCK_MAX` calls beyond their deadlines a root
is away: no call to it begins until one of them returns.

A dead mount does not fail, it hangs, and nothing ends a thread that hangs in the system. A thread
of `concurrent.futures.ThreadPoolExecutor` that hangs keeps its process from ending. A process that
ends waits a moment for the threads of these pools, and then ends without them. Pools and running
calls are module globals: threads that hang belong to the process, whichever cluster began them, and
outlive that cluster. They can go once Python's own executor has daemon threads, and the system can
interrupt such a call.

A fork copies one thread of many. In the child of a process that had used a cluster delta-rs panics,
and a store's client and a pool wait for threads that it lacks: it may not use one. A fork before
the first use is fine: Spark forks its workers so.
"""

import atexit
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial, wraps
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from kafka_on_spark.base.errors import (
    ClusterClosedError,
    CommitConflictError,
    KafkaStorageError,
    ProtocolError,
)
from kafka_on_spark.base.ids import Clock

T = TypeVar("T")
State = TypeVar("State")
Arguments = ParamSpec("Arguments")

FORKED: Final = (
    "no cluster can be used in this process, since it was forked from one that had used one: start"
    " it by spawn or forkserver (multiprocessing.get_context), or fork before the first use"
)

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """A Clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def precise_ms(self) -> float:
        """Return the same clock with its fractions, to measure what is short."""
        return time.monotonic_ns() / 1_000_000

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


class WakingClock(SystemClock):
    """A clock whose durations count the time that the machine slept, where the system can tell: a
    process that slept with it learns that others may have gone on."""

    def monotonic_ms(self) -> int:
        if _BOOT_TIME is None:
            return super().monotonic_ms()
        return time.clock_gettime_ns(_BOOT_TIME) // 1_000_000


def processor_ms() -> float:
    return time.process_time_ns() / 1_000_000


DOUBLINGS_MAX: Final = 62
"""A root may be away for days: the exponent is bounded."""


def pause_ms(pause_count: int, first_ms: float, max_ms: float = math.inf) -> float:
    """Return the next pause after so many: twice as long as the last, up to `max_ms`, and never
    less than `first_ms`. No decision rests on it.

    Not tenacity's: its import takes longer than all of `base`'s, in each of Spark's Python
    processes, and its loop would hold a caller's, which waits for other things too.
    """
    longer: float = first_ms * 2 ** min(pause_count, DOUBLINGS_MAX)
    return min(longer, max(first_ms, max_ms))


def pauses_ms(first_ms: float, max_ms: float = math.inf) -> Iterator[float]:
    """Yield one pause after the other, without end."""
    for each in count():
        yield pause_ms(each, first_ms, max_ms)


CONFLICTS_MS: Final = 30_000
"""How long a call decides again that has no deadline of its own: request.timeout.ms of Kafka."""


def until_committed(
    load: Callable[[], State],
    commit: Callable[[State], T],
    seen: State | None = None,
    *,
    clock: Clock,
    timeout_ms: int = CONFLICTS_MS,
    pauses: Iterator[float] | None = None,
    late: type[ProtocolError] = KafkaStorageError,
) -> T:
    """Return what `commit` returns, which decides on a state and commits: first on `seen`, if that
    is given, and after each conflict on what `load` returns then, after the next of `pauses` (ms).

    After a conflict this commit certainly does not stand. An outcome that is unknown ends the loop:
    what is decided anew could stand twice.

    Raises:
        KafkaStorageError, or `late`: Conflicts went on for `timeout_ms`; nothing is committed.
    """
    until_ms = clock.monotonic_ms() + timeout_ms
    while True:
        try:
            return commit(load() if seen is None else seen)
        except CommitConflictError as error:
            if clock.monotonic_ms() > until_ms:
                raise late(f"other commits are faster ({error.message}): try again") from error
        seen = None
        if pauses is not None:
            clock.sleep_ms(next(pauses))


IDLE_SECONDS: Final = 10.0
"""How long a thread stays for the next job."""

EXIT_SECONDS: Final = 5.0
"""How long a process that ends waits for jobs."""

LATE_EXIT_SECONDS: Final = 1.0
"""How long it waits for jobs that nobody waits for any more: one that is late and not hung must not
come back into an interpreter that has ended, which would abort the process."""


def is_local(url: str) -> bool:
    """Return whether `url` (normalized) is a folder of this machine."""
    return url.startswith("/")


@dataclass(slots=True)
class Limit:
    """How many seconds a step may take on a disk; and on a store, whose client has its own
    deadlines and retries: 180 s in all."""

    disk: float
    store: float


SHORT: Final = Limit(disk=5.0, store=60.0)
"""For a call that a sound local disk answers in milliseconds: a stat, a listing, a read."""

LONG: Final = Limit(disk=30.0, store=240.0)
"""For a flush, a commit, the opening of a table: a disk may be busy with other work."""

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


class _HasRoot(Protocol):
    @property
    def root(self) -> str: ...


S = TypeVar("S", bound=_HasRoot)


class RootHangsError(KafkaStorageError):
    """A call was left: what it puts may still land."""


class _Process:
    """Whether this process, or the parent that forked it, has used a cluster."""

    def __init__(self) -> None:
        self.has_used = False
        self.is_forked = False


_process: Final = _Process()


def is_forked() -> bool:
    return _process.is_forked


class _Current(threading.local):
    """What this thread does: work of a pool, which may be a call to a root."""

    job: "Call[Any] | None" = None
    call: "Call[Any] | None" = None


_current: Final = _Current()
_running: "Final[set[Call[Any]]]" = set()
_ending: Final = threading.Event()
"""The interpreter is about to end."""


class Call(Future[T]):
    """Work for a thread of a pool. `seconds`: as in `within`.

    Attributes:
        root: The root that it calls, also for its steps, which run in the same thread; "": none.
        is_for_another: A call to another root waits for it.
        pool: Whose threads do it, once it was begun.
        until: When it has to have a thread, then the deadline of its current step; None between
            two steps.
        work: What is to be done; None once a thread has taken it, or it was withdrawn.
    """

    def __init__(self, root: str, work: Callable[[], T], seconds: float | None = None) -> None:
        super().__init__()
        self.root = root
        self.is_for_another = _current.call is not None
        self.is_left = False
        self.pool: DaemonThreads | None = None
        self.until: float | None = None
        self.seconds = seconds
        self.work: Callable[[], T] | None = partial(copy_context().run, work)
        if root:
            waits = LONG.disk if is_local(root) else LONG.store
            self.until = time.monotonic() + (waits if seconds is None else seconds)

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
            until = self.until  # read once
            if last is not None:
                until = last if until is None else min(until, last)
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
        assert self.pool is not None, "it was begun"
        if self.pool.withdraw(self):
            return KafkaStorageError(f"{self.root} does not answer: all its threads wait for it")
        self.is_left = True
        return RootHangsError(f"{self.root} does not answer: a call to it hangs")


class DaemonThreads(Executor):
    """A pool of which at most `count` jobs run at once; the others wait. `name`: its threads'."""

    def __init__(self, count: int, name: str) -> None:
        self.running: set[Call[Any]] = set()
        self._count = count
        self._name = name
        self._inbox: SimpleQueue[Call[Any]] = SimpleQueue()
        self._taken: set[Call[Any]] = set()  # and not done
        self._lock = threading.RLock()  # a collection of garbage may begin a job
        self._thread_count = 0
        self._free_count = 0  # idle threads, less the jobs in the inbox
        self._is_shut = False

    def submit(
        self, work: Callable[Arguments, T], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[T]:
        """Run `work` in one of the threads.

        Raises:
            ClusterClosedError: The pool is shut down, or this process was forked, or ends.
            KafkaStorageError: The process can't start a thread.
        """
        if _process.is_forked:
            raise ClusterClosedError(FORKED)
        if self._is_shut or _ending.is_set():
            raise ClusterClosedError()
        job = Call("", partial(work, *args, **kwargs))
        self.begin(job)
        return job

    def begin(self, job: Call[Any]) -> None:
        """Have a job run."""
        job.pool = self
        with self._lock:
            self._taken.add(job)
            self._free_count -= 1
            begins_thread = self._free_count < 0 and self._thread_count < self._count
            if begins_thread:
                self._thread_count += 1
                self._free_count += 1
        self._inbox.put(job)
        if begins_thread:
            self._begin_thread(job)

    def _begin_thread(self, job: Call[Any]) -> None:
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError as error:
            with self._lock:
                self._thread_count -= 1
                self._free_count -= 1
                is_alone = self._thread_count == 0
            if is_alone and self.withdraw(job):  # otherwise the threads that run do it
                raise no_thread_error() from error

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Do the next job in this thread; return False if none comes for long.

        In a function: an idle thread holds nothing of its last job. The thread drops its references
        to the work before anybody learns that it is done: the process may end at once, and Arrow's
        buffers must not be released while the interpreter shuts down.
        """
        try:
            job = self._inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            return not self._may_end_thread()
        self.running.add(job)
        _running.add(job)
        work, job.work = job.work, None
        result: Any = None
        failure: BaseException | None = None
        if is_wanted := job.set_running_or_notify_cancel():
            before = _current.job, _current.call
            _current.job, _current.call = job, (job if job.root else None)
            try:
                # The deadlines run from now on.
                job.until = None if job.seconds is None else time.monotonic() + job.seconds
                assert work is not None, "a job is done once"
                result = work()
            except BaseException as error:  # `result` raises it in the caller
                failure = error
            _current.job, _current.call = before
        del work
        # The thread is idle before a caller learns of the end: so its next call begins no thread.
        with self._lock:
            self._taken.discard(job)
            self.running.discard(job)
            _running.discard(job)
            self._free_count += 1
        if failure is not None:
            job.set_exception(failure)
        elif is_wanted:
            job.set_result(result)
        return True

    def _may_end_thread(self) -> bool:
        with self._lock:
            if self._free_count <= 0:
                return False  # a job is on its way
            self._free_count -= 1
            self._thread_count -= 1
        return True

    def withdraw(self, job: Call[Any]) -> bool:
        """Take back a job; return whether it has not begun, and won't."""
        is_cancelled = job.cancel()
        if is_cancelled:
            job.work = None  # threads that hang may never take it
            self._taken.discard(job)
        return is_cancelled

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; `wait` until all work taken is done."""
        self._is_shut = True
        if cancel_futures:
            for job in self._taken.copy():
                self.withdraw(job)
        if wait:
            self.join()

    def join(self) -> None:
        """Wait until all work taken is done, but that of this thread."""
        wait(each for each in self._taken.copy() if each is not _current.job)


def no_thread_error() -> KafkaStorageError:
    return KafkaStorageError(
        "this process can't start another thread: raise its limit (ulimit -u, or the container's"
        " pids) or have it do less at once"
    )


_Pools = tuple[DaemonThreads, DaemonThreads]
"""A root's, by whether calls to other roots wait for its jobs."""

_pools: Final[dict[str, _Pools]] = {}


def _new_pools(root: str) -> _Pools:
    if len(_pools) >= POOLS_MAX:
        for name, (own, others) in list(_pools.items()):
            if not own.running and not others.running:
                _pools.pop(name, None)
    made = DaemonThreads(THREADS_A_ROOT, root), DaemonThreads(THREADS_A_ROOT, root)
    return _pools.setdefault(root, made)


def begin(root: str, work: Callable[[], T], seconds: float | None = None) -> Call[T]:
    """Begin a call to `root` in one of its threads; the caller waits for it `in_time`."""
    if _process.is_forked:
        raise ClusterClosedError(FORKED)
    _process.has_used = True
    pools, stuck = _pools.get(root) or _new_pools(root), 0
    if len(pools[0].running) + len(pools[1].running) >= STUCK_MAX:
        stuck = sum(call.is_stuck for each in pools for call in list(each.running))
    if stuck >= STUCK_MAX:
        raise KafkaStorageError(
            f"{root} is away: it does not answer, {stuck} calls to it hang, and no more calls begin"
            " until one of them returns"
        )
    call = Call(root, work, seconds)
    pools[call.is_for_another].begin(call)
    return call


def within(root: str, work: Callable[[], T], limit: Limit | float | None = None) -> T:
    """Return what `work` returns: a step on `root` of at most `limit` seconds; None: a whole
    operation, whose steps have deadlines of their own.

    Raises:
        RootHangsError: The root does not answer in time. The work may still go on.
        KafkaStorageError: The root is away: the work was not begun.
        And what `work` raises.
    """
    if isinstance(limit, Limit):
        limit = limit.disk if is_local(root) else limit.store
    call = _current.call
    if call is None:
        return begin(root, work, limit).in_time()
    if call.is_left:
        raise KafkaStorageError(f"{root} did not answer in time: no caller waits for it any more")
    is_another = root != call.root and not root.startswith(f"{call.root}/")
    until = call.until
    if is_another:
        call.until = None  # the other one has deadlines, and hangs its own threads
    elif limit is not None:
        call.until = time.monotonic() + limit
    try:
        return begin(root, work, limit).in_time() if is_another else work()
    finally:
        # The step around this one has made progress, too.
        call.until = until and max(until, time.monotonic() + SHORT.disk)


def on_root(
    operation: "Callable[Concatenate[S, Arguments], T]",
) -> "Callable[Concatenate[S, Arguments], T]":
    """Make a method of an object on a root run `within` that root."""

    @wraps(operation)
    def run(self: S, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> T:
        return within(self.root, partial(operation, self, *args, **kwargs))

    return run


def extend_deadline(seconds: float) -> None:
    """Report progress of the current step, such as a piece of a long file."""
    call = _current.call
    if call is not None and call.until is not None:
        call.until = time.monotonic() + seconds


@contextmanager
def untimed() -> Iterator[None]:
    """Take what the block does, such as an import, out of the time of the current step."""
    call, began = _current.call, time.monotonic()
    until = None if call is None else call.until
    if call is None or until is None:
        yield
        return
    call.until = None
    try:
        yield
    finally:
        call.until = until + time.monotonic() - began


class RootLock:
    """A lock that a thread may take twice; waiters get an error if its owner's call hangs."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._owner: Call[Any] | None = None

    def __enter__(self) -> None:
        mine = _current.call
        while not self._lock.acquire(timeout=_SLICE_SECONDS):
            owner = self._owner  # read once: it may release the lock meanwhile
            if (mine and mine.is_left) or (owner and (owner.is_left or owner.is_stuck)):
                raise KafkaStorageError(f"{self._root} does not answer: a call to it hangs")
        self._owner = mine

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def _finish() -> None:
    """Give jobs a moment before the interpreter ends."""
    _ending.set()
    began = time.monotonic()
    while running := list(_running):
        is_left = all(each.is_left for each in running)
        last = began + (LATE_EXIT_SECONDS if is_left else EXIT_SECONDS)
        if not wait(running, last - time.monotonic(), return_when="FIRST_COMPLETED").done:
            return


def _begin_child() -> None:
    """Forget the jobs of the parent: a forked child has none of its threads."""
    _process.is_forked = _process.has_used
    _running.clear()
    _pools.clear()
    _current.job = _current.call = None


atexit.register(_finish)
os.register_at_fork(after_in_child=_begin_child)
