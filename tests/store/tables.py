"""Plain tables to commit to, and what their logs say."""

import json
import os
from pathlib import Path

import pyarrow as pa

from kafka_on_spark.store.delta.delta_files import TableDamage
from kafka_on_spark.store.delta.delta_log import DeltaLog
from kafka_on_spark.store.delta.table_history import table_steps
from kafka_on_spark.store.roots import RootFiles, StorageOptions

OPTIONS = StorageOptions()
SCHEMA = pa.schema([("base_offset", pa.int64())])


def create(uri, options=OPTIONS, **others):
    return DeltaLog.create(uri, options, schema=SCHEMA, partition_by=[], configuration={}, **others)


def opened(uri, options=OPTIONS, **others):
    log = DeltaLog(uri, options, **others)
    log.refresh()
    return log


def commit(log, at_version, **counters):
    log.commit(
        at_version,
        operation="test",
        counters={"count": at_version + 1, **counters},
    )


def commit_times(log, count):
    for _ in range(count):
        commit(log, log.version)


def commit_file(uri, version):
    return Path(uri) / "_delta_log" / f"{version:020d}.json"


def names_in_log(uri):
    return sorted(os.listdir(Path(uri) / "_delta_log"))


def write_ids(uri):
    """Return the write ids of all commits, in order of their versions."""
    return list(write_ids_by_version(uri).values())


def write_ids_by_version(uri):
    """Return the write ids of all commits that are not cleaned, oldest first."""
    paths = sorted((Path(uri) / "_delta_log").glob("*.json"))
    return {int(path.stem): _info(path)["writeId"] for path in paths}


def _info(path):
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    return next(each["commitInfo"] for each in actions if "commitInfo" in each)


def live(log, count):
    """Commit as a table's users do, with checkpoints and cleaning."""
    for _ in range(count):
        commit(log, log.refresh())
        log.checkpoint_if_due()


def damages_of(uri, options=OPTIONS):
    """Return what an audit finds wrong with a table's log."""
    steps = table_steps(RootFiles(uri, options), uri, has_all_checkpoints=True)
    return [each for each in steps if isinstance(each, TableDamage)]
