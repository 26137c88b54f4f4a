"""The operations of a cluster, by which requests are counted."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

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


def charged(work: Callable[..., T], operation: str) -> Callable[..., T]:
    """Return a function that is an operation."""

    @wraps(work)
    def run(*given: Any, **named: Any) -> T:
        with operating(operation):
            return work(*given, **named)

    return run
