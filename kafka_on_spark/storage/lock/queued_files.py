"""Reports that processes queue while they wait for a table's lock: files in a folder of the table.

A file counts while its owner holds a lock on it: reports of a process that died, and so all that
lie there since a machine stopped, are never read. No file here is flushed.

The lock holder answers by removing the file's name. Its owner reads the answer off the link count
of the open file: that is one call, and names no path that another file may have taken meanwhile.
This ends once processes of a machine have another way to talk to each other.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final
from uuid import uuid4

FOLDER: Final = "_handed_in"
"""In the table's folder; engines skip names that begin with `_`."""

REPORTS_BYTES_MAX: Final = 1 << 16
FILES_MAX: Final = 64


class QueuedReports:
    """The reports that this process queues, if any; a failure costs time only."""

    def __init__(self, uri: str, content: bytes | None) -> None:
        self._folder = f"{uri}/{FOLDER}"
        self._path = f"{self._folder}/{uuid4().hex}"
        self._descriptor: int | None = None
        if content is not None and len(content) <= REPORTS_BYTES_MAX:
            with suppress(OSError):
                self._write(content)

    def _write(self, content: bytes) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._folder)
        temporary = f"{self._path}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, content)
            os.rename(temporary, self._path)
        except OSError:
            os.close(descriptor)
            os.unlink(temporary)
            raise
        self._descriptor = descriptor

    @property
    def is_committed(self) -> bool:
        """Whether the lock holder says that it has committed the reports."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0

    def withdraw(self) -> None:
        """Remove the reports from the queue."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = None


def read_queued(uri: str) -> list[tuple[str, bytes]]:
    """Return path and content of the reports of processes that wait; remove all others."""
    folder = f"{uri}/{FOLDER}"
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder))[:FILES_MAX]:
            path = f"{folder}/{name}"
            with suppress(OSError):  # its owner has withdrawn it
                # An empty file may have just been opened, and not locked yet.
                content = _read(path) if os.stat(path).st_size else None
                if content is not None and not name.endswith(".tmp"):
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
