"""Checkpoints that can't be read: they are passed over for an older one (DESIGN §2).

A power cut may keep a file's size and lose its bytes. delta-rs passes over an empty checkpoint and
over no other, so one that can't be read gets another name; its bytes stay. It says nothing that the
commits don't say. On a store a put is there as a whole, and nothing is renamed.
"""

import logging
import os
from contextlib import suppress
from functools import partial
from typing import Final

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.storage.deadlines import look_seconds, within
from kafka_on_spark.storage.delta_files import newest_paths
from kafka_on_spark.storage.limits import CHECKPOINT_BYTES_MAX
from kafka_on_spark.storage.parquet_files import read_parquet
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


def _is_checkpoint(content: bytes, path: str) -> bool:
    try:
        read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
    except CorruptLogError:
        return False
    except KafkaStorageError:  # there is too little memory to say so
        return True
    return True
