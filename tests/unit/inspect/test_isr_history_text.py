"""A partition's history as a table: time, leader, leader epoch, ISR, cause."""

from kafka_on_spark.inspect.history import history_text
from tests.unit.inspect.histories import LOSS_AND_RETURN, entry


def test_history_of_one_partition_has_its_five_columns():
    assert history_text(LOSS_AND_RETURN).splitlines() == [
        "time         · leader · leader epoch · ISR   · cause",
        "12:00:00.000 ·      1 ·            0 · 1 2 3 · created",
        "12:00:10.000 ·      2 ·            1 · 2 3   · broker 1: probe failed",
        "12:00:20.000 ·      2 ·            1 · 1 2 3 · broker 1: caught up",
        "12:00:21.000 ·      1 ·            2 · 1 2 3 · preferred leader",
    ]


def test_a_history_of_several_partitions_names_the_partition_of_each_line():
    text = history_text([entry(0, 1, 0, "1"), entry(0.0375, 2, 0, "2", partition=1)])

    assert text.splitlines()[0].startswith("partition · time")
    assert text.splitlines()[2].startswith("orders-1  · 12:00:00.037")


def test_partition_without_leader_and_cause_is_shown():
    text = history_text([entry(0, None, 3, "2", None)])

    [_, line] = text.splitlines()
    assert line == "12:00:00.000 · none   ·            3 ·   2 ·"
