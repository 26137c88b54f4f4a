"""A replica and the metadata log are plain Delta tables: any engine reads them, to any version."""

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions

from tests.cluster.disks import new_disks, records

pytestmark = pytest.mark.integration

VALUES = [b"%d" % number for number in range(12)]


@pytest.fixture(scope="module")
def disks():
    """A topic of 12 appends, over a failover and back; records 3 and 4 were cut on broker 1."""
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        for value in VALUES[:3]:
            cluster.append("orders", records(value), producer_id="p", sequence=int(value))
        disks.take_away(2, 3)
        cluster.append("orders", records(b"cut", b"cut too"), acks=1)
        disks.take_away(1)
        disks.give_back(2, 3)
        cluster.run_controller()
        for value in VALUES[3:]:
            cluster.append("orders", records(value))
        disks.give_back(1)
        cluster.run_controller()
        cluster.replicate()
        cluster.elect_leaders("preferred")
        cluster.append("orders", records(b"last"))
        yield disks


def delta(spark, path, **options):
    reader = spark.read.format("delta")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader.load(str(path))


def in_order(table):
    rows = table.to_pylist()
    return sorted((row["base_offset"] + row["offset_delta"], row["value"]) for row in rows)


EXPECTED = list(enumerate([*VALUES, b"last"]))


def test_a_replica_is_a_table_for_delta_spark(spark, disks):
    frame = delta(spark, disks.folder(1, "orders"))

    offset = (functions.col("base_offset") + functions.col("offset_delta")).alias("offset")
    rows = frame.select(offset, "value").orderBy("offset").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == EXPECTED
    assert frame.columns == [
        "base_offset", "batch_base_offset", "batch_record_count", "partition_count",
        "leader_epoch", "producer_id", "producer_epoch", "sequence", "payload_digest",
        "transaction", "chain_digest", "end_offset", "timestamp_type", "content_digest",
        "offset_delta", "timestamp", "key", "value", "headers",
    ]  # fmt: skip


def test_a_replica_needs_reader_version_1_and_writer_version_2(spark, disks):
    path = disks.folder(1, "orders")

    detail = spark.sql(f"describe detail delta.`{path}`").collect()[0]

    assert (detail.minReaderVersion, detail.minWriterVersion) == (1, 2)
    protocol = DeltaTable(str(path)).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    assert (protocol.reader_features, protocol.writer_features) == (None, None)
    assert detail.partitionColumns[:2] == ["base_offset", "batch_base_offset"]
    assert detail.properties["kos.broker.id"] == "1"


@pytest.mark.long
def test_time_travel_shows_a_replica_with_the_records_that_it_lost_since(spark, disks):
    path = disks.folder(1, "orders")
    history = sorted(DeltaTable(str(path)).history(), key=lambda each: each["version"])
    # It led from its first version on; then it became a follower, which cut it.
    adopted, *_ = (each["version"] for each in history if each.get("op") == "adopt")

    before = delta(spark, path, versionAsOf=adopted - 1)

    values = [bytes(row.value) for row in before.orderBy("base_offset", "offset_delta").collect()]
    assert values == [*VALUES[:3], b"cut", b"cut too"]
    table = DeltaTable(str(path), version=adopted - 1)
    assert [value for _, value in in_order(table.to_pyarrow_table())] == values
    after = delta(spark, path, versionAsOf=adopted)
    assert after.count() == 3
