"""Histories as DataFrames."""

import pandas as pd

from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.tables import (
    broker_timeline,
    isr_history,
    leader_timeline,
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


def test_a_broker_is_chosen_by_its_replicas():
    moved = [
        entry(0, 1, 0, "1 2", replicas="1 2"),
        entry(5, 3, 1, "2 3", replicas="2 3"),
        entry(6, 2, 0, "2", partition=1, replicas="2"),
    ]

    assert isr_history(moved, broker=1)["partition"].tolist() == [0]
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
    for frame in (isr_history([]), leader_timeline([]), broker_timeline([])):
        assert frame.empty
        assert len(frame.columns) >= 5


def test_a_timeline_shows_nothing_that_a_terminal_would_obey():
    evil = [entry(0, 1, 0, "1 2", "root \x1b]0;owned\x07 is away")]

    assert isr_history(evil)["cause"].tolist() == [r"root \x1b]0;owned\x07 is away"]
