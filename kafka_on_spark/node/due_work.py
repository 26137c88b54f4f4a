"""Has what is due done by a thread, after the answer: checkpoints, snapshots, merges.

Apart from the executor, whose queue has no bound: a process that appends without pause queues more
than one thread does, until memory is full, and would end after hours. Here each piece of work waits
once at most, whatever asks for it how often; work that is asked for while it runs runs once more.
"""

import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor
from typing import Any

from kafka_on_spark.base.errors import KafkaOnSparkError

log = logging.getLogger(__name__)

Work = Callable[[], None]


class DueWork:
    """Work by what it is for, done in order by one thread of `threads`. Skipping it costs time
    only, so a failure is a line in the log."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, Work] = {}

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
