"""What a Delta table's log says, step by step, as plain values: the trace that is audited.

Delta keeps every commit as a file, so a table's history can be replayed version by version, until
somebody cleans the log up behind a checkpoint. What can't be read is a step as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file as an add action names it.

    Attributes:
        path: Its name in the table's folder.
        size_bytes: Its size.
        values: Partition values, as text.
        record_count: Of its statistics; None if they don't say.
        timestamp_min_us: Smallest timestamp, of its statistics, µs since 1970 UTC.
        timestamp_max_us: Largest timestamp.
        time_ms: Modification time: of the append.
    """

    path: str
    size_bytes: int
    values: Mapping[str, str | None]
    record_count: int | None
    timestamp_min_us: int | None
    timestamp_max_us: int | None
    time_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One version.

    Attributes:
        version: Its number.
        operation: What its author says that it is; None if he says nothing.
        adds: Files added.
        removes: Names of files removed.
        counters: `txn` versions that it sets, by application id.
        configuration: The table's settings, where the commit sets them.
    """

    version: int
    operation: str | None
    adds: tuple[FileEntry, ...] = ()
    removes: tuple[str, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    configuration: Mapping[str, str] | None = None


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
        version: Whose file it is.
        sentence: What is wrong with it.
        is_checkpoint: It is a checkpoint, or the hint at one: the commits may still tell all.
    """

    version: int
    sentence: str
    is_checkpoint: bool = False


TableStep = TableCommit | TableCheckpoint | TableDamage
