"""Calls about a root that has a deadline: one that hangs is left behind, and the caller goes on.

A dead mount does not fail, it hangs, and nothing ends a thread that hangs in the system. So
whatever touches a root runs in a daemon thread, which does not keep a process from ending; the
caller waits for it for as long as it gets on. `within` with a time is one touch of the root: a
look, a put. `within` without one is a whole operation, whose touches have the deadlines: what
it computes between them may take as long as it likes.

Threads left behind are counted by root. From `STUCK_MAX` on, nothing more is begun there until
one of them comes back: then the root answers again.

Whoever was frozen (SIGSTOP, a machine that slept) has not waited: his time begins anew.
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
from kafka_on_spark.storage.forks import check_not_forked
from kafka_on_spark.storage.options import is_local

T = TypeVar("T")
Arguments = ParamSpec("Arguments")


class _OnRoot(Protocol):
    @property
    def root(self) -> str: ...


S = TypeVar("S", bound=_OnRoot)

LOOK_SECONDS: Final = 5.0
"""For what a sound disk of this machine answers in milliseconds: a look, a listing, a read."""

WORK_SECONDS: Final = 30.0
"""For a flush, a commit, a table that is opened: a disk may be busy with much else."""

STORE_LOOK_SECONDS: Final = 60.0
STORE_WORK_SECONDS: Final = 240.0
"""On a store, whose client has deadlines and tries of its own: 180 s in all."""

FLUSH_BYTES_A_SECOND: Final = 4 * 2**20
"""What the slowest disk that is of use keeps of a flushed file."""

READ_BYTES_A_SECOND: Final = 16 * 2**20
"""What the slowest disk that is of use gives of a file that is read."""

STUCK_MAX: Final = 4
"""Calls about one root that may hang at once before nothing more is begun there."""

IDLE_MAX: Final = 32
"""Threads that wait for the next call; others end with theirs."""

EXIT_SECONDS: Final = 5.0
"""How long a process that ends waits for what gets on."""

_SLICE_SECONDS: Final = 0.25
_FREEZE_SECONDS: Final = 1.0
_FREEZES_MAX: Final = 5


class RootHangsError(KafkaStorageError):
    """A call was left behind: what it puts may still land."""


class _Mine(threading.local):
    """What the thread that asks is doing."""

    def __init__(self) -> None:
        self.call: _Call[Any] | None = None


_mine: Final = _Mine()
_lock = threading.Lock()
_stuck: Counter[str] = Counter()
_idle: list["_Worker"] = []
_under_way: set["_Call[Any]"] = set()


class _Call(Generic[T]):
    """An operation in a thread of its own.

    Attributes:
        root: What it is touching now, which is to blame if that takes too long.
        until: When that is; None while it touches nothing.
        last: When it is to blame whatever it touches; None: it may take as long as its touches.
        is_left: Nobody waits for it any more.
    """

    def __init__(self, root: str, work: Callable[[], T]) -> None:
        self.root = root
        self.until: float | None = None
        self.last: float | None = None
        self.is_left = False
        self._work: Callable[[], T] | None = work
        self._stuck_root: str | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def run(self) -> None:
        """Do the work, in this thread.

        Before its end is told this thread lets go of what the work has held: the process may end
        at once, and Arrow's buffers must not be released while the interpreter goes away.
        """
        assert self._work is not None, "a call is run once"
        _mine.call = self
        try:
            self._result = self._work()
        except BaseException as error:  # whoever waits for it raises it
            self._error = error
        finally:
            _mine.call = None
            self._work = None
            with _lock:
                _under_way.discard(self)
                if self._stuck_root is not None:
                    _stuck[self._stuck_root] -= 1
            self._done.release()

    def result(self) -> T:
        """Wait for what it returns.

        Raises:
            RootHangsError: The root that it touches does not answer.
            And what it raises.
        """
        freezes = 0
        while True:
            until, begun = self.until, time.monotonic()
            left = _SLICE_SECONDS if until is None else min(until - begun, _SLICE_SECONDS)
            if self._done.acquire(timeout=max(left, 0.0)):
                break
            now = time.monotonic()
            if now - begun > _SLICE_SECONDS + _FREEZE_SECONDS and freezes < _FREEZES_MAX:
                freezes += 1
                if self.until is not None:
                    self.last = None if self.last is None else now + LOOK_SECONDS
                    self.have(LOOK_SECONDS)
            elif self.until is not None and now >= self.until and self._leave(now):
                raise RootHangsError(f"{self.root} does not answer: a call to it hangs")
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # no cycle with this frame
        result, self._result = self._result, None  # the caller's alone, and not its thread's
        return cast(T, result)

    def have(self, seconds: float) -> None:
        """Give it so long from now on, but not over its last moment."""
        until = time.monotonic() + seconds
        self.until = until if self.last is None else min(until, self.last)

    def _leave(self, now: float) -> bool:
        """Leave it behind, if it has not come on meanwhile; return whether that is so."""
        with _lock:
            if self not in _under_way or self.until is None or now < self.until:
                return False
            self.is_left = True
            self._stuck_root = self.root
            _stuck[self.root] += 1
            return True

    def wait(self, seconds: float) -> None:
        """Wait for its end for a while."""
        if self._done.acquire(timeout=max(seconds, 0.0)):
            self._done.release()


class _Worker:
    """A daemon thread that does one call after the other."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[_Call[Any]] = SimpleQueue()
        thread = threading.Thread(target=self._work, name="root", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise too_few_threads() from error

    def begin(self, call: _Call[Any]) -> None:
        self._inbox.put(call)

    def _work(self) -> None:
        while True:
            call = self._inbox.get()
            call.run()
            was_left = call.is_left
            del call  # what it returned is not this thread's
            with _lock:
                if was_left or len(_idle) >= IDLE_MAX:
                    return
                _idle.append(self)


def too_few_threads() -> KafkaStorageError:
    """Return the error of a process that can't have another thread."""
    return KafkaStorageError(
        "this process can't start another thread: raise its limit (ulimit -u, or the container's"
        " pids) or have it do less at once"
    )


def begin(root: str, work: Callable[[], T]) -> _Call[T]:
    """Begin an operation on `root` in a thread of its own; its `result` is waited for.

    Raises:
        KafkaStorageError: Too many calls hang there, or there is no thread.
        ClusterClosedError: This process was forked from one that has used a cluster.
    """
    check_not_forked()
    call = _Call(root, work)
    with _lock:
        if _stuck[root] >= STUCK_MAX:
            raise KafkaStorageError(
                f"{root} does not answer: {_stuck[root]} calls to it hang, and nothing more is"
                " tried until one comes back"
            )
        worker = _idle.pop() if _idle else None
        _under_way.add(call)
    try:
        (worker or _Worker()).begin(call)
    except BaseException:
        with _lock:
            _under_way.discard(call)
        raise
    return call


def within(root: str, work: Callable[[], T], seconds: float | None = None) -> T:
    """Return what `work` returns, which touches `root` for at most `seconds`; None: a whole
    operation, whose touches have deadlines of their own.

    Raises:
        RootHangsError: The root does not answer in time. The work may go on.
        KafkaStorageError: Too many calls hang there: nothing was begun.
        And what `work` raises.
    """
    call = _mine.call
    if call is not None:
        return _touch(call, root, work, seconds)
    if seconds is None:
        return begin(root, work).result()
    return begin(root, lambda: within(root, work, seconds)).result()


def all_within(root: str, work: Callable[[], T], seconds: float) -> T:
    """Return what `work` returns, a whole operation on `root` for at most `seconds` in all,
    whatever deadlines its touches have.

    Raises: as `within`.
    """

    def limited() -> T:
        call = _mine.call
        assert call is not None, "a call that has begun is some thread's"
        call.last = time.monotonic() + seconds
        return _touch(call, root, work, seconds)

    return begin(root, limited).result()


def _touch(call: _Call[Any], root: str, work: Callable[[], T], seconds: float | None) -> T:
    """Do `work` as a part of the call that this thread does anyway."""
    if call.is_left:
        raise KafkaStorageError(f"{root} did not answer in time: nobody waits for this any more")
    before = call.root, call.until
    if root != call.root and not root.startswith(f"{call.root}/"):
        call.root = root
    if seconds is not None:
        call.have(seconds)
    try:
        return work()
    finally:
        until = before[1]
        # What it is a part of has come on, too.
        call.root = before[0]
        if until is None:
            call.until = None
        else:
            call.have(max(until - time.monotonic(), LOOK_SECONDS))


def on_root(
    operation: "Callable[Concatenate[S, Arguments], T]",
) -> "Callable[Concatenate[S, Arguments], T]":
    """Return an operation of something that lies on a root, as `within` does it."""

    @wraps(operation)
    def run(self: S, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> T:
        return within(self.root, partial(operation, self, *args, **kwargs))

    return run


def is_awaited() -> bool:
    """Return whether somebody waits for what this thread does."""
    return _mine.call is None or not _mine.call.is_left


def gets_on(seconds: float = LOOK_SECONDS) -> None:
    """Say that the touch under way has come on, as with a piece of a long file."""
    call = _mine.call
    if call is not None and call.until is not None:
        call.have(seconds)


def look_seconds(root: str) -> float:
    """Return how long a look at `root` may take."""
    return LOOK_SECONDS if is_local(root) else STORE_LOOK_SECONDS


def work_seconds(root: str, size_bytes: int = 0) -> float:
    """Return how long a commit, a flush or the opening of a table may take on `root`."""
    seconds = WORK_SECONDS if is_local(root) else STORE_WORK_SECONDS
    return seconds + size_bytes / FLUSH_BYTES_A_SECOND


class RootLock:
    """A lock that a thread may take twice; who waits for one that hangs with it is told so."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lock = threading.RLock()
        self._owners: list[_Call[Any] | None] = []

    def __enter__(self) -> None:
        mine = _mine.call
        while not self._lock.acquire(timeout=_SLICE_SECONDS):
            # One look: its owner may let it go just now.
            owners = [*self._owners[-1:], mine]
            if any(each is not None and each.is_left for each in owners):
                raise KafkaStorageError(f"{self._root} does not answer: a call to it hangs")
        self._owners.append(mine)

    def __exit__(self, *error: object) -> None:
        self._owners.pop()
        self._lock.release()


def _finish() -> None:
    """Give what gets on a moment before the interpreter goes away beneath it."""
    last = time.monotonic() + EXIT_SECONDS
    for call in list(_under_way):
        if not call.is_left:
            call.wait(last - time.monotonic())


def _begin_anew() -> None:
    """Forget the parent's threads: a child has none of them."""
    global _lock
    _lock = threading.Lock()
    _mine.call = None
    _stuck.clear()
    _idle.clear()
    _under_way.clear()


atexit.register(_finish)
os.register_at_fork(after_in_child=_begin_anew)
