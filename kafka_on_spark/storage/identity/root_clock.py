"""The clock of a root: what its store said with its last answer, or when its disk says that a file
was written just now.

It stands beside the clock of the process that decides, so that one wrong clock deletes nothing.
"""

import os
from contextlib import suppress
from functools import partial
from urllib.parse import urlsplit
from uuid import uuid4

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import DirectoryId
from kafka_on_spark.storage.access.requests import count_request
from kafka_on_spark.storage.access.storage_options import StorageOptions, is_local
from kafka_on_spark.storage.calls.deadlines import short_call_seconds, within
from kafka_on_spark.storage.calls.error_translation import as_storage_errors
from kafka_on_spark.storage.identity.root_identity import check_directory
from kafka_on_spark.storage.roots.object_files import time_in
from kafka_on_spark.storage.roots.roots import RootFiles, filesystem


def root_now_ms(root: str, expected: DirectoryId, options: StorageOptions) -> int:
    """Return the time of a broker's root, ms since 1970 UTC.

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
        from kafka_on_spark.storage.access.s3_files import told_ms

        now_ms = told_ms(urlsplit(root).netloc)
        if now_ms is not None:
            return now_ms
    files = RootFiles(root, options)
    path = f"{root}/_probe-{uuid4().hex}"
    files.write(path, b"probe", is_flushed=False)  # a flush would wait for other writes
    try:
        return within(root, partial(modified_ms, path, options), short_call_seconds(root))
    finally:
        with suppress(KafkaStorageError):
            files.delete_file(path)


def modified_ms(path: str, options: StorageOptions) -> int:
    """Return when a file was written, by its root's clock, ms since 1970 UTC.

    Raises:
        KafkaStorageError: There is no such file; or the root does not answer, or tells no time.
    """
    found = time_and_size(path, options)
    if found is None:
        raise KafkaStorageError(f"there is no file {path}")
    return found[0]


def time_and_size(path: str, options: StorageOptions) -> tuple[int, int] | None:
    """Return when a file was written, as `modified_ms`, and its bytes; None: there is none.

    Raises:
        KafkaStorageError: The root does not answer, or tells no time.
    """
    count_request("HEAD", path)
    with as_storage_errors(f"read the time of {path}", options):
        try:
            if is_local(path):
                stat = os.stat(path, follow_symlinks=False)
                return stat.st_mtime_ns // 1_000_000, stat.st_size
            found = filesystem(path, options).info(path)
        except FileNotFoundError:
            return None
    return time_in(found, path), int(found.get("size") or 0)
