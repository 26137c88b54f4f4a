"""The format of a voter's table: version, columns, counters, and the headers of its files.

The counters are its epoch, its votes and the leaders that it has marked: Delta's `txn` actions, as
a replica's, only raised, and part of the commit that changes the log. The header of a file's batch
is in the partition columns, so a log's headers are known without reading a file. A file of several
batches, or one that names voters, has them in the column `headers`: what was merged, as runs.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import DirectoryId, ImpossibleValueError, NodeId, Offset, QuorumEpoch
from kafka_on_spark.metadata.metadata_files import FILE_SCHEMA
from kafka_on_spark.metadata.metadata_root import MetadataIdentity
from kafka_on_spark.metadata.quorum.voter_table import (
    BatchKind,
    Mark,
    RaftBatch,
    RaftLog,
    TableChange,
    Voter,
    VoterKey,
    VoterSet,
    VoterTable,
    log_of,
)
from kafka_on_spark.store.delta.delta_files import FileEntry, RemoveFile
from kafka_on_spark.store.error_translation import parsing
from kafka_on_spark.store.roots import RootFiles

FORMAT_VERSION: Final = "3"

LOG_END_OFFSET: Final = "log-end-offset"
QUORUM_EPOCH: Final = "quorum-epoch"
VOTE: Final = "vote/"
LEADER: Final = "leader/"

HISTORY_START: Final = "history-start"
HISTORY_START_MS: Final = "history-start-ms"
"""Where the history begins, if metadata.max.retention.ms has ended some of it: the records before
are expired. And when the newest of these was committed."""

HEADER: Final = ("base_offset", "epoch", "write_id", "headers")
TABLE_SCHEMA: Final = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("epoch", pa.int32()),
        ("write_id", pa.string()),
        ("headers", pa.string()),
        *FILE_SCHEMA,
    ]
)


def check_format(found: Mapping[str, str], root: str, identity: MetadataIdentity) -> None:
    """Check the configuration of the table that a metadata root names.

    Raises:
        CorruptLogError: It is of another format, or another root's.
    """
    version = found.get("kos.format.version", "none")
    if version != FORMAT_VERSION:
        advice = (
            "use a newer kafka_on_spark"
            if version.isdecimal() and int(version) > int(FORMAT_VERSION)
            else "create it again, and append its records anew"
        )
        raise CorruptLogError(
            f"the cluster at {root} has format {version}, this version reads"
            f" {FORMAT_VERSION}: {advice}"
        )
    for name, value in identity.configuration.items():
        if found.get(name) != value:
            table = identity.table_at(root)
            words = f"the table at {table} is another metadata root's: restore its own"
            raise CorruptLogError(words, setting=name, expected=value, found=found.get(name))


def table_of(key: VoterKey, counters: Mapping[str, int], log: RaftLog, version: int) -> VoterTable:
    """Return a voter's table.

    Raises:
        CorruptLogError: Its counters contradict each other, or its log.
    """
    try:
        return VoterTable(
            key,
            QuorumEpoch(counters.get(QUORUM_EPOCH, 0)),
            marks_in(counters, VOTE),
            marks_in(counters, LEADER),
            log,
            version,
        )
    except (ImpossibleValueError, ValueError) as error:
        raise CorruptLogError(f"the counters of voter {key} can't be: {error}") from error


def marks_in(counters: Mapping[str, int], prefix: str) -> tuple[Mark, ...]:
    """Return the votes or the marks in counters, by their prefix: the oldest first.

    Raises:
        ValueError: One names no voter.
    """
    marks = (
        (_key_of(name.removeprefix(prefix)), QuorumEpoch(epoch))
        for name, epoch in counters.items()
        if name.startswith(prefix)
    )
    return tuple(sorted(marks, key=lambda mark: (mark[1], mark[0].node_id)))


def _key_of(text: str) -> VoterKey:
    node_id, _, directory_id = text.partition(":")
    return VoterKey(NodeId(int(node_id)), DirectoryId(directory_id))


def counters_of(change: TableChange, after: VoterTable) -> dict[str, int]:
    counters: dict[str, int] = {LOG_END_OFFSET: after.log.end_offset}
    if change.quorum_epoch is not None:
        counters[QUORUM_EPOCH] = change.quorum_epoch
    if change.vote is not None:
        counters[f"{VOTE}{change.vote}"] = after.quorum_epoch
    if change.leader is not None:
        counters[f"{LEADER}{change.leader}"] = after.quorum_epoch
    return counters


FILE_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{32}\.parquet")
"""The name of a file of the log."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the table: where its rows stand in the log.

    Attributes:
        batches: The headers of its batches, oldest first, those of merged ones as runs. A no-op is
            not told from a decision here: that takes the batch before it.
    """

    base_offset: int
    size: int
    path: str
    size_bytes: int
    time_ms: int
    batches: tuple[RaftBatch, ...]

    def __post_init__(self) -> None:
        # A name without a path: a file of the log lies in the table's own folder.
        if not FILE_NAME.fullmatch(self.path) or self.base_offset < 0 or self.size <= 0:
            raise CorruptLogError("not a file of the metadata log", path=self.path)
        ends = (self.batches[0].base_offset, self.batches[-1].end_offset)
        if ends != (self.base_offset, self.end_offset):
            raise CorruptLogError("a file of the metadata log has other headers", path=self.path)

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.size

    def rows_between(self, start: int, end: int) -> range:
        return range(max(start - self.base_offset, 0), max(end - self.base_offset, 0))


def log_files(files: Iterable[FileEntry]) -> list[LogFile]:
    """Return files of the table in the order of their rows.

    Raises:
        CorruptLogError: One is no file of the metadata log.
    """
    with parsing("the metadata table's list of files"):
        return sorted(map(log_file, files), key=lambda file: file.base_offset)


def log_file(file: FileEntry) -> LogFile:
    """Return a file of the table.

    Raises:
        CorruptLogError, or what `parsing` translates: It is no file of the metadata log.
    """
    base_offset, size = Offset(int(file.values["base_offset"] or "")), file.record_count or 0
    return LogFile(
        base_offset=base_offset,
        size=size,
        path=file.path,
        size_bytes=file.size_bytes,
        time_ms=file.time_ms,
        batches=_headers(file.values, base_offset, Offset(base_offset + max(size, 1))),
    )


def _headers(
    values: Mapping[str, str | None], base_offset: Offset, end_offset: Offset
) -> tuple[RaftBatch, ...]:
    texts = values["headers"]
    if texts is None:
        epoch = QuorumEpoch(int(values["epoch"] or ""))
        return (RaftBatch(base_offset, end_offset, epoch, values["write_id"] or ""),)
    batches = []
    for each in json.loads(texts):
        batches.append(
            RaftBatch(
                base_offset,
                Offset(int(each["end_offset"])),
                QuorumEpoch(int(each["epoch"])),
                str(each["write_id"]),
                BatchKind.RUN if each["is_run"] else BatchKind.DECISION,
                voters_of(each["voters"]),
            )
        )
        base_offset = batches[-1].end_offset
    return tuple(batches)


def voters_of(texts: Sequence[str] | None) -> VoterSet | None:
    """Return the voters that a header or a record names; None: it names none."""
    return None if texts is None else VoterSet.of(map(Voter.parse, texts))


def raft_log_of(files: Sequence[LogFile]) -> RaftLog:
    """Return the log that files in the order of their rows hold.

    Raises:
        CorruptLogError: Its newest batches don't follow each other.
    """
    try:
        return log_of(batch for file in files for batch in file.batches)
    except ImpossibleValueError as error:
        raise CorruptLogError(f"a gap in the metadata log: {error}") from error


def new_file(path: str, size_bytes: int, batches: Sequence[RaftBatch], time_ms: int) -> LogFile:
    """Return a file that was written, to be added to the table: with its headers as a file alone
    tells them, equal to those that are read back."""
    headers = tuple(
        replace(each, kind=BatchKind.DECISION) if each.kind is BatchKind.NO_OP else each
        for each in batches
    )
    base_offset, end_offset = batches[0].base_offset, batches[-1].end_offset
    return LogFile(base_offset, end_offset - base_offset, path, size_bytes, time_ms, headers)


def write_file(
    files: RootFiles, uri: str, batches: Sequence[RaftBatch], content: pa.Buffer, time_ms: int
) -> LogFile:
    """Write a file under a name of its own; return it, to be added to the table at `uri`.

    Raises:
        KafkaStorageError: The root does not answer.
    """
    path = f"{batches[0].base_offset:020d}-{uuid4().hex}.parquet"
    files.write(f"{uri}/{path}", content)
    return new_file(path, content.size, batches, time_ms)


def add_file(file: LogFile, *, changes_data: bool = True) -> FileEntry:
    """Return the action that adds a file; a merged one changes no data."""
    return FileEntry(
        path=file.path,
        size_bytes=file.size_bytes,
        values=_partition_values(file.batches),
        time_ms=file.time_ms,
        record_count=file.size,
        changes_data=changes_data,
    )


def remove_file(file: LogFile, *, changes_data: bool = True) -> RemoveFile:
    """Return the action that removes a file: a merged one holds its rows, or they are cut."""
    return RemoveFile(
        path=file.path,
        size_bytes=file.size_bytes,
        values=_partition_values(file.batches),
        changes_data=changes_data,
    )


def _partition_values(batches: Sequence[RaftBatch]) -> dict[str, str | None]:
    (first, *others), last = batches, batches[-1]
    headers = None
    if others or first.kind is BatchKind.RUN or first.voters is not None:
        headers = json.dumps(
            [
                {
                    "end_offset": each.end_offset,
                    "epoch": each.epoch,
                    "write_id": each.write_id,
                    "is_run": each.kind is BatchKind.RUN,
                    "voters": None if each.voters is None else [*map(str, each.voters.voters)],
                }
                for each in batches
            ],
            separators=(",", ":"),
        )
    return {
        "base_offset": str(first.base_offset),
        "epoch": str(last.epoch),
        "write_id": last.write_id,
        "headers": headers,
    }
