"""Decides what a commit without bytes is: a power cut may keep a file's name and lose its bytes.

Each is a version without actions, to delta-rs, Spark and Polars alike. Nothing is removed or put in
its place; the next commit is the version after it. No process has counted such a commit, since a
process flushes a commit and checks its bytes before it counts it. Had one been counted and emptied
later, the log would end below the high watermark, or have a gap.
"""

import time
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.storage.delta.files.delta_files import commit_path
from kafka_on_spark.storage.roots.roots import RootFiles

RECHECK_SECONDS: Final = 2.0
"""Between the two checks that find a commit void: one that was being written has bytes by then."""


class VoidCommits:
    """The void commits of one table that this process has found."""

    def __init__(self, files: RootFiles, uri: str) -> None:
        self._files = files
        self._uri = uri
        self._known: set[int] = set()

    def knows(self, version: int) -> bool:
        """Return whether a commit was found void."""
        return version in self._known

    def check(self, versions: Sequence[int]) -> None:
        """Check that commits that were seen without bytes still have none.

        Raises:
            KafkaStorageError: One was being written, or the root does not answer.
        """
        fresh = [each for each in versions if each not in self._known]
        if not fresh:
            return
        time.sleep(RECHECK_SECONDS)
        for version in fresh:
            if self._files.size(commit_path(self._uri, version)) != 0:
                raise KafkaStorageError(
                    f"the commit {version} of {self._uri} was being written: try again"
                )
        self._known.update(fresh)
