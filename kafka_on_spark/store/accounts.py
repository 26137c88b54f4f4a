"""Has the requests of what a cluster does counted by operation. What decides and works knows of no
count."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

from kafka_on_spark.store.requests import operating

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
    return cast(T, _Accounted(part, operation))


class _Accounted:
    def __init__(self, part: object, operation: str) -> None:
        self._part = part
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        return charged(found, self._operation) if callable(found) else found


def charged(work: Callable[..., T], operation: str) -> Callable[..., T]:
    """Return a function that is an operation."""

    @wraps(work)
    def run(*given: Any, **named: Any) -> T:
        with operating(operation):
            return work(*given, **named)

    return run
