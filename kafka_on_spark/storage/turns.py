"""Turns of the processes of a machine at one table: a courtesy, and never what keeps it right.

Conditional commits let one of several win and send the others back to decide again; with eight
that commit as fast as they can, most of the work is done for nothing. On a local disk they take
turns by a lock on the table's folder, which the system lets go when a process dies. Nobody waits
long for who does nothing with it, frozen perhaps: a commit without a turn is as good as any other.

Who waits may hand in a note, for whoever has the turn to decide on that with its own, in one
commit. Nobody owes an answer: what became of it, the log says.
"""

import fcntl
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ports import NO_TURN, Turn
from kafka_on_spark.storage.deadlines import LOOK_SECONDS, is_awaited, within
from kafka_on_spark.storage.handed_in import HandedIn, read_notes
from kafka_on_spark.storage.roots import is_local

log = logging.getLogger(__name__)

WAIT_S: Final = 0.5
"""How long one waits while nothing is written in the folder: a commit takes 10 to 30 ms."""

WAITS_MAX: Final = 4
"""How many times as long one waits in all: others may write in it without a turn."""

TURN_SECONDS: Final = WAITS_MAX * WAIT_S + LOOK_SECONDS
"""How long one waits for a root that hangs."""

_PAUSE_S_MAX: Final = 0.004

_NOTHING: Final[tuple[Turn, None]] = (NO_TURN, None)

# Tables whose turn somebody kept for longer than that, frozen perhaps. Nobody waits there again
# until it was free once: or each commit would be as late, for as long as the other one is frozen.
_kept: set[str] = set()


class _TableTurn(Turn):
    """A turn at the table at `uri`; whoever waits there may have handed something in."""

    def __init__(self, uri: str) -> None:
        self.has_news = True
        self._uri = uri
        self._root = os.path.dirname(uri)
        self._taken: Sequence[str] = ()

    def handed_in(self) -> list[bytes]:
        notes: list[tuple[str, bytes]] = []
        with suppress(KafkaStorageError):  # they wait for a turn of their own, then
            notes = within(self._root, lambda: read_notes(self._uri), LOOK_SECONDS)
        self._taken = [path for path, _ in notes]
        return [note for _, note in notes]

    def done(self) -> None:
        if self._taken:
            with suppress(KafkaStorageError):
                within(self._root, partial(_unlink, self._taken), LOOK_SECONDS)
        self._taken = ()


def _unlink(paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(OSError):  # its owner waits for a turn of its own, then
            os.unlink(path)


class _Served(Turn):
    """No turn: somebody has committed what this process has handed in, so it says."""

    has_news = True


@contextmanager
def take_turn(uri: str, note: Callable[[], bytes] | None = None) -> Iterator[Turn]:
    """Wait for this process's turn at the table at `uri`, or until somebody has taken its note.

    `note` is asked for it only if there is somebody to wait for. A process has no turn where
    there is nothing to take: on a store, or on a file system without locks.
    """
    if not is_local(uri):
        yield NO_TURN
        return
    turn, descriptor = _NOTHING
    with suppress(KafkaStorageError):  # the root hangs, which the commit says better
        turn, descriptor = within(os.path.dirname(uri), lambda: _taken(uri, note), TURN_SECONDS)
    try:
        yield turn
    finally:
        if descriptor is not None:
            os.close(descriptor)  # lets the lock go


def _taken(uri: str, note: Callable[[], bytes] | None) -> tuple[Turn, int | None]:
    """Return the turn, and what is to be closed after it."""
    try:
        descriptor = os.open(uri, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:  # the disk is away, which the commit says better
        log.debug("no turn at %s: %s", uri, error)
        return _NOTHING
    try:
        turn = _turn(uri, descriptor, note)
    except BaseException:
        os.close(descriptor)
        raise
    if not is_awaited():
        os.close(descriptor)
        return _NOTHING
    return turn, descriptor


def _turn(uri: str, descriptor: int, note: Callable[[], bytes] | None) -> Turn:
    has_turn = _has_locked(descriptor)
    if has_turn is False and uri not in _kept:
        mine = HandedIn(uri, None if note is None else note())
        try:
            has_turn = _has_waited(descriptor, mine)
            if not has_turn and mine.is_taken:
                return _Served()
        finally:
            mine.take_back()
    (_kept.discard if has_turn else _kept.add)(uri)
    return _TableTurn(uri) if has_turn else NO_TURN


def _has_locked(descriptor: int) -> bool | None:
    """Return whether the lock is ours now; None: there are no locks here."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _has_waited(descriptor: int, mine: HandedIn) -> bool:
    """Wait for the lock, for as long as somebody gets on; return whether it is ours."""
    last_deadline = time.monotonic() + WAITS_MAX * WAIT_S
    deadline, written = 0.0, None
    while not mine.is_taken:
        if _has_locked(descriptor):
            return True
        now, last = time.monotonic(), os.fstat(descriptor).st_mtime_ns
        if last != written:
            deadline, written = min(now + WAIT_S, last_deadline), last
        if now >= deadline:
            return False
        time.sleep(random.uniform(0, _PAUSE_S_MAX))
    return False
