"""Reads and writes small files on whichever metadata root answers.

A cluster outlives its metadata roots, and so do its hints: each lies on the first root that takes
it. What was left on a root that is away is missed until then, which costs time only. The roots are
those of the newest voters, so that processes that were given different lists find each other's.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.store.local_files import SMALL_FILE_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.roots import RootFiles
from kafka_on_spark.store.storage_options import StorageOptions

log = logging.getLogger(__name__)


class HintRoots:
    """A cluster's metadata roots, those that failed last after the others. Threads may share it.

    `newest` returns them, as they are now, in an order that all processes share.
    """

    def __init__(self, newest: Callable[[], Sequence[str]], options: StorageOptions) -> None:
        self._newest = newest
        self._options = options
        self._failed: tuple[str, ...] = ()

    def in_turn(self) -> list[RootFiles]:
        failed = self._failed
        roots = sorted(
            self._newest(), key=lambda each: failed.index(each) if each in failed else -1
        )
        return [RootFiles(each, self._options) for each in roots]

    def try_last(self, root: str) -> None:
        """Ask a root that fails after the others from now on: one that hangs takes long."""
        others = [each for each in self._failed if each != root and each in self._newest()]
        self._failed = (*others, root)

    def contents(self, name: str) -> Iterator[bytes]:
        """Yield what a file has on the roots, one by one; nothing of roots without it.

        Raises:
            KafkaStorageError: No root answers.
        """
        failures: list[KafkaStorageError] = []
        roots = self.in_turn()
        for files in roots:
            try:
                content = files.read(f"{files.url}/{name}", SMALL_FILE_BYTES_MAX)
            except UnsafeFileError:
                continue
            except KafkaStorageError as error:
                failures.append(error)
                self.try_last(files.url)
                continue
            if content is not None:
                yield content
        if len(failures) == len(roots):
            raise failures[0]

    def write(self, name: str, content: bytes) -> None:
        """Replace a file, on the first root that takes it.

        Raises:
            KafkaStorageError: None does; of the first.
        """
        failures: list[KafkaStorageError] = []
        for files in self.in_turn():
            try:
                files.write(f"{files.url}/{name}", content, is_flushed=False)
            except KafkaStorageError as error:
                log.debug("%s can't be written on %s: %s", name, files.url, error)
                failures.append(error)
                self.try_last(files.url)
            else:
                return
        raise failures[0]
