"""`spark.read.format("kafka_on_spark")`: rows as they were appended, bounded as asked."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kafka_on_spark.produce.records import Record
from tests.cluster.disks import new_disks
from tests.integration.format.frames import rows_in, rows_of, source

pytestmark = pytest.mark.integration

MOMENT = datetime(2013, 7, 1, 12, 30, 0, 123456, tzinfo=UTC)
KAFKA = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
SEGMENT_BYTES = 1024 * 1024


@pytest.fixture(scope="module")
def disks():
    with new_disks() as disks:
        fill(disks.cluster)
        yield disks


def fill(cluster):
    """Two topics: `orders` of three appends to two partitions, `large` of several segments."""
    cluster.create_topic("orders", partitions=2, replication_factor=3)
    for number in range(3):
        cluster.append(
            "orders",
            [
                Record(b"k", b"%d" % number, headers=[("h", b"1"), ("h", None)], partition=0),
                Record(None, None, timestamp=MOMENT, partition=1),
                Record(b"", b"", partition=1),
            ],
        )
    cluster.create_topic(
        "large", configs={"segment.bytes": SEGMENT_BYTES, "message.timestamp.type": "LogAppendTime"}
    )
    for number in range(2):
        cluster.append("large", [(None, bytes([number, n]) * 60_000) for n in range(20)])


def test_the_rows_are_those_of_sparks_kafka_source(spark, disks):
    frame = source(spark, disks, "orders")

    assert frame.schema == StructType(KAFKA)
    assert rows_of(frame) == rows_in(disks.cluster.read("orders"))
    assert {(row.topic, row.timestampType) for row in frame.collect()} == {("orders", 0)}


def test_headers_are_there_when_asked_for_and_null_where_a_record_has_none(spark, disks):
    frame = source(spark, disks, "orders", includeHeaders=True)

    assert frame.schema == StructType([*KAFKA, StructField("headers", ArrayType(HEADER))])
    headers = {bytes(row.value or b"-"): row.headers for row in frame.collect()}
    assert [tuple(header) for header in headers[b"1"]] == [("h", bytearray(b"1")), ("h", None)]
    assert headers[b"-"] is headers[b"-"] is None


def test_timestamps_are_the_records_or_the_commits(spark, disks):
    micros = "cast(unix_micros(timestamp) as long) as micros"
    given = source(spark, disks, "orders").where("value is null").selectExpr(micros).distinct()
    at_commit = source(spark, disks, "large").selectExpr(micros, "timestampType").distinct()

    assert [row.micros for row in given.collect()] == [int(MOMENT.timestamp()) * 10**6 + 123456]
    stamps = disks.cluster.read("large").column("timestamp").unique().to_pylist()
    seconds = sorted(row.micros / 10**6 for row in at_commit.collect())
    assert seconds == pytest.approx(sorted(stamp.timestamp() for stamp in stamps), abs=1e-5)
    assert {row.timestampType for row in at_commit.collect()} == {1}
