"""The queries of docs/look-into-it.md read what is committed, and nothing else, off a replica's plain table.

Neither engine is ours: delta-spark, and Polars (by delta-rs). The queries are taken from the page.
"""

import pytest

from tests.cluster.disks import new_disks
from tests.pages import blocks

pytestmark = pytest.mark.integration


def block_with(text):
    [found] = [each for each in blocks("docs/look-into-it.md", "python") if text in each]
    return found


@pytest.fixture(scope="module")
def disks():
    """A topic after a failover, with records that were cut, deleted, and are not committed yet."""
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("flights", replica_assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        cluster.delete_topic("flights")  # its namesake is another topic
        cluster.create_topic(
            "flights", replica_assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
        )
        cluster.append("flights", placed(b"a", b"b", b"c", b"d"))
        cluster.append("flights", placed(b"e", partition=1))
        disks.take_away(2, 3)
        cluster.append("flights", placed(b"cut", b"cut too"), acks=1)
        disks.take_away(1)
        disks.give_back(2, 3)
        cluster.run_controller()
        cluster.append("flights", placed(b"f", b"g"))
        disks.give_back(1)
        cluster.run_controller()
        cluster.replicate()
        cluster.elect_leaders("preferred")
        cluster.append("flights", placed(b"h"))
        cluster.delete_records({("flights", 0): 3})  # in the middle of a segment
        cluster.append("flights", placed(b"not committed"), acks=1)
        yield disks


def placed(*values, partition=0):
    return [{"key": b"key", "value": value, "partition": partition} for value in values]


def expected(cluster):
    table = cluster.read("flights").select(["partition", "offset", "key", "value"])
    return [tuple(row.values()) for row in table.to_pylist()]


def test_the_topic_has_all_that_a_query_could_get_wrong(disks):
    offsets = disks.cluster.offsets("flights")

    assert [row[3] for row in expected(disks.cluster)] == [b"d", b"f", b"g", b"h", b"e"]
    assert [value for value in disks.values_on(1, "flights")][-1] == b"not committed"
    assert offsets[0].log_start_offset == 3
    assert offsets[2].high_watermark == 0  # has no table


@pytest.mark.long
def test_the_pages_query_for_spark_reads_what_is_committed(spark, disks):
    names = {"spark": spark, "cluster": disks.cluster}

    exec(block_with("import COMMITTED"), names)

    rows = [
        (r.partition, r.offset, bytes(r.key), bytes(r.value)) for r in names["prefix"].collect()
    ]
    assert sorted(rows) == expected(disks.cluster)


def test_the_pages_query_for_polars_reads_what_is_committed(disks):
    names = {"cluster": disks.cluster}

    exec(block_with("import polars"), names)

    assert sorted(names["prefix"].collect().rows()) == expected(disks.cluster)
