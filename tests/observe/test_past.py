"""Which past `as_of` names, and what is refused as none."""

from datetime import timedelta

import pytest

from kafka_on_spark.base.errors import InvalidRequestError
from kafka_on_spark.base.ids import EPOCH, Offset
from kafka_on_spark.metadata.image import ControllerResult
from kafka_on_spark.metadata.records import ConfigRecord
from kafka_on_spark.observe.metadata_as_of import metadata_as_of
from tests.controller.controlled import World

SECOND_MS = 1000


def moment(time_ms):
    return EPOCH + timedelta(milliseconds=time_ms)


@pytest.fixture
def world():
    """A cluster that was made at second 0, and changed at seconds 1 and 2."""
    world = World()
    for count in ("2", "3"):
        world.clock.advance(SECOND_MS)
        record = ConfigRecord(topic_id=None, config_name="min.insync.replicas", config_value=count)
        world.metadata().submit(
            lambda image, record=record: ControllerResult([record], None), timeout_ms=1000
        )
    return world


def back(world, as_of, now_ms=None):
    """Return the minimum in sync as it was, and where the metadata log ended."""
    now = world.metadata()
    past = metadata_as_of(now, as_of, now_ms=world.clock.now_ms() if now_ms is None else now_ms)
    assert past.catch_up() is past.image
    return past.image.configs.get("min.insync.replicas"), past.image.offset


@pytest.mark.parametrize(
    "ago_ms, seen", [(0, "3"), (1, "2"), (1000, "2"), (1001, None), (2000, None)]
)
def test_a_moment_has_all_that_was_committed_up_to_it(world, ago_ms, seen):
    at = moment(world.clock.now_ms() - ago_ms)

    assert back(world, at)[0] == seen
    assert back(world, at.astimezone())[0] == seen


def test_a_moment_before_the_cluster_is_refused_and_its_first_decision_named(world):
    made_at_ms = world.clock.now_ms() - 2 * SECOND_MS

    assert back(world, moment(made_at_ms)) == (None, 1)
    with pytest.raises(InvalidRequestError, match="ends at metadata offset 1; name a later one"):
        back(world, moment(made_at_ms - 1))
    with pytest.raises(InvalidRequestError, match="the cluster was made at"):
        back(world, 0)


def test_an_image_of_the_past_is_the_same_from_wherever_it_is_replayed(world):
    service = world.metadata()
    images = [service.image_at(Offset(end)) for end in range(1, service.image.offset + 1)]

    for wanted in images:
        for after in images:
            assert service.image_at(wanted.offset, after) == wanted
    assert [each.configs.get("min.insync.replicas") for each in images] == [None, "2", "3"]
