"""I10, I15: the commits of the metadata log's Delta table continue each other and lose no row.

Each commit either appends files, the first where the log ended or where the commit cuts it, or
merges files into one with the same rows; then the counter of the log's end stays.
"""

import re
from collections.abc import Container, Iterable
from typing import Final

from kafka_on_spark.fsck.findings import FindingList
from kafka_on_spark.store.delta.history import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)

LOG_END_OFFSET: Final = "log-end-offset"
MERGE: Final = "merge"
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")


class MetadataTableReplay:
    """Replays the steps of the metadata table's log in order; holds its files."""

    def __init__(self, findings: FindingList) -> None:
        self._findings = findings
        self._files: dict[str, FileEntry] = {}
        self._end: int | None = None
        self._is_sure = True
        self.first_version = 0
        self.version = -1

    def add(self, invariant: str, sentence: str, **where: int | str) -> None:
        """Add a finding about the table, or what lies beside it."""
        self._findings.add(invariant, sentence, **where)

    def take(self, step: TableStep) -> None:
        """Check and replay the next step; after damage, the files of later commits still count."""
        if isinstance(step, TableDamage):
            self._findings.add("I15", step.sentence, version=step.version)
            self._is_sure = self._is_sure and step.is_checkpoint
        elif isinstance(step, TableCheckpoint):
            self._checkpoint(step)
        else:
            self._commit(step)

    @property
    def files(self) -> list[FileEntry]:
        """The files of the newest version, in the order of their rows."""
        return sorted(self._files.values(), key=lambda file: (_base(file) or 0, file.path))

    def first_but(self, read: Container[str]) -> FileEntry | None:
        """Return the first file of the newest version but for those that were read."""
        return next((file for file in self.files if file.path not in read), None)

    def _checkpoint(self, step: TableCheckpoint) -> None:
        files = {file.path: file for file in step.files}
        end = step.counters.get(LOG_END_OFFSET, 0)
        is_first = self.version < 0
        if is_first:
            self.first_version = step.version
        elif self._is_sure and (files.keys(), end) != (self._files.keys(), self._end or 0):
            sentence = (
                f"the checkpoint of version {step.version} says another state than the commits"
                " up to it"
            )
            self._findings.add("I15", sentence, version=step.version)
            return
        elif self._is_sure:
            return
        self._files, self._end, self.version, self._is_sure = files, end, step.version, True

    def _commit(self, step: TableCommit) -> None:
        self.version = step.version
        removed = [self._files.pop(path) for path in step.removes if path in self._files]
        self._files |= {file.path: file for file in step.adds}
        end = step.counters.get(LOG_END_OFFSET, self._end)
        expected = self._end if step.operation == MERGE else self._end_after(step, removed)
        if self._is_sure and (end or 0) != (expected or 0):
            sentence = f"the log says that it ends at {end}, its commits end at {expected}"
            self._findings.add("I10", sentence, version=step.version)
        self._end = end

    def _end_after(self, step: TableCommit, cut: Iterable[FileEntry]) -> int | None:
        """Return where the log ends after a commit: it may cut what a later leader does not have,
        and appends after that."""
        end = min((base for base in map(_base, cut) if base is not None), default=self._end)
        for file in step.adds:
            base = _base(file)
            if base != (end or 0) and self._is_sure:
                sentence = f"the file {file.path} begins at {base}, the log ended at {end or 0}"
                self._findings.add("I10", sentence, version=step.version)
            end = None if base is None else base + (file.record_count or 0)
        return end


def _base(file: FileEntry) -> int | None:
    text = file.values.get("base_offset")
    return int(text) if text is not None and _WHOLE.fullmatch(text) else None
