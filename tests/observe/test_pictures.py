"""The pictures say in words, signs, places and shapes what their colours say."""

import sys

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import BrokerId
from kafka_on_spark.metadata.records import BrokerState
from kafka_on_spark.observe.history import BrokerEvent
from kafka_on_spark.observe.pictures import (
    ROWS_SIGNED_MAX,
    grid_picture,
    timeline_picture,
)
from tests.builders import image_of, partition
from tests.observe.histories import LOSS_AND_RETURN, at, entry

EVENTS = [
    BrokerEvent(at(0), BrokerId(2), BrokerState.ACTIVE, "new", is_registration=True),
    BrokerEvent(at(10), BrokerId(1), BrokerState.FENCED, "probe failed"),
    BrokerEvent(at(18), BrokerId(1), BrokerState.ACTIVE, "answers again"),
]


def words_in(picture) -> list[str]:
    axes = picture.figure.axes
    texts = [text for each in axes for text in each.texts]
    labels = [
        label for each in axes for label in (*each.get_xticklabels(), *each.get_yticklabels())
    ]
    return [each.get_text() for each in (*texts, *labels)]


def test_in_the_grid_every_part_has_its_sign_and_every_problem_its_words():
    image = image_of(
        partition("1 2 3", "1 2"),
        partition("2 3", "3", None),
        partition("1 2 4", "1 2", adding="4"),
        partition("1 2 4", removing="4"),
        ids="1 2 3 4",
        fenced="3",
        racks="a a b b",
    )

    words = words_in(grid_picture(image))

    assert {"L", "•", "×", "→", "←", "!"} <= set(words)
    assert {"under-replicated (2 of 3) orders-0", "no leader orders-1"} <= set(words)
    assert {"1 a", "2 a", "3 b fenced", "4 b"} <= set(words)


@pytest.mark.parametrize("count", [0, 1, ROWS_SIGNED_MAX, ROWS_SIGNED_MAX + 1, 1200])
def test_any_number_of_partitions_is_drawn(count, tmp_path):
    picture = grid_picture(image_of(*(partition("1 2 3") for _ in range(count))))
    picture.save(tmp_path / "grid.png")

    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
    assert ("L" in words_in(picture)) == (0 < count <= ROWS_SIGNED_MAX)
    assert repr(picture) == f"3 brokers, {f'{count} partitions' if count else 'no partitions'}"
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_missing_matplotlib_is_one_sentence_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ImportError, match=r"pip install 'kafka_on_spark\[plots\]'"):
        grid_picture(image_of(partition("1 2 3")))


def test_in_the_timeline_partitions_brokers_leaderships_and_events_have_their_names():
    picture = timeline_picture(LOSS_AND_RETURN, events=EVENTS, end=at(30))

    words = words_in(picture)
    assert {"orders-0  1", "orders-0  2", "orders-0  3"} <= set(words)
    assert {"leads, epoch 0", "leads, epoch 1", "leads, epoch 2"} <= set(words)
    assert [each for each in words if each.startswith("broker")] == [
        "broker 1 fenced",
        "broker 1 back",
    ]
    assert picture.figure.axes[0].get_xlabel() == "time (UTC)"


def test_a_time_without_a_leader_is_framed_and_named():
    waiting = [entry(0, 1, 0, "1 2"), entry(10, None, 1, "1"), entry(20, 1, 2, "1")]

    picture = timeline_picture(waiting, end=at(30))

    assert "no leader" in words_in(picture)
    [frame] = [each for each in picture.figure.axes[0].patches if each.get_height() > 2]
    assert frame.get_width() * 86400 == pytest.approx(10)


def test_no_history_is_a_sentence_and_a_history_of_one_moment_is_drawn(tmp_path):
    with pytest.raises(InvalidRequestError, match="no history to draw"):
        timeline_picture([])

    timeline_picture([entry(0, 1, 0, "1 2 3")]).save(tmp_path / "picture.png")

    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
