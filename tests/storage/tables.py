"""Plain tables to commit to, and what their logs say."""

import json
import os
from pathlib import Path

import pyarrow as pa

from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.roots.roots import StorageOptions

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
