"""Bad options, columns and records through `format(…)`: the last line is the sentence."""

import json

import pytest
from pyspark.errors import PySparkException

from tests.bad_input.refusals import check_sentence, written
from tests.cluster.disks import new_disks
from tests.integration.format.frames import (
    numbered,
    sentence_of,
    sink,
    source,
)

pytestmark = pytest.mark.integration

CANARY = "canary-Tq6mWz8P"


@pytest.fixture(scope="module")
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic(
            "orders", partitions=2, replication_factor=3, configs={"max.message.bytes": 1000}
        )
        disks.cluster.append("orders", [("k", "v")])
        disks.cluster.create_topic("under", replica_assignment={0: [2, 3, 1]})
        yield disks


def check_refused(disks, call, *words):
    """Check that `call` is refused in a sentence with `words`, and nothing is written."""
    disks.cluster._node.maintenance.finish()
    offset, before = disks.cluster.image.offset, written(disks.base)

    with pytest.raises(PySparkException) as caught:
        call()

    check_sentence(sentence_of(caught.value), *words)
    assert CANARY not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert disks.cluster.image.offset == offset
    assert written(disks.base) == before


def at(**offsets):
    return json.dumps({"orders": {name.removeprefix("p"): each for name, each in offsets.items()}})


# What options and columns may be are tables without Spark, in tests/consume.
# fmt: off
READS = [
    pytest.param({"cluster": "/no/such/folder"},                      ["no cluster at /no/such/folder", "check the path"],                   id="a cluster that isn't there"),
    pytest.param({"startingOffsets": at(p0=0, p1=9)},                 ["RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", "offset 9", "topic orders partition 1"], id="start after the end"),
]
# fmt: on


@pytest.mark.parametrize("options, words", READS)
def test_a_batch_that_cannot_be_read(spark, disks, options, words):
    check_refused(disks, lambda: source(spark, disks, "orders", **options).count(), *words)


def test_a_schema_of_ones_own(spark, disks):
    reader = spark.read.format("kafka_on_spark").schema("key string, value string")
    reader = reader.option("cluster", str(disks.metadata_root)).option("subscribe", "orders")

    check_refused(
        disks,
        lambda: reader.load().count(),
        "has a fixed schema and cannot be set with a custom one",
    )


# fmt: off
WRITES = [
    pytest.param("'v' as valeu",                      {},                       ["Required attribute 'value' not found", "given: valeu"],           id="no value"),
    pytest.param("'v' as value, string(null) as topic", {"topic": None},        ["[KAFKA_NULL_TOPIC_IN_DATA] The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic."], id="null topic"),
]
# fmt: on


@pytest.mark.parametrize("columns, options, words", WRITES)
def test_a_batch_that_cannot_be_written(spark, disks, columns, options, words):
    given = {"topic": "orders", **options}
    writer = sink(spark.sql(f"select {columns}"), disks, **given)  # None: without the option

    check_refused(disks, writer.save, *words)


@pytest.mark.long
def test_a_secret_of_the_storage_options_is_shown_nowhere(spark, disks, capfd):
    secret = {"storage.aws_secret_access_key": CANARY, "storage.aws_session_token": CANARY}
    frame = source(spark, disks, "orders", **secret)
    sink(numbered(spark, 3), disks, "orders", **secret).save()

    assert frame.count() > 3
    frame.explain("extended")
    check_refused(disks, lambda: source(spark, disks, "none", **secret).count(), "'none'")
    refused = sink(spark.sql("select 5 as value"), disks, "orders", **secret)
    check_refused(disks, refused.save, "unsupported type int")
    output = capfd.readouterr()
    assert CANARY not in output.out + output.err
    files = [path for path in disks.base.rglob("*") if path.is_file()]
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []
