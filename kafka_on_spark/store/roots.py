"""Roots: reads, writes, lists and flushes files on them, on disks and object stores alike."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from kafka_on_spark.base.errors import (
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.store import local_files
from kafka_on_spark.store.counts import RequestKind, count_request
from kafka_on_spark.store.deadlines import LONG, SHORT, Limit, untimed, within
from kafka_on_spark.store.deadlines import is_local as is_local
from kafka_on_spark.store.error_translation import ABSENT, is_passing, reason, storage_error
from kafka_on_spark.store.local_files import (
    NotPutError,
    local_write_refusal,
    write_temporary,
)
from kafka_on_spark.store.object_files import ObjectFiles, ObjectStamp
from kafka_on_spark.store.root_urls import normalize as normalize
from kafka_on_spark.store.storage_options import EXTRAS, PACKAGES, client_options
from kafka_on_spark.store.storage_options import StorageOptions as StorageOptions

T = TypeVar("T")

DELETE_SECONDS: Final = 600.0
"""A replica's folder may hold a hundred thousand files."""

READ_AT_ONCE: Final = 64
"""Files whose bytes a store is asked for at once."""

CLIENTS_MAX: Final = 32
"""File systems that a process keeps, each with a client and its connections. One is of one set of
keys, and temporary keys become others each hour."""

FileStamp = tuple[object, ...] | ObjectStamp
"""What tells a file from another one of its name: inode, time and size; on a store the ETag, and
when it was put."""

_Errors = tuple[type[Exception], ...]

_OURS: Final[_Errors] = (KafkaOnSparkError,)
"""What the pieces of a file raise while it is written is their root's: a damaged source, say."""

_ANSWERS: Final[_Errors] = (*_OURS, *ABSENT)
"""What the system raises of a file that is not there is an answer, and no failure of a root."""


def filesystem(url: str, options: StorageOptions) -> Any:
    """Return fsspec's file system of a store, for `url`: one for all who give the same.

    Raises:
        InvalidRootError: The package that it needs is not installed, or an option has a value that
            it can't have.
        RootAccessDeniedError: The client takes no such credentials.
    """
    package = PACKAGES[urlsplit(url).scheme]
    try:
        with untimed():  # an import takes seconds, and says nothing about the root
            client = _client_of(package)
    except ImportError as error:
        raise InvalidRootError(
            f"the root {url} needs the package {package}, which is not installed: install"
            f" kafka_on_spark[{EXTRAS[package]}], on executors too"
            f" ({' '.join(str(error).split())})"
        ) from None
    given = client_options(url, options.for_url(url))
    try:
        return _made(client, json.dumps(given, sort_keys=True), os.getpid())
    except (ValueError, KeyError) as error:  # of options that don't fit, or of a key file
        kind = KafkaStorageError if is_passing(error) else RootAccessDeniedError
        raise kind(
            f"can't use {url} with the options that are given: {reason(error, options)}"
        ) from options.shown(error)


def _client_of(package: str) -> Any:
    if package == "s3fs":
        from kafka_on_spark.store.s3_files import S3Files

        return S3Files
    if package == "gcsfs":
        from kafka_on_spark.store.google_files import GoogleFiles

        return GoogleFiles
    if package == "hdfs-native":
        from kafka_on_spark.store.hdfs_files import HdfsFiles

        return HdfsFiles
    from kafka_on_spark.store.azure_files import AzureFiles

    return AzureFiles


@lru_cache(maxsize=CLIENTS_MAX)
def _made(client: Any, given: str, _pid: int) -> Any:
    # A forked child has others than its parent: the threads that these need are the parent's.
    # fsspec's own cache keeps each that there ever was; of these, those used longest ago are closed
    # once nobody uses them.
    return client(**json.loads(given), skip_instance_cache=True)


def leaves_unfinished(url: str) -> bool:
    """Return whether a process that is killed may leave files that are not whole, under temporary
    names: where a rename gives a file its name. A store has an object whole or not at all."""
    return is_local(url) or url.startswith("hdfs:")


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The few file operations beside Delta's, on one root; each raises KafkaStorageError if the
    root does not answer, and UnsafeFileError for what is no regular file, or larger than it may be.
    """

    url: str
    options: StorageOptions

    @contextmanager
    def _translating_errors(
        self, doing: str, path: str, passing: _Errors = _ANSWERS
    ) -> Iterator[None]:
        # A store's client raises its own errors, which are no OSErrors.
        kinds = OSError if is_local(path) else Exception
        try:
            yield
        except passing:
            raise
        except kinds as error:
            raise storage_error(error, f"{doing} {path}", self.options) from self.options.shown(
                error
            )

    def _on(self, path: str) -> Any:
        """Return what does the work of a path: `local_files`, or a store's ObjectFiles."""
        return local_files if is_local(path) else ObjectFiles(filesystem(path, self.options))

    def _ask(
        self,
        kind: RequestKind,
        verb: str,
        path: str,
        request: Callable[[Any], T],
        limit: Limit | float = SHORT,
    ) -> T | None:
        """Return what one request to `path` returns; None if there is no such file."""
        count_request(kind, path)

        def ask() -> T:
            with self._translating_errors(verb, path):
                return request(self._on(path))

        with suppress(*ABSENT):
            return within(self.url, ask, limit)
        return None

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes, or None if there is no such file."""
        return self._ask("GET", "read", path, lambda files: files.read_file(path, bytes_max))

    def read_end(self, path: str, size_bytes: int, count: int) -> bytes | None:
        """Return the last `count` bytes of a file of `size_bytes`; as `read`."""
        return self._ask("GET", "read", path, lambda files: files.read_end(path, size_bytes, count))

    def read_all(self, paths: Sequence[str], bytes_max: int) -> Iterator[bytes | None]:
        """Yield the bytes of some files, None where there is none.

        Unless they are large a store's are fetched side by side, some in one step: a store's answer
        takes long, and not more so if it is asked for others meanwhile. A disk's come one by one.
        """
        if is_local(self.url):
            yield from (self.read(each, bytes_max) for each in paths)
            return

        def read(some: Sequence[str]) -> list[bytes | None]:
            with self._translating_errors("read", f"{len(some)} files of {self.url}"):
                found: list[bytes | None] = self._on(self.url).read_all(some, bytes_max)
                return found

        for first in range(0, len(paths), READ_AT_ONCE):
            some = paths[first : first + READ_AT_ONCE]
            count_request("GET", self.url, len(some))
            yield from within(self.url, partial(read, some), SHORT)

    def pieces(self, path: str, bytes_max: int) -> Iterator[Any]:
        """Yield a file's bytes in order, each piece overwriting the last; one piece on a store."""
        count_request("GET", path)
        with self._translating_errors("read", path):
            pieces = self._on(path).pieces(path, bytes_max)
            while (piece := within(self.url, partial(next, pieces, None), SHORT)) is not None:
                yield piece

    def write(self, path: str, content: Any, *, is_flushed: bool = True) -> None:
        """Write a file that no other process writes; it is there whole or not at all."""
        within(self.url, partial(self.write_all, [(path, [content])], is_flushed=is_flushed))

    def write_all(
        self, files: Iterable[tuple[str, Iterable[Any]]], *, is_flushed: bool = True
    ) -> None:
        """Write several such files, whose contents come in pieces.

        Local files are flushed when all are written: the first flush then does most of the work of
        the others. If one fails, some may be there; those that are have all their bytes. Each write
        is a step: call it within an operation on the root.
        """
        written: list[tuple[str, str]] = []
        try:
            for path, pieces in files:
                count_request("PUT", path)
                with self._translating_errors("write", path, _OURS):
                    if not is_local(path):
                        within(self.url, partial(self._on(path).write, path, pieces), LONG)
                        continue
                    write = partial(write_temporary, path, pieces, is_flushed=False)
                    written.append((within(self.url, write, LONG), path))
            if is_flushed:
                self.flush([temporary for temporary, _ in written])
            while written:
                temporary, path = written[-1]
                with self._translating_errors("write", path, _OURS):  # the disk may have gone away
                    within(self.url, partial(local_files.rename, temporary, path), LONG)
                written.pop()
        finally:
            while written:  # a full disk needs their space
                temporary, _ = written.pop()
                # The disk may be gone or hang; the first failure is raised already.
                with suppress(OSError, KafkaStorageError):
                    within(self.url, partial(local_files.delete_file, temporary), SHORT)

    def write_if_absent(self, path: str, content: bytes) -> bool:
        """Write a file, flushed, unless it exists; return whether this call wrote it.

        On a local disk its folder is created, but not the folder's parent.
        """
        try:
            put = self.put_if_absent(path, content, is_flushed=True, makes_folder=True)
        except NotPutError as failed:
            raise failed.error from failed.__cause__
        if put is None and not is_local(path):
            # It may be this call's first put, whose answer was lost: the file's content tells.
            return self.size(path) == len(content) and self.read(path, len(content)) == content
        return put is not None

    def put_if_absent(
        self, path: str, content: bytes, *, is_flushed: bool, makes_folder: bool = False
    ) -> FileStamp | None:
        """Do as `write_if_absent`, in a folder that is there, and that the caller flushes; return
        which file was put, () if only a look tells, None if there was one: on a store it may be
        this call's, by a first put whose answer was lost.

        Raises:
            NotPutError: The file is certainly not put: a disk refused it.
            KafkaStorageError: It may be put, now or later.
        """
        count_request("PUT", path)
        put = partial(self._put, path, content, is_flushed=is_flushed, makes_folder=makes_folder)
        return within(self.url, put, LONG)

    def _put(self, path: str, content: bytes, **how: bool) -> FileStamp | None:
        try:
            with self._translating_errors("write", path, (*_OURS, FileExistsError)):
                put: FileStamp | None = self._on(path).create_file(path, content, **how)
                return put
        except FileExistsError:
            return None
        except KafkaStorageError:
            # Not every store says that the condition was the reason.
            if not is_local(path):
                with suppress(KafkaStorageError):  # of two failures the put's says more
                    if self.size(path) is not None:
                        return None
            raise

    def size(self, path: str) -> int | None:
        """Return a file's size, or None if there is no such file."""
        return self._ask("HEAD", "read the size of", path, lambda files: files.size_of(path))

    def stamps(self, paths: Sequence[str], *, in_any_order: bool = False) -> list[FileStamp | None]:
        """Return which files stand at some paths, in one step and in this order; or in any, which
        takes a store no longer than one of them."""
        count_request("HEAD", self.url, len(paths))
        found: list[FileStamp | None] = [None] * len(paths)

        def look() -> None:
            if in_any_order and not is_local(self.url):
                found[:] = self._on(self.url).stamps_at(paths)
                return
            for place, path in enumerate(paths):
                with suppress(*ABSENT):
                    found[place] = self._on(path).stamp_at(path)

        with self._translating_errors("read the state of", self.url):
            within(self.url, look, SHORT)
        return found

    def time_and_size(self, path: str) -> tuple[int, int] | None:
        """Return when a file was written, by its root's clock, ms since 1970 UTC, and its bytes;
        None if there is no such file.
        """
        return self._ask(
            "HEAD", "read the time of", path, lambda files: files.time_and_size_of(path)
        )

    def time_ms(self, path: str) -> int | None:
        found = self.time_and_size(path)
        return None if found is None else found[0]

    def delete_file(self, path: str) -> None:
        """Delete a file of ours, such as a probe; no error if it is gone."""
        self._ask("DELETE", "delete", path, lambda files: files.delete_file(path))

    def delete(self, path: str) -> None:
        """Delete a folder of ours with all that is in it, or a file; no error if it is gone."""
        # A folder of many files takes long; how long, is not known before.
        self._ask("DELETE", "delete", path, lambda files: files.delete(path), DELETE_SECONDS)

    def delete_empty_folder(self, path: str) -> None:
        """Delete a folder of a disk, unless anything is in it."""
        if is_local(self.url):
            with suppress(OSError):
                within(self.url, partial(local_files.delete_empty_folder, path), SHORT)

    def make_folders(self, paths: Sequence[str]) -> bool:
        """Make folders on a disk, in order, unless they are there; return whether the last one was
        made. Never the root: one that was removed must not be made again."""
        if not is_local(self.url):
            return True

        def make() -> bool:
            with self._translating_errors("create", paths[-1], _OURS):
                return [local_files.make_folder(each) for each in paths][-1]

        return within(self.url, make, SHORT)

    def write_refusal(self, path: str) -> str | None:
        if not is_local(path):
            return None
        return within(self.url, partial(local_write_refusal, path), SHORT)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""
        return self._ask("LIST", "list", path, lambda files: files.names_in(path)) or []

    def sizes(self, path: str) -> dict[str, int]:
        """Return the bytes of each file in a folder, by name; none if there is no such folder."""
        return self._ask("LIST", "list", path, lambda files: files.sizes_in(path)) or {}

    def flush(self, paths: Sequence[str]) -> None:
        """Make files and folders durable; an object on a store is durable already.

        Raises:
            KafkaStorageError: The disk failed. The file is lost: never trusted after another flush.
        """
        if is_local(self.url) and paths:
            # In one call: to hand each over to the root's thread took longer than most flushes.
            within(self.url, partial(local_files.flush_each, paths), LONG)
