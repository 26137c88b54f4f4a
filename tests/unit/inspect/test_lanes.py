"""Histories as spans: what each replica was, from when to when."""

from kafka_on_spark.inspect.lanes import Span, lanes_of
from tests.unit.inspect.histories import LOSS_AND_RETURN, at, entry


def test_lane_says_of_each_replica_when_it_led_followed_and_was_out():
    [lane] = lanes_of(LOSS_AND_RETURN, at(30))

    assert (lane.topic, lane.partition, list(lane.spans)) == ("orders", 0, [1, 2, 3])
    assert lane.spans[1] == [
        Span(at(0), at(10), 0, True),
        Span(at(10), at(20), None, False),
        Span(at(20), at(21), None, True),
        Span(at(21), at(30), 2, True),
    ]
    assert lane.spans[2] == [
        Span(at(0), at(10), None, True),
        Span(at(10), at(21), 1, True),
        Span(at(21), at(30), None, True),
    ]
    assert lane.spans[3] == [Span(at(0), at(30), None, True)]


def test_new_leadership_of_the_same_broker_is_a_span_of_its_own():
    [lane] = lanes_of([entry(0, 1, 0, "1 2 3"), entry(5, 1, 1, "1 2 3")], at(9))

    assert lane.spans[1] == [Span(at(0), at(5), 0, True), Span(at(5), at(9), 1, True)]


def test_replica_has_no_span_while_it_is_not_assigned():
    moved = [entry(0, 1, 0, "1", replicas="1"), entry(5, 4, 1, "4", replicas="4")]

    [lane] = lanes_of(moved, at(9))

    assert lane.spans == {1: [Span(at(0), at(5), 0, True)], 4: [Span(at(5), at(9), 1, True)]}


def test_lanes_stand_in_the_order_of_partitions():
    entries = [entry(0, 1, 0, "1", partition=number) for number in (10, 2, 0)]

    assert [lane.partition for lane in lanes_of(entries, at(1))] == [0, 2, 10]
