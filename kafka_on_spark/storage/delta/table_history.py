"""Reads the log of a Delta table from its files, commit by commit, for audits.

Apart from `delta_handle`, which opens tables by delta-rs: delta-rs reads an emptied commit as one
that changed nothing, and starts from a checkpoint without reading the commits before it. Here every
file is read, and a file that can't be read is a step of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from kafka_on_spark.audit.history import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)
from kafka_on_spark.errors import CorruptLogError, ReplicaLostError
from kafka_on_spark.query.moments import micros_of
from kafka_on_spark.storage.calls.file_limits import CHECKPOINT_BYTES_MAX, SMALL_FILE_BYTES_MAX
from kafka_on_spark.storage.delta.delta_files import (
    PROTOCOL,
    checkpoint_path,
    checkpoint_version,
    commit_path,
    commit_version,
    log_folder,
)
from kafka_on_spark.storage.delta.old_commits import old_folder, read_commit
from kafka_on_spark.storage.roots.local_files import UnsafeFileError
from kafka_on_spark.storage.roots.parquet_files import read_parquet
from kafka_on_spark.storage.roots.roots import RootFiles
from kafka_on_spark.stored_json import parse_json

T = TypeVar("T")

_BAD_JSON: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


def table_steps(
    files: RootFiles, uri: str, *, has_all_checkpoints: bool, from_version: int = 0
) -> Iterator[TableStep]:
    """Yield the steps of a table's log from `from_version` on, oldest first.

    A checkpoint comes after the commit of its version. The newest checkpoint is read, and those
    that replace commits that are gone or damaged; or all.

    Raises:
        ReplicaLostError: There is no table.
        KafkaStorageError: The root does not answer.
    """
    # In this order: a commit that leaves the log between the two listings is in the second.
    names = [name for each in (log_folder(uri), old_folder(uri)) for name in files.names(each)]
    commits = {version for name in names if (version := commit_version(name)) is not None}
    checkpoints = {each for name in names if (each := checkpoint_version(name)) is not None}
    versions = commits | checkpoints
    if not versions:
        raise ReplicaLostError(f"there is no table at {uri}")
    first = 0 if 0 in commits else min(checkpoints, default=min(versions))
    checkpoints = {each for each in checkpoints if not _is_empty(files, uri, each)}
    newest = max(checkpoints, default=-1)
    needs_base = first > 0
    expected = max(first, from_version)
    for version in sorted(each for each in versions if each >= expected):
        if version > expected:
            needs_base = True
            yield _gap(uri, expected, version - 1)
        expected = version + 1
        if not (needs_base and version == first and version in checkpoints):
            step = _read_commit(files, uri, version, is_there=version in commits)
            needs_base = needs_base or isinstance(step, TableDamage)
            yield step
        if version in checkpoints and (has_all_checkpoints or needs_base or version == newest):
            checkpoint = _read_checkpoint(files, uri, version)
            needs_base = needs_base and isinstance(checkpoint, TableDamage)
            yield checkpoint
    yield from _check_hint(files, uri, checkpoints)


def _is_empty(files: RootFiles, uri: str, checkpoint: int) -> bool:
    """Return whether a checkpoint lost its bytes to a power cut: readers skip it."""
    return files.size(checkpoint_path(uri, checkpoint)) == 0


def _gap(uri: str, first: int, last: int) -> TableDamage:
    path = commit_path(uri, first)
    if first == last:
        return TableDamage(version=first, sentence=f"the commit {path} is missing")
    sentence = f"{last - first + 1} commits from {path} on are missing"
    return TableDamage(version=first, sentence=sentence)


def _read_commit(files: RootFiles, uri: str, version: int, *, is_there: bool) -> TableStep:
    path = commit_path(uri, version)
    try:
        content = read_commit(files, uri, version) if is_there else None
    except UnsafeFileError as error:
        return TableDamage(version=version, sentence=error.message)
    if content is None:
        return TableDamage(version=version, sentence=f"the commit {path} is missing")
    return commit_step(content, version, path)


def commit_step(content: bytes, version: int, path: str) -> TableStep:
    """Return what the bytes of a commit say, or that they can't be read.

    Without bytes it is a version without actions: a power cut kept its name and lost its bytes.
    """
    try:
        actions = [parse_json(line) for line in content.splitlines() if line.strip()]
        for action in actions:
            if "protocol" in action:
                _check_protocol(_expect(action["protocol"], dict))
        return _commit(version, actions)
    except _BAD_JSON as error:
        sentence = f"the commit {path} can't be read: {type(error).__name__}: {error}"
        return TableDamage(version=version, sentence=sentence)


def _expect(value: Any, kind: type[T]) -> T:
    """Return `value` if it is of `kind`: JSON from a file may hold any value.

    Raises:
        TypeError: It is of another kind.
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} where a {kind.__name__} must be")
    return value


def _commit(version: int, actions: Iterable[Any]) -> TableCommit:
    operation: str | None = None
    adds: list[FileEntry] = []
    removes: list[str] = []
    counters: dict[str, int] = {}
    configuration: dict[str, str] | None = None
    for action in actions:
        for name, body in _expect(action, dict).items():
            _check_fields(name, _expect(body, dict))
            if name == "add":
                adds.append(_file(_expect(body, dict)))
            elif name == "remove":
                removes.append(_expect(_expect(body, dict)["path"], str))
            elif name == "txn":
                _add_counter(counters, _expect(body, dict))
            elif name == "metaData":
                configuration = dict(_expect(_expect(body, dict)["configuration"], dict))
            elif name == "commitInfo":
                operation = _expect(body, dict).get("op")
    return TableCommit(
        version=version,
        operation=operation,
        adds=tuple(adds),
        removes=tuple(removes),
        counters=counters,
        configuration=configuration,
    )


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
    name has a changed byte.

    Raises:
        ValueError: The action or one of its fields is unknown.
    """
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
    name, version = _expect(txn["appId"], str), _expect(txn["version"], int)
    if name in counters:
        raise ValueError(f"it sets the counter {name!r:.80} twice")
    counters[name] = version


def _file(add: Mapping[str, Any]) -> FileEntry:
    values: dict[str, str | None] = dict(add["partitionValues"])
    if any(not isinstance(text, str | None) for text in values.values()):
        raise TypeError("a partition value that is no text")
    stats = _expect(parse_json(add["stats"]), dict) if add.get("stats") else {}
    count = stats.get("numRecords")
    return FileEntry(
        path=_expect(add["path"], str),
        size_bytes=_expect(add["size"], int),
        values=values,
        record_count=None if count is None else _expect(count, int),
        timestamp_min_us=_micros(stats.get("minValues")),
        timestamp_max_us=_micros(stats.get("maxValues")),
        time_ms=_expect(add["modificationTime"], int),
    )


def _micros(values: Any) -> int | None:
    text = _expect(values or {}, dict).get("timestamp")
    if text is None:
        return None
    return micros_of(datetime.fromisoformat(text))


def _read_checkpoint(files: RootFiles, uri: str, version: int) -> TableStep:
    path = checkpoint_path(uri, version)
    try:
        content = files.read(path, CHECKPOINT_BYTES_MAX)
        if content is None:
            old_path = f"{old_folder(uri)}/{path.rsplit('/', 1)[-1]}"
            content = files.read(old_path, CHECKPOINT_BYTES_MAX)
    except UnsafeFileError as error:
        return TableDamage(version=version, sentence=error.message, is_checkpoint=True)
    return checkpoint_step(content, version, path)


def checkpoint_step(content: bytes | None, version: int, path: str) -> TableStep:
    """Return what the bytes of a checkpoint say, or that they can't be read; None: it is gone."""
    try:
        if not content:
            raise ValueError("it is empty" if content is not None else "it is gone")
        table = read_parquet(content, path, columns=["add", "txn", "metaData", "protocol"])
        counters: dict[str, int] = {}
        for txn in table.column("txn").drop_null().to_pylist():
            _add_counter(counters, txn)
        for protocol in table.column("protocol").drop_null().to_pylist():
            _check_protocol(protocol)
        configurations = table.column("metaData").drop_null().to_pylist()
        return TableCheckpoint(
            version=version,
            files=tuple(_file(add) for add in table.column("add").drop_null().to_pylist()),
            counters=counters,
            configuration=dict(configurations[0]["configuration"]),
        )
    except (IndexError, CorruptLogError, *_BAD_JSON) as error:
        text = " ".join(str(error).split())
        sentence = f"the checkpoint {path} can't be read: {text}"
        return TableDamage(version=version, sentence=sentence, is_checkpoint=True)


def _check_hint(files: RootFiles, uri: str, checkpoints: set[int]) -> Iterator[TableDamage]:
    """Check the hint at the newest checkpoint: a hint at a missing one makes a table unreadable."""
    path = f"{log_folder(uri)}/_last_checkpoint"
    try:
        content = files.read(path, SMALL_FILE_BYTES_MAX)
        if not content:
            return  # no hint, or a power cut lost its bytes
        version = _expect(parse_json(content)["version"], int)
    except (UnsafeFileError, *_BAD_JSON):
        sentence = f"the hint {path} can't be read"
        yield TableDamage(
            version=max(checkpoints, default=0), sentence=sentence, is_checkpoint=True
        )
        return
    # The checkpoint may have been written after the folder was listed.
    if version not in checkpoints and files.size(checkpoint_path(uri, version)) is None:
        sentence = f"the hint {path} names the checkpoint of version {version}, which is not there"
        yield TableDamage(version=version, sentence=sentence, is_checkpoint=True)
