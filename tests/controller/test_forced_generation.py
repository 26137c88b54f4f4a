"""What a new generation begins with: nobody leads, and nobody is trusted to be in sync."""

import pytest

from kafka_on_spark.base.errors import InconsistentClusterError
from kafka_on_spark.base.ids import PartitionKey
from kafka_on_spark.controller.election import leaderless
from kafka_on_spark.controller.forced_generation import (
    RAISES_MAX,
    begin_generation,
    raise_above,
)
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.records import MetadataBatch, Stamp
from tests.builders import KEY, TOPIC_ID, image_of, partition

NEW = PartitionKey(TOPIC_ID, 1)


def replayed(image, records):
    batch = MetadataBatch(base_offset=image.offset, stamp=Stamp(time_ms=1), records=tuple(records))
    return image.replay(batch)


@pytest.fixture
def forced():
    """A partition with records, and one that nothing was ever appended to."""
    image = image_of(
        partition("1 2 3", hw=10, hw_epoch=4),
        partition("1 2", unmade="1 2"),
        cluster_id="a-cluster",
    )
    return replayed(image, begin_generation(image, 1, "forced"))


def test_a_partition_without_a_table_may_be_led_by_anybody_assigned(forced):
    registration = forced.partition(NEW)

    assert (registration.leader, registration.isr) == (None, {1, 2})
    assert NEW not in leaderless(forced)


def test_a_generation_is_in_a_snapshot(forced):
    start = type(forced)()

    assert replayed(start, snapshot_records(forced)).generation == 1
    assert replayed(start, snapshot_records(image_of(cluster_id="c"))).generation == 0


def test_a_fence_out_of_reach_is_another_clusters(forced):
    with pytest.raises(InconsistentClusterError, match="another cluster"):
        raise_above(forced, {KEY: RAISES_MAX + 7}, "above")
