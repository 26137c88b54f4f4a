"""Plain tables to commit to, and what their logs say."""

import json
import os
from pathlib import Path
from unittest import mock

import pyarrow as pa
from deltalake import DeltaTable

from kafka_on_spark.audit.history import TableDamage
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.storage.delta.checkpoints import read_checkpoint
from kafka_on_spark.storage.delta.conditional_commit import DeltaLog
from kafka_on_spark.storage.delta.files import void_commits
from kafka_on_spark.storage.delta.files.delta_files import (
    checkpoint_version,
    commit_version,
    last_checkpoint,
)
from kafka_on_spark.storage.delta.files.log_parsing import commit_step
from kafka_on_spark.storage.delta.table_history import table_steps
from kafka_on_spark.storage.delta.table_state import TableState
from kafka_on_spark.storage.roots.roots import RootFiles, StorageOptions
from tests.storage.delta_protocol import broken_rules

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


DELTA_RS_VERSIONS_MAX = 60
"""At how many versions delta-rs opens a table: at each one of a short log."""


def check_with_delta_rs(uri, options=OPTIONS):
    """Check each commit by Delta's rules, and that delta-rs finds what our process finds at each
    version from the oldest kept checkpoint on. A table that can't be opened is not checked."""
    files = RootFiles(uri, options)
    try:
        with mock.patch.object(void_commits, "RECHECK_SECONDS", 0.0):
            log = opened(uri, options)
    except KafkaOnSparkError:
        return
    if last_checkpoint(files, uri) < 0:
        # A copy may lack the checkpoint that its hint names: the next checkpoint mends that.
        commit_file(uri, 0).with_name("_last_checkpoint").unlink(missing_ok=True)
    state = _oldest_state(files, uri, log.version)
    first = max(state.version, 0)
    columns = DeltaTable(uri).metadata().partition_columns
    every = (log.version - first) // DELTA_RS_VERSIONS_MAX + 1
    for version in range(first, log.version + 1):
        content = commit_file(uri, version).read_bytes()
        if content and b'"writeId"' in content:
            assert broken_rules(version, content, columns) == [], content
        if version > state.version:
            state.apply(commit_step(content, version, "a commit"))
        if (log.version - version) % every == 0:
            _check_state(DeltaTable(uri, version=version), state, log.counters())
    assert state.files == {file.path: file for file in log.active_files()}
    assert state.counters == log.counters()
    assert state.configuration == log.configuration


def _oldest_state(files, uri, newest):
    """Return the state at the oldest checkpoint after which no commit is missing."""
    names = names_in_log(uri)
    commits = {each for each in map(commit_version, names) if each is not None}
    first = newest
    while first - 1 in commits:
        first -= 1
    if first == 0:
        return TableState()
    checkpoints = {each for each in map(checkpoint_version, names) if each is not None}
    oldest = min(each for each in checkpoints if each >= first)
    return TableState.of(read_checkpoint(files, uri, oldest))


def _check_state(table, state, names):
    assert table.version() == state.version
    found = {name: table.transaction_version(name) for name in names}
    assert found == {name: state.counters.get(name) for name in names}
    assert {uri.rsplit("/", 1)[-1] for uri in table.file_uris()} == state.files.keys()
    assert table.metadata().configuration == state.configuration


def live(log, count):
    """Commit as a table's users do, with checkpoints and cleaning."""
    for _ in range(count):
        commit(log, log.refresh())
        log.checkpoint_if_due()


def put_stray(uri, version):
    """Put a commit where one was cleaned, as a writer does that was frozen; return its path."""
    path = commit_file(uri, version)
    info = {"commitInfo": {"writeId": "stray", "op": "test"}}
    with open(path, "x") as file:
        file.write(f'{json.dumps(info)}\n{{"txn":{{"appId":"count","version":-9}}}}\n')
    return path


def damages_of(uri):
    """Return what an audit finds wrong with a table's log."""
    steps = table_steps(RootFiles(uri, OPTIONS), uri, has_all_checkpoints=True)
    return [each for each in steps if isinstance(each, TableDamage)]
