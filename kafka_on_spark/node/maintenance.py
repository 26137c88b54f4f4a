"""What a process does after its answers, by one thread: checkpoints, snapshots, second inspections.

Apart from the executor, whose queue has no bound: a process that appends without pause queues more
than one thread does, until memory is full, and would end after hours. Here each piece of work waits
once at most, whatever asks for it how often; work that is asked for while it runs runs once more.

Skipping it costs time only, so a failure is a line in the log. Some is promised: a process that
ends without closing its clusters does it, too. Its end concerns all of them, so they are a module
global. That can go once processes end only after they have closed their clusters.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final
from weakref import WeakSet

from kafka_on_spark.base.errors import KafkaOnSparkError
from kafka_on_spark.store.deadlines import DaemonThreads

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Maintenance:
    """Work by what it is for, done in order by one thread."""

    def __init__(self) -> None:
        self._threads = DaemonThreads(1, "maintenance")
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, Work] = {}
        self._promised: dict[Hashable, Work] = {}

    def add(self, works: Mapping[Any, Work]) -> None:
        """Have these done; what waits already is not done twice."""
        with self._lock:
            is_idle = not self._waiting
            for key, work in works.items():
                self._waiting.setdefault(key, work)
            if not is_idle or not self._waiting:
                return
        try:
            self._threads.submit(self._run)
        except KafkaOnSparkError as error:  # the pool is closed, or has no more threads
            log.debug("no maintenance: %s", error)
            with self._lock:
                self._waiting.clear()

    def promise(self, key: Hashable, work: Work) -> None:
        """Have this done, also if the process ends before."""
        _with_promises.add(self)
        with self._lock:
            self._promised[key] = work
        self.add({key: work})

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:  # no caller waits for it: without a line in the log it would be lost
                log.warning("maintenance failed", exc_info=True)

    def _next(self) -> Work | None:
        with self._lock:
            key = next(iter(self._waiting), None)
            return None if key is None else self._waiting.pop(key)

    def finish(self) -> None:
        """Wait until what is due by now is done."""
        self._threads.submit(lambda: None).result()

    def close(self) -> None:
        """Do what is due, and take nothing more."""
        self._promised = {}
        self._threads.shutdown(wait=True)

    def keep_promises(self) -> None:
        """Do what was promised, in the thread that ends the process."""
        with self._lock:
            promised, self._promised = self._promised, {}
        for work in promised.values():
            work()


_with_promises: Final["WeakSet[Maintenance]"] = WeakSet()


def _keep_all_promises() -> None:
    for each in list(_with_promises):
        each.keep_promises()


# Registered after the pools' own handlers, and so run before them: it needs their threads.
atexit.register(_keep_all_promises)
