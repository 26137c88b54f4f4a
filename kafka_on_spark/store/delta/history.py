"""The steps of a Delta table's log as plain values, and the state that they lead to.

Delta keeps each commit as a file, so an audit can replay a table's history version by version, back
to the checkpoint behind which old commits were removed. A part that can't be read is a step, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_on_spark.base.errors import CorruptLogError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file as an add action names it.

    Attributes:
        path: Its name in the table's folder.
        size_bytes: Its size.
        values: Partition values, as text.
        record_count: From its statistics; None if they have none.
        timestamp_min_us: Smallest timestamp, from its statistics, µs since 1970 UTC.
        timestamp_max_us: Largest timestamp, from its statistics.
        time_ms: Modification time, which is the time of the append.
        changes_data: It holds rows that the table did not have.
    """

    path: str
    size_bytes: int
    values: Mapping[str, str | None]
    record_count: int | None
    timestamp_min_us: int | None
    timestamp_max_us: int | None
    time_ms: int
    changes_data: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One version.

    Attributes:
        version: Its number.
        operation: What the commit says that it is; None if it says nothing.
        write_id: Which try to commit it is of; None if it does not say.
        adds: Files added.
        removes: Names of files removed.
        counters: `txn` versions that it sets, by application id.
        configuration: The table's settings; None if the commit sets none.
        time_ms: When it was made, by its process's clock, ms since 1970 UTC; None if it says not.
    """

    version: int
    operation: str | None
    write_id: str | None = None
    adds: tuple[FileEntry, ...] = ()
    removes: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    configuration: Mapping[str, str] | None = None
    time_ms: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheckpoint:
    """The table's whole state as of `version`, for readers that don't start from version 0.

    Attributes:
        version: The version it sums up.
        files: Active files.
        counters: All `txn` versions, by application id.
        configuration: The table's settings.
    """

    version: int
    files: tuple[FileEntry, ...]
    counters: Mapping[str, int]
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDamage:
    """A part of the log that can't be read.

    Attributes:
        version: The version of the file.
        sentence: What is wrong with it.
        is_checkpoint: It is a checkpoint, or the hint at one: the commits may still have all.
    """

    version: int
    sentence: str
    is_checkpoint: bool = False


TableStep = TableCommit | TableCheckpoint | TableDamage


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
