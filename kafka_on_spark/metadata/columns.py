"""Constructing many frozen values at once, past their constructors: the one place that does so.

A million calls of a dataclass's constructor take longer than the rest of opening a cluster of a
million partitions. Here one loop in C fills each field for all values. This ends when frozen
dataclasses, or a library's values in their place, are constructed at that speed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def construct_many(cls: type[T], columns: Mapping[str, Iterable[object]], count: int) -> list[T]:
    """Return `count` values of a frozen dataclass with slots, their fields from `columns`.

    Each field is in `columns`, with at least `count` values. The caller checks the invariants, for
    all values.
    """
    made: list[T] = list(map(object.__new__, repeat(cls, count)))
    for name, values in columns.items():
        deque(map(getattr(cls, name).__set__, made, values), maxlen=0)
    return made


class Memo(dict[K, T]):
    """What `make` returns, once for equal arguments, so that partitions share equal values."""

    def __init__(self, make: Callable[[K], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, given: K) -> T:
        made = self[given] = self._make(given)
        return made
