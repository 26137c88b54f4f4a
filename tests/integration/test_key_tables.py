"""`Cluster.table` and `Cluster.changes`: the last value of each key, and what changed between cuts."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import InvalidRequestError
from tests.cluster.disks import new_disks

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def opened(spark):
    with new_disks() as disks:
        disks.cluster.create_topic("prices", partitions=2, replication_factor=1)
        disks.made = disks.cluster.image.offset
        disks.opened.append(Cluster.open(disks.metadata_root, spark))
        yield disks


def rows(frame):
    return {
        row.key.decode(): None if row.value is None else row.value.decode()
        for row in frame.collect()
    }


@pytest.mark.long
def test_a_table_has_the_last_value_of_each_key_and_changes_lead_to_the_next(opened):
    cluster = opened.opened[-1]
    cluster.append("prices", [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), (None, "x")])
    then = cluster.image.offset
    cluster.append("prices", [("b", None), ("d", "1"), ("a", "3"), ("d", "2")])

    before = Cluster.open(opened.metadata_root, cluster._spark, as_of=then)
    opened.opened.append(before)

    assert rows(before.table("prices")) == {"a": "2", "b": "1", "c": "1"}
    assert rows(cluster.table("prices")) == {"a": "3", "c": "1", "d": "2"}
    changed = cluster.changes("prices", then)
    assert rows(changed) == {"a": "3", "b": None, "d": "2"}
    assert {row.key for row in changed.where("is_deleted").collect()} == {b"b"}
    assert rows(cluster.changes("prices", then, then)) == {}
    assert rows(cluster.changes("prices", opened.made, then)) == {"a": "2", "b": "1", "c": "1"}


def test_a_key_has_one_row_also_where_its_later_records_are_in_another_partition(opened):
    cluster = opened.opened[1]
    keys = [f"k{number}" for number in range(20)]
    cluster.create_topic("moved", partitions=2, replication_factor=1)
    cluster.append("moved", [(key, "1") for key in keys])
    then = cluster.image.offset
    cluster.add_partitions("moved", to=5)
    newest = {key: None if place < 10 else "2" for place, key in enumerate(keys)}
    cluster.append("moved", list(newest.items()))
    of_key = {(row.key, row.partition) for row in cluster.view("moved").collect()}
    assert len(of_key) > len(keys)

    table, changed = cluster.table("moved"), cluster.changes("moved", then)

    assert rows(table) == {key: value for key, value in newest.items() if value is not None}
    assert rows(changed) == newest
    assert (table.count(), changed.count()) == (10, 20)


def test_a_table_has_a_name_in_sql(opened):
    cluster = opened.opened[1]

    table = cluster.table("prices", "prices_now")

    spark = cluster._spark
    assert spark.sql("select count(distinct key) as n from prices_now").first().n == table.count()
    assert table.columns == ["key", "value", "partition", "offset", "timestamp"]


def test_a_table_needs_a_session_and_a_name_that_sql_takes(opened):
    with pytest.raises(InvalidRequestError, match="open the cluster with a session"):
        opened.cluster.table("prices")
    with pytest.raises(InvalidRequestError, match="can't be named 'not a name'"):
        opened.opened[1].changes("prices", 1, name="not a name")
