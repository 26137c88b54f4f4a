"""Decides what is evidence that a replica is wrong: bytes that were read and are wrong, or a name
that a listing of an existing folder lacks, on the disk that the image names.

An error is no evidence. A caller that gets one while it reads a replica inspects the files here:
this module reads them itself, on a local root through one handle of the root's folder, so that
another folder put in its place meanwhile is not taken for it. It checks the disk's identity before
and after. A file that can't be read is a failure of the root, and proves nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from kafka_on_spark.base.errors import (
    CorruptLogError,
    InconsistentTopicIdError,
    KafkaOnSparkError,
    KafkaStorageError,
    ProtocolError,
    ReplicaLostError,
)
from kafka_on_spark.base.ids import DirectoryId
from kafka_on_spark.log.batch import HEADER
from kafka_on_spark.store.counts import RequestKind, count_request
from kafka_on_spark.store.deadlines import SHORT, within
from kafka_on_spark.store.delta.checkpoints import newest_checkpoint
from kafka_on_spark.store.delta.delta_files import (
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
    checkpoints_in,
    commit_path,
    commit_step,
    commits_in,
)
from kafka_on_spark.store.error_translation import ABSENT, storage_error
from kafka_on_spark.store.local_files import (
    COMMIT_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    SMALL_FILE_BYTES_MAX,
    UnsafeFileError,
    read_file,
)
from kafka_on_spark.store.root_identity import META_PROPERTIES, identity_on
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

T = TypeVar("T")

EVIDENCE: Final = (ReplicaLostError, CorruptLogError, InconsistentTopicIdError)
"""The errors that claim that a replica is wrong. All others say nothing about it."""


def is_evidence(error: KafkaOnSparkError) -> bool:
    return isinstance(error, EVIDENCE)


DIRECTORY: Final = "kos.directory.id"
UNCHECKED: Final = frozenset({"kos.format.version", DIRECTORY})
"""Properties that prove nothing against a table: another version may read its format; and its disk
may be a copy, whose ids are new (`Cluster.fork`). A replica's uuid is never given again, and which
disk a root is its ``meta.properties`` says."""

_LOG: Final = "_delta_log"


class RootInspection:
    """One inspection of one root; paths are relative to it.

    A local root is read through one handle of its folder. On a store a folder exists if a listing
    names anything in it.
    """

    def __init__(self, root: str, options: StorageOptions) -> None:
        self._root = root
        self._files = RootFiles(root, options)
        self._handle: int | None = None
        if is_local(root):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
            self._handle = within(root, partial(os.open, root, flags), SHORT)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def read(self, path: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes; None if there is no such file."""
        if self._handle is None:
            return self._files.read(f"{self._root}/{path}", bytes_max)
        return self._asked("GET", partial(read_file, path, bytes_max, self._handle))

    def listed(self, folder: str, name: str, bytes_max: int) -> bytes | None:
        """Return a file's bytes, as `read`; None: a listing of its folder lacks it, too."""
        content = self.read(f"{folder}/{name}", bytes_max)
        if content is None and name in (self.names(folder) or ()):
            raise KafkaStorageError(f"{folder}/{name} disappeared while it was read: try again")
        return content

    def names(self, path: str) -> frozenset[str] | None:
        """Return the names in a folder; None if there is no such folder."""
        if self._handle is None:
            return frozenset(self._files.names(f"{self._root}/{path}")) or None
        return self._asked("LIST", partial(self._local_names, path))

    def _asked(self, request: RequestKind, call: Callable[[], T]) -> T | None:
        """Return what a call to a local root returns; None: what it asks for is not there."""
        found = None
        with suppress(*ABSENT):
            found = within(self._root, call, SHORT)
        count_request(request, self._root)
        return found

    def _local_names(self, path: str) -> frozenset[str]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_NONBLOCK
        descriptor = os.open(path or ".", flags, dir_fd=self._handle)
        try:
            return frozenset(os.listdir(descriptor))
        finally:
            os.close(descriptor)


@contextmanager
def inspect_root(
    root: str, directory_id: DirectoryId, options: StorageOptions
) -> Iterator[RootInspection]:
    """Inspect a root, and check before and after that it is the disk `directory_id`."""
    inspection: RootInspection | None = None
    try:
        inspection = RootInspection(root, options)
        identity_on(inspection.read(META_PROPERTIES, SMALL_FILE_BYTES_MAX), root, directory_id)
        yield inspection
        identity_on(inspection.read(META_PROPERTIES, SMALL_FILE_BYTES_MAX), root, directory_id)
    except OSError as error:
        raise storage_error(error, f"inspect {root}", options) from options.shown(error)
    finally:
        if inspection is not None:
            inspection.close()


def table_flaw(
    inspection: RootInspection, folder: str, *, seen_version: int, configuration: Mapping[str, str]
) -> ProtocolError | None:
    """Return what is wrong with the log of the table in `folder`, or None.

    `seen_version`: the newest version that this process has seen. `configuration`: the one that the
    table must have.
    """
    lost = ReplicaLostError(f"there is no table {folder}")
    if any(inspection.names(place) is None for place in (folder.split("/", 1)[0], folder)):
        return lost  # also if a link stands in its place
    names = inspection.names(f"{folder}/{_LOG}") or frozenset()
    commits = commits_in(names)
    checkpoints = checkpoints_in(names)
    if not commits | checkpoints:
        return lost
    newest = max(commits | checkpoints)
    if newest < seen_version:
        return ReplicaLostError(f"the table {folder} went back", version=newest, seen=seen_version)
    base = newest_checkpoint(inspection.read, folder, checkpoints)
    after = range(0 if base is None else base.version + 1, newest + 1)
    # A checkpoint without its commit: its writer had seen commits that the disk has lost since.
    missing = [each for each in (max(after.start - 1, 0), *after) if each not in commits]
    if missing:
        return CorruptLogError(f"the commit {commit_path(folder, missing[0])} is missing")
    steps: Iterator[TableStep] = (_read_commit(inspection, folder, each) for each in after)
    found: dict[str, str] = {}
    for step in steps if base is None else chain([base], steps):
        if isinstance(step, TableDamage):
            return CorruptLogError(step.sentence)
        if not _has_headers(step):
            return CorruptLogError(
                f"a header in version {step.version} of {folder} is none of a segment's"
            )
        found = dict(step.configuration or found)
    return identity_flaw(found, configuration, folder)


def _has_headers(step: TableCommit | TableCheckpoint) -> bool:
    """Return whether all files that a commit or checkpoint adds have a segment's header."""
    added = step.files if isinstance(step, TableCheckpoint) else step.adds
    return all(file.values.keys() == HEADER for file in added)


def _read_commit(inspection: RootInspection, folder: str, version: int) -> TableStep:
    path = commit_path(folder, version)
    try:
        content = inspection.read(path, COMMIT_BYTES_MAX)
    except UnsafeFileError as error:
        return TableDamage(version=version, sentence=error.message)
    if content is None:
        raise KafkaStorageError(f"{path} disappeared while it was read: try again")
    return commit_step(content, version, path)


def identity_flaw(
    found: Mapping[str, str], expected: Mapping[str, str], table: str
) -> ProtocolError | None:
    """Return that a table is another replica's, by its configuration, or None."""
    for name, value in expected.items():
        if name not in UNCHECKED and found.get(name) != value:
            # The table is another topic's, or another replica's of this topic.
            kind = InconsistentTopicIdError if name == "kos.topic.id" else ReplicaLostError
            return kind(
                f"the table {table} is another replica's",
                setting=name,
                expected=value,
                found=found.get(name),
            )
    return None


def file_flaw(
    inspection: RootInspection,
    folder: str,
    name: str,
    size_bytes: int,
    flaw_of: Callable[[bytes], str | None],
) -> CorruptLogError | None:
    """Return what is wrong with a replica's file that must have `size_bytes`, or None.

    `flaw_of` says what is wrong with its bytes.
    """
    path = f"{folder}/{name}"
    try:
        content = inspection.listed(folder, name, min(size_bytes, SEGMENT_BYTES_MAX))
    except UnsafeFileError as error:
        return CorruptLogError(error.message, **error.context)
    if content is None:
        return CorruptLogError(f"the file {name} is missing from the folder {folder}")
    if len(content) != size_bytes:
        return CorruptLogError(
            f"the file {path} has {len(content)} bytes, the log says {size_bytes}"
        )
    flaw = flaw_of(content)
    return None if flaw is None else CorruptLogError(f"the file {path}: {flaw}")
