"""Tells a root from another disk, by the cluster, broker and disk in Kafka's ``meta.properties``.

A root without that file never passes for an empty one: an unmounted disk looks the same. Before it
gets the file, a root shows that of racing conditional puts exactly one wins, by the code that
commits: a file system or store that does not hold to that would lose acknowledged records.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from errno import ENOSPC, ENOTDIR
from functools import partial
from threading import Barrier
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.base.errors import (
    CommitConflictError,
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRequestError,
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
    RootAccessDeniedError,
    RootFullError,
)
from kafka_on_spark.base.ids import BrokerId, DirectoryId, check_whole_number
from kafka_on_spark.store.deadlines import SHORT, DaemonThreads, within
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.local_files import (
    SMALL_FILE_BYTES_MAX,
    UnsafeFileError,
    make_folder,
    make_folders,
    set_mode,
)
from kafka_on_spark.store.root_urls import BETWEEN, place_of
from kafka_on_spark.store.roots import RootFiles, StorageOptions, flush, is_local

META_PROPERTIES: Final = "meta.properties"
GENERATION: Final = "cluster.generation"
METADATA_ROOTS: Final = "metadata.roots"
ROOT_MODE: Final = 0o700
"""Default mode of roots that are created: no other user reads or writes them."""


@dataclass(frozen=True, slots=True)
class RootIdentity:
    """The content of ``meta.properties`` on a root.

    Attributes:
        generation: Of the cluster, when people last went on without a majority of its metadata
            roots, and reached this root; 0: they never did.
        metadata_roots: Of the cluster, when they last changed and this root was reached: those that
            it obeys. Empty: an earlier version wrote it, and it obeys any of the cluster's id.
    """

    cluster_id: str
    broker_id: BrokerId
    directory_id: DirectoryId
    generation: int = field(default=0, compare=False)
    metadata_roots: tuple[str, ...] = field(default=(), compare=False)

    def encode(self) -> bytes:
        owner = f"broker.id={self.broker_id}"
        content = encode_properties(self.cluster_id, owner, self.directory_id)
        if self.metadata_roots:
            content += f"{METADATA_ROOTS}={json.dumps(self.metadata_roots)}\n".encode()
        return content + (f"{GENERATION}={self.generation}\n".encode() if self.generation else b"")


def read_identity(root: str, options: StorageOptions) -> RootIdentity | None:
    """Return which disk `root` is, or None if it has no ``meta.properties``.

    Raises:
        KafkaStorageError: The root does not answer.
        InvalidRootError: The file is not a broker's.
    """
    return _identity_of(read_properties(root, options), root)


def write_obeyed(
    root: str,
    directory_id: DirectoryId,
    metadata_roots: Sequence[str],
    generation: int,
    options: StorageOptions,
    registered_voters: Collection[str] = (),
) -> None:
    """Write on a broker's root which metadata roots it obeys, and the cluster's generation:
    processes with a copy, or of an older generation, find them there.

    Raises:
        KafkaStorageError: It is another disk or none, or it does not answer.
        RootAccessDeniedError: It obeys none of `registered_voters`, if these are given.
    """
    found = _checked_identity(root, directory_id, options)
    check_is_obeyed(found, root, registered_voters)
    generation = max(generation, found.generation)
    changed = replace(found, metadata_roots=tuple(metadata_roots), generation=generation)
    if changed.encode() != found.encode():
        RootFiles(root, options).write(f"{root}/{META_PROPERTIES}", changed.encode())


def read_properties(root: str, options: StorageOptions) -> bytes | None:
    """Return the bytes of a root's ``meta.properties``, or None if it has none.

    Raises:
        KafkaStorageError: The root does not answer.
        InvalidRootError: It is no small file.
    """
    path = f"{root}/{META_PROPERTIES}"
    try:
        return RootFiles(root, options).read(path, SMALL_FILE_BYTES_MAX)
    except UnsafeFileError as error:
        raise InvalidRootError(f"{error.message}: give a root of this cluster") from error


def _identity_of(content: bytes | None, root: str) -> RootIdentity | None:
    if content is None:
        return None
    try:
        fields = properties_of(content)
        return RootIdentity(
            fields["cluster.id"],
            BrokerId(int(fields["broker.id"])),
            DirectoryId(fields["directory.id"]),
            int(fields.get(GENERATION, 0)),
            tuple(map(str, json.loads(fields.get(METADATA_ROOTS, "[]")))),
        )
    except (KeyError, TypeError, ValueError):
        raise InvalidRootError(
            f"{root}/{META_PROPERTIES} is not a broker's: give a root of this cluster, or an"
            " empty folder"
        ) from None


def encode_properties(cluster_id: str, owner: str, directory_id: DirectoryId) -> bytes:
    """Return the bytes of a ``meta.properties``; `owner` is its line of a broker or of a voter."""
    lines = ("version=1", f"cluster.id={cluster_id}", owner, f"directory.id={directory_id}", "")
    return "\n".join(lines).encode()


def properties_of(content: bytes) -> dict[str, str]:
    """Return the fields of a ``meta.properties``.

    Raises:
        ValueError: It is no text.
    """
    return dict(line.split("=", 1) for line in content.decode().splitlines() if "=" in line)


CHECKED_MAX: Final = 4096

CHECKED: Final[set[tuple[str, DirectoryId, str, tuple[str, ...]]]] = set()
"""The roots that this process has checked since it opened a cluster, by all that `check_directory`
is given (of options their key): to check one for each append would be a request more."""


def check_directory(
    root: str,
    directory_id: DirectoryId,
    options: StorageOptions,
    registered_voters: Collection[str] = (),
) -> None:
    """Check that `root` is the disk that the image names, and obeys one of `registered_voters`, if
    these are given: those that its metadata log ever had, since a broker that was away while voters
    changed names former ones. A copy of the cluster under the original's URLs does not pass once
    all of the original's metadata roots were replaced.

    Another disk or none means that the disk is away, not lost: it may be unmounted, and its
    replicas count as they are when it is back.

    Raises:
        KafkaStorageError: It is another disk or none, or it does not answer.
        RootAccessDeniedError: It obeys other metadata roots.
    """
    found = _checked_identity(root, directory_id, options)
    check_is_obeyed(found, root, registered_voters)


def check_is_obeyed(found: RootIdentity, root: str, registered_voters: Collection[str]) -> None:
    """Check that a root of this identity obeys one of the voters that a metadata log ever had.

    Raises:
        RootAccessDeniedError: It obeys other metadata roots.
    """
    if not found.metadata_roots or not registered_voters:
        return
    ours = [voter.split(":", 2)[2] for voter in registered_voters]  # id:directory:root
    if {place_of(each) for each in ours}.isdisjoint(map(place_of, found.metadata_roots)):
        raise RootAccessDeniedError(
            f"the root {root} obeys the metadata roots {BETWEEN.join(found.metadata_roots)}, and"
            f" not {BETWEEN.join(ours)}, which are a copy or were given up: open the cluster at the"
            " former"
        )


def _checked_identity(
    root: str, directory_id: DirectoryId, options: StorageOptions
) -> RootIdentity:
    content = RootFiles(root, options).read(f"{root}/{META_PROPERTIES}", SMALL_FILE_BYTES_MAX)
    return identity_on(content, root, directory_id)


def identity_on(content: bytes | None, root: str, directory_id: DirectoryId) -> RootIdentity:
    """Return what the bytes of a root's ``meta.properties`` say of the disk `directory_id`.

    Raises:
        KafkaStorageError: It is another disk or none.
    """
    try:
        found = _identity_of(content, root)
    except InvalidRootError as error:
        raise KafkaStorageError(error.message) from error
    if found is None and is_local(root) and not within(root, lambda: os.path.lexists(root), SHORT):
        raise KafkaStorageError(f"{root} does not exist", expected=directory_id)
    if found is None or found.directory_id != directory_id:
        raise KafkaStorageError(
            f"{root} is not the disk it was",
            expected=directory_id,
            found=None if found is None else found.directory_id,
        )
    return found


def prepare_root(
    root: str,
    cluster_id: str,
    broker_id: BrokerId,
    options: StorageOptions,
    metadata_roots: Sequence[str] = (),
) -> RootIdentity:
    """Test a root, write its identity, and return that.

    A root that an earlier try of this registration has prepared is used as it is; it obeys
    `metadata_roots` from now on.

    Raises:
        InvalidRootError: It can't be reached or written, or its conditional puts are unsafe.
        InconsistentClusterIdError: It belongs to another cluster.
        DuplicateBrokerRegistrationError: It belongs to another broker.
    """
    try:
        create_root(root)
        found = read_identity(root, options)
        if found is None:
            _put_and_delete(root, options)
            check_conditional_puts(root, options)
            directory_id = DirectoryId(uuid4().hex)
            obeyed = tuple(metadata_roots)
            mine = RootIdentity(cluster_id, broker_id, directory_id, metadata_roots=obeyed)
            RootFiles(root, options).write_if_absent(f"{root}/{META_PROPERTIES}", mine.encode())
            found = read_identity(root, options)
        elif is_local(root):
            flush([root])  # whoever wrote it may have died before
    except KafkaStorageError as error:
        raise unusable_root(root, error) from error
    if found is None:
        raise InvalidRootError(f"the root {root} does not keep what is written to it")
    check_owner(found, root, cluster_id, broker_id)
    if metadata_roots and found.metadata_roots != tuple(metadata_roots):
        write_obeyed(root, found.directory_id, metadata_roots, found.generation, options)
    return found


def check_owner(found: RootIdentity, root: str, cluster_id: str, broker_id: BrokerId) -> None:
    """Check that a root's identity is this broker's.

    Raises:
        InconsistentClusterIdError: It belongs to another cluster.
        DuplicateBrokerRegistrationError: It belongs to another broker.
    """
    if found.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"the root {root} belongs to cluster {found.cluster_id}, not to {cluster_id}: give"
            " each cluster roots of its own"
        )
    if found.broker_id != broker_id:
        raise DuplicateBrokerRegistrationError(
            f"the root {root} belongs to broker {found.broker_id}, not to {broker_id}, of cluster"
            f" {found.cluster_id}: give each broker a root of its own"
        )


@contextmanager
def reporting_as_invalid_root(root: str) -> Iterator[None]:
    """Turn a storage error about a future root into one that says why it can't be a root.

    Raises:
        InvalidRootError: It does not answer, or is a file.
    """
    try:
        if is_local(root) and within(root, lambda: _is_file(root), SHORT):
            raise InvalidRootError(f"{root} can't be a root: it is a file; give a folder")
        yield
    except KafkaStorageError as error:
        raise unusable_root(root, error) from error


def _is_file(root: str) -> bool:
    return os.path.exists(root) and not os.path.isdir(root)


def check_reachable(root: str, options: StorageOptions) -> RootIdentity | None:
    """Check, without writing, that `root` can be read; return its identity, if it has one.

    Raises:
        InvalidRootError: It does not answer, or is a file.
    """
    with reporting_as_invalid_root(root):
        return read_identity(root, options)


def check_free(root: str, broker_id: BrokerId, options: StorageOptions) -> RootIdentity | None:
    """Check as `check_reachable`, and that `root` is no other broker's.

    Raises: as `check_reachable` and `check_owner`.
    """
    found = check_reachable(root, options)
    if found is not None:
        check_owner(found, root, found.cluster_id, broker_id)
    return found


def check_mode(mode: object) -> None:
    """Check the mode that the caller gave for roots to create.

    Raises:
        InvalidRequestError: It is no mode, or the owner could not use the root.
    """
    check_whole_number(mode, "root_mode")
    if not isinstance(mode, int) or not ROOT_MODE <= mode <= 0o777 or mode & ROOT_MODE != ROOT_MODE:
        raise InvalidRequestError(
            f"root_mode can't be {mode!r}: give permissions that the owner has all of, such as"
            " 0o700 or 0o770"
        )


def create_root(root: str, mode: int = ROOT_MODE) -> None:
    """Create a local root's folder with exactly this mode, unless it is there.

    Raises:
        InvalidRootError: It can't be created.
    """
    if not is_local(root):
        return
    try:
        above = within(root, partial(_create_root, root, mode), SHORT)
        flush(above)
    except OSError as error:
        raise InvalidRootError(
            f"{root} can't be a root: {error.strerror}; give a folder that exists or can be created"
        ) from None


def _create_root(root: str, mode: int) -> list[str]:
    """Create a root, unless it is there; return the folders that lead to it."""
    make_folders(os.path.dirname(root))
    if make_folder(root, ROOT_MODE):
        set_mode(root, mode)  # whatever umask this process has
    if not os.path.isdir(root):
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR))
    return _folders_above(root)


def _folders_above(root: str) -> list[str]:
    """Return the folders that lead to a root, up to its file system's, as far as they can be read.

    Any of them may be new, of this process or of one that died before it flushed it.
    """
    folders = [os.path.realpath(os.path.dirname(root))]
    while not os.path.ismount(folders[-1]):
        folders.append(os.path.dirname(folders[-1]))
    return [each for each in folders if os.access(each, os.R_OK)]


def probe_root(
    root: str, expected: DirectoryId, options: StorageOptions, size_bytes: int = 0
) -> None:
    """Check that a broker's root answers, is the expected disk, and takes writes; with
    `size_bytes`, also one of that size.

    Raises:
        RootFullError: It is the disk, and has no room.
        RootReadOnlyError: It is the disk, and is read-only.
        KafkaStorageError: It does not answer, or is another disk.
    """
    check_directory(root, expected, options)
    if is_local(root) and size_bytes:
        _check_room(root, size_bytes)
    _put_and_delete(root, options, size_bytes)


def _put_and_delete(root: str, options: StorageOptions, size_bytes: int = 0) -> None:
    files = RootFiles(root, options)
    path = f"{root}/_probe-{uuid4().hex}"
    # No file system makes random bytes smaller, and each has found room for them once they are
    # flushed. A small write is not flushed: that would wait for other writes.
    content = os.urandom(size_bytes) or b"probe"
    files.write(path, content, is_flushed=size_bytes > 0)
    files.delete_file(path)


def _check_room(root: str, size_bytes: int) -> None:
    """Check that a write of that size may have room, before it takes the last of it from others."""
    try:
        found = within(root, partial(os.statvfs, root), SHORT)
    except OSError as error:
        raise storage_error(error, f"look for room on {root}") from error
    if found.f_bfree * found.f_frsize < size_bytes:
        raise RootFullError(f"can't write {size_bytes} bytes to {root}: {os.strerror(ENOSPC)}")


def root_now_ms(root: str, expected: DirectoryId, options: StorageOptions) -> int:
    """Return the time of a broker's root, ms since 1970 UTC. It stands beside the clock of the
    process that decides, so that one wrong clock deletes nothing.

    Raises:
        KafkaStorageError: It is another disk; and as `now_ms_at`.
    """
    check_directory(root, expected, options)
    return now_ms_at(root, options)


def now_ms_at(root: str, options: StorageOptions) -> int:
    """Return the time of a root, ms since 1970 UTC: on S3 that of its last answer and what has
    passed since, elsewhere that of a file written for it. Stores tell whole seconds, which are
    never ahead.

    Raises:
        KafkaStorageError: It does not answer, takes no writes, or tells no time.
    """
    if urlsplit(root).scheme in ("s3", "s3a"):
        from kafka_on_spark.store.s3_files import told_ms

        now_ms = told_ms(urlsplit(root).netloc)
        if now_ms is not None:
            return now_ms
    files = RootFiles(root, options)
    path = f"{root}/_probe-{uuid4().hex}"
    files.write(path, b"probe", is_flushed=False)  # a flush would wait for other writes
    try:
        now_ms = files.time_ms(path)
    finally:
        with suppress(KafkaStorageError):
            files.delete_file(path)
    if now_ms is None:
        raise KafkaStorageError(f"the root {root} does not keep what is written to it")
    return now_ms


def unusable_root(root: str, error: KafkaOnSparkError) -> InvalidRootError:
    """Return the error that says why a root can't be used, and what to give instead."""
    return InvalidRootError(
        f"the root {root} can't be used: {error.message}; give a folder or bucket that exists and"
        " can be written"
    )


RACERS: Final = 4
RACES: Final = 3


def check_conditional_puts(root: str, options: StorageOptions) -> None:
    """Put one file twice, then race commits for one version of a scratch table, `RACES` times.

    Exactly one racer may win each time. The double put finds a store that ignores the condition,
    the races find one that checks it and writes in two steps.

    Raises:
        InvalidRootError: Two racers won or none did: the file system or store is not safe.
    """
    scratch = f"{root}/_race-{uuid4().hex}"
    schema = pa.schema([("base_offset", pa.int64())])
    try:
        DeltaLog.create(scratch, options, schema=schema, partition_by=[], configuration={})
        if not _is_second_put_refused(scratch, options):
            raise InvalidRootError(
                f"the root {root} is not safe: a second put replaced a file that it should have"
                " left; use a local disk with hard links, or a store that"
                " honours conditional puts"
            )
        start = Barrier(RACERS)
        with DaemonThreads(RACERS, "race") as racers:
            for version in range(RACES):
                logs = [DeltaLog(scratch, options) for _ in range(RACERS)]
                for log in logs:
                    log.refresh()
                wins = list(racers.map(_racer(version, start), logs))
                if sum(wins) != 1:
                    raise InvalidRootError(
                        f"the root {root} is not safe: {sum(wins)} of {RACERS} racing writers"
                        " were told that they won; use a local disk with hard links, or a store"
                        " whose conditional puts are atomic"
                    )
    except InvalidRootError:
        raise
    except KafkaOnSparkError as error:
        raise unusable_root(root, error) from error
    finally:
        # What a failed test leaves has a name of its own, and is no part of any log.
        with suppress(KafkaStorageError):
            RootFiles(scratch, options).delete(scratch)


def _is_second_put_refused(scratch: str, options: StorageOptions) -> bool:
    files = RootFiles(scratch, options)
    path = f"{scratch}/put-twice"
    # A lost answer may make the first put look refused: the file's content tells.
    files.write_if_absent(path, b"first")
    return not files.write_if_absent(path, b"second") and files.read(path, 5) == b"first"


def _racer(version: int, start: Barrier) -> Callable[[DeltaLog], bool]:
    def run(log: DeltaLog) -> bool:
        start.wait()
        try:
            log.commit(version, operation="race", counters={})
        except CommitConflictError:
            return False
        return True

    return run
