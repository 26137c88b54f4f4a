"""Decides whether this process may use a cluster: not if its parent had used one before the fork.

A fork copies one thread of many. In such a child delta-rs panics, and a store's client and a pool
wait for threads that the child lacks. A fork before the first use is fine: Spark forks its workers
so. The flags are a module global, since a fork copies the whole process.
"""

import os

from kafka_on_spark.base.errors import ClusterClosedError

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
    """Return whether this process was forked from one that had used a cluster."""
    return _process.is_forked


def _mark_forked() -> None:
    _process.is_forked = _process.has_used


os.register_at_fork(after_in_child=_mark_forked)
