"""Readers of the metadata log over three voters, called as Spark calls them: no Spark here."""

import json
import pickle
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kafka_on_spark import Cluster
from kafka_on_spark.errors import (
    InconsistentClusterError,
    InconsistentClusterIdError,
    KafkaStorageError,
    QuorumUnavailableError,
)
from kafka_on_spark.query.options.metadata_options import parse_metadata_source
from kafka_on_spark.service.quorum.leadership import Leadership
from kafka_on_spark.spark.format.metadata_source import (
    METADATA_SCHEMA,
    MetadataBatchReader,
    MetadataStreamReader,
)
from tests.cluster.disks import FAST, PATIENCE_MS, records
from tests.cluster.folders import quick_folder, roots_in
from tests.cluster.voters import bring_up, end_calls

QUICK = {
    **FAST,
    "delivery.timeout.ms": str(PATIENCE_MS),
    "controller.quorum.fetch.timeout.ms": "200",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "50",
    "metadata.away.timeout.ms": "1000",
}


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(roots_in(folder), brokers, configs=QUICK) as cluster:
        cluster.create_topic("orders", partitions=4, replication_factor=2)
        cluster.append("orders", records(b"a"))
        bring_up(cluster)
        yield cluster


def away(folder, *names):
    for name in names:
        (folder / name).rename(folder / f"{name}-away")


def back(folder, *names):
    for name in names:
        (folder / f"{name}-away").rename(folder / name)


def options(folder, *, is_stream, **given):
    given = {"cluster": ",".join(map(str, roots_in(folder))), "metadata": "true", **given}
    texts = {name.lower(): str(text) for name, text in given.items()}
    return parse_metadata_source(texts, is_stream=is_stream)


def stream(folder, **given):
    given = {"startingOffsets": "earliest", **given}
    return MetadataStreamReader(options(folder, is_stream=True, **given))


def batch(folder, **given):
    return MetadataBatchReader(options(folder, is_stream=False, **given))


def offsets(reader, partitions):
    """Return what a task reads, from its copy of the reader and of the order."""
    copy = pickle.loads(cloudpickle.dumps(reader))
    return [
        offset
        for partition in pickle.loads(cloudpickle.dumps(partitions))
        for rows in copy.read(partition)
        for offset in rows.column("metadata_offset").to_pylist()
    ]


def read(reader, start):
    """Return where a stream stands after a micro-batch from `start` on, and what it has read."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    stored = json.loads(json.dumps(end))
    return stored, offsets(reader, reader.partitions(start, stored))


def test_batches_end_at_borders_of_decisions_and_everything_is_asked_for_once(cluster, folder):
    end = cluster.image.offset
    bounded = stream(folder, maxOffsetsPerTrigger=2)
    at, sizes, seen = bounded.initialOffset(), [], []
    borders = {each["base_offset"] for each in rows_of(batch(folder))} | {end}

    while at["metadata_offset"] < end:
        at, found = read(bounded, at)
        assert at["metadata_offset"] in borders
        sizes.append(len(found))
        seen += found

    assert seen == [*range(end)]
    assert max(sizes) > 2
    assert len(sizes) > 3
    assert bounded.latestOffset(at, ReadAllAvailable()) is at
    free = bounded.latestOffset(bounded.initialOffset(), ReadAllAvailable())
    assert free["metadata_offset"] == bounded.reportLatestOffset()["metadata_offset"] == end


def rows_of(reader):
    batches = [rows for each in reader.partitions() for rows in reader.read(each)]
    return pa.Table.from_batches(batches).to_pylist()


def test_decisions_before_the_first_batch_are_read_also_if_it_runs_again(cluster, folder):
    """Spark stores the end of that batch only, and asks a new process where it begins."""
    reader = stream(folder, startingOffsets="latest")
    start, first = json.loads(json.dumps(reader.initialOffset())), cluster.image.offset
    cluster.append("orders", records(b"b"))

    end = reader.latestOffset(start, ReadAllAvailable())
    cluster.append("orders", records(b"c"))
    again = stream(folder, startingOffsets="latest")
    rerun = offsets(again, again.partitions(again.initialOffset(), end))

    assert (end, rerun) == (start, [])
    for each in (reader, again):
        assert read(each, end)[1] == [*range(first, cluster.image.offset)]


def test_a_query_over_what_is_there_now_ends_there(cluster, folder):
    reader = stream(folder)
    reader.prepareForTriggerAvailableNow()
    fixed = cluster.image.offset
    cluster.append("orders", records(b"later"))

    at, seen = read(reader, reader.initialOffset())

    assert seen == [*range(fixed)]
    assert read(reader, at) == (at, [])


def test_a_reader_without_tasks_is_asked_once_and_reads_nothing(cluster, folder):
    reader = batch(folder, startingOffsets=cluster.image.offset)

    assert reader.partitions() == []
    assert [*reader.read(InputPartition(None))] == []


def test_what_is_not_committed_is_not_shown_and_sql_on_that_table_shows_it(
    cluster, folder, monkeypatch
):
    """The writer is cut off after its first commit, on the leader's table."""
    before, table = cluster.image.offset, cluster.metadata_table

    def cut_off(leadership, leader):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Leadership, "replicate", cut_off)
        with pytest.raises(KeyboardInterrupt):
            cluster.create_topic("lost", replication_factor=2)
    assert "lost" in DeltaTable(table).to_pyarrow_table()["topic"].to_pylist()
    away(folder, "m1")

    shown = rows_of(batch(folder))

    assert [each["metadata_offset"] for each in shown[:before]] == [*range(before)]
    assert [each["record_type"] for each in shown[before:]] == ["LeaderChangeRecord"]
    assert "lost" not in [each["topic"] for each in shown]


@pytest.mark.parametrize("lost", ["m1", "m2", "m3"])
def test_a_stream_goes_on_without_one_root_in_this_process_and_in_the_next(cluster, folder, lost):
    reader = stream(folder)
    at, seen = read(reader, reader.initialOffset())
    away(folder, lost)
    cluster.append("orders", records(b"b"))
    at, found = read(reader, at)
    seen += found
    cluster.append("orders", records(b"c"))

    at, found = read(stream(folder), at)

    assert seen + found == [*range(at["metadata_offset"])]
    assert at["metadata_offset"] == cluster.image.offset


def test_a_stream_goes_on_without_the_only_root_that_it_was_given(cluster, folder):
    """Its tasks, too: other processes are told where the voters are."""
    reader = stream(folder, cluster=folder / "m1")
    at = reader.initialOffset()
    away(folder, "m1")
    cluster.append("orders", records(b"b"))

    at, seen = read(reader, at)
    at, found = read(reader, at)

    assert seen + found == [*range(cluster.image.offset)]


def test_a_stream_goes_on_while_its_voters_change(cluster, folder):
    reader = stream(folder)
    at, seen = read(reader, reader.initialOffset())
    cluster.add_controller(folder / "m4")
    for voter in (1, 2):
        cluster.remove_controller(voter)
        at, found = read(reader, at)
        seen += found
    end_calls(cluster)
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)
    cluster.append("orders", records(b"b"))

    at, found = read(reader, at)

    assert seen + found == [*range(cluster.image.offset)]


def test_a_task_reads_what_was_planned_though_a_majority_is_gone_by_now(cluster, folder):
    reader = stream(folder)
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    end = cluster.image.offset
    away(folder, "m1", "m2")

    assert offsets(reader, tasks) == [*range(end)]
    with pytest.raises(QuorumUnavailableError):
        reader.partitions(start, start)


def test_a_stream_that_has_read_what_a_force_went_on_without_ends(cluster, folder):
    """The voter that is left has less than the stream has told."""
    away(folder, "m3")
    cluster.append("orders", records(b"b"))
    reader = stream(folder)
    start = reader.initialOffset()
    at, _ = read(reader, start)
    tasks = reader.partitions(start, at)
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)
    back(folder, "m3")
    Cluster.force_controller(folder / "m3", 3)
    with Cluster.open(folder / "m3") as opened:
        while opened.image.offset <= at["metadata_offset"]:  # no gap is left to tell it by
            opened.append("orders", records(b"new"))

    with pytest.raises(InconsistentClusterError, match="the quorum was forced"):
        reader.latestOffset(at, ReadAllAvailable())
    with pytest.raises(InconsistentClusterError, match="the metadata quorum was forced"):
        stream(folder).partitions(start, at)
    with pytest.raises(KafkaStorageError, match="or the quorum was forced"):
        offsets(reader, tasks)


def test_a_stream_of_another_cluster_is_refused(cluster, folder):
    reader = stream(folder)
    at, _ = read(reader, reader.initialOffset())
    for root in roots_in(folder):
        shutil.rmtree(root)
    with Cluster.create(roots_in(folder), {1: folder / "other"}, configs=QUICK):
        pass

    with pytest.raises(InconsistentClusterIdError, match="start with a new checkpoint"):
        stream(folder).latestOffset(at, ReadAllAvailable())


def test_the_columns_that_spark_is_told_are_those_of_the_rows(cluster, folder):
    row = rows_of(batch(folder))[0]

    assert METADATA_SCHEMA.fieldNames() == [*row]
    assert METADATA_SCHEMA["isr"].simpleString() == "isr:array<int>"
    assert METADATA_SCHEMA["time"].simpleString() == "time:timestamp"
