"""The metadata log as a batch and as a stream: what is committed, once and in order."""

import pytest
from pyspark.errors import StreamingQueryException

from kafka_on_spark import Cluster
from kafka_on_spark.inspect import queries
from tests.cluster.disks import FAST, records
from tests.cluster.folders import quick_folder, roots_in
from tests.integration.format.frames import Batches, sentence_of

pytestmark = pytest.mark.integration


@pytest.fixture
def folder():
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", partitions=4, replication_factor=2)
        cluster.append("orders", records(b"a"))
        yield cluster


def given(reader, folder, **options):
    """Return what a reader loads of the metadata log, by any of its roots."""
    reader = reader.format("kafka_on_spark").option("metadata", "true")
    reader = reader.option("cluster", ",".join(map(str, roots_in(folder))))
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load()


class Offsets(Batches):
    """Takes the offsets of a stream's batches, as they come."""

    def __call__(self, frame, number):
        self.numbers.append(number)
        self.values.append([row.metadata_offset for row in frame.collect()])


def test_a_batch_has_a_row_a_record_and_answers_the_documented_queries(spark, cluster, folder):
    history = cluster.history()
    end = cluster.image.offset

    everything = given(spark.read, folder)
    part = given(spark.read, folder, startingOffsets=3, endingOffsets=end - 1)
    none = given(spark.read, folder, startingOffsets=end)

    assert [row.metadata_offset for row in everything.collect()] == [*range(end)]
    assert [row.metadata_offset for row in part.collect()] == [*range(3, end - 1)]
    assert none.count() == 0
    everything.createOrReplaceTempView("metadata")
    assert [
        (row.topic, row.partition, row.leader, tuple(row.isr), row.time.timestamp())
        for row in spark.sql(queries.ISR_HISTORY).collect()
    ] == [
        (each.topic, each.partition, each.leader, each.isr, each.time.timestamp())
        for each in history
    ]
    table = spark.read.format("delta").load(cluster.metadata_table)
    assert set(everything.columns) - set(table.columns) == {"metadata_offset"}


def test_a_stream_has_each_decision_once_through_restarts_and_the_loss_of_the_leaders_root(
    spark, cluster, folder, tmp_path
):
    batches = Offsets()
    frame = given(spark.readStream, folder, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    query = batches.start(frame, tmp_path)
    query.processAllAvailable()
    before = cluster.image.offset
    assert batches.seen == [*range(before)]
    (folder / "m1").rename(folder / "m1-away")  # the leader's
    cluster.append("orders", records(b"b"))
    query.processAllAvailable()
    query.stop()
    cluster.append("orders", records(b"while stopped"))
    (folder / "m1-away").rename(folder / "m1")
    cluster.append("orders", records(b"c"))

    batches.run(given(spark.readStream, folder, maxOffsetsPerTrigger=3), tmp_path)

    assert batches.seen == [*range(cluster.image.offset)]
    decisions = {row.base_offset for row in given(spark.read, folder).collect()}
    assert {values[0] for values in batches.values} <= decisions
    # A decision is not split: that which made the topic has more records than the bound.
    assert max(map(len, batches.values)) > 3
    assert len(batches.values) > before // 5


def test_a_stream_ends_and_says_so_once_the_cluster_was_forced(spark, cluster, folder, tmp_path):
    while cluster.describe_quorum().lag_max:
        assert cluster.image  # the third voter is brought up after the answer
    batches = Offsets()
    frame = given(spark.readStream, folder, startingOffsets="earliest")
    batches.run(frame, tmp_path / "one")
    query = batches.start(frame, tmp_path / "two")
    query.processAllAvailable()
    for name in ("m1", "m2"):
        (folder / name).rename(folder / f"{name}-away")
    Cluster.force_controller(folder / "m3", 3)
    told = [*batches.seen]

    with pytest.raises(StreamingQueryException) as running:
        query.processAllAvailable()
    with pytest.raises(StreamingQueryException) as restarted:
        batches.run(frame, tmp_path / "one")

    for error in (running.value, restarted.value):
        sentence = sentence_of(error)
        assert sentence.startswith("InconsistentClusterError: the cluster is in generation 1")
        assert "the metadata quorum was forced" in sentence
        assert "a new checkpoint" in sentence
    assert batches.seen == told
    anew = Offsets()
    anew.run(frame, tmp_path / "three")
    with Cluster.open(folder / "m3") as opened:
        assert anew.seen == [*range(opened.image.offset)]


def test_a_new_stream_begins_with_what_is_decided_next(spark, cluster, folder, tmp_path):
    batches = Offsets()
    frame = given(spark.readStream, folder)
    query = batches.start(frame, tmp_path)
    query.processAllAvailable()
    start = cluster.image.offset

    cluster.create_topic("more", replication_factor=1)
    query.processAllAvailable()
    query.stop()

    assert batches.seen == [*range(start, cluster.image.offset)]


def test_bad_reads_and_all_writes_are_refused_in_a_sentence(spark, cluster, folder):
    with pytest.raises(Exception, match="option 'subscribe' means nothing where 'metadata'"):
        given(spark.read, folder, subscribe="orders").collect()
    with pytest.raises(Exception, match="the metadata log is committed up to"):
        given(spark.read, folder, startingOffsets=10_000).collect()
    writer = spark.range(1).selectExpr("CAST(id AS STRING) AS value").write
    writer = writer.format("kafka_on_spark").mode("append").option("metadata", "true")
    with pytest.raises(Exception, match="'metadata' can't be true for a write"):
        writer.option("cluster", str(folder / "m1")).option("topic", "orders").save()
    assert cluster.read("orders").num_rows == 1
