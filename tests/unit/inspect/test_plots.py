"""The picture says in words, places and shapes what its colours say."""

import sys
from datetime import UTC, datetime, timedelta

import pytest

from kafka_on_spark.errors import InvalidRequestError
from kafka_on_spark.ids import BrokerId
from kafka_on_spark.inspect.history import BrokerEvent
from kafka_on_spark.inspect.plots import (
    LANES_MAX,
    isr_history_figure,
    plot_isr_history,
    time_labels,
    timeline_picture,
)
from kafka_on_spark.metadata.broker import BrokerState
from tests.unit.inspect.histories import LOSS_AND_RETURN, at, entry

EVENTS = [
    BrokerEvent(at(10), BrokerId(1), BrokerState.FENCED, "probe failed"),
    BrokerEvent(at(18), BrokerId(1), BrokerState.ACTIVE, "answers again"),
]


def words_of(figure) -> list[str]:
    [axes] = figure.axes
    return [text.get_text() for text in axes.texts]


def test_partitions_brokers_leaderships_and_events_have_their_names_in_the_picture():
    figure = isr_history_figure(LOSS_AND_RETURN, events=EVENTS, end=at(30))

    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]
    assert {"orders-0", "broker 1 fenced", "broker 1 back"} <= set(words_of(figure))
    assert {"leads, epoch 0", "leads, epoch 1", "leads, epoch 2"} <= set(words_of(figure))
    assert axes.get_xlabel() == "time (UTC)"


def test_leader_follower_and_absent_differ_in_shape_and_not_only_in_colour():
    figure = isr_history_figure(LOSS_AND_RETURN, end=at(30))

    [axes] = figure.axes
    leading = [bar for bar in axes.patches if bar.get_height() > 0.8]
    following = [bar for bar in axes.patches if bar.get_height() < 0.5]
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert (len(leading), len(following), len(dotted)) == (3, 4, 1)
    assert not any(bar.get_hatch() for bar in leading)
    assert len({bar.get_hatch() for bar in following}) == 3  # another one each broker


def test_a_time_without_a_leader_is_framed_and_named():
    waiting = [entry(0, 1, 0, "1 2"), entry(10, None, 1, "1"), entry(20, 1, 2, "1")]

    figure = isr_history_figure(waiting, end=at(30))

    [axes] = figure.axes
    assert "no leader" in words_of(figure)
    [frame] = [each for each in axes.patches if each.get_height() > 2]
    assert frame.get_width() * 86400 == pytest.approx(10)


def test_of_one_broker_each_partition_has_one_line():
    entries = [*LOSS_AND_RETURN, entry(0, 2, 0, "2 3", partition=1, replicas="2 3")]

    picture = timeline_picture(entries, end=at(30), broker=2)

    [axes] = picture.figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["2", "2"]
    assert picture.words.endswith("2 partitions over time on broker 2")


def test_registrations_are_where_lines_begin_and_not_marked():
    registered = BrokerEvent(at(0), BrokerId(1), BrokerState.ACTIVE, "new", is_registration=True)

    assert "broker 1 back" not in words_of(isr_history_figure(LOSS_AND_RETURN, events=[registered]))


def test_no_history_is_a_sentence():
    with pytest.raises(InvalidRequestError, match="no history to draw"):
        isr_history_figure([])


def test_picture_is_written_as_png(tmp_path):
    plot_isr_history(LOSS_AND_RETURN, tmp_path / "picture.png", events=EVENTS)

    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_history_of_one_moment_is_drawn_too(tmp_path):
    plot_isr_history([entry(0, 1, 0, "1 2 3")], tmp_path / "picture.png")

    assert (tmp_path / "picture.png").stat().st_size > 0


def test_more_lanes_than_can_be_read_are_left_out_and_the_title_says_so():
    entries = [entry(0, 1, 0, "1", partition=each, replicas="1") for each in range(LANES_MAX + 5)]

    figure = isr_history_figure(entries)

    [axes] = figure.axes
    assert len(axes.get_yticklabels()) == LANES_MAX
    assert f"the first {LANES_MAX} of {LANES_MAX + 5} partitions" in axes.get_title(loc="left")


def test_missing_matplotlib_is_one_sentence_that_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ImportError, match=r"pip install 'kafka_on_spark\[plots\]'"):
        plot_isr_history(LOSS_AND_RETURN, tmp_path / "picture.png")


def times(*seconds):
    return [datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=each) for each in seconds]


# fmt: off
LABELS = [
    pytest.param(times(0, 5, 10),               ["12:00:00", "12:00:05", "12:00:10"],             id="seconds"),
    pytest.param(times(0, 0.5, 1),              ["12:00:00.000", "12:00:00.500", "12:00:01.000"], id="parts of a second"),
    pytest.param(times(0, 86_400),              ["01-31 12:00:00", "02-01 12:00:00"],             id="days"),
    pytest.param(times(0, 0.0001),              ["12:00:00.000000", "12:00:00.000100"],           id="parts of a millisecond"),
    pytest.param(times(-0.000004, 4.999996),    ["12:00:00", "12:00:05"],                         id="a little off"),
]
# fmt: on


@pytest.mark.parametrize("moments, labels", LABELS)
def test_labels_of_the_axis_are_as_short_as_tells_them_apart(moments, labels):
    assert time_labels(moments) == labels


@pytest.mark.parametrize("seconds", [0.4, 2, 30, 4000, 400_000])
def test_no_two_labels_of_a_picture_are_the_same(seconds):
    entries = [entry(0, 1, 0, "1 2"), entry(seconds, 2, 1, "2")]
    figure = isr_history_figure(entries, end=at(seconds * 1.1))
    figure.canvas.draw()

    labels = [each.get_text() for each in figure.axes[0].get_xticklabels()]

    assert len(labels) > 2
    assert len(set(labels)) == len(labels)
