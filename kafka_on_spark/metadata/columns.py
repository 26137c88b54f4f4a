"""Many frozen values at once.

A million calls of a dataclass's constructor take longer than all the rest of opening a cluster
of a million partitions: here each field is filled for all values in one loop that runs in C.
"""

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def fill(cls: type[T], columns: Mapping[str, Iterable[object]], count: int) -> list[T]:
    """Return `count` values of a frozen dataclass with slots, their fields from `columns`.

    Each field is in `columns`, with at least `count` values. No invariant is asserted: who calls
    does, for all values.
    """
    made: list[T] = list(map(object.__new__, repeat(cls, count)))
    for name, values in columns.items():
        deque(map(getattr(cls, name).__set__, made, values), maxlen=0)
    return made


class Shared(dict[K, T]):
    """What `make` returns, made once for equal arguments: partitions share what is equal."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, given: K) -> T:
        made = self[given] = self._make(given)
        return made


@contextmanager
def nothing_to_collect() -> Iterator[None]:
    """Make Python's garbage collector wait: what is made here is kept, and to look for cycles
    among millions of new values, again and again, takes a third of the time. A second thread in
    here may find the collector back at work, which costs time only."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
