"""What the creation of a Delta table needs: its settings, its folders, and whether it is new."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Final
from uuid import uuid4

import pyarrow as pa

from kafka_on_spark.store.deadlines import short_call_seconds, within
from kafka_on_spark.store.delta.actions import TableSettings
from kafka_on_spark.store.delta.checkpoints import CHECKPOINT_INTERVAL
from kafka_on_spark.store.delta.delta_files import (
    checkpoints_in,
    commits_in,
    log_folder,
)
from kafka_on_spark.store.error_translation import storage_error
from kafka_on_spark.store.local_changes import make_folder
from kafka_on_spark.store.roots import RootFiles

CLEANER_MS: Final = 600_000
"""How long a cleaner has at least to delete what may go from a replica."""

_CONFIGURATION: Final = {
    "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
    "delta.enableExpiredLogCleanup": "false",
}


def tombstones_kept(delete_delay_ms: int, cleaner_ms: int = CLEANER_MS) -> dict[str, str]:
    """Return the setting of how long checkpoints keep tombstones: until a removed file may go, and
    as long again, or `cleaner_ms`, for the cleaner, which learns from them what may go.

    A longer time would cost: a busy table removes some files a second, and each of its checkpoints
    names all of that time.
    """
    kept_ms = delete_delay_ms + max(delete_delay_ms, cleaner_ms)
    return {"delta.deletedFileRetentionDuration": f"interval {kept_ms // 1000} seconds"}


def new_settings(
    schema: pa.Schema, partition_by: Sequence[str], configuration: Mapping[str, str]
) -> TableSettings:
    """Return the settings of a new table, with ours of all tables."""
    return TableSettings(
        table_id=str(uuid4()),
        schema=_delta_schema(schema),
        partition_by=partition_by,
        configuration={**_CONFIGURATION, **configuration},
    )


@lru_cache(maxsize=8)
def _delta_schema(schema: pa.Schema) -> str:
    """Return an Arrow schema as the JSON of Delta's."""
    # In the function: a query waits for the process that plans it, which creates no table.
    from deltalake import Schema

    return Schema.from_arrow(schema).to_json()


def make_folders(uri: str) -> list[str]:
    """Make the folder of a local table's log, the table's and its parent; return the folders that
    name them, to be flushed.

    None above: a root that was removed must not be created again.

    Raises:
        KafkaStorageError: The root does not answer, or is away.
    """
    folders = [os.path.dirname(uri), uri, log_folder(uri)]
    for folder in folders:
        try:
            within(uri, partial(make_folder, folder), short_call_seconds(folder))
        except OSError as error:
            raise storage_error(error, f"create a table at {uri}") from error
    return [uri, folders[0], os.path.dirname(folders[0])]


def holds_more(files: RootFiles, uri: str) -> bool:
    """Return whether a log in which version 0 was just put holds other versions: then its first
    commits were cleaned, and the one that was put is a stray."""
    names = files.names(log_folder(uri))
    return bool((commits_in(names) | checkpoints_in(names)) - {0})
