"""Has the requests of what a cluster's objects do counted by operation.

Apart from the objects: they decide and work, and know of no count. A method that is added later is
counted as well.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from kafka_on_spark.storage.access.requests import operating

T = TypeVar("T")

APPEND: Final = "append"
READ: Final = "read"
CONSUME: Final = "consume"
REPLICATE: Final = "replicate"
CONTROL: Final = "control"
PROBE: Final = "probe"
RETAIN: Final = "retain"
COMPACT: Final = "compact"
UPKEEP: Final = "upkeep"
CLEAN: Final = "clean"
CHECKPOINT: Final = "checkpoint"
COMMAND: Final = "command"
DESCRIBE: Final = "describe"
QUORUM: Final = "quorum"
FSCK: Final = "fsck"
OPEN: Final = "open"
"""Operations. Each kind of upkeep of a replica is one under its own name besides."""


def accounted(part: T, operation: str) -> T:
    """Return an object whose public methods are an operation each."""
    return accounted_once_made(lambda: part, operation)


def accounted_once_made(
    make: Callable[[], T], operation: str, others: Mapping[str, str] | None = None
) -> T:
    """Return the same of an object that `make` makes, once a method of it is asked for; `others`:
    methods that are another operation.

    Two threads that ask at once may each make one: it keeps no state of its own.
    """
    return cast(T, _Accounted(make, operation, others or {}))


class _Accounted:
    def __init__(
        self,
        make: Callable[[], object],
        operation: str,
        others: Mapping[str, str],
    ) -> None:
        self._make = make
        self._operation = operation
        self._others = others
        self._part: object = None

    def __getattr__(self, name: str) -> Any:
        if self._part is None:
            self._part = self._make()
        found = getattr(self._part, name)
        if name.startswith("_") or not callable(found):
            return found
        return charged(found, self._others.get(name, self._operation))


def charged(work: Callable[..., T], operation: str) -> Callable[..., T]:
    """Return a function that is an operation."""

    @wraps(work)
    def run(*given: Any, **named: Any) -> T:
        with operating(operation):
            return work(*given, **named)

    return run
