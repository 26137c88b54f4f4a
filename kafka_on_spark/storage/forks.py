"""Whether this process may use a cluster: not if it was forked from one that had used one.

A fork copies one thread of many. delta-rs panics in such a child, a store's client and a pool wait
for threads that it does not have. Forked before the first use, all is well: so do Spark's workers.
"""

import os

from kafka_on_spark.errors import ClusterClosedError

FORKED = (
    "no cluster can be used in this process, since it was forked from one that had used one: start"
    " it by spawn or forkserver (multiprocessing.get_context), or fork before the first use"
)


class _Process:
    """What this process, or the one that it was forked from, has done."""

    def __init__(self) -> None:
        self.has_used = False
        self.is_forked = False


_process = _Process()


def check_not_forked() -> None:
    """Check that this process may use clusters, which it does now.

    Raises:
        ClusterClosedError: It was forked from one that has.
    """
    if _process.is_forked:
        raise ClusterClosedError(FORKED)
    _process.has_used = True


def is_forked() -> bool:
    """Return whether this process was forked from one that had used a cluster."""
    return _process.is_forked


def _forked() -> None:
    _process.is_forked = _process.has_used


os.register_at_fork(after_in_child=_forked)
