"""Checkpoints that can't be read: they are passed over for an older one (DESIGN §2).

A power cut may keep a file's size and lose its bytes. delta-rs passes over an empty checkpoint and
over no other, so one that can't be read gets another name; its bytes stay. It says nothing that the
commits don't say. On a store a put is there as a whole, and nothing is renamed.

One that says more than a checkpoint can have would take all memory of whoever opens the table: it
is looked at before delta-rs reads it.
"""

import logging
import os
from contextlib import suppress
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.storage.deadlines import look_seconds, within
from kafka_on_spark.storage.delta_files import (
    check_checkpoint_size,
    checkpoint_path,
    last_checkpoint,
    log_folder,
    newest_paths,
)
from kafka_on_spark.storage.limits import CHECKPOINT_BYTES_MAX
from kafka_on_spark.storage.local_files import OddFileError, open_regular
from kafka_on_spark.storage.parquet_files import check_footer, read_parquet
from kafka_on_spark.storage.roots import RootFiles, is_local

log = logging.getLogger(__name__)

SET_ASIDE: Final = ".unreadable"
"""The end of its name then: it is no file of the log to any reader."""


def set_unreadable_aside(files: RootFiles, uri: str) -> bool:
    """Give the newest checkpoint another name if its bytes are no checkpoint; return whether.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    path = next((each for each in newest_paths(files, uri) if each.endswith(".parquet")), None)
    if path is None or not is_local(uri):
        return False
    content = files.read(path, CHECKPOINT_BYTES_MAX)
    if not content or _is_checkpoint(content, path):
        return False
    with suppress(OSError):  # who may only read leaves it to others
        rename = partial(os.rename, path, path + SET_ASIDE)
        within(uri, rename, look_seconds(uri))
        log.warning("the checkpoint %s can't be read, and is passed over", path)
        return True
    return False


def check_checkpoints(files: RootFiles, uri: str) -> None:
    """Check the checkpoints that delta-rs is about to read: their footers on a local disk, where
    one that can't be gets another name, and the size of the one that the hint names on a store.

    Raises:
        CorruptLogError: One has more than it can have, and can't be given another name.
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
        within(uri, partial(_check_footer_of, path), look_seconds(uri))
    except CorruptLogError as error:
        try:
            within(uri, partial(os.rename, path, path + SET_ASIDE), look_seconds(uri))
        except OSError:
            raise error from None
        log.warning("the checkpoint %s is passed over: %s", path, error)


def _check_footer_of(path: str) -> None:
    """Check a footer; one that can't be read is passed over by who reads the file."""
    try:
        descriptor, _ = open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            footer = pq.ParquetFile(file).metadata
    except (pa.ArrowException, OSError, OddFileError):
        return
    check_footer(footer, path)


def _is_checkpoint(content: bytes, path: str) -> bool:
    try:
        read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
    except CorruptLogError:
        return False
    except KafkaStorageError:  # there is too little memory to say so
        return True
    return True
