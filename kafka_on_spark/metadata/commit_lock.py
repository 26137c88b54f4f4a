"""The commit lock of one machine's processes on a table: it saves conflicts, and guards nothing.

Conditional commits let one of several processes win, and the others decide again; with eight that
commit as fast as they can, most of that work is wasted. On a local disk they take turns by a lock
on the table's folder, which the system releases when a process dies. A process waits only briefly
for a lock holder that makes no progress, perhaps frozen: a commit without the lock is as safe.

A waiter may queue its reports in a file beside the table; the lock holder may commit them with its
own. The file counts while its owner holds a lock on it: reports of a process that died, and so all
that lie there since a machine stopped, are never read, and none is flushed. The holder answers by
removing the file's name, and the owner reads that off the link count of the open file. There is no
other reply: the waiter reads the log again. This ends once processes of a machine have another way
to talk to each other.
"""

import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.deadlines import SHORT, extend_deadline, within
from kafka_on_spark.store.local_files import delete_file
from kafka_on_spark.store.roots import is_local

log = logging.getLogger(__name__)

WAIT_S: Final = 1.0
"""How long a process waits for the lock; a commit takes 10 to 30 ms."""

HANG_SECONDS: Final = 1.0
"""A root whose folder does not open for so long hangs, as far as the lock goes. Where another voter
can lead, the time until it does has begun."""

ACQUIRE_SECONDS: Final = WAIT_S + HANG_SECONDS
"""How long a process waits for the lock, once the folder is open, on a root that hangs."""

_PAUSE_S_MAX: Final = 0.004

QUEUED: Final = "_handed_in"
"""The folder of queued reports in a table's, as all versions name it; engines skip such names."""

REPORTS_BYTES_MAX: Final = 1 << 16
QUEUED_MAX: Final = 64

# Tables whose lock another process held for longer than that, perhaps frozen. This process does not
# wait for such a lock again until it finds it free: otherwise each of its commits would be as late.
# A module global, since every cluster that this process opens on a table meets the same holder.
_stalled_tables: Final[set[str]] = set()


class CommitLock:
    """One process's hold on the commit lock of a metadata log, or on none.

    A thread takes the lock, and its caller may not wait for it any more: the root hangs, or the
    user has interrupted the call. After `end` no thread that is left behind keeps it.

    Attributes:
        needs_refresh: Another process may have committed before: read the log first.
    """

    def __init__(self) -> None:
        self.needs_refresh = False
        self._uri: str | None = None
        self._taken: dict[str, bytes] = {}
        self._guard = threading.Lock()
        self._descriptor: int | None = None
        self._is_over = False

    def queued_reports(self) -> Sequence[bytes]:
        """Return the reports that waiting processes have queued, encoded, one item a process."""
        if self._uri is not None:
            with suppress(KafkaStorageError):  # the waiters take the lock later
                read = partial(read_queued, self._uri)
                self._taken = dict(within(os.path.dirname(self._uri), read, SHORT))
        return list(self._taken.values())

    def mark_committed(self) -> None:
        """Tell the processes whose reports were returned that these are decided and committed."""
        for path in self._taken:
            with suppress(OSError, KafkaStorageError):  # the waiter takes the lock later
                within(os.path.dirname(self._uri or ""), partial(delete_file, path), SHORT)

    def acquire(self, uri: str, reports: Callable[[], bytes] | None) -> None:
        """Wait for the lock on the table at `uri`, or until our reports are committed."""
        try:
            descriptor = os.open(uri, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:  # the disk is away: the commit says it better
            log.debug("no commit lock at %s: %s", uri, error)
            return
        extend_deadline(ACQUIRE_SECONDS)
        try:
            has_lock, is_committed = _try_lock(descriptor), False
            if has_lock is False and uri not in _stalled_tables:
                with queued(uri, None if reports is None else reports()) as committed:
                    has_lock = _wait(descriptor, committed)
                    is_committed = not has_lock and committed()
        finally:
            with self._guard:
                if self._is_over:
                    os.close(descriptor)
                else:
                    self._descriptor = descriptor
        if not is_committed:
            (_stalled_tables.discard if has_lock else _stalled_tables.add)(uri)
        self._uri = uri if has_lock else None
        self.needs_refresh = is_committed or bool(has_lock)

    def end(self) -> None:
        """Let the lock go, also if it is taken later."""
        with self._guard:
            self._is_over = True
            if self._descriptor is not None:
                os.close(self._descriptor)


NO_LOCK: Final = CommitLock()
"""There is no lock to take, or another process has held it for too long."""


@contextmanager
def acquire_commit_lock(
    uri: str, reports: Callable[[], bytes] | None = None
) -> Iterator[CommitLock]:
    """Wait for the lock on the table at `uri`, or until its holder has committed our reports.

    `reports` is called only if this process has to wait. There is no lock on a store, or on a file
    system without locks.
    """
    if not is_local(uri):
        yield NO_LOCK
        return
    lock = CommitLock()
    try:
        with suppress(KafkaStorageError):  # the root hangs: the commit says it better
            within(os.path.dirname(uri), partial(lock.acquire, uri, reports), HANG_SECONDS)
        yield lock if lock.needs_refresh else NO_LOCK
    finally:
        lock.end()


def _try_lock(descriptor: int) -> bool | None:
    """Return whether this process holds the lock now; None: the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _wait(descriptor: int, is_committed: Callable[[], bool]) -> bool:
    """Wait for the lock, or until our reports are committed; return whether it is ours."""
    deadline = time.monotonic() + WAIT_S
    while not is_committed():
        if _try_lock(descriptor):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(random.uniform(0, _PAUSE_S_MAX))
    return False


@contextmanager
def queued(uri: str, content: bytes | None) -> Iterator[Callable[[], bool]]:
    """Queue reports, if any, while the block waits; yield what returns whether the lock's holder
    says that it has committed them. A failure costs time only."""
    path, descriptor = f"{uri}/{QUEUED}/{uuid4().hex}", None
    try:
        if content is not None and len(content) <= REPORTS_BYTES_MAX:
            with suppress(OSError):
                if not os.path.isdir(os.path.dirname(path)):
                    os.mkdir(os.path.dirname(path))
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                descriptor = os.open(path, flags, 0o666)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.write(descriptor, content)
        yield lambda: descriptor is not None and os.fstat(descriptor).st_nlink == 0
    finally:
        if descriptor is not None:
            with suppress(OSError):
                os.unlink(path)
            os.close(descriptor)


def read_queued(uri: str) -> list[tuple[str, bytes]]:
    """Return path and content of the reports of processes that wait; remove all others."""
    folder = f"{uri}/{QUEUED}"
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder))[:QUEUED_MAX]:
            path = f"{folder}/{name}"
            with suppress(OSError):  # its owner has withdrawn it
                # An empty file was just opened, and may not be locked yet.
                content = _read(path) if os.stat(path).st_size else None
                if content is not None:
                    found.append((path, content))
    return found


def _read(path: str) -> bytes | None:
    """Return the content of a file whose owner lives; remove the file otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, REPORTS_BYTES_MAX)
    else:
        os.unlink(path)
        return None
    finally:
        os.close(descriptor)
