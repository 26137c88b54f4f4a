"""Flushes the files of one table, and remembers a flush that failed for good."""

import errno
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.errors import CorruptLogError, KafkaStorageError
from kafka_on_spark.storage.roots.roots import flush

# After one of these the system may drop unflushed bytes and report success for the next flush.
_UNTRUSTED_ERRNO: Final = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


class Durability:
    """Whether what this process knows of a table is durable.

    Attributes:
        failure: The flush that failed for good; None: none. The table is never trusted again, even
            if a later flush succeeds.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.failure: str | None = None

    def flush(self, paths: Sequence[str]) -> None:
        """Make files and folders of the table durable.

        Raises:
            KafkaStorageError: The disk failed.
        """
        try:
            flush(paths)
        except KafkaStorageError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _UNTRUSTED_ERRNO:
                self.failure = error.message
            raise

    def check(self) -> None:
        """Check that no flush failed for good.

        Raises:
            CorruptLogError: One has.
        """
        if self.failure is not None:
            raise CorruptLogError(f"the table at {self._uri} is not durable: {self.failure}")
