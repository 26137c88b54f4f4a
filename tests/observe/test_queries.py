"""SQL over the metadata table, by delta-rs and by pyarrow: the same as the cluster's own history."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from kafka_on_spark.observe import queries
from tests.cluster.disks import new_disks, records


@pytest.fixture(scope="module")
def lived():
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        cluster.create_topic("single", replica_assignment={0: [1]})
        cluster.append("orders", records(b"a"))
        cluster.append("single", records(b"a"))
        disks.take_away(1)
        cluster.run_controller()
        disks.give_back(1)
        cluster.run_controller()
        cluster.replicate()
        yield cluster


def ask(cluster, sql):
    engine = QueryBuilder().register("metadata", DeltaTable(cluster.metadata_table))
    return pa.table(engine.execute(sql).read_all()).to_pylist()


def test_the_isr_history_is_what_the_cluster_says(lived):
    rows = ask(lived, queries.ISR_HISTORY)

    entries = lived.history()
    assert [
        (each["topic"], each["partition"], each["leader"], each["leader_epoch"], each["cause"])
        for each in rows
    ] == [
        (each.topic, each.partition, each.leader, each.leader_epoch, each.cause) for each in entries
    ]
    assert [tuple(each["isr"]) for each in rows] == [each.isr for each in entries]
    assert [tuple(each["replicas"]) for each in rows] == [each.replicas for each in entries]
    assert [each["time"] for each in rows] == [each.time for each in entries]
    assert [each["metadata_offset"] for each in rows] == [each.metadata_offset for each in entries]
    assert None in [each["leader"] for each in rows]


def test_a_decision_is_a_row_with_its_number_of_partitions(lived):
    decisions = ask(lived, queries.DECISIONS)

    [failover] = [each for each in decisions if "probe failed" in each["cause"]]
    assert (failover["partitions"], failover["topics"]) == (4, 2)


def test_pyarrow_alone_can_be_asked(lived):
    table = DeltaTable(lived.metadata_table).to_pyarrow_table(columns=["topic", "leader", "cause"])

    failed = [each for each in table.to_pylist() if "probe failed" in (each["cause"] or "")]
    assert {each["topic"] for each in failed if each["leader"] == -1} == {"single"}
