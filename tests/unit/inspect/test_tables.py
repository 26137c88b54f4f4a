"""Histories as DataFrames."""

import pandas as pd

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.tables import (
    broker_timeline,
    isr_history,
    leader_timeline,
    of_broker,
    replica_timeline,
)
from kafka_on_spark.metadata.broker import BrokerState
from kafka_on_spark.service.describe.partition_history import BrokerEvent
from tests.unit.inspect.histories import LOSS_AND_RETURN, at, entry

OFFLINE = [
    entry(0, 1, 0, "1 2", replicas="1 2"),
    entry(10, None, 1, "1", "broker 1: probe failed", replicas="1 2"),
    entry(40, 1, 2, "1", "broker 1: back", replicas="1 2"),
    entry(50, None, 2, "", "topic deleted by request", replicas=""),
]


def test_changes_are_rows_with_the_replicas_in_sync():
    frame = isr_history(LOSS_AND_RETURN)

    assert frame["isr"].tolist() == [(1, 2, 3), (2, 3), (1, 2, 3), (1, 2, 3)]
    assert frame["in_sync"].tolist() == [3, 2, 3, 3]
    assert frame["leader"].tolist() == [1, 2, 2, 1]
    assert frame["time"].tolist() == [pd.Timestamp(at(each)) for each in (0, 10, 20, 21)]
    assert frame.loc[1, "cause"] == "broker 1: probe failed"


def test_a_missing_leader_is_missing_and_not_a_number():
    frame = isr_history(OFFLINE)

    assert frame["leader"].isna().tolist() == [False, True, False, True]
    assert str(frame["leader"].dtype) == "Int64"


def test_leaderships_are_rows_from_when_to_when():
    frame = leader_timeline(LOSS_AND_RETURN, end=at(30))

    rows = frame[["leader", "leader_epoch", "seconds"]].values.tolist()
    assert rows == [[1, 0, 10.0], [2, 1, 11.0], [1, 2, 9.0]]


def test_time_without_a_leader_is_a_row_and_a_deleted_partition_is_none():
    frame = leader_timeline(OFFLINE, end=at(90))

    assert frame["leader"].tolist() == [1, pd.NA, 1]
    assert frame["seconds"].tolist() == [10, 30, 10]
    assert frame["seconds"][frame["leader"].isna()].sum() == 30


def test_what_a_replica_was_are_rows():
    frame = replica_timeline(LOSS_AND_RETURN, end=at(30), broker=1)

    rows = frame[["broker", "part", "seconds"]].values.tolist()
    assert rows == [
        [1, "leader", 10.0],
        [1, "out of sync", 10.0],
        [1, "in sync", 1.0],
        [1, "leader", 9.0],
    ]
    assert set(replica_timeline(LOSS_AND_RETURN)["broker"]) == {1, 2, 3}


def test_a_broker_is_chosen_by_its_replicas():
    moved = [
        entry(0, 1, 0, "1 2", replicas="1 2"),
        entry(5, 3, 1, "2 3", replicas="2 3"),
        entry(6, 2, 0, "2", partition=1, replicas="2"),
    ]

    assert isr_history(moved, broker=1)["partition"].tolist() == [0]
    assert len(of_broker(moved, 1)) == 2
    assert leader_timeline(moved, end=at(9), broker=3)["seconds"].tolist() == [4]


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


def test_nothing_is_an_empty_table_with_all_columns():
    for frame in (isr_history([]), leader_timeline([]), replica_timeline([]), broker_timeline([])):
        assert frame.empty
        assert len(frame.columns) >= 5


def test_a_timeline_prints_whole_causes_and_times_a_line_a_row():
    frame = leader_timeline(OFFLINE, end=at(90), broker=None)

    titles, first, second, third = str(frame).splitlines()

    assert [each.strip() for each in titles.split("·")] == list(frame.columns)
    assert [each.strip() for each in second.split("·")] == [
        "orders", "0", "none", "1", "12:00:10.000", "12:00:40.000", "30.000", "broker 1: probe failed",
    ]  # fmt: skip
    assert "+00:00" not in str(frame)
    led = str(frame[frame["leader"] == 1]).splitlines()
    assert [each.split() for each in led] == [each.split() for each in (titles, first, third)]


def test_times_of_several_days_have_their_day_and_long_tables_an_end():
    days = [entry(each * 86_400, each % 2 + 1, each, "1 2", "cause " * 30) for each in range(3)]
    rows = [entry(each, each % 2 + 1, each, "1 2") for each in range(1500)]

    starts = [line.split(" · ")[4] for line in str(leader_timeline(days)).splitlines()[1:]]
    assert starts == [f"{at(each * 86_400):%Y-%m-%d} 12:00:00.000" for each in range(3)]
    assert "cause " * 29 + "cause" in str(isr_history(days))
    shown = repr(isr_history(rows)).splitlines()
    assert (len(shown), shown[-1]) == (1002, "… and 500 rows more")


def test_a_timeline_shows_nothing_that_a_terminal_would_obey():
    evil = [entry(0, 1, 0, "1 2", "root \x1b]0;owned\x07 is away")]

    assert r"root \x1b]0;owned\x07 is away" in str(isr_history(evil))
    assert "\x1b" not in isr_history(evil)["cause"][0]


def test_what_is_made_of_a_timeline_prints_as_pandas_has_it():
    frame = leader_timeline(LOSS_AND_RETURN, end=at(30))

    by_leader = frame.groupby("leader")["seconds"].sum().to_frame()

    assert str(by_leader) == str(pd.DataFrame(by_leader))
    assert "leader" in str(by_leader)
    assert str(frame[["leader", "seconds"]]).splitlines()[0].split(" · ") == ["leader", "seconds"]
