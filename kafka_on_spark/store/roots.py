"""Roots: reads, writes, lists and flushes files on them.

An object of a store comes by one request, or, if it is large, by some, and each that is answered is
progress; a put has time by its bytes. So nobody takes a store for one that hangs because its link
is slow.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from kafka_on_spark.base.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.store.counts import RequestKind, count_request
from kafka_on_spark.store.deadlines import (
    LONG,
    SHORT,
    Limit,
    extend_deadline,
    within,
)
from kafka_on_spark.store.deadlines import is_local as is_local
from kafka_on_spark.store.error_translation import ABSENT, storage_error
from kafka_on_spark.store.local_files import (
    check_size,
    create_file,
    delete,
    delete_file,
    flush_path,
    local_pieces,
    local_write_refusal,
    read_local,
    read_local_end,
    rename,
    size_of,
    stamp_opened,
    time_and_size_of,
    write_temporary,
)
from kafka_on_spark.store.root_urls import normalize as normalize
from kafka_on_spark.store.storage_options import PACKAGES, client_options
from kafka_on_spark.store.storage_options import StorageOptions as StorageOptions

FETCH_BYTES: Final = 2**25
"""What one request fetches of an object at most: half a megabyte a second is enough for it."""

PUT_BYTES_A_SECOND: Final = 2**19
"""What goes to a store over the slowest usable link."""

_STAMP_NAMES: Final = ("ETag", "etag", "LastModified", "last_modified", "updated", "size")
"""What stores' clients call an object's ETag and time."""

_TIME_NAMES: Final = ("LastModified", "last_modified", "updated", "mtime")
"""What stores' clients call the time of an object: a datetime, or one as text."""


def stamp_in(found: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what tells an object from another one of its name, in what a store says of it."""
    return tuple(str(found.get(name)) for name in _STAMP_NAMES)


def time_in(found: Mapping[str, Any], path: str) -> int:
    """Return when an object was written, ms since 1970 UTC, in what a store says of it.

    Raises:
        KafkaStorageError: The store does not say.
    """
    for name in _TIME_NAMES:
        if (time := _time_of(found.get(name))) is not None:
            return int(time.timestamp() * 1000)
    raise KafkaStorageError(f"the store does not say when {path} was written")


def _time_of(value: Any) -> datetime | None:
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)


def read_object(store: Any, path: str, bytes_max: int) -> bytes:
    """Return an object's bytes.

    Raises:
        UnsafeFileError: It has more than `bytes_max`; the rest is not fetched.
        KafkaStorageError: It is large, and was replaced while it was fetched.
    """
    content = _beginning(store, path, min(bytes_max + 1, FETCH_BYTES))
    check_size(len(content), bytes_max, path)
    return content if len(content) < FETCH_BYTES else _with_rest(store, path, content, bytes_max)


def _with_rest(store: Any, path: str, beginning: bytes, bytes_max: int) -> bytes:
    """Return the bytes of a large object that begins so.

    It is looked at before the rest is fetched, so no range begins at its end, and once more after
    it. What was put in its place just before the first look, its reader finds damaged, and reads
    again.
    """
    found = store.info(path)
    size_bytes = found["size"]
    check_size(size_bytes, bytes_max, path)
    pieces = [beginning]
    for start in range(len(beginning), size_bytes, FETCH_BYTES):
        extend_deadline(SHORT.store)
        pieces.append(store.cat_file(path, start=start, end=min(start + FETCH_BYTES, size_bytes)))
    content = b"".join(pieces)
    if len(content) != size_bytes or stamp_in(store.info(path)) != stamp_in(found):
        raise KafkaStorageError(f"{path} was replaced while it was read: read it again")
    return content


def _beginning(store: Any, path: str, count: int) -> bytes:
    """Return the first `count` bytes of an object, or all if it has fewer."""
    try:
        content: bytes = store.cat_file(path, start=0, end=count)
    except ABSENT:
        raise
    except Exception:
        # No store returns a range of an empty object, and each says so by an error of its own:
        # whatever it is, it is raised unless the object is there and empty.
        if store.info(path)["size"] != 0:
            raise
        return b""
    return content


def read_objects(store: Any, paths: Sequence[str], bytes_max: int) -> list[bytes | None]:
    """Return the bytes of some objects, None where there is none; they are fetched side by side.

    All beginnings together are what one request fetches elsewhere. One of many that is longer comes
    by itself: each answer is progress.

    Raises: as read_object.
    """
    count = min(bytes_max + 1, max(1, FETCH_BYTES // max(1, len(paths))))
    fetched = store.cat_ranges(list(paths), 0, count, on_error="return")
    return [
        _whole(store, path, found, count, bytes_max)
        for path, found in zip(paths, fetched, strict=True)
    ]


def _whole(
    store: Any, path: str, found: bytes | Exception, count: int, bytes_max: int
) -> bytes | None:
    """Return the bytes of an object of whose first `count` a store has answered `found`."""
    if isinstance(found, ABSENT):
        return None
    if isinstance(found, bytes):
        check_size(len(found), bytes_max, path)
        if len(found) < count:
            return found
    # It is longer, or may be empty; and a failure of one object of many is not all the store's.
    extend_deadline(SHORT.store)
    try:
        return read_object(store, path, bytes_max)
    except ABSENT:
        return None


def write_object(store: Any, path: str, pieces: Iterable[bytes]) -> None:
    content = b"".join(pieces)
    extend_deadline(LONG.store + len(content) / PUT_BYTES_A_SECOND)
    store.pipe_file(path, content)


T = TypeVar("T")

DELETE_SECONDS: Final = 600.0
"""A replica's folder may hold a hundred thousand files."""


def filesystem(url: str, options: StorageOptions) -> Any:
    """Return fsspec's file system for `url`.

    Raises:
        InvalidRootError: The package that it needs is not installed.
    """
    # In the function: roots on local disks hardly need fsspec, and every process of Spark would
    # import it when a query starts. It can move up once its import is cheap.
    import fsspec

    if is_local(url):
        return fsspec.filesystem("file")
    scheme = urlsplit(url).scheme
    given = client_options(scheme, options.for_url(url))
    try:
        if scheme in ("s3", "s3a"):
            from kafka_on_spark.store.s3_files import s3_files

            return s3_files(given)
        return fsspec.filesystem(scheme, **given)
    except ImportError as error:
        raise InvalidRootError(
            f"the root {url} needs the package {PACKAGES[scheme]}, which is not installed: install"
            f" it, on executors too ({' '.join(str(error).split())})"
        ) from None


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The few file operations beside Delta's, on one root; each raises KafkaStorageError if the
    root does not answer.

    Attributes:
        url: The root, normalized.
        options: Credentials.
    """

    url: str
    options: StorageOptions

    @contextmanager
    def _translating_errors(self, verb: str, path: str) -> Iterator[None]:
        # A store's client raises its own errors, which are no OSErrors.
        kinds = OSError if is_local(path) else Exception
        try:
            yield
        except (*ABSENT, FileExistsError, KafkaStorageError, InvalidRootError):
            raise
        except kinds as error:
            raise storage_error(error, f"{verb} {path}", self.options) from self.options.shown(
                error
            )

    def _ask(
        self,
        kind: RequestKind,
        verb: str,
        path: str,
        on_disk: Callable[[], T],
        on_store: Callable[[Any], T],
        limit: Limit | float = SHORT,
    ) -> T:
        """Return what one request to `path` returns, on a disk or on its store's client."""
        count_request(kind, path)

        def ask() -> T:
            with self._translating_errors(verb, path):
                return on_disk() if is_local(path) else on_store(filesystem(path, self.options))

        return within(self.url, ask, limit)

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes, or None if there is no such file.

        Raises:
            UnsafeFileError: It has more than `bytes_max`, or is no regular file.
        """
        with suppress(*ABSENT):
            return self._ask(
                "GET",
                "read",
                path,
                lambda: read_local(path, bytes_max),
                lambda store: read_object(store, path, bytes_max),
            )
        return None

    def read_end(self, path: str, size_bytes: int, count: int) -> bytes | None:
        """Return the last `count` bytes of a file of `size_bytes`, or None if there is no such
        file; as `read`."""

        def read_object_end(store: Any) -> bytes:
            end: bytes = store.cat_file(path, start=size_bytes - count, end=size_bytes)
            return end

        with suppress(*ABSENT):
            read_end = partial(read_local_end, path, size_bytes, count)
            return self._ask("GET", "read", path, read_end, read_object_end)
        return None

    def read_all(self, paths: Sequence[str], bytes_max: int) -> list[bytes | None]:
        """Return the bytes of some objects of a store, None where there is none.

        Unless they are large they are fetched side by side, in one step: a store's answer takes
        long, and not more so if it is asked for others meanwhile.

        Raises:
            UnsafeFileError: One has more than `bytes_max`.
        """
        count_request("GET", self.url, len(paths))

        def read() -> list[bytes | None]:
            with self._translating_errors("read", f"{len(paths)} files of {self.url}"):
                return read_objects(filesystem(self.url, self.options), paths, bytes_max)

        return within(self.url, read, SHORT)

    def pieces(self, path: str, bytes_max: int) -> Iterator[Any]:
        """Yield a file's bytes in order, each piece overwriting the last; one piece on a store.

        Raises:
            FileNotFoundError: There is no such file.
            UnsafeFileError: It has more than `bytes_max`, or is no regular file.
        """
        if not is_local(path):
            content = self.read(path, bytes_max)
            if content is None:
                raise FileNotFoundError(path)
            yield content
            return
        count_request("GET", path)
        with self._translating_errors("read", path):
            pieces = local_pieces(path, bytes_max)
            while (piece := within(self.url, lambda: next(pieces, None), SHORT)) is not None:
                yield piece

    def write(self, path: str, content: Any, *, is_flushed: bool = True) -> None:
        """Write a file that no other process writes; it is there whole or not at all."""
        self.write_all([(path, [content])], is_flushed=is_flushed)

    def write_all(
        self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool = True
    ) -> None:
        """Write several such files, whose contents come in pieces.

        Local files are flushed when all are written: the first flush then does most of the work of
        the others. If one fails, some may be there; those that are have all their bytes.
        """
        within(self.url, partial(self._write_all, files, is_flushed=is_flushed))

    def _write_all(self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool) -> None:
        written: list[tuple[str, str]] = []
        try:
            for path, pieces in files:
                write = partial(self._write, path, pieces, written)
                within(self.url, write, LONG)
            if is_flushed:
                flush([temporary for temporary, _ in written])
            while written:
                name = partial(self._name, *written[-1])
                within(self.url, name, LONG)
                written.pop()
        finally:
            while written:  # a full disk needs their space
                temporary, _ = written.pop()
                # The disk may be gone or hang; the first failure is raised already.
                with suppress(OSError, KafkaStorageError):
                    delete = partial(delete_file, temporary)
                    within(self.url, delete, SHORT)

    def _name(self, temporary: str, path: str) -> None:
        try:
            with self._translating_errors("write", path):
                rename(temporary, path)
        except (*ABSENT, FileExistsError) as error:  # the disk went away after the flush
            raise storage_error(error, f"write {path}") from error

    def _write(self, path: str, pieces: Iterable[Any], written: list[tuple[str, str]]) -> None:
        count_request("PUT", path)
        try:
            with self._translating_errors("write", path):
                if is_local(path):
                    written.append((write_temporary(path, pieces, is_flushed=False), path))
                else:
                    write_object(filesystem(path, self.options), path, pieces)
        except (*ABSENT, FileExistsError) as error:
            raise storage_error(error, f"write {path}") from error

    def write_if_absent(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether this call wrote it.

        On a local disk its folder is created, but not the folder's parent.
        """
        count_request("PUT", path)
        write = partial(self._write_if_absent, path, content)
        return within(self.url, write, LONG)

    def _write_if_absent(self, path: str, content: bytes) -> bool:
        try:
            with self._translating_errors("write", path):
                if is_local(path):
                    return create_file(path, content)
                filesystem(path, self.options).pipe_file(path, content, mode="create")
        except FileExistsError:
            # This call's first put, if its answer was lost: the file's content tells.
            return not is_local(path) and self._has(path, content)
        except KafkaStorageError:
            # Not every store says that the condition was the reason.
            if is_local(path) or self.size(path) is None:
                raise
            return self._has(path, content)
        except ABSENT as error:
            raise storage_error(error, f"write {path}") from error
        return True

    def _has(self, path: str, content: bytes) -> bool:
        return self.size(path) == len(content) and self.read(path, len(content)) == content

    def size(self, path: str) -> int | None:
        """Return a file's size, or None if there is no such file.

        Raises:
            UnsafeFileError: It is no regular file.
        """

        def size_of_object(store: Any) -> int:
            size: int = store.info(path)["size"]
            return size

        with suppress(*ABSENT):
            return self._ask(
                "HEAD", "read the size of", path, partial(size_of, path), size_of_object
            )
        return None

    def stamp(self, path: str) -> tuple[object, ...] | None:
        """Return what tells an object of a store from another one of its name: its ETag, and when
        it was put; None if there is none."""
        with suppress(*ABSENT):
            return self._ask(
                "HEAD",
                "read the state of",
                path,
                partial(stamp_opened, path),
                lambda store: stamp_in(store.info(path)),
            )
        return None

    def time_and_size(self, path: str) -> tuple[int, int] | None:
        """Return when a file was written, by its root's clock, ms since 1970 UTC, and its bytes;
        None if there is no such file.

        Raises:
            KafkaStorageError: The store tells no time.
        """

        def of_object(store: Any) -> tuple[int, int]:
            found = store.info(path)
            return time_in(found, path), int(found.get("size") or 0)

        with suppress(*ABSENT):
            return self._ask(
                "HEAD", "read the time of", path, partial(time_and_size_of, path), of_object
            )
        return None

    def time_ms(self, path: str) -> int | None:
        """Return when a file was written, as `time_and_size`."""
        found = self.time_and_size(path)
        return None if found is None else found[0]

    def delete_file(self, path: str) -> None:
        """Delete a file of ours, such as a probe; no error if it is gone.

        A store is asked once. For `delete` it lists and looks first, which costs more than all else
        that is asked of it.
        """
        with suppress(FileNotFoundError):
            self._ask(
                "DELETE",
                "delete",
                path,
                partial(delete_file, path),
                lambda store: store.rm_file(path),
            )

    def delete(self, path: str) -> None:
        """Delete a folder of ours with all that is in it, or a file; no error if it is gone."""
        with suppress(FileNotFoundError):
            # A folder of many files takes long; how long, is not known before.
            self._ask(
                "DELETE",
                "delete",
                path,
                partial(delete, path),
                lambda store: store.rm(path, recursive=True),
                DELETE_SECONDS,
            )

    def write_refusal(self, path: str) -> str | None:
        if not is_local(path):
            return None
        return within(self.url, partial(local_write_refusal, path), SHORT)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""

        def names_of_objects(store: Any) -> list[str]:
            found = store.ls(path, detail=False)
            return sorted(each.rstrip("/").rsplit("/", 1)[-1] for each in found)

        with suppress(*ABSENT):
            return self._ask(
                "LIST", "list", path, lambda: sorted(os.listdir(path)), names_of_objects
            )
        return []


def flush(paths: Iterable[str]) -> None:
    """Make local files and folders of one root durable; an object on a store is durable already.

    Raises:
        KafkaStorageError: The disk failed. The file is lost: never trusted after another flush.
    """
    local = list(filter(is_local, paths))
    if local:
        # In one call: to hand each over to the root's thread took longer than most flushes.
        within(local[0], partial(_flush_each, local), LONG)


def _flush_each(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            flush_path(path)
        except OSError as error:
            raise storage_error(error, f"flush {path}") from error
