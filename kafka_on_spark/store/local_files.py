"""Reads local files, whole or in pieces, for `roots`.

A file is opened without waiting, and is checked to be a regular one of allowed size before it is
read: a pipe in its place would hang, a sparse file of a terabyte would exhaust the memory.
"""

import os
from collections.abc import Iterator
from errno import EACCES, ELOOP, ENXIO, EROFS
from stat import S_ISREG
from typing import Final

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.deadlines import READ_BYTES_A_SECOND, extend_deadline, short_call_seconds

_PIECE_BYTES: Final = 2**20

# Opening does not wait for a pipe's writer or a lease. A link could lead out of the root.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class UnsafeFileError(KafkaStorageError):
    """What stands in a file's place is no regular file, or too large: none of it was read."""


def open_regular(path: str, folder: int | None = None) -> tuple[int, int]:
    """Open a file to read; return its descriptor and its size.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    descriptor = os.open(path, _READ, dir_fd=folder)
    try:
        return descriptor, _size(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise


def size_of(path: str) -> int:
    """Return a file's size.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    return _size(os.stat(path, follow_symlinks=False), path)


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


def _size(found: os.stat_result, path: str) -> int:
    if not S_ISREG(found.st_mode):
        raise UnsafeFileError(f"{path} is no regular file")
    return found.st_size


def stamp_of(found: os.stat_result, path: str) -> tuple[int, int, int]:
    """Return what tells a file from another one of its name: inode, time in ns, size.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    return found.st_ino, found.st_mtime_ns, _size(found, path)


def stamp_opened(path: str) -> tuple[int, int, int]:
    """Return which file stands at a path, as `stamp_of`.

    It is opened: a name that is only looked up may be the answer of a cache, as on NFS.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno in (ELOOP, ENXIO):  # a link; a socket
            raise UnsafeFileError(f"{path} is no regular file") from error
        raise
    try:
        return stamp_of(os.fstat(descriptor), path)
    finally:
        os.close(descriptor)


def read_stamped(path: str, bytes_max: int) -> tuple[bytes, tuple[int, int, int]]:
    """Return a file's bytes, and which file it was, as `stamp_of`.

    Raises:
        UnsafeFileError: It is no regular file, or larger than `bytes_max`.
    """
    descriptor = os.open(path, _READ)
    try:
        stamp = stamp_of(os.fstat(descriptor), path)
        return _read_all(descriptor, stamp[-1], path, bytes_max), stamp
    finally:
        os.close(descriptor)


def check_size(size_bytes: int, bytes_max: int, path: str) -> None:
    """Check that a file is no larger than such a file can be.

    Raises:
        UnsafeFileError: It is larger.
    """
    if size_bytes > bytes_max:
        raise UnsafeFileError(
            f"{path} is larger than it can be", size_bytes=size_bytes, bytes_max=bytes_max
        )


def read_local(path: str, bytes_max: int, folder: int | None = None) -> bytes:
    """Return a file's bytes; with `folder`, an open descriptor, `path` is relative to it.

    Raises:
        UnsafeFileError: It is no regular file, or larger than `bytes_max`.
    """
    descriptor, size = open_regular(path, folder)
    try:
        return _read_all(descriptor, size, path, bytes_max)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, size: int, path: str, bytes_max: int) -> bytes:
    check_size(size, bytes_max, path)
    extend_deadline(short_call_seconds(path) + size / READ_BYTES_A_SECOND)
    # One byte more: a file being written may grow. One read returns two gigabytes at most.
    content = os.read(descriptor, size + 1)
    while len(content) != size and len(content) <= bytes_max:
        rest = os.read(descriptor, _PIECE_BYTES)
        if not rest:
            break
        content += rest
    check_size(len(content), bytes_max, path)
    return content


def read_local_end(path: str, size_bytes: int, count: int) -> bytes:
    """Return the last `count` bytes of a file of `size_bytes`; fewer if it is shorter.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    descriptor, _ = open_regular(path)
    try:
        return os.pread(descriptor, count, size_bytes - count)
    finally:
        os.close(descriptor)


def local_pieces(path: str, bytes_max: int) -> Iterator[memoryview]:
    """Yield a file's bytes in order; each piece overwrites the one before.

    Raises:
        UnsafeFileError: It is no regular file, or larger than `bytes_max`.
    """
    # One buffer that stays in the processor's cache: a third faster than a whole file.
    descriptor, size = open_regular(path)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        check_size(size, bytes_max, path)
        piece = memoryview(bytearray(min(size + 1, _PIECE_BYTES)))
        read = 0
        while count := file.readinto(piece):
            read += count
            check_size(read, bytes_max, path)
            yield piece[:count]
