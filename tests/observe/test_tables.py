"""Histories as DataFrames, and the documented SQL, say what the cluster says."""

import re

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe import tables
from kafka_on_spark.observe.history import BrokerEvent
from kafka_on_spark.observe.tables import broker_timeline, isr_history, leader_timeline
from tests.cluster.disks import new_disks, records
from tests.observe.histories import LOSS_AND_RETURN, at, entry
from tests.pages import page


def test_leaderships_are_rows_from_when_to_when():
    frame = leader_timeline(LOSS_AND_RETURN, end=at(30))

    rows = frame[["leader", "leader_epoch", "seconds"]].values.tolist()
    assert rows == [[1, 0, 10.0], [2, 1, 11.0], [1, 2, 9.0]]


def test_brokers_have_their_events_in_a_word():
    def event(seconds, state, **more):
        return BrokerEvent(at(seconds), BrokerId(1), state, "cause", **more)

    events = [
        event(0, BrokerState.ACTIVE, is_registration=True),
        event(1, BrokerState.FENCED),
        event(2, BrokerState.ACTIVE),
        event(3, BrokerState.DRAINING),
        event(4, None),
    ]

    frame = broker_timeline(events, broker=1)

    assert frame["event"].tolist() == ["registered", "fenced", "back", "draining", "unregistered"]
    assert broker_timeline(events, broker=2).empty


def test_a_timeline_shows_nothing_that_a_terminal_would_obey():
    evil = [entry(0, 1, 0, "1 2", "root \x1b]0;owned\x07 is away")]

    assert isr_history(evil)["cause"].tolist() == [r"root \x1b]0;owned\x07 is away"]


@pytest.fixture(scope="module")
def lived():
    with new_disks() as disks:
        cluster = disks.cluster
        cluster.create_topic("flights", partitions=3, replication_factor=3)
        cluster.create_topic("single", replica_assignment={0: [1]})
        cluster.append("flights", records(b"a"))
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
    rows = ask(lived, tables.ISR_HISTORY)

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
    decisions = ask(lived, tables.DECISIONS)

    [failover] = [each for each in decisions if "probe failed" in each["cause"]]
    assert (failover["partitions"], failover["topics"]) == (4, 2)


def test_the_first_query_of_the_page_shows_the_leaders_that_stand(lived):
    text = re.search(r'spark\.sql\(f?"""(.*?)"""\)', page("docs/look-into-it.md"), re.S)[1]

    rows = ask(lived, text.replace("{ISR_HISTORY}", tables.ISR_HISTORY))

    told = [each for each in lived.history("flights") if (each.cause or "").startswith("broker 1")]
    assert len(rows) == len(told) >= 3
    assert all(row["leader"] is not None for row in rows)
    assert [(row["partition"], row["leader"], tuple(row["isr"])) for row in rows] == [
        (each.partition, each.leader, each.isr) for each in told
    ]
