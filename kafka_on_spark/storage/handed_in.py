"""Notes of processes that wait for a turn at a table, as files in a folder of the table's.

A note counts while its owner holds the lock on it: one of a process that died, and so any that
lies there since a machine stopped, is never read as if it were of now. Nothing is flushed.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final
from uuid import uuid4

FOLDER: Final = "_handed_in"
"""In the table's folder; engines pass over names that begin so."""

NOTE_BYTES_MAX: Final = 1 << 16
NOTES_MAX: Final = 64


class HandedIn:
    """A process's own note, or none; whatever fails costs time only: then nobody takes it."""

    def __init__(self, uri: str, note: bytes | None) -> None:
        self._folder = f"{uri}/{FOLDER}"
        self._path = f"{self._folder}/{uuid4().hex}"
        self._descriptor: int | None = None
        if note is not None and len(note) <= NOTE_BYTES_MAX:
            with suppress(OSError):
                self._write(note)

    def _write(self, note: bytes) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._folder)
        temporary = f"{self._path}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(temporary, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, note)
            os.rename(temporary, self._path)
        except OSError:
            os.close(descriptor)
            os.unlink(temporary)
            raise
        self._descriptor = descriptor

    @property
    def is_taken(self) -> bool:
        """Whether somebody says that it was decided on: its file has no name any more."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0

    def take_back(self) -> None:
        """Have nobody read it any more."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)
        self._descriptor = None


def read_notes(uri: str) -> list[tuple[str, bytes]]:
    """Return path and content of the notes of those that wait now; remove others'."""
    folder = f"{uri}/{FOLDER}"
    notes = []
    with suppress(OSError):
        for name in sorted(os.listdir(folder))[:NOTES_MAX]:
            path = f"{folder}/{name}"
            with suppress(OSError):  # its owner has taken it back
                # An empty one is perhaps just being made, and not locked yet.
                note = _read(path) if os.stat(path).st_size else None
                if note is not None and not name.endswith(".tmp"):
                    notes.append((path, note))
    return notes


def _read(path: str) -> bytes | None:
    """Return a note, or None if it has no owner any more; then it is removed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(descriptor, NOTE_BYTES_MAX)
    else:
        os.unlink(path)
        return None
    finally:
        os.close(descriptor)
