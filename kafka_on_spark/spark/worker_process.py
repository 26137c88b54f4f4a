"""A Python process of Spark's that works for us again and again: what it need not do each time.

Spark's daemon has such a process look for garbage after every task, among all that was ever
imported there: 30 to 40 ms of the processor's time, in each of the four processes of a write, and
the one that comes next waits for the processor.
"""

import gc
import sys
from typing import Final

SETTLED_MAX: Final = 8
"""How often a process settles: what is settled is never looked at again, so what turns to garbage
later, in cycles, stays. Bounded, and after a few tasks all is imported that will be."""

_DAEMON: Final = "pyspark.daemon"


class _Settling:
    """How often this process has settled, and how many collections there had been then."""

    def __init__(self) -> None:
        self.count = 0
        self.collections: int | None = None


_settling: Final = _Settling()


def settle() -> None:
    """Leave what has outlived a full collection out of those to come. Called before a task's work.

    Only right after a collection, so that little of it is garbage; and only in processes that
    Spark's daemon has made, since others collect when they need it.
    """
    if _settling.count >= SETTLED_MAX or not _is_of_daemon():
        return
    collections = gc.get_stats()[-1]["collections"]
    if _settling.collections not in (None, collections):
        gc.freeze()
        _settling.count += 1
    _settling.collections = collections


def _is_of_daemon() -> bool:
    specification = getattr(sys.modules["__main__"], "__spec__", None)
    return getattr(specification, "name", None) == _DAEMON
