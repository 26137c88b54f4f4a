"""Counts a call to a local disk as what the same call asks of S3, as this package's client does it.

S3's own client counts what it sends, so a call to S3 is not counted here; that of another store is,
since its client tells nothing. Tests hold each of these against the requests that a server of S3
gets for the same call.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kafka_on_spark.ports.ledger import RequestKind
from kafka_on_spark.storage.ledger.ledger import asked, pages_of

PART_BYTES: Final = 50 * 2**20
"""An object of twice as much is put in parts of this size. Source: s3fs's `pipe_file`."""

FETCH_BYTES: Final = 2**25
"""What one request fetches of an object at most: half a megabyte a second is enough for it."""

COMMIT_READS: Final = 4
CHECKPOINT_READS: Final = 21
"""How often delta-rs reads each commit, and the checkpoint before, when it writes a checkpoint: it
reads the log for each kind of action, and of a checkpoint the columns one by one."""


def _counts_itself(path: str) -> bool:
    return path.startswith(("s3://", "s3a://"))


def count_read(path: str, content: Any) -> None:
    """Count that an object is read; None: there is none. An empty one is looked at, too: S3 has no
    range of it."""
    if _counts_itself(path):
        return
    count_fetched(path, len(content or b""))
    if content is not None and not len(content):
        asked(RequestKind.HEAD, path)


def count_fetched(path: str, size_bytes: int) -> None:
    """Count that an object's bytes are fetched, by several requests if it is large."""
    if _counts_itself(path):
        return
    asked(RequestKind.GET, path, count=max(1, -(-size_bytes // FETCH_BYTES)), bytes_out=size_bytes)
    if size_bytes >= FETCH_BYTES:
        asked(RequestKind.HEAD, path, count=2)  # before the rest, and after it


def count_look(path: str, count: int = 1) -> None:
    """Count that an object's size or time is asked for, whether there is one or not; or those of
    so many in its folder."""
    if not _counts_itself(path):
        asked(RequestKind.HEAD, path, count=count)


def count_listing(path: str, name_count: int) -> None:
    """Count that a folder is listed."""
    if not _counts_itself(path):
        asked(RequestKind.LIST, path, count=pages_of(name_count))


def count_put(path: str, size_bytes: int) -> None:
    """Count that an object is put, in parts if it is large."""
    if _counts_itself(path):
        return
    parts = 1
    if size_bytes >= 2 * PART_BYTES:
        parts = -(-size_bytes // PART_BYTES)
        asked(RequestKind.POST, path, count=2)  # one begins, one ends it
    asked(RequestKind.PUT, path, count=parts, bytes_in=size_bytes)


def put_pieces(path: str, pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield the pieces of an object that is put, and count it after the last."""
    size_bytes = 0
    for piece in pieces:
        size_bytes += memoryview(piece).nbytes
        yield piece
    count_put(path, size_bytes)


def count_put_if_absent(path: str, size_bytes: int, *, is_put: bool) -> None:
    """Count that an object is put unless there is one. If there is one, it is looked at: an answer
    may have been lost, and it be this call's."""
    count_put(path, size_bytes)
    if not is_put:
        count_look(path)


def count_deleted_file(path: str) -> None:
    """Count that one object is deleted."""
    if not _counts_itself(path):
        asked(RequestKind.DELETE, path)


def count_deleted_folder(path: str) -> None:
    """Count that a folder is listed and deleted."""
    if not _counts_itself(path):
        asked(RequestKind.LIST, path)
        asked(RequestKind.DELETE, path)


def count_checkpoint(uri: str, newest: int, version: int) -> None:
    """Count what delta-rs asks when it writes the checkpoint of a version: it tells nothing, on S3
    either. `newest`: the version of the one before; -1: there is none."""
    reads = COMMIT_READS * (version - newest) + (CHECKPOINT_READS if newest >= 0 else 0)
    path = f"{uri}/_delta_log"
    asked(RequestKind.GET, path, count=reads + 2)  # the hint, twice
    asked(RequestKind.LIST, path, count=2)
    asked(RequestKind.HEAD, path)
    asked(RequestKind.PUT, path, count=2)  # the checkpoint and the hint
