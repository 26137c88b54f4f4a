"""Writes of `format("kafka_on_spark")`: appended in order, and exactly once."""

import pytest
from chispa import assert_df_equality

from tests.cluster.disks import new_disks, records, values_of
from tests.integration.format.frames import (
    WAIT_S_MAX,
    Started,
    numbered,
    rows_in,
    sink,
    source,
    stream,
)

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def disks():
    with new_disks() as disks:
        yield disks


@pytest.fixture
def new_topic(disks, request):
    """Makes a topic named after the test, and more."""

    def make(suffix="", **arguments):
        name = f"{request.node.originalname}{suffix}"
        disks.cluster.create_topic(name, **{"replication_factor": 3, **arguments})
        return name

    return make


@pytest.fixture
def checkpoint(disks, request):
    return disks.base / "checkpoints" / request.node.originalname


def run(frame, disks, topic, checkpoint, **options):
    """Run a query into a topic over what is there now, to its end."""
    writer = frame.writeStream.format("kafka_on_spark").trigger(availableNow=True)
    options = {
        "cluster": disks.metadata_root,
        "topic": topic,
        "checkpointLocation": checkpoint,
        **options,
    }
    for name, value in options.items():
        if value is not None:
            writer = writer.option(name, str(value))
    assert Started(writer).awaitTermination(WAIT_S_MAX)


@pytest.mark.smoke
def test_a_frame_is_appended_and_read_back(spark, disks, new_topic):
    topic = new_topic(partitions=3)
    frame = numbered(spark, 200)

    sink(frame, disks, topic).save()

    back = source(spark, disks, topic).selectExpr(
        "cast(key as string) as key", "cast(value as string) as value"
    )
    assert_df_equality(back, frame, ignore_row_order=True, ignore_nullable=True)


@pytest.mark.smoke
def test_a_stream_is_appended_exactly_once_when_its_last_batch_is_run_again(
    spark, disks, new_topic, checkpoint
):
    topic, copy = new_topic(partitions=2), new_topic("-copy", partitions=3)
    frame = stream(spark, disks, topic, startingOffsets="earliest")
    given = [(b"%d" % (n % 5), b"%d" % n) for n in range(40)]
    disks.cluster.append(topic, given)
    run(frame, disks, copy, checkpoint)
    first = rows_in(disks.cluster.read(copy))
    commits = sorted(file for file in (checkpoint / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)

    run(frame, disks, copy, checkpoint)
    assert rows_in(disks.cluster.read(copy)) == first
    disks.cluster.append(topic, records(b"more"))
    run(frame, disks, copy, checkpoint)

    values = values_of(disks.cluster, copy)
    assert sorted(values) == sorted([*(value for _, value in given), b"more"])
    for key in {key for key, _ in given}:
        of_key = [row[1] for row in rows_in(disks.cluster.read(copy)) if row[0] == key]
        assert of_key == [value for each, value in given if each == key]


def test_for_each_batch_with_its_number_as_sequence_is_exactly_once(
    spark, disks, new_topic, checkpoint
):
    topic, copy = new_topic(), new_topic("-copy", partitions=2)
    disks.cluster.append(topic, records(b"a", b"b"))
    results = []

    def append(frame, number):
        rows = frame.select("key", "value")
        results.append(disks.cluster.append(copy, rows, producer_id="my-query", sequence=number))

    def start():
        frame = stream(spark, disks, topic, startingOffsets="earliest")
        writer = frame.writeStream.foreachBatch(append)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        assert Started(writer).awaitTermination(WAIT_S_MAX)

    start()
    for file in (checkpoint / "commits").iterdir():
        file.unlink()
    start()

    assert [result.is_duplicate for result in results] == [False, True]
    assert sorted(values_of(disks.cluster, copy)) == [b"a", b"b"]
