"""A place that becomes a root: it is reached, tried, and given its identity.

Before it gets its ``meta.properties``, a root shows that of racing conditional puts exactly one
wins, by the code that commits: a file system or store that does not hold to that would lose
acknowledged records.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import ENOTDIR
from functools import partial
from threading import Barrier, BrokenBarrierError
from typing import Final
from uuid import uuid4

from kafka_on_spark.base.errors import (
    InvalidRequestError,
    InvalidRootError,
    KafkaOnSparkError,
    KafkaStorageError,
)
from kafka_on_spark.base.ids import BrokerId, DirectoryId, check_whole_number
from kafka_on_spark.store.deadlines import LONG, SHORT, DaemonThreads, within
from kafka_on_spark.store.delta.delta_files import commit_path, log_folder
from kafka_on_spark.store.local_files import flush_each, make_folder, make_folders, set_mode
from kafka_on_spark.store.root_identity import (
    META_PROPERTIES,
    RootIdentity,
    check_owner,
    put_and_delete,
    read_identity,
    write_obeyed,
)
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

ROOT_MODE: Final = 0o700
"""Default mode of roots that are created: no other user reads or writes them."""

RACERS: Final = 4
RACES: Final = 3


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
    """
    try:
        create_root(root)
        found = read_identity(root, options)
        if found is None:
            check_conditional_puts(root, options)
            directory_id = DirectoryId(uuid4().hex)
            obeyed = tuple(metadata_roots)
            mine = RootIdentity(cluster_id, broker_id, directory_id, metadata_roots=obeyed)
            RootFiles(root, options).write_if_absent(f"{root}/{META_PROPERTIES}", mine.encode())
            found = read_identity(root, options)
        else:
            RootFiles(root, options).flush([root])  # whoever wrote it may have died before
    except KafkaStorageError as error:
        raise unusable_root(root, error) from error
    if found is None:
        raise InvalidRootError(f"the root {root} does not keep what is written to it")
    check_owner(found, root, cluster_id, broker_id)
    if metadata_roots and found.metadata_roots != tuple(metadata_roots):
        write_obeyed(root, found.directory_id, metadata_roots, found.generation, options)
    return found


@contextmanager
def reporting_as_invalid_root(root: str) -> Iterator[None]:
    """Turn a storage error about a future root into one that says why it can't be a root.

    Raises:
        InvalidRootError: It does not answer, or is a file.
    """
    try:
        if is_local(root) and within(
            root, lambda: os.path.exists(root) and not os.path.isdir(root), SHORT
        ):
            raise InvalidRootError(f"{root} can't be a root: it is a file; give a folder")
        yield
    except KafkaStorageError as error:
        raise unusable_root(root, error) from error


def check_reachable(root: str, options: StorageOptions) -> RootIdentity | None:
    """Check, without writing, that `root` can be read; return its identity, if it has one."""
    with reporting_as_invalid_root(root):
        return read_identity(root, options)


def check_free(root: str, broker_id: BrokerId, options: StorageOptions) -> RootIdentity | None:
    """Check as `check_reachable`, and that `root` is no other broker's."""
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
    """Create a local root's folder with exactly this mode, unless it is there."""
    if not is_local(root):
        return
    try:
        above = within(root, partial(_create_root, root, mode), SHORT)
        within(root, partial(flush_each, above), LONG)
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


def unusable_root(root: str, error: KafkaOnSparkError) -> InvalidRootError:
    """Return the error that says why a root can't be used, and what to give instead."""
    return InvalidRootError(
        f"the root {root} can't be used: {error.message}; give a folder or bucket that exists and"
        " can be written"
    )


def check_conditional_puts(root: str, options: StorageOptions) -> None:
    """Race puts of one file, then put it once more, `RACES` times, as commits are put.

    Exactly one racer may win each time, and keep the file. The late put finds a store that ignores
    the condition, the race finds one that checks it and writes in two steps.

    Raises:
        InvalidRootError: Two racers won or none did, or another's bytes stand there: the file
            system or store is not safe.
    """
    scratch = f"{root}/_race-{uuid4().hex}"
    files = RootFiles(scratch, options)
    contents = [f"racer {each}".encode() for each in range(RACERS)]
    start = Barrier(RACERS)

    def put(path: str, content: bytes) -> bool:
        try:
            start.wait(LONG.store)
        except BrokenBarrierError:
            raise KafkaStorageError(f"no thread can be started to race on {root}") from None
        return files.write_if_absent(path, content)

    try:
        put_and_delete(root, options)  # one that takes no writes is not asked for long
        files.make_folders([scratch, log_folder(scratch)])
        with DaemonThreads(RACERS, "race") as racers:
            for version in range(RACES):
                path = commit_path(scratch, version)
                wins = list(racers.map(partial(put, path), contents))
                if sum(wins) != 1:
                    raise InvalidRootError(
                        f"the root {root} is not safe: {sum(wins)} of {RACERS} racing writers"
                        " were told that they won; use a local disk with hard links, or a store"
                        " whose conditional puts are atomic"
                    )
                winner = contents[wins.index(True)]
                if files.write_if_absent(path, b"late") or files.read(path, 10) != winner:
                    raise InvalidRootError(
                        f"the root {root} is not safe: a second put replaced a file that it should"
                        " have left; use a local disk with hard links, or a store that"
                        " honours conditional puts"
                    )
    except InvalidRootError:
        raise
    except KafkaOnSparkError as error:
        raise unusable_root(root, error) from error
    finally:
        # What a failed test leaves has a name of its own, and is no part of any log.
        with suppress(KafkaStorageError):
            files.delete(scratch)
