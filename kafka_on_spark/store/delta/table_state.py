"""What a Delta table holds at one version: its files, its counters, its settings.

Delta-rs keeps tombstones and statistics besides; no decision of ours asks for them.
"""

from dataclasses import dataclass, field

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.store.delta.history import FileEntry, TableCheckpoint, TableCommit


@dataclass(slots=True)
class TableState:
    """A table's content; `apply` changes it, so that a commit copies no large table.

    Attributes:
        version: As of which commit; -1: before the first.
        files: Active files by name.
        counters: `txn` versions by application id.
        configuration: The table's settings.
    """

    version: int = -1
    files: dict[str, FileEntry] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: TableCheckpoint) -> "TableState":
        """Return what a checkpoint says."""
        return cls(
            version=checkpoint.version,
            files={file.path: file for file in checkpoint.files},
            counters=dict(checkpoint.counters),
            configuration=dict(checkpoint.configuration),
        )

    def copy(self) -> "TableState":
        """Return the same content, which later commits don't change."""
        return TableState(
            self.version, dict(self.files), dict(self.counters), dict(self.configuration)
        )

    def apply(self, commit: TableCommit) -> None:
        """Go on to the next version.

        Raises:
            CorruptLogError: The commit is not of the next version, or removes a file that is not
                there.
        """
        if commit.version != self.version + 1:
            raise CorruptLogError(
                "a commit does not follow", version=commit.version, expected=self.version + 1
            )
        for path in commit.removes:
            if self.files.pop(path, None) is None:
                raise CorruptLogError(
                    "a commit removes a file that the table does not have",
                    version=commit.version,
                    path=path,
                )
        for file in commit.adds:
            self.files[file.path] = file
        self.counters.update(commit.counters)
        if commit.configuration is not None:
            self.configuration = dict(commit.configuration)
        self.version = commit.version
