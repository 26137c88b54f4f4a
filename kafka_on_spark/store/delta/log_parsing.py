"""Parses commits and checkpoints of a Delta log: what their bytes say, or that they are damaged.

What stands in a file is a claim: an action or a field that Delta's protocol does not know, a value
of another kind and a counter that is set twice are damage.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import pyarrow as pa

from kafka_on_spark.base.errors import CorruptLogError
from kafka_on_spark.base.moments import micros_of
from kafka_on_spark.base.stored_json import parse_json
from kafka_on_spark.store.delta.actions import PROTOCOL
from kafka_on_spark.store.delta.history import (
    FileEntry,
    TableCheckpoint,
    TableCommit,
    TableDamage,
    TableStep,
)
from kafka_on_spark.store.parquet_files import read_parquet

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
    """Return `value` if it is of `kind`: JSON from a file may hold any value.

    Raises:
        TypeError: It is of another kind.
    """
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
        for name, body in expect(action, dict).items():
            _check_fields(name, expect(body, dict))
            if name == "add":
                adds.append(_file(expect(body, dict)))
            elif name == "remove":
                removes.append(expect(expect(body, dict)["path"], str))
            elif name == "txn":
                _add_counter(counters, expect(body, dict))
            elif name == "metaData":
                configuration = dict(expect(expect(body, dict)["configuration"], dict))
            elif name == "commitInfo":
                operation = expect(body, dict).get("op")
                write_id = expect(body, dict).get("writeId")
                time_ms = _time_of(body.get("timestamp"))
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


def _time_of(claim: Any) -> int | None:
    """Return what a commit says of its time; a claim that is none is not damage: no reader asks."""
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
    name, version = expect(txn["appId"], str), expect(txn["version"], int)
    if name in counters:
        raise ValueError(f"it sets the counter {name!r:.80} twice")
    counters[name] = version


def _file(add: Mapping[str, Any]) -> FileEntry:
    values: dict[str, str | None] = dict(add["partitionValues"])
    if any(not isinstance(text, str | None) for text in values.values()):
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
"""What is asked of a checkpoint: a fifth of its 60 columns. Each has a value a row, and there is a
row for each file that was removed within the last hour."""


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return what is no null. `drop_null` would import `pyarrow.compute`, which takes a twelfth of
    a short call, and a null takes 0.03 µs here."""
    return [each for each in column.to_pylist() if each is not None]


def checkpoint_step(content: bytes | None, version: int, path: str) -> TableStep:
    """Return what the bytes of a checkpoint say, or that they can't be read; None: it is gone."""
    try:
        if not content:
            raise ValueError("it is empty" if content is not None else "it is gone")
        table = read_parquet(content, path, columns=_CHECKPOINT_COLUMNS)
        counters: dict[str, int] = {}
        for txn in _values(table.column("txn")):
            _add_counter(counters, txn)
        for protocol in _values(table.column("protocol")):
            _check_protocol(protocol)
        configurations = _values(table.column("metaData"))
        return TableCheckpoint(
            version=version,
            files=tuple(_file(add) for add in _values(table.column("add"))),
            counters=counters,
            configuration=dict(configurations[0]["configuration"]),
        )
    except (IndexError, CorruptLogError, *BAD_JSON) as error:
        text = " ".join(str(error).split())
        sentence = f"the checkpoint {path} can't be read: {text}"
        return TableDamage(version=version, sentence=sentence, is_checkpoint=True)
