"""Renames checkpoints that can't be read, so that delta-rs uses an older one.

A power cut may keep a file's size and lose its bytes. delta-rs skips an empty checkpoint and no
other, so a checkpoint that can't be read gets another name, and its bytes stay. It holds nothing
that the commits lack. A store has an object whole or not at all, and nothing is renamed there.

A checkpoint that claims more rows or bytes than it can have would exhaust the memory of the process
that opens the table: its footer is checked before delta-rs reads it.
"""

import logging
import os
from contextlib import suppress
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.storage.calls.deadlines import short_call_seconds, within
from kafka_on_spark.storage.calls.file_limits import CHECKPOINT_BYTES_MAX
from kafka_on_spark.storage.delta.delta_files import (
    check_checkpoint_size,
    checkpoint_path,
    last_checkpoint,
    log_folder,
    newest_paths,
)
from kafka_on_spark.storage.roots.local_files import UnsafeFileError, open_regular
from kafka_on_spark.storage.roots.parquet_files import check_footer, read_parquet
from kafka_on_spark.storage.roots.roots import RootFiles, is_local

log = logging.getLogger(__name__)

UNREADABLE_SUFFIX: Final = ".unreadable"
"""The new end of its name: no reader takes the file for a part of the log."""


def rename_unreadable_checkpoint(files: RootFiles, uri: str) -> bool:
    """Rename the newest checkpoint if its bytes are no checkpoint; return whether it was renamed.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    path = next((each for each in newest_paths(files, uri) if each.endswith(".parquet")), None)
    if path is None or not is_local(uri):
        return False
    content = files.read(path, CHECKPOINT_BYTES_MAX)
    if not content or _is_checkpoint(content, path):
        return False
    with suppress(OSError):  # a process that may only read leaves it to others
        rename = partial(os.rename, path, path + UNREADABLE_SUFFIX)
        within(uri, rename, short_call_seconds(uri))
        log.warning("the checkpoint %s can't be read, and is passed over", path)
        return True
    return False


def check_checkpoints(files: RootFiles, uri: str) -> None:
    """Check the checkpoints that delta-rs is about to read: on a local disk their footers, and an
    impossible one is renamed; on a store the size of the one that the hint names.

    Raises:
        CorruptLogError: One claims more than it can have, and can't be renamed.
        KafkaStorageError: The root does not answer.
    """
    if not is_local(uri):
        version = last_checkpoint(files, uri)
        if version >= 0:
            path = checkpoint_path(uri, version)
            check_checkpoint_size(files.size(path) or 0, path)
        return
    for name in files.names(log_folder(uri)):
        if ".checkpoint." in name and name.endswith(".parquet"):  # also those in several parts
            _check_checkpoint(uri, f"{log_folder(uri)}/{name}")


def _check_checkpoint(uri: str, path: str) -> None:
    try:
        within(uri, partial(_check_footer_of, path), short_call_seconds(uri))
    except CorruptLogError as error:
        try:
            within(uri, partial(os.rename, path, path + UNREADABLE_SUFFIX), short_call_seconds(uri))
        except OSError:
            raise error from None
        log.warning("the checkpoint %s is passed over: %s", path, error)


def _check_footer_of(path: str) -> None:
    """Check a footer, if it can be read: the reader of the file skips it otherwise."""
    try:
        descriptor, _ = open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            footer = pq.ParquetFile(file).metadata
    except (pa.ArrowException, OSError, UnsafeFileError):
        return
    check_footer(footer, path)


def _is_checkpoint(content: bytes, path: str) -> bool:
    try:
        read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
    except CorruptLogError:
        return False
    except KafkaStorageError:  # too little memory to tell
        return True
    return True
