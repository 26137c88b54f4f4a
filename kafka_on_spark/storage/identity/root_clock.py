"""The clock of a root: what its store said with its last answer, or when its disk says that a file
was written just now.

It stands beside the clock of the process that decides, so that one wrong clock deletes nothing.
"""

from contextlib import suppress
from urllib.parse import urlsplit
from uuid import uuid4

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.ids import DirectoryId
from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.identity.root_identity import check_directory
from kafka_on_spark.storage.roots.roots import RootFiles


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
        now_ms = files.time_ms(path)
    finally:
        with suppress(KafkaStorageError):
            files.delete_file(path)
    if now_ms is None:
        raise KafkaStorageError(f"the root {root} does not keep what is written to it")
    return now_ms
