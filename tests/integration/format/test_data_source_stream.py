"""`spark.readStream.format("kafka_on_spark")`: every committed record once, whatever happens."""

import pytest

from tests.cluster.disks import new_disks, records
from tests.integration.format.frames import Batches, stream

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


def take_metadata_away(disks):
    disks.metadata_root.rename(disks.base / "away-metadata")


def give_metadata_back(disks):
    (disks.base / "away-metadata").rename(disks.metadata_root)


def check_waits(query):
    """Check that a query still runs when it has met a metadata root that is away."""
    assert not query.awaitTermination(4)
    assert query.exception() is None


@pytest.mark.long
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
