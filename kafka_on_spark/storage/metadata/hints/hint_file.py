"""Reads and writes one small file on whichever metadata root answers.

A cluster outlives its metadata roots, and so do its hints: each lies on the first root that takes
it. What was left on a root that is away is missed until then, which costs time only.
"""

import logging
from collections.abc import Iterator

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.access.storage_options import StorageOptions
from kafka_on_spark.storage.calls.file_limits import SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.roots.local_files import UnsafeFileError
from kafka_on_spark.storage.roots.root_lists import roots_in
from kafka_on_spark.storage.roots.roots import RootFiles

log = logging.getLogger(__name__)


class HintFile:
    """A file `name` on one of a cluster's metadata roots. Threads may share it."""

    def __init__(self, url: str, name: str, options: StorageOptions) -> None:
        self._places = tuple((RootFiles(root, options), f"{root}/{name}") for root in roots_in(url))

    def contents(self) -> Iterator[bytes]:
        """Yield what is there, root by root; nothing of roots that have none.

        Raises:
            KafkaStorageError: No root answers.
        """
        failures: list[KafkaStorageError] = []
        for files, path in self._places:
            try:
                content = files.read(path, SMALL_FILE_BYTES_MAX)
            except UnsafeFileError:
                continue
            except KafkaStorageError as error:
                failures.append(error)
                self._try_last(path)
                continue
            if content is not None:
                yield content
        if len(failures) == len(self._places):
            raise failures[0]

    def write(self, content: bytes) -> None:
        """Replace the file, on the first root that takes it.

        Raises:
            KafkaStorageError: None does; of the first.
        """
        first: KafkaStorageError | None = None
        for files, path in self._places:
            try:
                files.write(path, content, is_flushed=False)
            except KafkaStorageError as error:
                log.info("%s can't be written: %s", path, error)
                first = first or error
                self._try_last(path)
            else:
                return
        assert first is not None, self._places
        raise first

    def _try_last(self, path: str) -> None:
        """Ask a root that fails after the others from now on: one that hangs takes long."""
        self._places = tuple(sorted(self._places, key=lambda place: place[1] == path))
