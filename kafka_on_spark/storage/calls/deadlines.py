"""Deadlines of calls to roots: a call that hangs is abandoned, and its caller gets an error.

A dead mount does not fail, it hangs, and nothing ends a thread that hangs in the system. So every
call to a root runs in a daemon thread, which does not keep a process from ending, and the caller
waits while the call makes progress. `within` with seconds is one step on the root: a read, a put.
`within` without seconds is a whole operation, whose steps have the deadlines: what the operation
computes between two steps may take any time.

Abandoned threads are counted by root. With `STUCK_MAX` of them, no call to that root begins until
one of them returns: then the root answers again.

A process that was frozen (SIGSTOP, a machine that slept) has not waited: whatever its deadlines
were, its calls have a moment from then on.

The threads and the counts are a module global: threads that hang belong to the process, whichever
cluster began them, and outlive that cluster. It can go once the system can interrupt such a call.
"""

import atexit
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, cast

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.access.storage_options import is_local
from kafka_on_spark.storage.calls.forks import check_not_forked
from kafka_on_spark.storage.calls.slow_calls import SlowCall
from kafka_on_spark.storage.ledger.ledger import carried

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

STUCK_MAX: Final = 4
"""Calls to one root that may hang at once before no more calls to it begin."""

IDLE_MAX: Final = 32
"""Threads that stay for the next call; any more end with their call."""

EXIT_SECONDS: Final = 5.0
"""How long a process that ends waits for calls that make progress."""

LATE_EXIT_SECONDS: Final = 1.0
"""How long it waits for calls that nobody waits for any more: one that is late and not hung must
not come back into an interpreter that has ended, which would abort the process."""

_SLICE_SECONDS: Final = 0.25
_FREEZE_SECONDS: Final = 1.0
_FREEZES_MAX: Final = 5


class RootHangsError(KafkaStorageError):
    """A call was abandoned: what it puts may still land."""


class _CurrentCall(threading.local):
    """The call that this thread runs."""

    def __init__(self) -> None:
        self.call: _Call[Any] | None = None


class _ProcessCalls:
    """The calls of this process.

    Attributes:
        lock: Held while any of the others changes.
        stuck: How many abandoned calls hang, by root.
        idle: Threads that wait for a call.
        running: Calls that have not ended.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all: a forked child has none of its parent's threads."""
        self.lock = threading.Lock()
        self.stuck: Counter[str] = Counter()
        self.idle: list[_Worker] = []
        self.running: set[_Call[Any]] = set()


_current: Final = _CurrentCall()
_calls: Final = _ProcessCalls()


class _Call(Generic[T]):
    """An operation in a thread of its own.

    Attributes:
        root: The root of its current step, which is to blame if the step takes too long.
        until: The deadline of that step; None between two steps.
        last: The deadline of the whole operation; None: only its steps have deadlines.
        is_abandoned: No caller waits for it any more.
    """

    def __init__(
        self, root: str, work: Callable[[], T], named: Callable[..., object] | None = None
    ) -> None:
        self.root = root
        self._slow = SlowCall(named or work)
        self.until: float | None = None
        self.last: float | None = None
        self.is_abandoned = False
        self._work: Callable[[], T] | None = carried(work)
        self._stuck_root: str | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self, worker: "_Worker | None" = None) -> bool:
        """Run the work in this thread, the worker's; return whether the worker waits for another
        call. None: the thread is whoever asks.

        This thread drops its references to the work before it reports the end: the process may end
        at once then, and Arrow's buffers must not be released while the interpreter shuts down. And
        its worker is idle by then, so that the caller's next call finds it and begins no thread.
        """
        assert self._work is not None, "a call is run once"
        _current.call = self
        try:
            self._result = self._work()
        except BaseException as error:  # `result` raises it in the caller
            self._error = error
        _current.call = None
        self._work = None
        with _calls.lock:
            _calls.running.discard(self)
            if self._stuck_root is not None:
                _calls.stuck[self._stuck_root] -= 1
            if worker is None or self.is_abandoned or len(_calls.idle) >= IDLE_MAX:
                stays = False
            else:
                stays = True
                _calls.idle.append(worker)
        self._done.release()
        return stays

    def result(self) -> T:
        """Wait for the call's end, and return what it returns.

        Raises:
            RootHangsError: The root of its current step does not answer.
            And what the call raises.
        """
        freezes = 0
        while True:
            until, begun = self.until, time.monotonic()
            left = _SLICE_SECONDS if until is None else min(until - begun, _SLICE_SECONDS)
            if self._done.acquire(timeout=max(left, 0.0)):
                break
            self._slow.tell(self.root)
            now = time.monotonic()
            if now - begun > _SLICE_SECONDS + _FREEZE_SECONDS and freezes < _FREEZES_MAX:
                freezes, least = freezes + 1, now + SHORT_CALL_SECONDS
                self.last = None if self.last is None else max(self.last, least)
                if (until := self.until) is not None and until < least:
                    self.until = least
            elif self.until is not None and now >= self.until and self._abandon(now):
                raise RootHangsError(f"{self.root} does not answer: a call to it hangs")
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # no cycle with this frame
        result, self._result = self._result, None  # only the caller holds it from here on
        return cast(T, result)

    def extend(self, seconds: float) -> None:
        """Move the step's deadline to `seconds` from now, at most to the operation's deadline."""
        until = time.monotonic() + seconds
        self.until = until if self.last is None else min(until, self.last)

    def _abandon(self, now: float) -> bool:
        """Abandon the call unless it made progress meanwhile; return whether it is abandoned."""
        with _calls.lock:
            if self not in _calls.running or self.until is None or now < self.until:
                return False
            self.is_abandoned = True
            self._stuck_root = self.root
            _calls.stuck[self.root] += 1
            return True

    def wait(self, seconds: float) -> None:
        """Wait for the call's end, for at most `seconds`."""
        if self._done.acquire(timeout=max(seconds, 0.0)):
            self._done.release()


class _Worker:
    """A daemon thread that runs one call after the other."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[_Call[Any]] = SimpleQueue()
        thread = threading.Thread(target=self._work, name="root", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise no_thread_error() from error

    def begin(self, call: _Call[Any]) -> None:
        self._inbox.put(call)

    def _work(self) -> None:
        while True:
            call = self._inbox.get()
            if not call.run(self):
                return
            del call  # only the caller holds what it returned


def no_thread_error() -> KafkaStorageError:
    """Return the error of a process that can't start another thread."""
    return KafkaStorageError(
        "this process can't start another thread: raise its limit (ulimit -u, or the container's"
        " pids) or have it do less at once"
    )


def begin(root: str, work: Callable[[], T], named: Callable[..., object] | None = None) -> _Call[T]:
    """Begin an operation on `root` in a thread of its own; the caller waits for its `result`.
    `named`: the function that a warning names if that takes long; None: `work`.

    Raises:
        KafkaStorageError: Too many calls to the root hang, or the process can't start a thread.
        ClusterClosedError: This process was forked from one that had used a cluster.
    """
    check_not_forked()
    call = _Call(root, work, named)
    with _calls.lock:
        stuck = _calls.stuck[root]
        if stuck >= STUCK_MAX:
            raise KafkaStorageError(
                f"{root} does not answer: {stuck} calls to it hang, and no more calls begin until"
                " one of them returns"
            )
        worker = _calls.idle.pop() if _calls.idle else None
        _calls.running.add(call)
    try:
        (worker or _Worker()).begin(call)
    except BaseException:
        with _calls.lock:
            _calls.running.discard(call)
        raise
    return call


def within(root: str, work: Callable[[], T], seconds: float | None = None) -> T:
    """Return what `work` returns: a step on `root` of at most `seconds`; None: a whole operation,
    whose steps have deadlines of their own.

    Raises:
        RootHangsError: The root does not answer in time. The work may still go on.
        KafkaStorageError: Too many calls to the root hang: the work was not begun.
        And what `work` raises.
    """
    call = _current.call
    if call is not None:
        return _run_step(call, root, work, seconds)
    if seconds is None:
        return begin(root, work).result()
    return begin(root, lambda: within(root, work, seconds), work).result()


def all_within(root: str, work: Callable[[], T], seconds: float) -> T:
    """Return what `work` returns: a whole operation on `root` of at most `seconds` in all,
    whatever deadlines its steps have.

    Raises: as `within`.
    """

    def limited() -> T:
        call = _current.call
        assert call is not None, "a call that has begun runs in a thread"
        call.last = time.monotonic() + seconds
        return _run_step(call, root, work, seconds)

    return begin(root, limited, work).result()


def _run_step(call: _Call[Any], root: str, work: Callable[[], T], seconds: float | None) -> T:
    """Run `work` as a step of the call that this thread runs."""
    if call.is_abandoned:
        raise KafkaStorageError(f"{root} did not answer in time: no caller waits for it any more")
    before = call.root, call.until
    if root != call.root and not root.startswith(f"{call.root}/"):
        call.root = root
    if seconds is not None:
        call.extend(seconds)
    try:
        return work()
    finally:
        until = before[1]
        # The step around this one has made progress, too.
        call.root = before[0]
        if until is None:
            call.until = None
        else:
            call.extend(max(until - time.monotonic(), SHORT_CALL_SECONDS))


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
    call = _current.call
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
        self._owners: list[_Call[Any] | None] = []

    def __enter__(self) -> None:
        mine = _current.call
        while not self._lock.acquire(timeout=_SLICE_SECONDS):
            # Read once: the owner may release the lock meanwhile.
            owners = [*self._owners[-1:], mine]
            if any(each is not None and each.is_abandoned for each in owners):
                raise KafkaStorageError(f"{self._root} does not answer: a call to it hangs")
        self._owners.append(mine)

    def __exit__(self, *error: object) -> None:
        self._owners.pop()
        self._lock.release()


def _finish() -> None:
    """Give calls a moment before the interpreter ends."""
    now = time.monotonic()
    for call in list(_calls.running):
        last = now + (LATE_EXIT_SECONDS if call.is_abandoned else EXIT_SECONDS)
        call.wait(last - time.monotonic())


def _reset_after_fork() -> None:
    _current.call = None
    _calls.reset()


atexit.register(_finish)
os.register_at_fork(after_in_child=_reset_after_fork)
