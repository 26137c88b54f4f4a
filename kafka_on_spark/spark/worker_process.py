"""Keeps Spark's Python workers from collecting garbage among all imported modules after every task.

pyspark's daemon calls `gc.collect()` after each task of a worker that it keeps. That takes 30 to
40 ms of processor time in each of the four processes of a write, and the next process waits for
it. `gc.freeze()` takes all objects that exist out of later collections. This module ends when the
daemon no longer collects after each task.
"""

import gc
import sys
from typing import Final

FREEZES_MAX: Final = 8
"""How often a process freezes. Frozen objects that become cyclic garbage later are never freed, so
the number is bounded; after a few tasks a worker has imported everything that it will."""

_DAEMON: Final = "pyspark.daemon"


class _Freezes:
    """How often this process froze, and its full collections up to the last task."""

    def __init__(self) -> None:
        self.count = 0
        self.collections: int | None = None


_freezes: Final = _Freezes()


def freeze_gc() -> None:
    """Freeze the objects that survived a full collection. Called before a task's work.

    Only right after a full collection, so that little of it is garbage, and only in processes of
    pyspark's daemon: others collect when they need to.
    """
    if _freezes.count >= FREEZES_MAX or not _is_of_daemon():
        return
    collections = gc.get_stats()[-1]["collections"]
    if _freezes.collections not in (None, collections):
        gc.freeze()
        _freezes.count += 1
    _freezes.collections = collections


def _is_of_daemon() -> bool:
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(specification, "name", None) == _DAEMON
