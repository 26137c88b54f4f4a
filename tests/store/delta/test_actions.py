"""Commits as bytes: what ours are by Delta's rules, and what other engines find."""

import json
import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from kafka_on_spark.log import segments
from kafka_on_spark.metadata import metadata_files
from kafka_on_spark.store.delta.delta_files import (
    FileEntry,
    TableSettings,
    encode_commit,
)
from kafka_on_spark.store.delta.delta_log import DeltaLog, delta_schema
from tests.store.tables import OPTIONS, opened

SCHEMA = pa.schema(
    [("base_offset", pa.int64()), ("producer_id", pa.string()), ("value", pa.binary())]
)
COLUMNS = ["base_offset", "producer_id"]
NAMED = {"size_bytes": 7, "values": {"base_offset": "0", "producer_id": None}}
ADD = FileEntry(path="a.parquet", time_ms=5, record_count=3, **NAMED)
REMOVE = replace(ADD, path="b.parquet")
SETTINGS = TableSettings(
    table_id="0" * 32,
    schema=delta_schema(SCHEMA),
    partition_by=COLUMNS,
    configuration={"kos.partition": "1"},
)


@pytest.mark.parametrize("schema", [metadata_files.TABLE_SCHEMA, segments.TABLE_SCHEMA])
def test_a_schema_is_written_as_delta_rs_writes_it(schema):
    assert json.loads(delta_schema(schema)) == json.loads(Schema.from_arrow(schema).to_json())


def encoded(adds=(), removes=(), settings=None, **counters):
    return encode_commit(
        write_id="w",
        operation="test",
        now_ms=9,
        settings=settings,
        adds=adds,
        removes=removes,
        counters=counters,
    )


def actions(content):
    """Return the actions of a commit, its texts of JSON read, too."""
    found = [json.loads(line) for line in content.splitlines()]
    for body in (body for action in found for body in action.values()):
        body |= {name: json.loads(body[name]) for name in ("stats", "schemaString") if name in body}
    return found


def test_a_commit_is_what_deltas_protocol_asks_of_a_writer_of_version_2():
    file = {"partitionValues": {"base_offset": "0", "producer_id": None}, "size": 7}
    columns = [("base_offset", "long"), ("producer_id", "string"), ("value", "binary")]
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
    stats = {"numRecords": 3}

    assert actions(encoded([ADD], [REMOVE], SETTINGS, a=-1)) == [
        {"commitInfo": {"timestamp": 9, "operation": "WRITE", "writeId": "w", "op": "test"}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "0" * 32,
                "name": None,
                "description": None,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": {"type": "struct", "fields": fields},
                "partitionColumns": COLUMNS,
                "createdTime": 9,
                "configuration": {"kos.partition": "1"},
            }
        },
        {
            "remove": {
                **file,
                "path": "b.parquet",
                "deletionTimestamp": 9,
                "dataChange": True,
                "extendedFileMetadata": True,
            }
        },
        {
            "add": {
                **file,
                "path": "a.parquet",
                "modificationTime": 5,
                "dataChange": True,
                "stats": stats,
            }
        },
        {"txn": {"appId": "a", "version": -1}},
    ]


@pytest.mark.parametrize("added_us", [{}, {"timestamp_min_us": -1, "timestamp_max_us": 2**50}])
def test_what_a_writer_holds_of_its_commit_is_what_readers_find(uri, added_us):
    """It applies what it has put without reading it."""
    log = DeltaLog.create(
        uri, OPTIONS, schema=SCHEMA, partition_by=COLUMNS, configuration={"a": ""}
    )
    added = [replace(ADD, path=path, **added_us) for path in ("a.parquet", "b.parquet")]
    log.commit(0, operation="test", adds=added, counters={"a": -1, "b": 2**62})
    log.commit(1, operation="test", removes=[REMOVE], counters={"b": 3})

    assert log._state == opened(uri)._state
    shutil.rmtree(uri)  # other engines would look for the files that it names


def test_text_of_any_kind_is_one_line():
    add = FileEntry(path="a", time_ms=5, size_bytes=1, values=dict.fromkeys(COLUMNS, "\n\u2028é"))

    content = encoded([add], **{"a\nb": 1})

    assert content.count(b"\n") == len(content.splitlines()) == len(actions(content)) == 3


def test_delta_rs_finds_the_files_that_our_commits_add_and_remove(uri, root):
    log = DeltaLog.create(
        uri, OPTIONS, schema=SCHEMA, partition_by=COLUMNS, configuration={"kos.x": "y"}
    )
    for number in range(6):
        rows = pa.table({"value": [b"%d" % number]}, schema=pa.schema([SCHEMA.field("value")]))
        pq.write_table(rows, f"{uri}/{number}.parquet")
        values = {"base_offset": str(number), "producer_id": None if number % 2 else "a b/c=ü"}
        named = {"size_bytes": os.path.getsize(f"{uri}/{number}.parquet"), "values": values}
        add = FileEntry(path=f"{number}.parquet", time_ms=5, record_count=1, **named)
        gone = [replace(add, path=f"{number - 2}.parquet", changes_data=False)][: number > 2]
        counters = {"end": number + 1}
        log.commit(log.version, operation="append", adds=[add], removes=gone, counters=counters)

    assert sorted(file.path for file in opened(uri).active_files()) == [
        "0.parquet",
        "4.parquet",
        "5.parquet",
    ]
    assert DeltaTable(uri).metadata().partition_columns == COLUMNS
