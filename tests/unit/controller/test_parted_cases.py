"""Two logs that part above what is committed: the leader epoch is raised, once a joining."""

import pytest

from kafka_on_spark.controller.parted import raise_epoch
from kafka_on_spark.controller.replication import conclude
from tests.builders import image_of, partition, report, seen

PARTED = {"is_matched": False, "is_parted": True}

# fmt: off
CASES = [  # ISR, min.insync.replicas, who has parted   ISR after, or None
    pytest.param("1 2 3", "2", (2,),   {1, 3},    id="it-leaves-where-the-minimum-is-left"),
    pytest.param("1 2",   "2", (2,),   {1, 2},    id="it-stays-where-it-is-not"),
    pytest.param("1 2 3", "3", (3,),   {1, 2, 3}, id="nor-here"),
    pytest.param("1 2 3", "2", (2, 3), {1, 3},    id="of-two-as-many-as-may-leave"),
    pytest.param("1 2 3", "1", (2, 3), {1},       id="all-that-may"),
    pytest.param("1 3",   "2", (2,),   None,      id="outside-the-isr-it-raises-nothing"),
    pytest.param("1 2 3", "2", (),     None,      id="nobody-has"),
]
# fmt: on


@pytest.mark.parametrize("isr, minimum, parted, after", CASES)
def test_the_leader_leads_on_in_a_new_epoch(isr, minimum, parted, after):
    before = partition("1 2 3", isr)
    image = image_of(before, configs={"min.insync.replicas": minimum})
    followers = [seen(each, 7, **(PARTED if each in parted else {})) for each in (2, 3)]

    record = raise_epoch(image, report(seen(1, 7), *followers))

    if after is None:
        assert record is None
        return
    changed = before.merge(record.change)
    assert (changed.leader, changed.isr) == (1, after)
    assert changed.leader_epoch == before.leader_epoch + 1
    assert changed.unclean_generation == before.unclean_generation
    assert "nobody knows which is right" in record.cause


@pytest.mark.parametrize(
    "epochs", [{"epoch": 4}, {"version": 8}], ids=["another-leadership", "a-change-since"]
)
def test_a_look_of_before_raises_nothing(epochs):
    image = image_of(partition("1 2 3"))

    assert raise_epoch(image, report(seen(1, 7), seen(2, 7, **PARTED), **epochs)) is None


def test_in_one_decision_it_comes_with_nothing_that_counts_the_parted_log():
    image = image_of(partition("1 2", hw=3, hw_epoch=5), configs={"min.insync.replicas": "2"})

    decided = conclude(image, [report(seen(1, 7), seen(2, 7, **PARTED))])

    assert all(getattr(each, "high_watermark", None) is None for each in decided.records)
    assert decided.response == 1
