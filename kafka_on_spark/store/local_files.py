"""Files on local roots: how large each kind can be, reading them, and all that changes them.

A file is opened without waiting, and is checked to be a regular one of allowed size before it is
read: a pipe in its place would hang, a sparse file of a terabyte would exhaust the memory. Without
limits a writer to one root could exhaust the memory of every process that reads it. A segment's
file must have the size that its commit names; a limit here bounds that size, too.

This is the only code that writes, names, deletes, makes and flushes files on local roots, but
for a process that waits for a lock and queues reports in files whose loss in a crash costs time
only. It is one place so that tests can record what was done, in order, and build from the record
every state in which a power cut may leave a disk.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, ELOOP, ENXIO, EROFS
from stat import S_ISDIR, S_ISREG
from typing import Any, Final
from uuid import uuid4

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.counts import FLUSH_MS, Counts
from kafka_on_spark.store.deadlines import (
    FLUSH_BYTES_A_SECOND,
    LONG,
    READ_BYTES_A_SECOND,
    SHORT,
    SystemClock,
    extend_deadline,
)
from kafka_on_spark.store.error_translation import is_denied, storage_error

_PIECE_BYTES: Final = 2**20

# Opening does not wait for a pipe's writer or a lease. A link could lead out of the root.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK

SMALL_FILE_BYTES_MAX: Final = 2**16
"""Of a file of a few lines: ``meta.properties``, a hint."""

COMMIT_BYTES_MAX: Final = 2**26
"""Of a commit file: a segment takes 700 bytes of one, and a commit names 16,384 of them at most,
where others can follow in another one (`FILES_A_CHANGE_MAX`), and twice as many where they are one
append's (`SEGMENTS_A_BATCH_MAX`) or a follower gives them up. A larger one is not put."""

CHECKPOINT_BYTES_MAX: Final = 2**30
"""Of a checkpoint: 300,000 counters take 16 MB."""

METADATA_FILE_BYTES_MAX: Final = 2**30
"""Of a snapshot or a file of metadata records: a million partitions take 100 MB."""

PRODUCERS_BYTES_MAX: Final = 2**30
"""Of a producer-state file: 100,000 producers take about 6 MB."""

SEGMENT_BYTES_MAX: Final = 2**32
"""Of a segment: a task holds 192 MiB of a partition, and one more Arrow batch, whose columns have
two gigabytes at most."""

ROWS_MAX: Final = 2**27
"""Rows of a checkpoint, a snapshot or a file of metadata records."""

UNCOMPRESSED_BYTES_MAX: Final = 2**32 + 2**28
"""Of such a file or a segment, as its footer says: a decompression bomb packs terabytes into a
megabyte."""

FLUSHES: Final = Counts(SystemClock().precise_ms)
"""How long this process's flushes of local disks took, and how many checkpoints failed, for all
clusters that it has opened: a disk and a table do not know for whom."""

_WRITE_BYTES: Final = 2**24
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_temporary(path: str, pieces: Iterable[Any], *, is_flushed: bool) -> str:
    """Write a temporary file beside `path`; return its path. A failure removes it, and ends the
    reading of `pieces`: who keeps the error keeps no file open."""
    temporary = f"{os.path.dirname(path)}/_{uuid4().hex}.tmp"
    descriptor = os.open(temporary, _NEW_FILE, 0o666)
    size_bytes = 0
    try:
        for piece in pieces:
            view = memoryview(piece).cast("B")
            size_bytes += len(view)
            while view:
                extend_deadline(LONG.disk)
                view = view[os.write(descriptor, view[:_WRITE_BYTES]) :]
        if is_flushed:
            extend_deadline(LONG.disk + size_bytes / FLUSH_BYTES_A_SECOND)
            with FLUSHES.timed(FLUSH_MS):
                os.fsync(descriptor)
    except BaseException:
        # A full disk needs its space.
        os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
        if isinstance(pieces, Generator):
            pieces.close()
    return temporary


class NotPutError(Exception):
    """A file was certainly not put: that failed before the file got its name.

    Attributes:
        error: What failed; its kind says whether the root refuses the caller, or is full.
    """

    def __init__(self, error: KafkaStorageError) -> None:
        super().__init__(error.message)
        self.error = error


def create_file(
    path: str, content: bytes, *, is_flushed: bool, makes_folder: bool
) -> tuple[()] | None:
    """Write a file unless there is one; return () if it was written, None if there is one.

    `makes_folder`: its folder is made and flushed, but not the folder's parent: a root that was
    removed must not be made again.

    Raises:
        NotPutError: The disk refused it.
        OSError: The file may be there.
    """
    try:
        if makes_folder:
            make_folder(os.path.dirname(path))
        temporary = write_temporary(path, [content], is_flushed=is_flushed)
    except OSError as error:
        raise NotPutError(storage_error(error, f"write {path}")) from error
    try:
        os.link(temporary, path)
    except FileExistsError:
        return None
    except OSError as error:
        # A disk that has just turned read-only, or an export of NFS, may have made the link before.
        if is_denied(error):
            raise NotPutError(storage_error(error, f"write {path}")) from error
        raise
    finally:
        with suppress(OSError):  # the disk is gone, and the file with it; or a cleaner takes it
            os.unlink(temporary)
    if makes_folder:
        flush_each([os.path.dirname(path)])
    return ()


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


def names_in(folder: str) -> list[str]:
    """Return the names in a folder, sorted."""
    return sorted(os.listdir(folder))


def sizes_in(folder: str) -> dict[str, int]:
    sizes = {}
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # deleted since
            sizes[name] = os.stat(f"{folder}/{name}").st_size
    return sizes


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
    os.chmod(path, mode)


def flush_each(paths: Iterable[str]) -> None:
    """Make the bytes of files durable, and the names in folders."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                extend_deadline(LONG.disk + os.fstat(descriptor).st_size / FLUSH_BYTES_A_SECOND)
                with FLUSHES.timed(FLUSH_MS):
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, f"flush {path}") from error


class UnsafeFileError(KafkaStorageError):
    """What stands in a file's place is no regular file, or too large: none of it was read."""


def size_of(path: str) -> int:
    return stamp_of(os.stat(path, follow_symlinks=False), path)[-1]


def time_and_size_of(path: str) -> tuple[int, int]:
    """Return when a file was written, by its disk's clock, ms since 1970 UTC, and its bytes."""
    found = os.stat(path, follow_symlinks=False)
    return found.st_mtime_ns // 1_000_000, found.st_size


def local_write_refusal(folder: str) -> str | None:
    """Return why this process can't write to a folder; None if it can, or there is no folder."""
    if os.access(folder, os.W_OK | os.X_OK, effective_ids=True) or not os.path.isdir(folder):
        return None
    is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    return os.strerror(EROFS if is_read_only else EACCES)


def stamp_of(found: os.stat_result, path: str) -> tuple[int, int, int]:
    """Return what tells a file from another one of its name: inode, time in ns, size."""
    if not S_ISREG(found.st_mode):
        raise UnsafeFileError(f"{path} is no regular file")
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def _opened(path: str, folder: int | None = None) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Open a file to read; yield its descriptor, and which file it is, as `stamp_of`."""
    descriptor = os.open(path, _READ, dir_fd=folder)
    try:
        yield descriptor, stamp_of(os.fstat(descriptor), path)
    finally:
        os.close(descriptor)


def stamp_at(path: str) -> tuple[int, int, int]:
    """Return which file stands at a path, as `stamp_of`.

    It is opened: a name that is only looked up may be the answer of a cache, as on NFS.
    """
    try:
        with _opened(path) as (_, stamp):
            return stamp
    except OSError as error:
        if error.errno in (ELOOP, ENXIO):  # a link; a socket
            raise UnsafeFileError(f"{path} is no regular file") from error
        raise


def check_size(size_bytes: int, bytes_max: int, path: str) -> None:
    """Check that a file is no larger than such a file can be."""
    if size_bytes > bytes_max:
        raise UnsafeFileError(
            f"{path} is larger than it can be", size_bytes=size_bytes, bytes_max=bytes_max
        )


def read_file(path: str, bytes_max: int, folder: int | None = None) -> bytes:
    """Return a file's bytes; with `folder`, an open descriptor, `path` is relative to it."""
    with _opened(path, folder) as (descriptor, stamp):
        return _read_all(descriptor, stamp[-1], path, bytes_max)


def _read_all(descriptor: int, size: int, path: str, bytes_max: int) -> bytes:
    check_size(size, bytes_max, path)
    extend_deadline(SHORT.disk + size / READ_BYTES_A_SECOND)
    # One byte more: a file being written may grow. One read returns two gigabytes at most.
    content = os.read(descriptor, size + 1)
    while len(content) != size and len(content) <= bytes_max:
        rest = os.read(descriptor, _PIECE_BYTES)
        if not rest:
            break
        content += rest
    check_size(len(content), bytes_max, path)
    return content


def read_end(path: str, size_bytes: int, count: int) -> bytes:
    """Return the last `count` bytes of a file of `size_bytes`; fewer if it is shorter."""
    with _opened(path) as (descriptor, _):
        return os.pread(descriptor, count, size_bytes - count)


def pieces(path: str, bytes_max: int) -> Iterator[memoryview]:
    """Yield a file's bytes in order; each piece overwrites the one before."""
    # One buffer that stays in the processor's cache: a third faster than a whole file.
    with _opened(path) as (descriptor, stamp):
        check_size(stamp[-1], bytes_max, path)
        piece = memoryview(bytearray(min(stamp[-1] + 1, _PIECE_BYTES)))
        read = 0
        while count := os.readv(descriptor, [piece]):
            read += count
            check_size(read, bytes_max, path)
            yield piece[:count]
