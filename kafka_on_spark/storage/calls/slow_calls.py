"""Tells of calls to roots that take long: who waits for one learns for what.

A call may hang, compute, or get no processor on a machine with too much to do; the one who waits
can't tell which. The warning names the root and the function, which says where to look.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

log = logging.getLogger(__name__)

SLOW_SECONDS: Final = 10.0
"""After so long a call is told of, and again each time that it has taken twice as long."""


class SlowCall:
    """A call that somebody waits for. `work`: the function that does it; it is not held."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._name = _name_of(work)
        self._since = time.monotonic()
        self._tell_after = SLOW_SECONDS

    def tell(self, root: str) -> None:
        """Warn of it if it is time. `root`: the one that it uses now."""
        seconds = time.monotonic() - self._since
        if seconds < self._tell_after:
            return
        self._tell_after = 2 * max(seconds, SLOW_SECONDS)
        log.warning("a call to %s takes long, %.0f s so far: %s", root, seconds, self._name)


def _name_of(work: Any) -> str:
    while isinstance(work, partial):
        work = work.func
    return getattr(work, "__qualname__", type(work).__qualname__)
