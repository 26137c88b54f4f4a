"""How many records there are is counted by headers: as many as are read, and no file is read."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cluster.disks import new_disks
from tests.cluster.replicas.test_cluster_failover import REPLICAS

CONFIGS = {
    "cleanup.policy": "compact,delete",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}
ROUNDS = 60


@pytest.fixture(scope="module")
def disks():
    """A topic whose log was deleted from its start, compacted and merged, with plain ends."""
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", replica_assignment=REPLICAS, configs=CONFIGS)
        for number in range(ROUNDS):
            if number == ROUNDS - 15:
                cluster.delete_records({("orders", 0): 12})
                cluster.replicate()
                cluster.maintain()
            keys = [b"a", b"b%d" % (number % 7), b"c%d" % number]
            cluster.append("orders", [(key, b"%d" % number) for key in keys])
        yield disks


@pytest.mark.smoke
@given(ends=st.tuples(st.integers(12, 3 * ROUNDS), st.integers(12, 3 * ROUNDS)))
@settings(max_examples=60)
def test_as_many_are_counted_as_are_read(disks, ends):
    start, end = {0: min(ends)}, {0: max(ends)}

    assert (
        disks.cluster.count("orders", start, end)
        == disks.cluster.read("orders", start, end).num_rows
    )


def test_whole_batches_are_counted_without_their_files(disks):
    count = disks.cluster.count("orders")
    assert count == disks.cluster.read("orders").num_rows
    assert count < 3 * ROUNDS - 12, "compaction has removed nothing"

    moved = [file for file in disks.base.rglob("*.parquet") if "orders-" in str(file)]
    moved = [file for file in moved if "checkpoint" not in file.name]
    for file in moved:
        file.rename(file.with_suffix(".away"))
    assert disks.cluster.count("orders") == count
    for file in moved:
        file.with_suffix(".away").rename(file)
