"""A snapshot of a generation that was given up lies on the root that goes on, and never counts."""

import shutil

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.metadata.records import Stamp
from kafka_on_spark.metadata.snapshot import snapshot_records
from kafka_on_spark.raft.log.raft_log import OffsetAndEpoch
from kafka_on_spark.spark.run.opening import metadata_log_of
from tests.cluster.disks import FAST
from tests.cluster.folders import roots_in
from tests.cluster.voters import bring_up, end_calls


@pytest.fixture
def cluster(folder):
    brokers = {number: folder / str(number) for number in (1, 2, 3)}
    with Cluster.create(roots_in(folder), brokers, configs=FAST) as cluster:
        cluster.create_topic("orders", replica_assignment={0: [1, 2, 3]})
        bring_up(cluster)
        yield cluster


def lose_a_topic(cluster, folder, *, partitions=1, is_elected=False):
    """Create a topic that the third voter does not hear of, in a later epoch if `is_elected`; return
    the image, and the snapshot of it, as the others have it."""
    [table] = (folder / "m3").glob("__cluster_metadata-*")
    hidden = table.rename(table.with_name("hidden"))
    if is_elected:
        cluster.elect_controller(2)
    cluster.create_topic("lost", partitions=partitions, replication_factor=3)
    image = cluster._services.metadata.catch_up()
    log = metadata_log_of(cluster._services.metadata)
    log.write_snapshot(snapshot_records(image), Stamp(time_ms=image.time_ms), image.offset)
    end_calls(cluster)  # one that comes late would find the table there again, and bring it up
    hidden.rename(table)
    [end] = log.tables.log_of(log.leader).snapshots()
    return image, end


def plant(cluster, image, end):
    """Put a snapshot on the third root, as a process does that was frozen meanwhile."""
    log = metadata_log_of(cluster._services.metadata)
    [third] = [key for key in log.tables.known if key.node_id == 3]
    stamp = Stamp(time_ms=image.time_ms)
    log.tables.log_of(third).write_snapshot(snapshot_records(image), stamp, end)


def opened_state(folder):
    with Cluster.open(folder / "m3") as opened:
        names = sorted(each.name for each in opened.image.topics.values())
        return opened.image.generation, names, opened.image.offset


@pytest.mark.parametrize("is_elected", [False, True])
@pytest.mark.parametrize("partitions", [1, 30])
def test_what_was_given_up_is_not_opened_again(cluster, folder, is_elected, partitions):
    """The new log passes the end of the lost topic's snapshot by the force alone, or later."""
    image, end = lose_a_topic(cluster, folder, partitions=partitions, is_elected=is_elected)
    plant(cluster, image, end)  # before the force
    for name in ("m1", "m2"):
        shutil.rmtree(folder / name)

    Cluster.force_controller(folder / "m3", 3)

    with Cluster.open(folder / "m3") as opened:
        while opened.image.offset <= image.offset:
            value = {"retention.ms": str(10**12 + opened.image.offset)}
            opened.alter_topic_configs("orders", value)
        plant(cluster, image, end)  # and after it
        expected = (1, ["orders"], opened.image.offset)
        assert not any(key == "lost" for key in opened.image.topic_ids)
    assert opened_state(folder) == expected


def test_a_snapshot_is_not_left_on_a_voter_that_is_behind(cluster, folder):
    image, end = lose_a_topic(cluster, folder)

    assert end == OffsetAndEpoch(image.offset, 1)
    assert len([*(folder / "m2" / "snapshots").iterdir()]) == 1
    assert not [*(folder / "m3").glob("snapshots/*")]
