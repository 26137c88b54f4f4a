"""Charges what a cluster's objects do to operations of its ledger.

Apart from the objects: they decide and work, and know of no ledger. A method that is added later is
charged as well.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeVar, cast

from kafka_on_spark.storage.ledger.ledger import Ledger

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


def accounted(
    part: T, ledger: Ledger, operation: str, others: Mapping[str, str] | None = None
) -> T:
    """Return an object whose public methods are an operation of `ledger` each; `others`: methods
    that are another one."""
    return accounted_once_made(lambda: part, ledger, operation, others)


def accounted_once_made(
    make: Callable[[], T], ledger: Ledger, operation: str, others: Mapping[str, str] | None = None
) -> T:
    """Return the same of an object that `make` makes, once a method of it is asked for.

    Two threads that ask at once may each make one: it keeps no state of its own.
    """
    return cast(T, _Accounted(make, ledger, operation, others or {}))


class _Accounted:
    def __init__(
        self,
        make: Callable[[], object],
        ledger: Ledger,
        operation: str,
        others: Mapping[str, str],
    ) -> None:
        self._make = make
        self._ledger = ledger
        self._operation = operation
        self._others = others
        self._part: object = None

    def __getattr__(self, name: str) -> Any:
        if self._part is None:
            self._part = self._make()
        found = getattr(self._part, name)
        if name.startswith("_") or not callable(found):
            return found
        return charged(found, self._ledger, self._others.get(name, self._operation))


def charged(work: Callable[..., T], ledger: Ledger, operation: str) -> Callable[..., T]:
    """Return a function that is an operation of `ledger`."""

    @wraps(work)
    def run(*given: Any, **named: Any) -> T:
        with ledger.operating(operation):
            return work(*given, **named)

    return run
