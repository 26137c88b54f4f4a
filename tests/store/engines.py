"""What our commits say that a table holds at a version, and whether other engines find the same.

What is expected is counted from the oldest kept state on, commit by commit, so a checkpoint that
says something else than the commits below it is found.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kafka_on_spark.store.delta import delta_log
from kafka_on_spark.store.delta.checkpoints import read_checkpoint
from kafka_on_spark.store.delta.delta_files import (
    FileEntry,
    TableState,
    checkpoints_in,
    commit_path,
    commit_step,
    commits_in,
    hint_path,
    last_checkpoint,
    log_folder,
)
from kafka_on_spark.store.roots import RootFiles
from tests.store.tables import OPTIONS, opened

DRAWN_MAX = 10
"""How many versions are drawn besides the oldest, the newest and the checkpoints."""

DELTA_RS_VERSIONS_MAX = 60
"""At how many versions delta-rs opens a table in each test: at each one of a short log."""


FILE_NAME = "file_name"
"""The column that names a row's file."""


@dataclass(frozen=True)
class KeptVersion:
    """What a table holds at a version, by its commits."""

    version: int
    files: dict[str, FileEntry]
    counters: dict[str, int]
    configuration: dict[str, str]


class KeptTable:
    """A table on a local disk or a store, as its kept commits and checkpoints are."""

    def __init__(self, uri, options=OPTIONS):
        """Open the table as our process does; raise as that does."""
        self.uri = uri
        self.files = RootFiles(uri, options)
        with mock.patch.object(delta_log, "RECHECK_SECONDS", 0.0):
            self.log = opened(uri, options)
        if last_checkpoint(self.files, uri) < 0:
            # A copy may lack the checkpoint that its hint names: the next checkpoint mends that.
            self.files.delete(hint_path(uri))
        names = self.files.names(log_folder(uri))
        self.newest = self.log.version
        self.first = _first_version(commits_in(names), checkpoints_in(names), self.newest)
        self.checkpoints = [each for each in checkpoints_in(names) if each >= self.first]

    def versions(self, seed, drawn_max=DRAWN_MAX):
        """Return the versions to be opened: oldest, newest, checkpoints, and some that are drawn."""
        named = {self.first, self.newest, *self.checkpoints}
        others = [each for each in range(self.first, self.newest) if each not in named]
        dice = random.Random(f"{seed} {self.newest}")
        return sorted(named.union(dice.sample(others, min(drawn_max, len(others)))))

    def content(self, version):
        return self.files.read(commit_path(self.uri, version), 10**9)

    def walk(self):
        """Yield what the table holds at each version, oldest first; check that the newest is what
        our process has opened."""
        state = TableState()
        if self.first > 0:
            state = TableState.of(read_checkpoint(self.files.read, self.uri, self.first))
            yield _kept(state)
        for version in range(state.version + 1, self.newest + 1):
            state.apply(commit_step(self.content(version), version, "a commit"))
            yield _kept(state)
        assert state.files == {file.path: file for file in self.log.active_files()}
        assert state.counters == self.log.counters()
        assert state.configuration == self.log.configuration


def _kept(state):
    return KeptVersion(
        state.version, dict(state.files), dict(state.counters), dict(state.configuration)
    )


def _first_version(commits, checkpoints, newest):
    """Return the oldest version from which on no commit is missing, and that needs none before."""
    first = newest
    while first - 1 in commits:
        first -= 1
    return 0 if first == 0 else min(each for each in checkpoints if each >= first)


# Delta-rs


def check_with_delta_rs(table, versions=None):
    """Check that delta-rs finds what we count at some versions; None: at each one of a short log."""
    if versions is None:
        every = (table.newest - table.first) // DELTA_RS_VERSIONS_MAX + 1
        versions = range(table.newest, table.first - 1, -every)
    names = table.log.counters().keys()
    for kept in table.walk():
        if kept.version in versions:
            _check_delta_rs_version(table.uri, kept, names)


def _check_delta_rs_version(uri, kept, names):
    found = DeltaTable(uri, version=kept.version)
    assert found.version() == kept.version
    counters = {name: found.transaction_version(name) for name in names}
    assert counters == {name: kept.counters.get(name) for name in names}
    assert {each.rsplit("/", 1)[-1] for each in found.file_uris()} == kept.files.keys()
    assert found.metadata().configuration == kept.configuration


# Rows


def expected_rows(uri, kept, *, names_files=False):
    """Return the rows of a version, read by Arrow file by file, partition columns by the commits."""
    schema = pa.schema(DeltaTable(uri).schema())
    tables = [_rows_of(uri, each, schema, names_files) for each in kept.files.values()]
    return in_order(pa.concat_tables(tables)) if tables else []


def _rows_of(uri, file, schema, names_files):
    found = pq.read_table(Path(uri, file.path), partitioning=None)
    columns = {field.name: _column(file, found, field) for field in schema}
    if names_files:
        columns[FILE_NAME] = _constant(file.path, pa.string(), found.num_rows)
    return pa.table(columns)


def _column(file, found, field):
    """Return a column of a file's rows; null where neither the file nor its commit has a value."""
    if field.name in found.column_names:
        return found.column(field.name).cast(field.type)
    return _constant(file.values.get(field.name), field.type, found.num_rows)


def _constant(text, kind, count):
    if text is None:
        return pa.chunked_array([pa.nulls(count, kind)])
    return pa.chunked_array([pa.array([text] * count, pa.string()).cast(kind)])


def in_order(table):
    """Return a table's rows as texts, in an order of their own."""
    columns = []
    for name in sorted(table.column_names):
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.int64())
        columns.append(column.to_pylist())
    return sorted(map(repr, zip(*columns, strict=True)))


# Polars


def check_with_polars(table, versions):
    """Check that Polars finds the rows that we count at some versions."""
    for kept in table.walk():
        if kept.version in versions:
            found = pl.scan_delta(table.uri, version=kept.version, use_pyarrow=True).collect()
            assert in_order(_plain(found.to_arrow())) == expected_rows(table.uri, kept)


def _plain(table):
    """Return Polars' rows with the types that Delta has: its texts and bytes are large ones."""
    plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return table.cast(
        pa.schema([field.with_type(plain.get(field.type, field.type)) for field in table.schema])
    )


# Delta-spark


def check_with_delta_spark(spark, table, versions):
    """Check that Spark finds the rows that we count at some versions, each in its file."""
    for kept in table.walk():
        if kept.version in versions:
            frame = spark.read.format("delta").option("versionAsOf", kept.version).load(table.uri)
            if kept.files:
                found = frame.select("*", f"_metadata.{FILE_NAME}").toArrow()
                assert in_order(found) == expected_rows(table.uri, kept, names_files=True)
            else:
                assert frame.inputFiles() == []
