"""Pools of daemon threads, for work that waits for roots.

A dead mount does not fail, it hangs, and nothing ends a thread that hangs in the system. A thread
of `concurrent.futures.ThreadPoolExecutor` that hangs keeps its process from ending. A process that
ends waits a moment for these, and then ends without them.

A pool bounds how many of its jobs run at once. The threads are the process's: an idle one takes the
next job of any pool. They are a module global, since a thread that hangs outlives whoever began its
job. It can go once Python's own executor has daemon threads.
"""

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from kafka_on_spark.errors import ClusterClosedError, KafkaStorageError
from kafka_on_spark.storage.calls.forks import FORKED, is_forked

T = TypeVar("T")
Arguments = ParamSpec("Arguments")

IDLE_MAX: Final = 32
"""Threads that stay for the next job; any more end with their job."""

EXIT_SECONDS: Final = 5.0
"""How long a process that ends waits for jobs."""

LATE_EXIT_SECONDS: Final = 1.0
"""How long it waits for jobs that nobody waits for any more: one that is late and not hung must not
come back into an interpreter that has ended, which would abort the process."""


class Job(Future[T]):
    """Work for a thread of a pool.

    Attributes:
        is_left: Nobody waits for it any more.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self.is_left = False
        self._work: Callable[[], T] | None = partial(copy_context().run, work)

    def run(self, end: Callable[[], None] = lambda: None) -> None:
        """Do the work in this thread. `end` is called before anybody learns that it is done.

        The thread drops its references to the work first: the process may end at once, and Arrow's
        buffers must not be released while the interpreter shuts down.
        """
        work, self._work = self._work, None
        assert work is not None, "a job is run once"
        result: Any = None
        failure: BaseException | None = None
        if is_wanted := self.set_running_or_notify_cancel():
            before, _current.job = _current.job, self
            try:
                self.began()
                result = work()
            except BaseException as error:  # `result` raises it in the caller
                failure = error
            _current.job = before
        del work
        end()
        if failure is not None:
            self.set_exception(failure)
        elif is_wanted:
            self.set_result(result)

    def began(self) -> None:
        """Note that a thread does it now."""


class _Current(threading.local):
    """The job that this thread does."""

    job: Job[Any] | None = None


class _Process:
    """The jobs and threads of this process.

    Attributes:
        lock: Held while any of the others changes, and what a pool holds.
        idle: Threads that wait for a job, by their inboxes.
        running: Jobs that have a thread.
        is_ending: The interpreter is about to end.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all: a forked child has none of its parent's threads."""
        self.lock = threading.RLock()  # a collection of garbage may begin a job
        self.idle: list[_Inbox] = []
        self.running: set[Job[Any]] = set()
        self.is_ending = False
        _current.job = None


_current: Final = _Current()
_process: Final = _Process()


class DaemonThreads(Executor):
    """A pool of which at most `count` jobs run at once; the others wait. `name`: its threads'.

    Attributes:
        running: Its jobs that have a thread.
    """

    def __init__(self, count: int, name: str) -> None:
        self.running: set[Job[Any]] = set()
        self._count = count
        self._name = name
        self._waiting: deque[Job[Any]] = deque()
        self._is_shut = False

    def submit(
        self, work: Callable[Arguments, T], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[T]:
        """Run `work` in one of the threads.

        Raises:
            ClusterClosedError: The pool is shut down, or this process was forked, or ends.
            KafkaStorageError: The process can't start a thread.
        """
        if is_forked():
            raise ClusterClosedError(FORKED)
        if self._is_shut or _process.is_ending:
            raise ClusterClosedError()
        job = Job(partial(work, *args, **kwargs))
        self.begin(job)
        return job

    def begin(self, job: Job[Any]) -> None:
        """Have a job run.

        Raises:
            KafkaStorageError: The process can't start a thread.
        """
        with _process.lock:
            if len(self.running) >= self._count:
                self._waiting.append(job)
                return
            self._hold(job)
            inbox = _process.idle.pop() if _process.idle else None
        try:
            (_new_thread() if inbox is None else inbox).put((self, job))
        except BaseException:
            with _process.lock:
                self._drop(job)
                if not self.running:
                    raise
                self._waiting.append(job)  # the threads that run do it

    def work_through(self, job: Job[Any], inbox: "_Inbox") -> bool:
        """Do a job in this thread, and then those that wait; return whether the thread, whose inbox
        this is, waits for another one.

        It is idle before a caller learns of the end: so the caller's next call begins no thread.
        """
        threading.current_thread().name = self._name
        following: Job[Any] | None = job
        stays = False

        def end() -> None:
            nonlocal following, stays
            with _process.lock:
                self._drop(job)
                following = self._waiting.popleft() if self._waiting else None
                if following is not None:
                    self._hold(following)
                elif stays := not job.is_left and len(_process.idle) < IDLE_MAX:
                    _process.idle.append(inbox)

        while following is not None:
            job = following
            job.run(end)
        return stays

    def _hold(self, job: Job[Any]) -> None:
        self.running.add(job)
        _process.running.add(job)

    def _drop(self, job: Job[Any]) -> None:
        self.running.discard(job)
        _process.running.discard(job)

    def withdraw(self, job: Job[Any]) -> bool:
        """Take back a job; return whether it has not begun, and won't."""
        is_cancelled = job.cancel()
        with _process.lock:
            if job in self._waiting:
                self._waiting.remove(job)
        return is_cancelled

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; `wait` until all work taken is done."""
        self._is_shut = True
        while cancel_futures and self._waiting:
            self.withdraw(self._waiting[-1])
        if wait:
            self.join()

    def join(self) -> None:
        """Wait until all work taken is done, but that of this thread."""
        with _process.lock:
            taken = [*self.running, *self._waiting]
        wait(each for each in taken if each is not _current.job)


_Inbox = SimpleQueue[tuple[DaemonThreads, Job[Any]]]


def _new_thread() -> _Inbox:
    inbox: _Inbox = SimpleQueue()
    thread = threading.Thread(target=_run, args=(inbox,), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise no_thread_error() from error
    return inbox


def _run(inbox: _Inbox) -> None:
    while _do_next(inbox):
        pass


def _do_next(inbox: _Inbox) -> bool:
    # In a function: an idle thread holds nothing of its last job.
    pool, job = inbox.get()
    return pool.work_through(job, inbox)


def no_thread_error() -> KafkaStorageError:
    """Return the error of a process that can't start another thread."""
    return KafkaStorageError(
        "this process can't start another thread: raise its limit (ulimit -u, or the container's"
        " pids) or have it do less at once"
    )


def current_job() -> Job[Any] | None:
    """Return the job that this thread does."""
    return _current.job


def _finish() -> None:
    """Give jobs a moment before the interpreter ends."""
    _process.is_ending = True
    began = time.monotonic()
    while running := list(_process.running):
        is_left = all(each.is_left for each in running)
        last = began + (LATE_EXIT_SECONDS if is_left else EXIT_SECONDS)
        if not wait(running, last - time.monotonic(), return_when="FIRST_COMPLETED").done:
            return


atexit.register(_finish)
os.register_at_fork(after_in_child=_process.reset)
