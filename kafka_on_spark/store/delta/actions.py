"""Encodes the actions of a commit as Delta's protocol has them: reader version 1, writer version 2.

No other field is put in a commit: delta-rs's checkpoints drop what they don't know.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PROTOCOL: Final = (1, 2)
"""Reader and writer version of our tables; a higher one may mean what this version can't read."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """A file that a commit adds.

    Attributes:
        path: Its name in the table's folder.
        size_bytes: Its size.
        values: A value for each partition column, as text; None: null.
        time_ms: Modification time, ms since 1970 UTC.
        stats: Statistics as JSON.
        changes_data: It holds rows that the table did not have.
    """

    path: str
    size_bytes: int
    values: Mapping[str, str | None]
    time_ms: int
    stats: str
    changes_data: bool = True

    def action(self, now_ms: int) -> dict[str, Any]:
        """Return the action as a value of JSON."""
        return {
            "add": {
                "path": self.path,
                "partitionValues": self.values,
                "size": self.size_bytes,
                "modificationTime": self.time_ms,
                "dataChange": self.changes_data,
                "stats": self.stats,
            }
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile:
    """A file that a commit removes from the table; the file itself stays."""

    path: str
    size_bytes: int
    values: Mapping[str, str | None]
    changes_data: bool = True

    def action(self, now_ms: int) -> dict[str, Any]:
        """Return the action as a value of JSON; the file is removed at `now_ms`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """What version 0 says of a table.

    Attributes:
        table_id: A uuid.
        schema: The columns, as Delta's JSON.
        partition_by: Names of the partition columns.
        configuration: The table's settings.
    """

    table_id: str
    schema: str
    partition_by: Sequence[str] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)

    def actions(self, now_ms: int) -> list[dict[str, Any]]:
        """Return the actions as values of JSON."""
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
    files: Iterable[AddFile | RemoveFile] = (),
    counters: Mapping[str, int],
) -> bytes:
    """Return the bytes of a commit, an action a line. `settings`: of version 0 only."""
    info = {"timestamp": now_ms, "operation": "WRITE", "writeId": write_id, "op": operation}
    actions: list[dict[str, Any]] = [{"commitInfo": info}]
    if settings is not None:
        actions += settings.actions(now_ms)
    actions += [each.action(now_ms) for each in files]
    actions += [{"txn": {"appId": name, "version": value}} for name, value in counters.items()]
    return "".join(f"{_ENCODER.encode(each)}\n" for each in actions).encode()
