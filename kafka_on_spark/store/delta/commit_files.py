"""Puts and reads commit files: the only code that puts a file into a Delta log.

A commit is one put-if-absent of one small file. On a local disk the file is written under another
name and flushed, linked to its own name, and the other name is unlinked; the caller flushes the
folder. On a store it is a conditional put.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.deadlines import long_call_seconds, short_call_seconds, within
from kafka_on_spark.store.delta.delta_files import commit_path
from kafka_on_spark.store.error_translation import ABSENT, is_denied, storage_error
from kafka_on_spark.store.file_limits import COMMIT_BYTES_MAX
from kafka_on_spark.store.local_changes import delete_file, link, write_temporary
from kafka_on_spark.store.local_files import read_stamped, stamp_opened
from kafka_on_spark.store.requests import count_request
from kafka_on_spark.store.roots import RootFiles, is_local

FileStamp = tuple[object, ...]
"""What tells a file from another one of its name: inode, time and size; on a store the ETag."""


class NotPutError(Exception):
    """The commit was certainly not put: it failed before its file got a name.

    It is for `commit_outcomes`, which raises what failed in its place.

    Attributes:
        error: What failed; its kind says whether the root refuses the caller, or is full.
    """

    def __init__(self, error: KafkaStorageError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A commit file as it was read: its bytes, and which file it was."""

    content: bytes
    stamp: FileStamp


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The commit files of one table.

    Attributes:
        uri: The table's folder.
        files: Its root.
    """

    uri: str
    files: RootFiles

    def put(self, version: int, content: bytes, *, is_flushed: bool) -> bool:
        """Put a commit if its version is free; return False if there is a file.

        On a store the file may be this call's: its first put, whose answer was lost.

        Raises:
            NotPutError: It is certainly not put: the disk refused it, or it is larger than a commit
                can be.
            KafkaStorageError: It may be put, now or later.
        """
        path = commit_path(self.uri, version)
        if len(content) > COMMIT_BYTES_MAX:  # whoever read it would find the table damaged
            error = KafkaStorageError(
                f"{path} was not written: it would have {len(content)} bytes, and a commit has"
                f" {COMMIT_BYTES_MAX} at most"
            )
            raise NotPutError(error)
        if not is_local(self.uri):
            return self.files.write_if_absent(path, content)
        put = partial(_put_local, path, content, is_flushed=is_flushed)
        count_request("PUT", path)
        return within(self.uri, put, long_call_seconds(self.uri))

    def read(self, version: int) -> CommitFile | None:
        """Return a commit file, None if there is none.

        Raises:
            UnsafeFileError: It is no regular file, or larger than a commit can be.
            KafkaStorageError: The root does not answer.
        """
        path = commit_path(self.uri, version)
        if not is_local(self.uri):
            stamp = self.stamp(version)
            content = None if stamp is None else self.files.read(path, COMMIT_BYTES_MAX)
            return None if content is None or stamp is None else CommitFile(content, stamp)
        return self._read_local(path)

    def _read_local(self, path: str) -> CommitFile | None:
        count_request("GET", path)
        try:
            read = partial(read_stamped, path, COMMIT_BYTES_MAX)
            return CommitFile(*within(self.uri, read, short_call_seconds(path)))
        except ABSENT:
            return None
        except OSError as error:
            raise storage_error(error, f"read {path}") from error

    def contents(self, versions: Sequence[int]) -> list[bytes | None]:
        """Return the bytes of some commit files, None where there is none; a store is asked for all
        of them at once.

        Raises: as `read`.
        """
        paths = [commit_path(self.uri, each) for each in versions]
        if not is_local(self.uri):
            return self.files.read_all(paths, COMMIT_BYTES_MAX)
        found = [self._read_local(path) for path in paths]
        return [None if each is None else each.content for each in found]

    def stamp(self, version: int) -> FileStamp | None:
        """Return which file stands at `version`, None if there is none."""
        return self.stamps((version,))[0]

    def stamps(self, versions: tuple[int, ...]) -> list[FileStamp | None]:
        """Return which files stand at some versions, in one call on a local disk."""
        paths = [commit_path(self.uri, each) for each in versions]
        if not is_local(self.uri):
            return [self.files.stamp(path) for path in paths]
        look = partial(_local_stamps, paths)
        count_request("HEAD", self.uri, len(paths))
        try:
            return within(self.uri, look, short_call_seconds(self.uri))
        except OSError as error:
            raise storage_error(error, f"read the log of {self.uri}") from error


def _local_stamps(paths: list[str]) -> list[FileStamp | None]:
    return [_local_stamp(path) for path in paths]


def _local_stamp(path: str) -> FileStamp | None:
    try:
        return stamp_opened(path)
    except ABSENT:
        return None


def _put_local(path: str, content: bytes, *, is_flushed: bool) -> bool:
    try:
        temporary = write_temporary(path, [content], is_flushed=is_flushed)
    except OSError as error:
        raise NotPutError(storage_error(error, f"write {path}")) from error
    try:
        link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        # A disk that has just turned read-only, or an export of NFS, may have made the link before.
        failed = storage_error(error, f"write {path}")
        raise (NotPutError(failed) if is_denied(error) else failed) from error
    finally:
        with suppress(OSError):  # the disk is gone, and the file with it; or a cleaner takes it
            delete_file(temporary)
    return True
