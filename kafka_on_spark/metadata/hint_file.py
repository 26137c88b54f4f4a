"""Reads and writes one small file on whichever metadata root answers.

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


class HintFile:
    """A file `name` on one of a cluster's metadata roots. Threads may share it.

    A root that does not take it is told once, and so is its end: it is written every few seconds,
    and a disk may be full for a night.
    """

    def __init__(self, roots: HintRoots, name: str) -> None:
        self._roots = roots
        self._name = name
        self._told: dict[str, str] = {}

    def contents(self) -> Iterator[bytes]:
        """Yield what is there, root by root; nothing of roots that have none.

        Raises:
            KafkaStorageError: No root answers.
        """
        failures: list[KafkaStorageError] = []
        roots = self._roots.in_turn()
        for files in roots:
            try:
                content = files.read(self._path(files), SMALL_FILE_BYTES_MAX)
            except UnsafeFileError:
                continue
            except KafkaStorageError as error:
                failures.append(error)
                self._roots.try_last(files.url)
                continue
            if content is not None:
                yield content
        if len(failures) == len(roots):
            raise failures[0]

    def write(self, content: bytes) -> None:
        """Replace the file, on the first root that takes it.

        Raises:
            KafkaStorageError: None does; of the first.
        """
        first: KafkaStorageError | None = None
        for files in self._roots.in_turn():
            path = self._path(files)
            try:
                files.write(path, content, is_flushed=False)
            except KafkaStorageError as error:
                if self._told.get(path) != str(error):
                    self._told[path] = str(error)
                    log.info("%s can't be written: %s", path, error)
                first = first or error
                self._roots.try_last(files.url)
            else:
                if self._told.pop(path, None) is not None:
                    log.info("%s is written again", path)
                return
        assert first is not None, "a cluster has a metadata root"
        raise first

    def _path(self, files: RootFiles) -> str:
        return f"{files.url}/{self._name}"
