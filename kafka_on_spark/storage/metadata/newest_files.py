"""Holds the files of a voter's newest commits, for readers of the log's tail.

They are kept as they were appended: a merge may have put their records into a large file meanwhile,
which takes longer to read.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from kafka_on_spark.audit.history import TableCommit
from kafka_on_spark.ids import Offset
from kafka_on_spark.storage.metadata.metadata_placement import LogFile, files_added_by
from kafka_on_spark.storage.metadata.voter_upkeep import MERGE

TAIL_COMMITS_MAX: Final = 32
"""New commits whose files are read one by one; of more, the table's merged files are read."""


class NewestFiles:
    """The files of new records, oldest first. The voter's lock is held for each call."""

    def __init__(self) -> None:
        self._files: deque[LogFile] = deque(maxlen=TAIL_COMMITS_MAX)

    def clear(self) -> None:
        """Forget all: the log was cut, or the table opened anew."""
        self._files.clear()

    def note(self, commits: Sequence[TableCommit]) -> None:
        """Note the files that commits add, which follow those that were noted last."""
        is_cut = any(each.removes and each.operation != MERGE for each in commits)
        if is_cut or len(commits) > TAIL_COMMITS_MAX:
            self._files.clear()
        else:
            self._files.extend(files_added_by(commits))

    def between(self, from_offset: Offset, to_offset: Offset) -> Sequence[LogFile] | None:
        """Return the files that hold all between two offsets; None: some of it is in others."""
        found = [
            each
            for each in self._files
            if from_offset <= each.base_offset and each.end_offset <= to_offset
        ]
        if not found or (found[0].base_offset, found[-1].end_offset) != (from_offset, to_offset):
            return None
        return found
