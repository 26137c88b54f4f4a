"""Merging of a real cluster: the same records afterwards, for every way to read them, and fsck."""

import pytest

from kafka_on_spark.log.replicas import ReplicaLog
from kafka_on_spark.log.state import address_of
from kafka_on_spark.metadata.image import partition_key
from kafka_on_spark.store.roots import StorageOptions
from tests.cluster.disks import new_disks, records
from tests.cluster.replicas.test_cluster_failover import REPLICAS

COUNT = 45  # the newest 10 stay: 35 may be merged, 32 are


@pytest.fixture(scope="module")
def merged():
    """A topic of many small appends, as it was read before it was merged, and the disks."""
    with new_disks(brokers=3) as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment=REPLICAS)
        for number in range(COUNT):
            cluster.append("orders", records(b"%d" % number, b"%d again" % number))
        before = cluster.read("orders")
        report = cluster.maintain()
        yield disks, before, report


def state(disks, broker_id):
    image = disks.cluster.image
    key = partition_key(image, "orders", 0)
    return ReplicaLog(
        address_of(image, key, image.partition(key), broker_id), StorageOptions()
    ).load()


def test_each_replica_has_few_files_and_is_told_of(merged):
    disks, _, report = merged
    rows = [row for row in report.rows if row.kind == "merge"]

    assert [(row.broker_id, row.count, row.error) for row in rows] == [
        (each, 1, "") for each in (1, 2, 3)
    ]
    states = [state(disks, each) for each in (1, 2, 3)]
    assert [len(each.batches) for each in states] == [COUNT - 31] * 3
    assert len({each.chain_digest for each in states}) == 1
    assert len({each.batches[0].content_digest for each in states}) == 1


def test_what_is_read_is_the_same(merged):
    disks, before, _ = merged

    assert disks.cluster.read("orders").equals(before)
    for start, end in [(0, 1), (5, 6), (7, 64), (63, 70), (64, 90), (89, 90)]:
        found = disks.cluster.read("orders", start={0: start}, end={0: end})
        assert found.equals(before.slice(start, end - start))


def test_fsck_finds_nothing_also_in_the_files(merged):
    disks, _, _ = merged

    report = disks.cluster.fsck(deep=True)

    assert report.findings == ()
