"""Counts the requests that this process sends to roots, by operation and kind.

On S3 the client's own events are counted, so each retry is there. A call to a disk or to another
store counts as one request. The counts are a module global, as the process's page of figures is.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, Literal, TypeVar

RequestKind = Literal["PUT", "COPY", "POST", "LIST", "GET", "HEAD", "DELETE"]
"""A request, by S3's words. `POST` begins and ends an upload in parts; a request that deletes many
objects is one `DELETE`."""

Requests = Counter[tuple[str, RequestKind]]
"""How many requests an operation has sent, by the operation's name and the kind."""

_operation: Final[ContextVar[str]] = ContextVar("operation", default="(other)")
_sent: Final[Requests] = Counter()
_lock: Final = threading.Lock()


@contextmanager
def operating(operation: str) -> Iterator[None]:
    """Have the block be one operation; of one within it, the inner one counts alone. Jobs of
    `DaemonThreads` count for the operation that submits them."""
    before = _operation.get()
    _operation.set(operation)
    try:
        yield
    finally:
        _operation.set(before)


def current_operation() -> str:
    return _operation.get()


def count_request(kind: RequestKind, path: str, count: int = 1) -> None:
    """Count a call to the root of `path`. S3's own client counts what it sends."""
    if not path.startswith(("s3://", "s3a://")):
        with _lock:
            _sent[_operation.get(), kind] += count


def count_sent(kind: RequestKind) -> None:
    with _lock:
        _sent[_operation.get(), kind] += 1


def count_requests(requests: Requests) -> None:
    """Count what a task of an executor has sent."""
    with _lock:
        _sent.update(requests)


def requests_sent() -> Requests:
    """Return what this process has sent since it began."""
    with _lock:
        return _sent.copy()


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
