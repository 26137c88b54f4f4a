"""Decisions that visit only partitions needing work decide what they would decide by visiting all."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_on_spark.controller.election import (
    elect_where_none,
    imbalance_percentages,
    leaderless,
    recreate_lost,
)
from kafka_on_spark.controller.reassignment import advance_reassignments, list_reassignments
from kafka_on_spark.metadata.image import MetadataImage
from tests.builders import image_of, partition
from tests.examples import many


@st.composite
def partitions(draw):
    replicas = draw(st.permutations([1, 2, 3]).map(lambda all_: all_[: draw(st.integers(1, 3))]))
    isr = draw(st.lists(st.sampled_from(replicas), unique=True, min_size=1))
    rest = sorted(set(replicas) - set(isr))
    some = st.lists(st.sampled_from(replicas), unique=True, max_size=1)

    def text(values):
        return " ".join(map(str, values))

    high_watermark = draw(st.integers(0, 2))
    return partition(
        text(replicas),
        isr=text(isr),
        leader=draw(st.sampled_from([None, *isr])),
        elr=text(draw(st.lists(st.sampled_from(rest), unique=True)) if rest else []),
        lost=text(draw(some)),
        unmade=text(draw(some)),
        adding=text(draw(some)),
        # A reassignment never removes all there are.
        removing=text(draw(some) if len(replicas) > 1 else []),
        hw=high_watermark,
        leo=draw(st.integers(high_watermark, 2)),
    )


images = st.builds(
    lambda found, fenced: image_of(*found, ids="1 2 3", fenced=fenced),
    st.lists(partitions(), min_size=1, max_size=6),
    st.sampled_from(["", "1", "2 3"]),
)

# fmt: off
DECISIONS = {
    "leaders where none":  lambda image: elect_where_none(image, image.eligible_brokers(), "why"),
    "leaderless":          leaderless,
    "lost replicas":       lambda image: recreate_lost(image, lambda: "new"),
    "reassignments go on": advance_reassignments,
    "reassignments":       list_reassignments,
    "imbalance":           imbalance_percentages,
}
# fmt: on


def test_each_decision_is_the_same_when_all_partitions_are_visited(monkeypatch):
    """All on the same images: to draw one takes longer than to decide on it."""
    decided = {name: Counter() for name in DECISIONS}

    @settings(max_examples=many(300), derandomize=True)
    @given(images)
    def check(image):
        with monkeypatch.context() as patch:
            patch.setattr(MetadataImage, "partitions_needing_work", MetadataImage.partitions)
            of_all = {name: decide(image) for name, decide in DECISIONS.items()}

        for name, decide in DECISIONS.items():
            assert decide(image) == of_all[name], name
            decided[name][bool(getattr(of_all[name], "records", of_all[name]))] += 1

    check()
    assert all(min(each[True], each[False]) > 3 for each in decided.values()), decided
