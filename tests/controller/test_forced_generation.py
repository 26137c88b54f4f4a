"""What a new generation begins with: nobody leads, and nobody is trusted to be in sync."""

from dataclasses import replace

import pytest

from kafka_on_spark.base.errors import InconsistentClusterError
from kafka_on_spark.base.ids import BrokerId, LeaderEpoch, Offset, PartitionKey
from kafka_on_spark.controller.election import elect_by_inspections, leaderless
from kafka_on_spark.controller.forced_generation import (
    RAISES_MAX,
    awaiting_leaders,
    begin_generation,
    raise_above,
)
from kafka_on_spark.metadata.image import snapshot_records
from kafka_on_spark.metadata.records import MetadataBatch, Stamp
from tests.builders import KEY, TOPIC_ID, digest_at, image_of, inspection, partition

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


def test_nobody_leads_and_nobody_counts_as_in_sync(forced):
    registration = forced.partition(KEY)

    assert forced.generation == 1
    assert (registration.leader, registration.isr, registration.elr) == (None, set(), set())
    assert (registration.leader_epoch, registration.high_watermark) == (6, 10)
    assert awaiting_leaders(forced) == [KEY]
    assert leaderless(forced) == [KEY]


def test_a_partition_without_a_table_may_be_led_by_anybody_assigned(forced):
    registration = forced.partition(NEW)

    assert (registration.leader, registration.isr) == (None, {1, 2})
    assert NEW not in leaderless(forced)


def test_a_generation_is_in_a_snapshot(forced):
    start = type(forced)()

    assert replayed(start, snapshot_records(forced)).generation == 1
    assert replayed(start, snapshot_records(image_of(cluster_id="c"))).generation == 0


@pytest.mark.parametrize("fence, epoch", [(-1, 6), (5, 6), (6, 7), (20, 21)])
def test_the_next_leadership_is_above_every_fence(forced, fence, epoch):
    result = raise_above(forced, {KEY: fence}, "above")

    assert replayed(forced, result.records).partition(KEY).leader_epoch == epoch
    assert result.response == (epoch > 6)


def test_a_fence_out_of_reach_is_another_clusters(forced):
    with pytest.raises(InconsistentClusterError, match="another cluster"):
        raise_above(forced, {KEY: RAISES_MAX + 7}, "above")


def test_a_replica_that_proves_itself_leads_only_where_all_answered(forced):
    seen = inspection(forced.partition(KEY), 2)
    whole = replace(
        seen,
        log_end_offset=Offset(10),
        last_epoch=LeaderEpoch(4),
        epoch_below_high_watermark=LeaderEpoch(4),
        chain_at_high_watermark=digest_at(10),
        chain_digest=digest_at(10),
    )
    all_of_them = [replace(whole, broker_id=BrokerId(each)) for each in (1, 2, 3)]

    [proven] = elect_by_inspections(forced, all_of_them, forced=frozenset([KEY])).records
    [unclean] = elect_by_inspections(forced, all_of_them[:2], forced=frozenset([KEY])).records

    assert replayed(forced, [proven]).partition(KEY).unclean_generation == 0
    assert replayed(forced, [unclean]).partition(KEY).unclean_generation == 1
    assert (
        elect_by_inspections(forced, all_of_them).records == []
    )  # who has fenced nothing leads nothing
