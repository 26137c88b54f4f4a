"""Changes local roots: the only code that writes, names, deletes, makes and flushes files there.

Delta-rs writes checkpoints besides, and a process that waits for a lock queues reports in files
whose loss in a crash costs time only. It is one place so that tests can record what was done, in
order, and build from the record every state in which a power cut may leave a disk.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from stat import S_ISDIR
from typing import Any, Final
from uuid import uuid4

from kafka_on_spark.base.metric import FLUSH_MS
from kafka_on_spark.store.clock import SystemClock
from kafka_on_spark.store.counts import Counts
from kafka_on_spark.store.deadlines import extend_deadline, long_call_seconds

FLUSHES: Final = Counts(SystemClock().precise_ms)
"""How long this process's flushes of local disks took, for all clusters that it has opened: a disk
does not know for whom it flushes."""

_WRITE_BYTES: Final = 2**24
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_temporary(path: str, pieces: Iterable[Any], *, is_flushed: bool) -> str:
    """Write a temporary file beside `path`; return its path. A failure removes it."""
    temporary = f"{os.path.dirname(path)}/_{uuid4().hex}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o666)
    size_bytes = 0
    try:
        for piece in pieces:
            view = memoryview(piece).cast("B")
            size_bytes += len(view)
            while view:
                extend_deadline(long_call_seconds(path))
                view = view[os.write(descriptor, view[:_WRITE_BYTES]) :]
        if is_flushed:
            extend_deadline(long_call_seconds(path, size_bytes))
            with FLUSHES.timed(FLUSH_MS):
                os.fsync(descriptor)
    except BaseException:
        # A full disk needs its space.
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    return temporary


def create_file(path: str, content: bytes) -> bool:
    """Write a flushed file unless there is one; return whether it was written.

    Its folder is made, but not the folder's parent: a root that was removed must not be made again.
    """
    make_folder(os.path.dirname(path))
    temporary = write_temporary(path, [content], is_flushed=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    flush_path(os.path.dirname(path))
    return True


def link(source: str, target: str) -> None:
    """Give a file a second name, unless there is a file of that name."""
    os.link(source, target)


def rename(source: str, target: str) -> None:
    os.rename(source, target)


def delete_file(path: str) -> None:
    os.unlink(path)


def delete(path: str) -> None:
    """Delete a file, or a folder with all that is in it; links are not followed."""
    if not S_ISDIR(os.stat(path, follow_symlinks=False).st_mode):
        os.unlink(path)
        return
    # By descriptors: a link that takes a folder's place meanwhile would lead out of the root.
    descriptor = os.open(path, _FOLDER)
    try:
        _empty(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(path)


def _empty(folder: int) -> None:
    with os.scandir(folder) as entries:
        found = [(each.name, each.is_dir(follow_symlinks=False)) for each in entries]
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
            continue
        descriptor = os.open(name, _FOLDER, dir_fd=folder)
        try:
            _empty(descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=folder)


def delete_empty_folder(path: str) -> None:
    os.rmdir(path)


def make_folder(path: str, mode: int = 0o777) -> bool:
    """Make a folder, unless something has its name; return whether it was made."""
    with suppress(FileExistsError):
        os.mkdir(path, mode)
        return True
    return False


def make_folders(path: str) -> None:
    """Make a folder and those that lead to it, as far as they are missing."""
    if not os.path.isdir(path):
        make_folders(os.path.dirname(path))
        make_folder(path)


def set_mode(path: str, mode: int) -> None:
    """Give a file or folder exactly these permissions."""
    os.chmod(path, mode)


def flush_path(path: str) -> None:
    """Make a file's bytes durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        extend_deadline(long_call_seconds(path, os.fstat(descriptor).st_size))
        with FLUSHES.timed(FLUSH_MS):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
