"""Writes checkpoints of our tables, reads them, and passes over those that can't be read.

Delta-rs writes them, on a table opened at exactly a version whose commits this process has counted
and so flushed: a checkpoint of an unflushed commit could outlive it and fork the table. Delta-rs
touches a table of ours that exists nowhere else.

A power cut may keep a checkpoint's name or size and lose its bytes. Delta readers skip an empty
checkpoint and no other, and a cleaner would count it among those that a table can be opened from.
So one that can't be read gets another name; its bytes stay.
"""

import logging
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.base.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.store.deadlines import LONG, SHORT, within
from kafka_on_spark.store.delta.delta_files import (
    UNREADABLE_SUFFIX,
    TableState,
    TableStep,
    checkpoint_path,
    checkpoint_step,
    hint_path,
    last_checkpoint,
    log_folder,
)
from kafka_on_spark.store.error_translation import ABSENT
from kafka_on_spark.store.local_files import CHECKPOINT_BYTES_MAX, UnsafeFileError, rename
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles, StorageOptions, is_local

log = logging.getLogger(__name__)

CHECKPOINT_INTERVAL: Final = 100
"""Commits between checkpoints: whoever commits a version divisible by it writes one."""


def write_checkpoint(
    files: RootFiles, uri: str, state: TableState, options: StorageOptions
) -> None:
    """Write the checkpoint of a state whose commits are flushed, read it back and flush it.

    Raises:
        CorruptLogError: What was written is not the state.
        KafkaStorageError: The root does not answer.
        And what delta-rs raises.
    """
    # In the function: a query waits for the process that plans it, which writes no checkpoint.
    from deltalake import DeltaTable

    def write() -> None:
        given = options.for_url(uri)
        DeltaTable(uri, version=state.version, storage_options=given).create_checkpoint()

    path = checkpoint_path(uri, state.version)
    delete_misleading_hint(files, uri)
    within(uri, write, LONG)
    content = _whole(files, path)
    if content is None:
        raise KafkaStorageError(f"can't read the checkpoint {path} back")
    if not _is_of(content, path, state):
        _set_aside(files, uri, path, content)
        raise CorruptLogError("a checkpoint is not what the table holds", path=path)
    files.flush([path])
    _flush_hint(files, uri)
    files.flush([log_folder(uri)])


def _flush_hint(files: RootFiles, uri: str) -> None:
    """Flush the hint, which our own code does not need: not every engine passes over one that has
    lost its bytes."""
    try:
        files.flush([hint_path(uri)])
    except KafkaStorageError as error:
        if not isinstance(error.__cause__, ABSENT):  # a process that opens a table may delete it
            raise


def _whole(files: RootFiles, path: str) -> bytes | None:
    """Return a checkpoint's bytes; None if it is not there, or not known to be all of it.

    A store's answer may be cut off, or be of an object that was replaced meanwhile.
    """
    found = files.read_stamped(path, CHECKPOINT_BYTES_MAX)
    if found is None or len(found[0]) != files.size(path) or [found[1]] != files.stamps([path]):
        return None
    return found[0]


def _is_of(content: bytes, path: str, state: TableState) -> bool:
    try:
        table = read_parquet(content, path, columns=["add.path", "txn"])
    except CorruptLogError:
        return False
    added = [each["path"] for each in table.column("add").drop_null().to_pylist()]
    counters = table.column("txn").drop_null().to_pylist()
    return (
        len(added) == len(state.files)
        and set(added) == state.files.keys()
        and {each["appId"]: each["version"] for each in counters} == state.counters
    )


def read_checkpoint(files: RootFiles, uri: str, version: int) -> TableStep:
    path = checkpoint_path(uri, version)
    try:
        content = files.read(path, CHECKPOINT_BYTES_MAX)
    except UnsafeFileError as error:
        log.warning("the checkpoint %s is passed over: %s", path, error.message)
        content = None
    return checkpoint_step(content, version, path)


def rename_unreadable(files: RootFiles, uri: str, version: int) -> None:
    path = checkpoint_path(uri, version)
    # A process that may only read leaves it to others.
    with suppress(OSError, KafkaStorageError):
        try:
            content = _whole(files, path)
        except UnsafeFileError:
            if not is_local(uri):
                return  # larger than can be copied
            content = b""
        if content is not None and not _is_readable(content, path):
            log.warning("the checkpoint %s can't be read, and is passed over", path)
            _set_aside(files, uri, path, content)


def _set_aside(files: RootFiles, uri: str, path: str, content: bytes) -> None:
    """Give a checkpoint another name. A store can't rename: its object's `content` is copied."""
    aside = path + UNREADABLE_SUFFIX
    if is_local(uri):
        within(uri, partial(rename, path, aside), SHORT)
    else:
        files.write(aside, content)
        files.delete_file(path)
    delete_misleading_hint(files, uri)


def delete_misleading_hint(files: RootFiles, uri: str) -> None:
    """Delete a hint at a checkpoint that is not there, or one that can't be read: delta-rs opens no
    table that has one.

    A power cut leaves such a hint, too: delta-rs flushes neither of the two.
    """
    with suppress(UnsafeFileError):  # not a file: no reader takes it for a hint
        if files.size(hint_path(uri)) is not None and last_checkpoint(files, uri) < 0:
            files.delete_file(hint_path(uri))


def _is_readable(content: bytes, path: str) -> bool:
    """Return whether bytes are a checkpoint's, as far as can be told."""
    try:
        read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
    except CorruptLogError:
        return False
    except KafkaStorageError:  # too little memory to tell
        return True
    return True
