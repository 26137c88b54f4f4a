"""Turns of the processes of a machine at one table: a courtesy, and never what keeps it right.

Conditional commits let one of several win and send the others back to decide again; with eight
that commit as fast as they can, most of the work is done for nothing. On a local disk they take
turns by a lock on the table's folder, which the system lets go when a process dies. Nobody waits
long for it: whoever has it may be frozen, and a commit without a turn is as good as any other.
"""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kafka_on_spark.storage.roots import is_local

WAIT_S: Final = 0.5
"""How long one waits for a turn: a commit takes 10 to 30 ms, so for some twenty before it."""

_PAUSE_S_MAX: Final = 0.004

# Tables whose turn somebody kept for longer than that, frozen perhaps. Nobody waits there again
# until it was free once: or each commit would be as late, for as long as the other one is frozen.
_kept: set[str] = set()


@contextmanager
def take_turn(uri: str) -> Iterator[bool]:
    """Wait for this process's turn at the table at `uri`; give whether it has one.

    It has none where there is nothing to take: on a store, or on a file system without locks.
    """
    descriptor = _folder(uri)
    if descriptor is None:
        yield False
        return
    try:
        has_turn = _has_locked(descriptor, 0.0 if uri in _kept else WAIT_S)
        (_kept.discard if has_turn else _kept.add)(uri)
        yield has_turn
    finally:
        os.close(descriptor)  # lets the lock go


def _folder(uri: str) -> int | None:
    if not is_local(uri):
        return None
    try:
        return os.open(uri, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # the disk is away, which the commit says better
        return None


def _has_locked(descriptor: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(random.uniform(0, _PAUSE_S_MAX))
        except OSError:  # a file system without locks
            return False
        else:
            return True
