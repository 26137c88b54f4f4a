"""The files of a Delta log: their names, what their bytes say, and the state that they lead to.

Delta keeps each commit as a file, so an audit can replay a table's history version by version, back
to the checkpoint behind which old commits were removed. A part that can't be read is a step, too.

Commits are of reader version 1, writer version 2, and no other field is put in one: checkpoints
would drop it. What stands in a file is a claim: an action or a field that
Delta's protocol does not know, a value of another kind and a counter that is set twice are damage.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.ids import micros_of
from kafka_on_spark.base.text import parse_json
from kafka_on_spark.store.local_files import SMALL_FILE_BYTES_MAX, UnsafeFileError
from kafka_on_spark.store.parquet_files import read_parquet
from kafka_on_spark.store.roots import RootFiles

PROTOCOL: Final = (1, 2)
"""Reader and writer version of our tables; a higher one may mean what this version can't read."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file as an add action names it.

    Attributes:
        values: A value for each partition column, as text; None: null.
        record_count: In its statistics; None if they have none.
        timestamp_min_us: Smallest timestamp, in its statistics, µs since 1970 UTC.
        time_ms: Modification time, which is the time of the append, ms since 1970 UTC.
        changes_data: The table did not have its rows, or loses them.
    """

    path: str
    size_bytes: int
    values: Mapping[str, str | None]
    record_count: int | None = None
    timestamp_min_us: int | None = None
    timestamp_max_us: int | None = None
    time_ms: int
    changes_data: bool = field(default=True, compare=False)

    def action(self, now_ms: int) -> dict[str, Any]:
        stats: dict[str, Any] = {}
        if self.record_count is not None:
            stats["numRecords"] = self.record_count
        if self.timestamp_min_us is not None and self.timestamp_max_us is not None:
            stats["minValues"] = {"timestamp": iso(self.timestamp_min_us)}
            stats["maxValues"] = {"timestamp": iso(self.timestamp_max_us)}
            stats["nullCount"] = {"timestamp": 0}
        return {
            "add": {
                "path": self.path,
                "partitionValues": self.values,
                "size": self.size_bytes,
                "modificationTime": self.time_ms,
                "dataChange": self.changes_data,
                "stats": json.dumps(stats),
            }
        }

    def removal(self, now_ms: int) -> dict[str, Any]:
        """Return the action that takes it from the table; the file itself stays."""
        return {
            "remove": {
                "path": self.path,
                "deletionTimestamp": now_ms,
                "dataChange": self.changes_data,
                "extendedFileMetadata": True,
                "partitionValues": self.values,
                "size": self.size_bytes,
            }
        }


def iso(time_us: int) -> str:
    """Return µs since 1970 UTC as Delta's statistics have it."""
    seconds, micros = divmod(time_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}.{micros:06d}Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommit:
    """One version.

    Attributes:
        operation: What the commit says that it is; None if it says nothing.
        write_id: Which try to commit it is of; None if it does not say.
        counters: `txn` versions that it sets, by application id.
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
    """The table's whole state as of `version`, for readers that don't start from version 0."""

    version: int
    files: tuple[FileEntry, ...]
    counters: Mapping[str, int]
    configuration: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDamage:
    """A part of the log that can't be read.

    Attributes:
        is_checkpoint: It is a checkpoint, or the hint at one: the commits may still have all.
    """

    version: int
    sentence: str
    is_checkpoint: bool = False


TableStep = TableCommit | TableCheckpoint | TableDamage


TOMBSTONES_KEPT: Final = "delta.deletedFileRetentionDuration"
_WEEK_SECONDS: Final = 604_800
"""Delta's default, for a table whose setting is not ours."""

TOMBSTONES_LOOKED_AT: Final = 100
"""After so many commits a process forgets those that no checkpoint needs any more."""


@dataclass(slots=True)
class TableState:
    """A table's content; `apply` changes it, so that a commit copies no large table.

    Attributes:
        version: As of which commit; -1: before the first.
        tombstones: When files were removed that commits named which were applied: name to ms since
            1970 UTC. Those of the checkpoint before are not here.
    """

    version: int = -1
    files: dict[str, FileEntry] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    configuration: dict[str, str] = field(default_factory=dict)
    tombstones: dict[str, int] = field(default_factory=dict)

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
            version=self.version,
            files=dict(self.files),
            counters=dict(self.counters),
            configuration=dict(self.configuration),
            tombstones=dict(self.tombstones),
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
            if commit.time_ms is not None:
                self.tombstones[path] = commit.time_ms
        for file in commit.adds:
            self.files[file.path] = file
        self.counters.update(commit.counters)
        if commit.configuration is not None:
            self.configuration = dict(commit.configuration)
        self.version = commit.version
        if commit.time_ms is not None and self.version % TOMBSTONES_LOOKED_AT == 0:
            self.tombstones = self.lasting(self.tombstones, commit.time_ms)

    def lasting(self, tombstones: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Return the tombstones that a checkpoint keeps, by the table's setting."""
        words = self.configuration.get(TOMBSTONES_KEPT, "").split()
        is_ours = len(words) == 3 and words[1].isdecimal() and words[2] == "seconds"
        kept_ms = 1000 * (int(words[1]) if is_ours else _WEEK_SECONDS)
        return {path: time_ms for path, time_ms in tombstones.items() if time_ms > now_ms - kept_ms}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What version 0 says of a table."""

    table_id: str
    schema: str
    partition_by: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)

    def actions(self, now_ms: int) -> list[dict[str, Any]]:
        reader, writer = PROTOCOL
        return [
            {"protocol": {"minReaderVersion": reader, "minWriterVersion": writer}},
            {
                "metaData": {
                    "id": self.table_id,
                    "name": None,
                    "description": None,
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": self.schema,
                    "partitionColumns": list(self.partition_by),
                    "createdTime": now_ms,
                    "configuration": dict(self.configuration),
                }
            },
        ]


def encode_commit(
    *,
    write_id: str,
    operation: str,
    now_ms: int,
    settings: TableSettings | None = None,
    adds: Iterable[FileEntry] = (),
    removes: Iterable[FileEntry] = (),
    counters: Mapping[str, int],
) -> bytes:
    """Return the bytes of a commit, an action a line. `settings`: of version 0 only."""
    info = {"timestamp": now_ms, "operation": "WRITE", "writeId": write_id, "op": operation}
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if settings is not None:
        actions += settings.actions(now_ms)
    actions += [each.removal(now_ms) for each in removes]
    actions += [each.action(now_ms) for each in adds]
    actions += [{"txn": {"appId": name, "version": value}} for name, value in counters.items()]
    return ("\n".join(map(_ENCODER.encode, actions)) + "\n").encode()


CHECKPOINT: Final = ".checkpoint.parquet"

# Whole names only: macOS leaves `._…` beside each file, and people leave copies.
_COMMIT_NAME: Final = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT_NAME: Final = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_VERSION_END: Final = 2**63


def log_folder(uri: str) -> str:
    return f"{uri}/_delta_log"


@lru_cache(maxsize=1024)
def commit_path(uri: str, version: int) -> str:
    # Kept: each look at a table asks for its newest version and the next.
    return f"{log_folder(uri)}/{version:020d}.json"


def checkpoint_path(uri: str, version: int) -> str:
    return f"{log_folder(uri)}/{version:020d}{CHECKPOINT}"


def hint_path(uri: str) -> str:
    return f"{log_folder(uri)}/_last_checkpoint"


def checkpoint_version(path: str) -> int | None:
    """Return the version that a file of the log is the checkpoint of, or None if it is none."""
    return _version(_CHECKPOINT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commit_version(path: str) -> int | None:
    return _version(_COMMIT_NAME.fullmatch(path.rsplit("/", 1)[-1]))


def commits_in(names: Iterable[str]) -> set[int]:
    return {each for each in map(commit_version, names) if each is not None}


def checkpoints_in(names: Iterable[str]) -> set[int]:
    return {each for each in map(checkpoint_version, names) if each is not None}


def _version(found: re.Match[str] | None) -> int | None:
    # delta-rs holds a version in 64 bits.
    return int(found[1]) if found is not None and int(found[1]) < _VERSION_END else None


def hinted_version(files: RootFiles, uri: str) -> int | None:
    """Return the version of the newest checkpoint by the log's own hint: one small read in place of
    a listing. None: there is no hint, or it can't be read. It may be old or wrong."""
    try:
        content = files.read(hint_path(uri), SMALL_FILE_BYTES_MAX)
        return None if content is None else expect(parse_json(content)["version"], int)
    except (UnsafeFileError, *BAD_JSON):
        return None


def last_checkpoint(files: RootFiles, uri: str) -> int:
    """Return the version of the checkpoint that the hint names, or -1 if that is not there."""
    version = hinted_version(files, uri)
    if version is None or not 0 <= version < _VERSION_END:
        return -1
    with suppress(UnsafeFileError):
        return version if files.size(checkpoint_path(uri, version)) else -1
    return -1


def write_id_of(content: bytes) -> str | None:
    """Return a commit's write id, "" if it has none; None if `content` is no readable commit."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
        infos = [each["commitInfo"] for each in actions if "commitInfo" in each]
        if not actions:
            return None
        return str(infos[0].get("writeId", "")) if infos else ""
    except (ValueError, TypeError, AttributeError):
        return None


T = TypeVar("T")

BAD_JSON: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError)
"""What parsing damaged JSON raises."""


def commit_step(content: bytes, version: int, path: str) -> TableStep:
    """Return what the bytes of a commit say, or that they can't be read.

    Without bytes it is a version without actions: a power cut kept its name and lost its bytes.
    """
    try:
        actions = [parse_json(line) for line in content.splitlines() if line.strip()]
        for action in actions:
            if "protocol" in action:
                _check_protocol(expect(action["protocol"], dict))
        return _commit(version, actions)
    except BAD_JSON as error:
        sentence = f"the commit {path} can't be read: {type(error).__name__}: {error}"
        return TableDamage(version=version, sentence=sentence)


_YEAR_10000_MS: Final = 253_402_300_800_000
"""From then on there are no dates."""


def expect(value: Any, kind: type[T]) -> T:
    """Return `value` if it is of `kind`: JSON from a file may hold any value."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} where a {kind.__name__} must be")
    return value


def _commit(version: int, actions: Iterable[Any]) -> TableCommit:
    operation: str | None = None
    write_id: str | None = None
    adds: list[FileEntry] = []
    removes: list[str] = []
    counters: dict[str, int] = {}
    configuration: dict[str, str] | None = None
    time_ms: int | None = None
    for action in actions:
        for name, found in expect(action, dict).items():
            body = expect(found, dict)
            _check_fields(name, body)
            if name == "add":
                adds.append(_file(body))
            elif name == "remove":
                removes.append(expect(body["path"], str))
            elif name == "txn":
                _add_counter(counters, body)
            elif name == "metaData":
                configuration = dict(expect(body["configuration"], dict))
            elif name == "commitInfo":
                operation, write_id, time_ms = body.get("op"), body.get("writeId"), _time_in(body)
    return TableCommit(
        version=version,
        operation=operation,
        write_id=write_id,
        adds=tuple(adds),
        removes=tuple(removes),
        counters=counters,
        configuration=configuration,
        time_ms=time_ms,
    )


def _time_in(info: Mapping[str, Any]) -> int | None:
    """Return what a commit says of its time; a claim that is none is not damage: no reader asks."""
    claim = info.get("timestamp")
    return claim if type(claim) is int and 0 <= claim < _YEAR_10000_MS else None


_COLUMNS: Final = ("tags", "deletionVector", "baseRowId", "defaultRowCommitVersion")
_ACTION_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "add": frozenset(
        {"path", "partitionValues", "size", "modificationTime", "dataChange", "stats"}
        | {"clusteringProvider", *_COLUMNS}
    ),
    "remove": frozenset(
        {"path", "dataChange", "deletionTimestamp", "extendedFileMetadata", "partitionValues"}
        | {"size", "stats", *_COLUMNS}
    ),
    "txn": frozenset({"appId", "version", "lastUpdated"}),
    "metaData": frozenset(
        {"id", "name", "description", "format", "schemaString", "partitionColumns"}
        | {"createdTime", "configuration"}
    ),
    "protocol": frozenset(
        {"minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"}
    ),
}
"""The fields of each action, by Delta's protocol; `commitInfo` may have any."""


def _check_fields(action: str, body: Mapping[str, Any]) -> None:
    """Check that an action is one of our tables', with known fields: readers skip a field whose
    name has a changed byte."""
    if action == "commitInfo":
        return
    if action not in _ACTION_FIELDS:
        raise ValueError(f"an action {action!r:.40}")
    unknown = sorted(body.keys() - _ACTION_FIELDS[action])
    if unknown:
        raise ValueError(f"{unknown[0]!r:.40} in an action {action}")
    if action in ("add", "remove") and not isinstance(body.get("dataChange"), bool):
        raise ValueError(f"an action {action} that does not say whether data changes")


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    found = (protocol["minReaderVersion"], protocol["minWriterVersion"])
    if found != PROTOCOL:
        raise ValueError(f"its protocol is {found}, a table of this cluster has {PROTOCOL}")


def _add_counter(counters: dict[str, int], txn: Mapping[str, Any]) -> None:
    """Add a counter to those of a commit or a checkpoint.

    Raises:
        ValueError: It is set twice: some readers take the first, others the last.
    """
    name, version = expect(txn["appId"], str), expect(txn["version"], int)
    if name in counters:
        raise ValueError(f"it sets the counter {name!r:.80} twice")
    counters[name] = version


def _file(add: Mapping[str, Any]) -> FileEntry:
    values: dict[str, str | None] = dict(add["partitionValues"])
    for text in values.values():
        if not isinstance(text, str | None):
            raise TypeError("a partition value that is no text")
    stats = expect(parse_json(add["stats"]), dict) if add.get("stats") else {}
    count = stats.get("numRecords")
    return FileEntry(
        path=expect(add["path"], str),
        size_bytes=expect(add["size"], int),
        values=values,
        record_count=None if count is None else expect(count, int),
        timestamp_min_us=_micros(stats.get("minValues")),
        timestamp_max_us=_micros(stats.get("maxValues")),
        time_ms=expect(add["modificationTime"], int),
        changes_data=add["dataChange"] is not False,
    )


def _micros(values: Any) -> int | None:
    text = expect(values or {}, dict).get("timestamp")
    if text is None:
        return None
    return micros_of(datetime.fromisoformat(text))


_CHECKPOINT_COLUMNS: Final = (
    *(f"add.{each}" for each in ("path", "partitionValues", "size", "modificationTime")),
    *("add.dataChange", "add.stats", "txn.appId", "txn.version", "metaData.configuration"),
    *("protocol.minReaderVersion", "protocol.minWriterVersion"),
)
"""What is asked of a checkpoint: not the tombstones, of which there may be an hour's."""


def values_in(column: pa.ChunkedArray) -> list[Any]:
    """Return what is no null. `drop_null` would import `pyarrow.compute`, which takes a twelfth of
    a short call, and a null takes 0.03 µs here."""
    return [each for each in column.to_pylist() if each is not None]


def checkpoint_step(content: bytes, version: int, path: str) -> TableStep:
    """Return what the bytes of a checkpoint say, or that they can't be read."""
    try:
        if not content:
            raise ValueError("it is empty")
        table = read_parquet(content, path, columns=_CHECKPOINT_COLUMNS)
        counters: dict[str, int] = {}
        for txn in values_in(table.column("txn")):
            _add_counter(counters, txn)
        for protocol in values_in(table.column("protocol")):
            _check_protocol(protocol)
        configurations = values_in(table.column("metaData"))
        return TableCheckpoint(
            version=version,
            files=tuple(_file(add) for add in values_in(table.column("add"))),
            counters=counters,
            configuration=dict(configurations[0]["configuration"]),
        )
    except (IndexError, CorruptLogError, *BAD_JSON) as error:
        text = " ".join(str(error).split())
        sentence = f"the checkpoint {path} can't be read: {text}"
        return TableDamage(version=version, sentence=sentence, is_checkpoint=True)
