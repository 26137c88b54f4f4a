"""Puts a commit, and tells its outcome: committed, conflict or unknown. It is the only code that
puts a commit into a Delta log.

A commit is one put-if-absent of one small file. On a local disk the file is written under another
name and flushed, linked to its own name, and the other name is unlinked; the caller flushes the
folder. On a store it is a conditional put.

A commit carries a write id. After any error the commit file at that version is read back, because
an error's type does not tell what happened: with our id it is committed, with another id it is a
conflict, and without a file it is unknown, since a put that timed out may still land. An unknown
outcome is resolved by putting the same commit again until a commit stands at that version, ours or
another's. A store that refuses the caller is asked once more, for credentials that were renewed;
waiting gives no permission. The outcome stays unknown: its client may have put it before.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    KafkaStorageError,
    RootAccessDeniedError,
)
from kafka_on_spark.store.counts import count_request
from kafka_on_spark.store.deadlines import LONG, SHORT, within
from kafka_on_spark.store.delta.delta_files import commit_path, write_id_of
from kafka_on_spark.store.error_translation import (
    ABSENT,
    is_denied,
    is_failure,
    reason,
    storage_error,
)
from kafka_on_spark.store.local_files import (
    COMMIT_BYTES_MAX,
    delete_file,
    link,
    read_stamped,
    stamp_opened,
    write_temporary,
)
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

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
        return within(self.uri, put, LONG)

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
            return CommitFile(*within(self.uri, read, SHORT))
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
        return self.stamps((version,))[0]

    def stamps(self, versions: tuple[int, ...]) -> list[FileStamp | None]:
        """Return which files stand at some versions, in one call on a local disk."""
        paths = [commit_path(self.uri, each) for each in versions]
        if not is_local(self.uri):
            return [self.files.stamp(path) for path in paths]
        count_request("HEAD", self.uri, len(paths))
        try:
            stamps = partial(_local_stamps, paths)
            return within(self.uri, stamps, SHORT)
        except OSError as error:
            raise storage_error(error, f"read the log of {self.uri}") from error


def _local_stamps(paths: Iterable[str]) -> list[FileStamp | None]:
    stamps: list[FileStamp | None] = []
    for path in paths:
        try:
            stamps.append(stamp_opened(path))
        except ABSENT:
            stamps.append(None)
    return stamps


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


log = logging.getLogger(__name__)

RESOLVE_SECONDS: Final = 30.0
"""How long a commit with an unknown outcome is put again before the caller gets an error."""

RESOLVE_SECONDS_LOCAL: Final = 1.0
"""The same on a local disk, where no request can be under way any more."""

T = TypeVar("T")


def until_found(ask: Callable[[], T | None], seconds: float) -> T | None:
    # In the function: tenacity imports asyncio, which would add a twentieth to the start of each of
    # Spark's Python processes, and only an unknown outcome needs it. It can move up once tenacity
    # does without asyncio.
    from tenacity import (
        RetryError,
        Retrying,
        retry_if_result,
        stop_after_delay,
        wait_random_exponential,
    )

    try:
        found: T | None = Retrying(
            retry=retry_if_result(lambda found: found is None),
            stop=stop_after_delay(seconds),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
        )(ask)
    except RetryError:
        return None
    return found


@dataclass(frozen=True, slots=True)
class CommitOutcomes:
    """Puts commits into one table's log.

    Attributes:
        commits: The log's files.
        options: Credentials, which no error may show.
        is_flushed: A commit is flushed before it gets its name.
    """

    commits: CommitFiles
    options: StorageOptions
    is_flushed: bool = field(kw_only=True)

    def put(self, version: int, write_id: str, content: bytes) -> bool:
        """Put a commit until it stands at `version`; return False if a put of ours landed whose
        answer was lost.

        Raises:
            CommitConflictError: Another commit stands there.
            CommitOutcomeUnknownError: Ours may still land.
            KafkaStorageError: Nothing was put; its kind says whether the root refuses the caller,
                or is full.
        """
        error: KafkaStorageError | None = None
        try:
            if self.commits.put(version, content, is_flushed=self.is_flushed):
                return True
        except NotPutError as failed:
            raise failed.error from failed.__cause__
        except KafkaStorageError as failed_call:
            error = failed_call
        except BaseException as raised:
            if not is_failure(raised):
                raise
            error = storage_error(raised, f"commit to {self.commits.uri}", self.options)
        self._resolve(version, write_id, content, error)
        return False

    def _resolve(
        self, version: int, write_id: str, content: bytes, error: KafkaStorageError | None
    ) -> None:
        """Return if the commit at `version` is ours; raise the outcome otherwise."""
        found = self._write_id_at(version)
        if found is None:
            put_again = partial(self._put_again, version, content)
            seconds = RESOLVE_SECONDS_LOCAL if is_local(self.commits.uri) else RESOLVE_SECONDS
            is_denied = isinstance(error, RootAccessDeniedError)
            found = until_found(put_again, 0.0 if is_denied else seconds)
        if found is None:
            why = "what stands there can't be read" if error is None else error.message
            raise CommitOutcomeUnknownError(
                f"the store failed while committing to {self.commits.uri}: {why}", version=version
            ) from error
        if found != write_id:
            raise CommitConflictError("version is taken", version=version) from error

    def _put_again(self, version: int, content: bytes) -> str | None:
        try:
            self.commits.put(version, content, is_flushed=self.is_flushed)
        except BaseException as error:
            if not is_failure(error):
                raise
            why = reason(error, self.options)
            log.debug("commit %s of %s: %s", version, self.commits.uri, why)
        return self._write_id_at(version)

    def _write_id_at(self, version: int) -> str | None:
        """Return the write id of the commit at `version`, "" if it has none; None if there is no
        commit or it can't be read."""
        try:
            found = self.commits.read(version)
        except KafkaStorageError:
            return None
        return None if found is None else write_id_of(found.content)
