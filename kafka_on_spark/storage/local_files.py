"""Local files as whole contents or in pieces: what `roots` does on a disk of this machine."""

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import uuid4

_PIECE_BYTES: Final = 2**20


def read_local(path: str) -> bytes:
    """Return a file's bytes."""
    # A link could lead out of the root (FAULTS S2).
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def local_pieces(path: str) -> Iterator[memoryview]:
    """Yield a file's bytes in order, the next in place of the last."""
    # One piece that stays in the processor's cache: a third faster than a file as a whole.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        piece = memoryview(bytearray(min(os.fstat(descriptor).st_size + 1, _PIECE_BYTES)))
        while count := file.readinto(piece):
            yield piece[:count]


def write_temporary(path: str, pieces: Iterable[Any], *, is_flushed: bool) -> str:
    """Write a file beside `path` that nobody knows; return its path. If that fails, it is gone."""
    temporary = f"{os.path.dirname(path)}/_{uuid4().hex}.tmp"
    with open(temporary, "xb", buffering=0) as file:
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[file.write(view) :]
            if is_flushed:
                os.fsync(file.fileno())
        except BaseException:
            # On a full disk its space is needed.
            os.unlink(temporary)
            raise
    return temporary
