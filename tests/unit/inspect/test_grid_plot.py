"""The grid as a picture: each part has its sign, problems their words, many partitions a place."""

import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from kafka_on_spark.inspect.draw.grid import Part
from kafka_on_spark.inspect.grid_plot import ROWS_SIGNED_MAX, STYLES, grid_picture
from kafka_on_spark.metadata.image import TopicImage
from tests.builders import TOPIC, TOPIC_ID, image_of, partition
from tests.unit.inspect.quorums import quorum_of


def words_in(figure) -> list[str]:
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    labels = [label.get_text() for axes in figure.axes for label in axes.get_xticklabels()]
    return texts + labels


def lightness(colour: str) -> float:
    """Return how light a colour is, as the eye weighs it (Rec. 709)."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def test_every_part_has_its_sign_and_every_problem_its_words():
    image = image_of(
        partition("1 2 3", "1 2"),
        partition("2 3", "3", None),
        partition("1 2 4", "1 2", adding="4"),
        partition("1 2 4", removing="4"),
        ids="1 2 3 4",
        fenced="3",
        racks="a a b b",
    )

    words = words_in(grid_picture(image).figure)

    assert {"L", "•", "×", "→", "←", "!"} <= set(words)
    assert {"orders-0", "orders-1", "under-replicated (2 of 3)", "no leader"} <= set(words)
    assert {"1", "2", "3", "4", "a", "b fenced", "b"} <= set(words)


def test_parts_can_be_told_apart_without_colour():
    signs = [style.sign for style in STYLES.values()]
    filled = [STYLES[part] for part in (Part.LEADER, Part.IN_SYNC, Part.OFFLINE)]

    assert len(set(signs)) == len(Part) == len(STYLES)
    shades = sorted(lightness(style.fill) for style in filled)
    assert all(second - first > 0.1 for first, second in pairwise(shades))
    for style in STYLES.values():
        assert abs(lightness(style.ink) - lightness(style.fill)) > 0.4, style


@pytest.mark.parametrize("count", [0, 1, ROWS_SIGNED_MAX, ROWS_SIGNED_MAX + 1, 1200])
def test_any_number_of_partitions_is_drawn(count, tmp_path):
    image = image_of(*(partition("1 2 3") for _ in range(count)))

    picture = grid_picture(image)
    picture.save(tmp_path / "grid.png")

    assert (tmp_path / "grid.png").read_bytes().startswith(b"\x89PNG")
    has_signs = "L" in words_in(picture.figure)
    assert has_signs == (0 < count <= ROWS_SIGNED_MAX)
    told = f"{count} partitions" if count else "no partitions"
    assert picture.words == f"3 brokers, {told}"


def test_topics_can_be_chosen():
    image = image_of(partition("1 2 3"))
    other = TopicImage(name="other", topic_id="2" * 32, partitions={0: partition("1")})
    image = replace(
        image,
        topics={**image.topics, other.topic_id: other},
        topic_ids={TOPIC: TOPIC_ID, "other": other.topic_id},
    )

    words = words_in(grid_picture(image, ["other"]).figure)

    assert "other-0" in words
    assert "orders-0" not in words


def test_a_notebook_gets_the_picture_and_its_words():
    data, metadata = grid_picture(image_of(partition("1 2 3")))._repr_mimebundle_()

    assert data["image/png"].startswith(b"\x89PNG")
    assert data["text/plain"] == "3 brokers, 1 partitions"
    assert metadata["image/png"]["width"] > 100


def test_missing_matplotlib_is_one_sentence_here_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ImportError, match=r"pip install 'kafka_on_spark\[plots\]'"):
        grid_picture(image_of(partition("1 2 3")))


def test_the_words_name_who_leads_the_voters_and_which_can_not_be_read():
    picture = grid_picture(image_of(partition("1 2 3")), quorum=quorum_of(0, 0, None))

    assert picture.words.endswith(
        "; voter 1 leads the metadata quorum in epoch 2; 2 of 3 voters answer; voter 3 can't be read"
    )
    [legend] = picture.figure.legends
    assert "voter 3 can't be read" in " ".join(legend.get_title().get_text().split())
