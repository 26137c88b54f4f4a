"""Other engines find in our tables what we count: the same rows, files and counters.

Delta-rs opens each table of the tests of commits, too, as soon as its test ends.
"""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_on_spark.store.delta import delta_log, log_cleaning
from kafka_on_spark.store.delta.delta_files import FileEntry
from kafka_on_spark.store.delta.delta_log import DeltaLog
from tests.cluster.disks import new_disks, records
from tests.store.engines import (
    DRAWN_MAX,
    KeptTable,
    check_with_delta_rs,
    check_with_delta_spark,
    check_with_polars,
)
from tests.store.tables import OPTIONS

pytestmark = pytest.mark.integration

SEED = 15
POLARS_DRAWN = 2

AGE = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


@pytest.fixture(scope="module", autouse=True)
def old_versions_open(spark):
    # Our tables keep removed files longer than their setting, which is for checkpoints, says.
    spark.conf.set(AGE, "false")
    yield
    spark.conf.unset(AGE)


def versions_of(request, table):
    """Return the versions that Spark opens: few in a run that is not long, at seconds each. The
    newest rests on the newest checkpoint, and the first is a checkpoint alone if it is not 0."""
    if request.config.getoption("--long"):
        return table.versions(SEED)
    at_a_checkpoint = () if table.first > 0 else table.checkpoints[-1:]
    return {table.first, table.newest, *at_a_checkpoint}


def check_some_with_polars(request, table):
    """Have Polars open the oldest and the newest version, each checkpoint's, and some between."""
    drawn_max = DRAWN_MAX if request.config.getoption("--long") else POLARS_DRAWN
    check_with_polars(table, table.versions(SEED, drawn_max))


SCHEMA = pa.schema(
    [
        ("base_offset", pa.int64()),
        ("producer_id", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("value", pa.binary()),
    ]
)
COLUMNS = ["base_offset", "producer_id"]
PRODUCERS = [None, "p", "a b/c=ü%20", "\u2028'\"\\"]


def make_rows(uri, dice, commits):
    """Make a table by appends, merges and removals, as replicas have them."""
    log = DeltaLog.create(uri, OPTIONS, schema=SCHEMA, partition_by=COLUMNS, configuration={})
    for number in range(commits):
        active = sorted(log.active_files(), key=lambda each: each.path)
        gone = dice.sample(active, dice.choice([0, 0, 0, 0, 0, min(3, len(active))]))
        added = [
            new_file(uri, dice, f"{number}-{each}") for each in range(dice.choice([0, 1, 1, 2]))
        ]
        log.commit(
            log.version,
            operation="test",
            adds=added,
            removes=gone,
            counters={"end": number, f"other-{number % 3}": dice.randrange(-5, 2**40)},
        )
        log.checkpoint_if_due()
    return log


def new_file(uri, dice, name):
    path, count = f"{name}.parquet", dice.randrange(4)
    rows = pa.table({"at": range(count), "value": [b"%d" % each for each in range(count)]})
    pq.write_table(
        rows.cast(pa.schema([SCHEMA.field("at"), SCHEMA.field("value")])), f"{uri}/{path}"
    )
    return FileEntry(
        path=path,
        size_bytes=os.path.getsize(f"{uri}/{path}"),
        values={"base_offset": str(dice.randrange(10)), "producer_id": dice.choice(PRODUCERS)},
        time_ms=dice.randrange(2**40),
        record_count=count,
        changes_data=dice.random() < 0.5,
    )


@pytest.fixture
def often(monkeypatch):
    """Have checkpoints often and keep few commits, so that few commits get a log cleaned."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_INTERVAL", 10)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT", 20)
    monkeypatch.setattr(log_cleaning, "COMMITS_KEPT_MS", 0)


def check_with_all(request, spark, uri):
    table = KeptTable(uri)
    check_with_delta_rs(table)
    check_some_with_polars(request, table)
    check_with_delta_spark(spark, table, versions_of(request, table))


def test_every_engine_finds_the_rows_of_files_that_came_and_went(request, spark, tmp_path, often):
    for seed in range(20 if request.config.getoption("--long") else 1):
        uri = str(tmp_path / "root" / f"{seed}")
        (tmp_path / "root").mkdir(exist_ok=True)
        log = make_rows(uri, random.Random(seed), 67)
        assert KeptTable(uri).first > 0
        assert len(list(log.active_files())) > 5

        check_with_all(request, spark, uri)


def append(cluster, *values, **arguments):
    """Append, and have the checkpoints made that are due by it: in their own time there might be
    too few for a log to be cleaned."""
    cluster.append("orders", records(*values), **arguments)
    cluster._node.maintenance.finish()


@pytest.mark.long
def test_every_engine_finds_the_rows_of_a_clusters_tables(request, spark, often):
    """Replicas after a failover, a truncation, deleted records and cleaning, and the metadata."""
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        for number in range(30):
            append(cluster, b"%d" % number, producer_id="p", sequence=number)
        disks.take_away(2, 3)
        append(cluster, b"cut", b"cut too", acks=1)
        disks.take_away(1)
        disks.give_back(2, 3)
        cluster.run_controller()
        for number in range(30):
            append(cluster, b"%d" % number)
        disks.give_back(1)
        cluster.run_controller()
        cluster.replicate()
        cluster.delete_records({("orders", 0): 20})
        cluster.replicate()
        append(cluster, b"last")

        tables = [str(disks.folder(each, "orders")) for each in (1, 2, 3)]
        metadata = cluster.metadata_table
        disks.close()
        assert all(KeptTable(each).first > 0 for each in tables[1:])
        for uri in (tables[0], tables[1], metadata):
            check_with_all(request, spark, uri)
        check_some_with_polars(request, KeptTable(tables[2]))
