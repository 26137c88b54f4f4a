"""Roots: URLs of folders, opened with one set of credentials, flushed where that means something.

A user states storage options once (`options`), in delta-rs's words; `store_clients` turns them
into what fsspec's file systems want.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from kafka_on_spark.errors import InvalidRootError, KafkaStorageError
from kafka_on_spark.storage.deadlines import gets_on, look_seconds, within, work_seconds
from kafka_on_spark.storage.failures import ABSENT, storage_error
from kafka_on_spark.storage.failures import reason as reason
from kafka_on_spark.storage.local_files import (
    check_size,
    local_pieces,
    local_refusal,
    read_local,
    size_of,
    sizes_in,
    write_temporary,
)
from kafka_on_spark.storage.options import StorageOptions as StorageOptions
from kafka_on_spark.storage.options import is_local as is_local
from kafka_on_spark.storage.store_clients import PACKAGES, client_options

T = TypeVar("T")

DELETE_SECONDS: Final = 600.0
"""A replica's folder may hold a hundred thousand files."""

# Letters that a store's client or a URL's reader takes for something else than themselves.
_ODD: Final = re.compile(r"[*?\[\]\\\s]")


def normalize(root: object) -> str:
    """Return a root's URL in the one form that is stored: an absolute path, or scheme://…

    As shells have it, ~ is the user's home, and ~name another's.

    Raises:
        InvalidRootError: It is empty, has an unknown scheme, or more than a bucket and a path.
    """
    given = os.fspath(root) if isinstance(root, os.PathLike) else root
    text = given.rstrip("/") if isinstance(given, str) else ""
    if not text:
        raise InvalidRootError(f"{root!r} is not a root: give a folder or a URL such as s3://…")
    text = _from_home(text)
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = os.path.abspath(unquote(parts.path))
    elif len(parts.scheme) <= 1:
        text = os.path.abspath(text)
    else:
        _check_url(parts)
        text = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if "%" in text:
        # delta-rs writes to such a path and reads from the decoded one.
        raise InvalidRootError(f"{text!r} can't be a root: its name must be without '%'")
    return text


def _from_home(text: str) -> str:
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        user = expanded.partition("/")[0]
        raise InvalidRootError(
            f"{text!r} can't be a root: nobody's home is known for {user}; give the whole path, or"
            f" ./{text} for a folder of that name"
        )
    return expanded


def _check_url(parts: SplitResult) -> None:
    # Its text may hold a password: never said.
    has_user = "@" in parts.netloc and not parts.scheme.startswith("abfs")
    if has_user or parts.password is not None or parts.query or parts.fragment:
        raise InvalidRootError(
            f"a root of {parts.scheme}:// has more than a bucket and a path: give credentials as"
            " storage options, since a root's URL is stored"
        )
    if parts.scheme not in PACKAGES or not parts.netloc:
        raise InvalidRootError(
            f"'{parts.scheme}://{parts.netloc}{parts.path}' is not a root: give a folder, or a URL"
            " such as s3://…, gs://… or abfss://…"
        )
    # The log would be written to the folder that `..` leads to, and segments to one of that name.
    if {"", ".", ".."} & set(parts.path.split("/")[1:]) or _ODD.search(parts.path):
        raise InvalidRootError(
            f"{parts.geturl()!r} can't be a root: give a path without empty names, '.', '..',"
            " blanks, '*', '[' and ']'"
        )


def filesystem(url: str, options: StorageOptions) -> Any:
    """Return fsspec's file system for `url`.

    Raises:
        InvalidRootError: The package that it needs is not installed.
    """
    # Few processes need it on a disk, and who waits for a query to begin waits for its import.
    import fsspec

    if is_local(url):
        return fsspec.filesystem("file")
    scheme = urlsplit(url).scheme
    try:
        return fsspec.filesystem(scheme, **client_options(scheme, options.for_url(url)))
    except ImportError as error:
        raise InvalidRootError(
            f"the root {url} needs the package {PACKAGES[scheme]}, which is not installed: install"
            f" it, on executors too ({' '.join(str(error).split())})"
        ) from None


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The few file operations that are needed beside Delta's, on one root; all raise
    KafkaStorageError if it does not answer.

    Attributes:
        url: The root, normalized.
        options: Credentials.
    """

    url: str
    options: StorageOptions

    @contextmanager
    def _answering(self, verb: str, path: str) -> Iterator[None]:
        # A store's client raises errors of its own, which are no OSErrors.
        kinds = OSError if is_local(path) else Exception
        try:
            yield
        except (*ABSENT, FileExistsError, KafkaStorageError, InvalidRootError):
            raise
        except kinds as error:
            raise storage_error(error, f"{verb} {path}", self.options) from self.options.shown(
                error
            )

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes, or None if there is no such file.

        Raises:
            OddFileError: It has more than `bytes_max`, or is no regular file.
        """
        try:
            return self._look(path, lambda: self._read(path, bytes_max))
        except ABSENT:
            return None

    def _look(self, path: str, look: Callable[[], T]) -> T:
        return within(self.url, look, look_seconds(path))

    def _work(self, path: str, work: Callable[[], T]) -> T:
        return within(self.url, work, work_seconds(path))

    def _read(self, path: str, bytes_max: int) -> bytes:
        with self._answering("read", path):
            if is_local(path):
                return read_local(path, bytes_max)
            return read_object(filesystem(path, self.options), path, bytes_max)

    def pieces(self, path: str, bytes_max: int) -> Iterator[Any]:
        """Yield a file's bytes in order, the next in place of the last; whole if not local.

        Raises:
            FileNotFoundError: There is no such file.
            OddFileError: It has more than `bytes_max`, or is no regular file.
        """
        if not is_local(path):
            yield self._look(path, lambda: self._read(path, bytes_max))
            return
        with self._answering("read", path):
            pieces = local_pieces(path, bytes_max)
            while (piece := self._look(path, lambda: next(pieces, None))) is not None:
                yield piece

    def write(self, path: str, content: Any, *, is_flushed: bool = True) -> None:
        """Write a file that nobody else writes; it is there as a whole or not at all."""
        self.write_all([(path, [content])], is_flushed=is_flushed)

    def write_all(
        self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool = True
    ) -> None:
        """Do the same with several files, whose contents come in pieces.

        Local ones are flushed when all are written: the first flush then pays for most of what
        the others would. If one fails, none of the local ones is there.
        """
        within(self.url, lambda: self._write_all(files, is_flushed=is_flushed))

    def _write_all(self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool) -> None:
        written: list[tuple[str, str]] = []
        try:
            for path, pieces in files:
                self._work(path, partial(self._write, path, pieces, written))
            if is_flushed:
                flush(temporary for temporary, _ in written)
            while written:
                self._work(written[-1][1], partial(self._name, *written[-1]))
                written.pop()
        finally:
            for temporary, _ in written:  # on a full disk their space is needed
                # The disk may be gone or hang; what failed is raised already.
                with suppress(OSError, KafkaStorageError):
                    self._look(temporary, partial(os.unlink, temporary))

    def _name(self, temporary: str, path: str) -> None:
        try:
            with self._answering("write", path):
                os.rename(temporary, path)
        except (*ABSENT, FileExistsError) as error:  # the disk went since it was flushed
            raise storage_error(error, f"write {path}") from error

    def _write(self, path: str, pieces: Iterable[Any], written: list[tuple[str, str]]) -> None:
        try:
            with self._answering("write", path):
                if is_local(path):
                    written.append((write_temporary(path, pieces, is_flushed=False), path))
                else:
                    filesystem(path, self.options).pipe_file(path, b"".join(pieces))
        except (*ABSENT, FileExistsError) as error:
            raise storage_error(error, f"write {path}") from error

    def write_if_absent(self, path: str, content: bytes) -> bool:
        """Write a file unless it exists; return whether this call wrote it.

        On a local disk its folder is made, but not the folder's parent.
        """
        return self._work(path, lambda: self._write_if_absent(path, content))

    def _write_if_absent(self, path: str, content: bytes) -> bool:
        try:
            with self._answering("write", path):
                if is_local(path):
                    return _link_local(path, content)
                filesystem(path, self.options).pipe_file(path, content, mode="create")
        except FileExistsError:
            # Its own first try, if the answer to that was lost: what stands there tells.
            return not is_local(path) and self._has(path, content)
        except KafkaStorageError:
            # Not every store says that it refused for the condition.
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
            OddFileError: It is no regular file.
        """
        return self.sizes_of((path,))[0]

    def sizes_of(self, paths: Sequence[str]) -> list[int | None]:
        """Return the sizes of several files, in order, by one look; as `size` does of one."""
        return self._look(paths[0], lambda: [self._size(path) for path in paths])

    def _size(self, path: str) -> int | None:
        try:
            if is_local(path):
                return size_of(path)
            with self._answering("look at", path):
                found: int = filesystem(path, self.options).info(path)["size"]
                return found
        except ABSENT:
            return None
        except OSError as error:  # of this machine: the hottest path is without `_answering`
            raise storage_error(error, f"look at {path}", self.options) from self.options.shown(
                error
            )

    def sizes(self, path: str) -> dict[str, int]:
        """Return the sizes of the files in a folder of this machine; none if there is none.

        Raises:
            OddFileError: One is neither a folder nor a regular file.
        """
        try:
            with self._answering("list", path):
                return self._look(path, lambda: sizes_in(path))
        except ABSENT:
            return {}

    def delete(self, path: str) -> None:
        """Delete a file or folder of ours, such as a probe's; no error if it is gone."""
        with suppress(FileNotFoundError), self._answering("delete", path):
            # A folder of many files takes its time: how long, nobody knows before.
            delete = partial(filesystem(path, self.options).rm, path, recursive=True)
            within(self.url, delete, DELETE_SECONDS)

    def refusal_to_write(self, path: str) -> str | None:
        """Return why this process can't write to a folder of this machine; None if it can."""
        if not is_local(path):
            return None
        return self._look(path, lambda: local_refusal(path))

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        try:
            return self._look(path, lambda: self._names(path))
        except ABSENT:
            return []

    def _names(self, path: str) -> list[str]:
        with self._answering("list", path):
            if is_local(path):  # A long Delta log has ten thousand.
                return sorted(os.listdir(path))
            found = filesystem(path, self.options).ls(path, detail=False)
        return sorted(each.rstrip("/").rsplit("/", 1)[-1] for each in found)


def _link_local(path: str, content: bytes) -> bool:
    # Never more than one folder: a root that was taken away must not be made anew.
    with suppress(FileExistsError):
        os.mkdir(os.path.dirname(path))
    temporary = write_temporary(path, [content], is_flushed=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary)
    flush([os.path.dirname(path)])
    return True


def flush(paths: Iterable[str]) -> None:
    """Make local files and folders durable; what is not local is durable already.

    Raises:
        KafkaStorageError: The disk failed. The file is lost: never flushed again and trusted.
    """
    for path in paths:
        if is_local(path):
            within(path, partial(_flush, path), work_seconds(path))


def _flush(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            gets_on(work_seconds(path, os.fstat(descriptor).st_size))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise storage_error(error, f"flush {path}") from error


def read_object(store: Any, path: str, bytes_max: int) -> bytes:
    """Return an object's bytes.

    Raises:
        OddFileError: They are more than `bytes_max`, of which no more is fetched.
    """
    try:
        content: bytes = store.cat_file(path, start=0, end=bytes_max + 1)
    except ABSENT:
        raise
    except Exception:
        # No store gives a range of what is empty.
        if store.info(path)["size"] != 0:
            raise
        return b""
    check_size(len(content), bytes_max, path)
    return content
