"""`spark.readStream.format("kafka_on_spark")`: every committed record once, whatever happens."""

import json
import time

import pytest
from pyspark.errors import StreamingQueryException

from tests.cluster.disks import new_disks, records
from tests.integration.format.frames import WAIT_S_MAX, Batches, Started, sentence_of, stream

pytestmark = pytest.mark.integration

EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic(
            "orders", replica_assignment={0: [1, 2, 3]}, configs={"min.insync.replicas": 2}
        )
        yield disks


@pytest.fixture
def checkpoint(disks):
    return disks.base / "checkpoint"


def offsets_logged(checkpoint):
    """Return the offsets of a query's batches, by number."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return [json.loads(file.read_text().splitlines()[-1]) for file in files]


@pytest.mark.smoke
def test_each_record_is_seen_once_over_a_failover_and_over_a_restart(spark, disks, checkpoint):
    batches = Batches()
    frame = stream(spark, disks, "orders", **EARLIEST)
    disks.cluster.append("orders", records(b"before"))
    query = batches.start(frame, checkpoint)
    query.processAllAvailable()
    disks.take_away(1)
    disks.cluster.run_controller()
    disks.cluster.append("orders", records(b"while away", b"too"))
    query.processAllAvailable()
    disks.give_back(1)
    disks.cluster.run_controller()
    disks.cluster.replicate()
    query.stop()
    disks.cluster.elect_leaders("preferred")
    disks.cluster.append("orders", records(b"while stopped"))

    batches.run(stream(spark, disks, "orders", **EARLIEST), checkpoint)

    assert batches.seen == [b"before", b"while away", b"too", b"while stopped"]
    assert batches.numbers == [0, 1, 2]


def test_a_new_query_starts_at_the_latest_and_has_no_batch_without_news(spark, disks, checkpoint):
    batches = Batches()
    disks.cluster.append("orders", records(b"old"))
    query = batches.start(stream(spark, disks, "orders"), checkpoint)
    query.processAllAvailable()
    disks.cluster.append("orders", records(b"new"))
    query.processAllAvailable()
    progress = query.lastProgress
    # The metadata moves on, the query's topic does not.
    disks.cluster.create_topic("others")
    disks.cluster.append("others", records(b"other"))
    time.sleep(1)
    query.stop()

    assert batches.values == [[], [b"new"]]  # the first says where it starts, as Kafka's does
    assert [each["orders"] for each in offsets_logged(checkpoint)][-1] == {"0": 2}
    assert len(offsets_logged(checkpoint)) == progress.batchId + 1
    assert json.loads(progress.sources[0].endOffset)["orders"] == {"0": 2}


def test_a_query_from_the_latest_whose_first_batch_fails_misses_nothing_after_it(
    spark, disks, checkpoint
):
    """Its second run decides anew what the latest is, which the first batch then ends before."""
    batches, first = Batches(), []

    def fail(frame, number):
        first.append(number)
        raise ValueError("the first batch fails")

    disks.cluster.append("orders", records(b"old"))
    frame = stream(spark, disks, "orders")
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", str(checkpoint))
    with pytest.raises(StreamingQueryException):
        Started(writer).awaitTermination(WAIT_S_MAX)
    disks.cluster.append("orders", records(b"a", b"b"))

    batches.run(stream(spark, disks, "orders"), checkpoint)
    disks.cluster.append("orders", records(b"c"))
    batches.run(stream(spark, disks, "orders"), checkpoint)

    assert first == [0]
    assert [each["orders"] for each in offsets_logged(checkpoint)] == [
        {"0": 1},
        {"0": 3},
        {"0": 4},
    ]
    assert batches.values == [[], [b"a", b"b"], [b"c"]]


def test_available_now_ends_and_goes_on_at_the_next_run(spark, disks, checkpoint):
    batches = Batches()
    frame = stream(spark, disks, "orders", **EARLIEST)

    batches.run(frame, checkpoint)
    disks.cluster.append("orders", records(b"a", b"b"))
    batches.run(frame, checkpoint)
    disks.cluster.append("orders", records(b"not committed"), acks=1)
    batches.run(frame, checkpoint)

    assert batches.values == [[], [b"a", b"b"]]


@pytest.mark.parametrize("count", [0, 2], ids=["empty", "as long"])
def test_a_topic_that_was_created_again_fails_a_query_or_is_read_from_its_start(
    spark, disks, checkpoint, count
):
    batches = Batches()
    disks.cluster.append("orders", records(b"a", b"b"))
    batches.run(stream(spark, disks, "orders", **EARLIEST), checkpoint)
    disks.cluster.delete_topic("orders")
    disks.cluster.create_topic("orders", replication_factor=3)
    new = [b"new %d" % number for number in range(count)]
    disks.cluster.append("orders", records(*new))

    with pytest.raises(StreamingQueryException) as caught:
        batches.run(stream(spark, disks, "orders", **EARLIEST), checkpoint)
    batches.run(stream(spark, disks, "orders", failOnDataLoss=False), checkpoint)

    assert sentence_of(caught.value) == (
        "InconsistentTopicIdError: KAFKA_DATA_LOSS: topic 'orders' was deleted and created again"
        " since the query's last batch: start with a new checkpoint, or set failOnDataLoss to false"
    )
    assert batches.seen == [b"a", b"b", *new]


def take_metadata_away(disks):
    disks.metadata_root.rename(disks.base / "away-metadata")


def give_metadata_back(disks):
    (disks.base / "away-metadata").rename(disks.metadata_root)


def check_waits(query):
    """Check that a query still runs when it has met a metadata root that is away."""
    assert not query.awaitTermination(4)
    assert query.exception() is None


def test_a_stream_waits_for_its_metadata_root_while_it_runs_and_when_it_starts(
    spark, disks, checkpoint
):
    batches, new = Batches(), Batches()
    frame = stream(spark, disks, "orders", **EARLIEST)
    disks.cluster.append("orders", records(b"before"))
    query = batches.start(frame, checkpoint)
    query.processAllAvailable()

    take_metadata_away(disks)
    check_waits(query)
    give_metadata_back(disks)
    disks.cluster.append("orders", records(b"while it ran"))
    query.processAllAvailable()
    query.stop()

    disks.cluster.append("orders", records(b"while stopped"))
    take_metadata_away(disks)
    disks.metadata_root.mkdir()  # a disk that is not mounted
    known = batches.start(frame, checkpoint)
    check_waits(known)
    disks.metadata_root.rmdir()
    first = new.start(stream(spark, disks, "orders", **EARLIEST), disks.base / "new")
    check_waits(first)
    give_metadata_back(disks)
    for each in (known, first):
        each.processAllAvailable()
        each.stop()

    assert batches.seen == new.seen == [b"before", b"while it ran", b"while stopped"]
