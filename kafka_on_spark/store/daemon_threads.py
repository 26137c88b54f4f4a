"""Pools of daemon threads, for work that waits for roots.

A dead mount does not fail, it hangs, and nothing ends a thread that hangs in the system. A thread
of `concurrent.futures.ThreadPoolExecutor` that hangs keeps its process from ending. A process that
ends waits a moment for these, and then ends without them. The jobs that run are a module global,
since the process waits for those of all pools. It can go once Python's own executor has daemon
threads.

A fork copies one thread of many. In the child of a process that had used a cluster delta-rs panics,
and a store's client and a pool wait for threads that it lacks: it may not use one. A fork before
the first use is fine: Spark forks its workers so.
"""

import atexit
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from kafka_on_spark.base.errors import ClusterClosedError, KafkaStorageError

FORKED = (
    "no cluster can be used in this process, since it was forked from one that had used one: start"
    " it by spawn or forkserver (multiprocessing.get_context), or fork before the first use"
)


class _Process:
    """Whether this process, or the parent that forked it, has used a cluster."""

    def __init__(self) -> None:
        self.has_used = False
        self.is_forked = False


_process = _Process()


def check_not_forked() -> None:
    """Check that this process may use clusters, and remember that it does.

    Raises:
        ClusterClosedError: It was forked from a process that had used one.
    """
    if _process.is_forked:
        raise ClusterClosedError(FORKED)
    _process.has_used = True


def is_forked() -> bool:
    return _process.is_forked


def _mark_forked() -> None:
    _process.is_forked = _process.has_used


os.register_at_fork(after_in_child=_mark_forked)


T = TypeVar("T")
Arguments = ParamSpec("Arguments")

IDLE_SECONDS: Final = 10.0
"""How long a thread stays for the next job."""

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
        result: Any = None
        failure: BaseException | None = None
        if is_wanted := self.set_running_or_notify_cancel():
            before, _current.job = _current.job, self
            try:
                self.began()
                assert work is not None, "a job is run once"
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

    def cancel(self) -> bool:
        """Have it never run, and hold nothing, unless it has begun; return whether that is so."""
        is_cancelled = super().cancel()
        if is_cancelled:
            self._work = None
        return is_cancelled

    def began(self) -> None:
        """Note that a thread does it now."""


class _Current(threading.local):
    """The job that this thread does."""

    job: Job[Any] | None = None


_current: Final = _Current()
_running: Final[set[Job[Any]]] = set()
_ending: Final = threading.Event()
"""The interpreter is about to end."""


class DaemonThreads(Executor):
    """A pool of which at most `count` jobs run at once; the others wait. `name`: its threads'.

    Attributes:
        running: Its jobs that have a thread.
    """

    def __init__(self, count: int, name: str) -> None:
        self.running: set[Job[Any]] = set()
        self._count = count
        self._name = name
        self._inbox: SimpleQueue[Job[Any]] = SimpleQueue()
        self._taken: set[Job[Any]] = set()  # and not done
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
        if is_forked():
            raise ClusterClosedError(FORKED)
        if self._is_shut or _ending.is_set():
            raise ClusterClosedError()
        job = Job(partial(work, *args, **kwargs))
        self.begin(job)
        return job

    def begin(self, job: Job[Any]) -> None:
        """Have a job run.

        Raises:
            KafkaStorageError: The process can't start a thread.
        """
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

    def _begin_thread(self, job: Job[Any]) -> None:
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

        In a function: an idle thread holds nothing of its last job.
        """
        try:
            job = self._inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            with self._lock:
                if self._free_count <= 0:
                    return True  # a job is on its way
                self._free_count -= 1
                self._thread_count -= 1
            return False
        self.running.add(job)
        _running.add(job)
        job.run(partial(self._end, job))
        return True

    def _end(self, job: Job[Any]) -> None:
        # The thread is idle before a caller learns of the end: so its next call begins no thread.
        with self._lock:
            self._taken.discard(job)
            self.running.discard(job)
            _running.discard(job)
            self._free_count += 1

    def withdraw(self, job: Job[Any]) -> bool:
        """Take back a job; return whether it has not begun, and won't."""
        is_cancelled = job.cancel()
        if is_cancelled:
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


def current_job() -> Job[Any] | None:
    return _current.job


def _finish() -> None:
    """Give jobs a moment before the interpreter ends."""
    _ending.set()
    began = time.monotonic()
    while running := list(_running):
        is_left = all(each.is_left for each in running)
        last = began + (LATE_EXIT_SECONDS if is_left else EXIT_SECONDS)
        if not wait(running, last - time.monotonic(), return_when="FIRST_COMPLETED").done:
            return


def _forget() -> None:
    """Forget the jobs of the parent: a forked child has none of its threads."""
    _running.clear()
    _current.job = None


atexit.register(_finish)
os.register_at_fork(after_in_child=_forget)
