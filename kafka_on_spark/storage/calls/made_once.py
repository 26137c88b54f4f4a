"""A part of an object that is made once somebody asks for it: the first thread makes it, for all.

Apart from `functools.cached_property`, of which each of two threads that ask at once gets its own
from Python 3.12 on: what keeps state must be one.
"""

from collections.abc import Callable
from threading import RLock
from typing import Any, Final, Generic, Self, TypeVar, overload

T = TypeVar("T")

_MAKING: Final = RLock()
"""One for all parts of this process, since one part may make another one: two threads that begin at
different parts never wait for each other."""


class made_once(Generic[T]):  # noqa: N801 - used as `property` is
    """Decorates the method that makes a part, of an object that has a `__dict__`."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.__doc__ = make.__doc__
        self._make = make
        self._name = make.__name__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type) -> T: ...

    def __get__(self, owner: object, kind: type) -> "Self | T":
        """Return the part; only the first time, since it then hides this."""
        if owner is None:
            return self
        parts = vars(owner)
        with _MAKING:
            if self._name not in parts:
                parts[self._name] = self._make(owner)
            found: T = parts[self._name]
            return found

    def is_made(self, owner: object) -> bool:
        """Return whether somebody has asked for it."""
        return self._name in vars(owner)
