"""Evidence that a replica is wrong: read and wrong, or missing from a listing of a folder that was
there, on the disk that the image names.

An error is no evidence (DESIGN §8). Whoever meets one while he reads a replica asks here what lies
there: the files are read by this module itself, and on a local root through one handle of the
root's folder, so that what is put in its place meanwhile is not taken for it. The disk names itself
before and after. What can't be read is a failure of the root, and nothing is concluded.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol, TypeVar

from kafka_on_spark.audit.batches import HEADER
from kafka_on_spark.audit.history import TableCheckpoint, TableCommit, TableDamage, TableStep
from kafka_on_spark.errors import (
    CorruptLogError,
    InconsistentTopicIdError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.ids import DirectoryId
from kafka_on_spark.storage.deadlines import look_seconds, within
from kafka_on_spark.storage.delta_files import CHECKPOINT, checkpoint_version, commit_version
from kafka_on_spark.storage.failures import ABSENT, storage_error
from kafka_on_spark.storage.history import checkpoint_step, commit_step
from kafka_on_spark.storage.limits import (
    CHECKPOINT_BYTES_MAX,
    COMMIT_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SMALL_FILE_BYTES_MAX,
)
from kafka_on_spark.storage.local_files import OddFileError, read_local
from kafka_on_spark.storage.old_commits import OLD_COMMITS
from kafka_on_spark.storage.root_identity import META_PROPERTIES, check_is_directory
from kafka_on_spark.storage.roots import RootFiles, StorageOptions, is_local

T = TypeVar("T")

EVIDENCE: Final = (ReplicaLostError, CorruptLogError, InconsistentTopicIdError)
"""The errors that say that a replica is wrong. All others say nothing about it."""

FORMAT: Final = "kos.format.version"
_LOG: Final = "_delta_log"


class Look(Protocol):
    """One look at one root; paths are below it."""

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes; None if there is no such file.

        Raises:
            OddFileError: It has more than `bytes_max`, or is no regular file.
        """
        ...

    def size(self, path: str) -> int | None:
        """Return a file's size; None if there is no such file."""
        ...

    def names(self, path: str) -> frozenset[str] | None:
        """Return the names in a folder; None if there is no such folder."""
        ...


class _LocalLook:
    """A look through a handle of the root's folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
        self._handle = self._within(lambda: os.open(root, flags))

    def _within(self, look: Callable[[], T]) -> T:
        return within(self._root, look, look_seconds(self._root))

    def close(self) -> None:
        os.close(self._handle)

    def read(self, path: str, bytes_max: int) -> bytes | None:
        try:
            return self._within(lambda: read_local(path, bytes_max, self._handle))
        except ABSENT:
            return None

    def size(self, path: str) -> int | None:
        stat = partial(os.stat, path, dir_fd=self._handle, follow_symlinks=False)
        try:
            return self._within(stat).st_size
        except ABSENT:
            return None

    def names(self, path: str) -> frozenset[str] | None:
        try:
            return self._within(lambda: self._names(path))
        except ABSENT:
            return None

    def _names(self, path: str) -> frozenset[str]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_NONBLOCK
        descriptor = os.open(path or ".", flags, dir_fd=self._handle)
        try:
            return frozenset(os.listdir(descriptor))
        finally:
            os.close(descriptor)


class _StoreLook:
    """A look at a store; a folder is there if a listing names anything in it."""

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._root = root
        self._files = RootFiles(root, options)

    def close(self) -> None:
        """Close nothing: a store is asked anew each time."""

    def read(self, path: str, bytes_max: int) -> bytes | None:
        return self._files.read(f"{self._root}/{path}", bytes_max)

    def size(self, path: str) -> int | None:
        return self._files.size(f"{self._root}/{path}")

    def names(self, path: str) -> frozenset[str] | None:
        return frozenset(self._files.names(f"{self._root}/{path}")) or None


@contextmanager
def look_at(root: str, directory_id: DirectoryId, options: StorageOptions) -> Iterator[Look]:
    """Look at a root that is the disk `directory_id`, before and after.

    Raises:
        KafkaStorageError: It is another disk or none, or it does not answer.
    """
    look: _LocalLook | _StoreLook | None = None
    try:
        look = _LocalLook(root) if is_local(root) else _StoreLook(root, options)
        check_is_directory(look.read(META_PROPERTIES, SMALL_FILE_BYTES_MAX), root, directory_id)
        yield look
        check_is_directory(look.read(META_PROPERTIES, SMALL_FILE_BYTES_MAX), root, directory_id)
    except OSError as error:
        raise storage_error(error, f"look at {root}", options) from options.shown(error)
    finally:
        if look is not None:
            look.close()


def table_flaw(
    look: Look, folder: str, *, seen_version: int, configuration: Mapping[str, str]
) -> ProtocolError | None:
    """Return what is wrong with the log of the table in `folder`; None if nothing is.

    `seen_version`: the newest that this process has seen of it. `configuration`: what the table
    must say of itself.

    Raises:
        KafkaStorageError: A file went while it was looked at.
    """
    if any(look.names(place) is None for place in (folder.split("/", 1)[0], folder)):
        return _lost(look, folder)  # also where a link stands in its place: that is no folder
    log, old = look.names(f"{folder}/{_LOG}"), look.names(f"{folder}/{OLD_COMMITS}")
    names = (log or frozenset()) | (old or frozenset())
    commits = {each for each in map(commit_version, names) if each is not None}
    checkpoints = {each for each in map(checkpoint_version, names) if each is not None}
    if not commits | checkpoints:
        return _lost(look, folder)
    newest = max(commits | checkpoints)
    if newest < seen_version:
        return ReplicaLostError(f"the table {folder} went back", version=newest, seen=seen_version)
    base = _newest_checkpoint(look, folder, checkpoints)
    files = [f"{base:020d}{CHECKPOINT}"] if base >= 0 else []
    files += [f"{version:020d}.json" for version in range(base + 1, newest + 1)]
    # A checkpoint without its commit: its maker had seen commits that the disk lost since.
    missing = [name for name in (f"{max(base, 0):020d}.json", *files) if name not in names]
    if missing:
        return CorruptLogError(f"the commit {folder}/{_LOG}/{missing[0]} is missing")
    found: dict[str, str] = {}
    for name in files:
        try:
            step = _step(_read(look, folder, name, log), f"{folder}/{_LOG}/{name}")
        except OddFileError as error:
            return CorruptLogError(error.message, **error.context)
        if isinstance(step, TableDamage):
            return CorruptLogError(step.sentence)
        found = dict(step.configuration or found)
    return identity_flaw(found, configuration, folder)


def _has_headers(step: TableCommit | TableCheckpoint) -> bool:
    """Return whether all files that a commit or checkpoint adds have a segment's header."""
    added = step.files if isinstance(step, TableCheckpoint) else step.adds
    return all(file.values.keys() == HEADER for file in added)


def _newest_checkpoint(look: Look, folder: str, checkpoints: set[int]) -> int:
    """Return the version of the newest that is not empty, or -1: a power cut keeps the name of one
    and not its bytes."""
    for version in sorted(checkpoints, reverse=True):
        if look.size(f"{folder}/{_LOG}/{version:020d}{CHECKPOINT}") != 0:
            return version
    return -1


def _step(content: bytes, path: str) -> TableStep:
    version = checkpoint_version(path)
    if version is not None:
        step = checkpoint_step(content, version, path)
    else:
        step = commit_step(content, int(path.rsplit("/", 1)[-1][:20]), path)
    if isinstance(step, TableDamage) or _has_headers(step):
        return step
    return TableDamage(version=step.version, sentence=f"a header in {path} is none of a segment's")


def _lost(look: Look, folder: str) -> ReplicaLostError:
    """Return that there is no table; the folders above it are there, as far as they can be."""
    place = ""
    for part in f"{folder}/{_LOG}".split("/"):
        names = look.names(place)
        if names is None or part not in names:
            where = f"{place or 'the root'} has no {part}"
            return ReplicaLostError(f"there is no table {folder}: {where}")
        place = f"{place}/{part}" if place else part
    return ReplicaLostError(f"there is no table {folder}: its log is empty")


def _read(look: Look, folder: str, name: str, log: frozenset[str] | None) -> bytes:
    """Return the bytes of a file of the log that was listed; it may have become old since."""
    places = [OLD_COMMITS, _LOG] if log is None or name not in log else [_LOG, OLD_COMMITS]
    for place in places:
        bytes_max = CHECKPOINT_BYTES_MAX if name.endswith(CHECKPOINT) else COMMIT_BYTES_MAX
        content = look.read(f"{folder}/{place}/{name}", bytes_max)
        if content is not None:
            return content
    raise KafkaStorageError(f"{folder}/{_LOG}/{name} went while it was looked at: try again")


def identity_flaw(
    found: Mapping[str, str], expected: Mapping[str, str], table: str
) -> ProtocolError | None:
    """Return that a table is another's, by what it says of itself; None if it is the right one."""
    for name, value in expected.items():
        # A format that this version can't read is no flaw: another version may.
        if name != FORMAT and found.get(name) != value:
            # In its place stands another topic's table, or another replica's of this one.
            kind = InconsistentTopicIdError if name == "kos.topic.id" else ReplicaLostError
            return kind(
                f"the table {table} is another replica's",
                setting=name,
                expected=value,
                found=found.get(name),
            )
    return None


def file_flaw(
    look: Look, folder: str, name: str, size_bytes: int, flaw_of: Callable[[bytes], str | None]
) -> CorruptLogError | None:
    """Return what is wrong with a file of a replica that must have `size_bytes`; None: nothing.

    `flaw_of` says what is wrong with its bytes.

    Raises:
        KafkaStorageError: The file went while it was looked at.
    """
    path = f"{folder}/{name}"
    size = look.size(path)
    if size is None:
        names = look.names(folder)
        if names is not None and name in names:
            raise KafkaStorageError(f"{path} went while it was looked at: try again")
        return CorruptLogError(f"the file {name} is missing from the folder {folder}")
    if size != size_bytes:
        return CorruptLogError(f"the file {path} has {size} bytes, the log says {size_bytes}")
    if size > SEGMENT_BYTES_MAX:
        return CorruptLogError(f"the file {path} is larger than it can be", size_bytes=size)
    try:
        content = look.read(path, size)
    except OddFileError as error:
        return CorruptLogError(error.message, **error.context)
    if content is None:
        raise KafkaStorageError(f"{path} went while it was looked at: try again")
    flaw = flaw_of(content)
    return None if flaw is None else CorruptLogError(f"the file {path}: {flaw}")
