"""What kafka-log-dirs says of replicas, from an image and what their tables hold."""

from kafka_on_spark.errors import KafkaStorageError
from kafka_on_spark.service.describe.sizes import (
    created_replicas,
    lost_sizes,
    replica_size,
)
from tests.builders import TOPIC, image_of, log, partition


def of(image, *arguments):
    return [(each.broker_id, each.key.partition) for each in created_replicas(image, *arguments)]


def test_created_replicas_come_by_broker_and_partition_and_others_are_left_out():
    image = image_of(
        partition("2 1 3", unmade="3"), partition("3 1", lost="1", isr="3"), ids="1 2 3"
    )

    assert of(image) == [(1, 0), (2, 0), (3, 1)]
    assert of(image, {TOPIC}, [3]) == [(3, 1)]
    assert of(image, {"others"}) == []


def test_a_size_sums_all_segments_and_the_lag_counts_missing_committed_offsets():
    image = image_of(partition("1 2", isr="1", hw=5))
    [_, follower] = created_replicas(image)
    state = log("0:aab")

    size = replica_size(image, follower, state)

    assert size.size_bytes == sum(batch.size_bytes for batch in state.batches)
    assert (size.log_end_offset, size.offset_lag) == (3, 2)
    assert not size.is_in_sync
    assert size.error is None


def test_replica_that_is_ahead_of_the_high_watermark_lacks_nothing():
    image = image_of(partition("1 2", hw=2))

    size = replica_size(image, created_replicas(image)[0], log("0:aab"))

    assert size.offset_lag == 0


def test_a_replica_that_a_reassignment_adds_is_a_future_one():
    image = image_of(partition("3 1 2", isr="1 2", leader=1, adding="3"))

    future = [replica_size(image, each, log("")).is_future for each in created_replicas(image)]

    assert future == [False, False, True]


def test_replica_that_cannot_be_read_says_why_and_no_size():
    image = image_of(partition("1"))

    size = replica_size(image, created_replicas(image)[0], KafkaStorageError("the disk is away"))

    assert (size.size_bytes, size.log_end_offset, size.offset_lag) == (None, None, None)
    assert size.error == "the disk is away"


def test_lost_replicas_have_an_error_in_place_of_figures_and_those_never_made_no_row():
    image = image_of(
        partition("2 1", unmade="1"),
        partition("3 1", lost="1", isr="3"),
        partition("1", lost="1", leader=None),
    )

    sizes = lost_sizes(image)

    assert [(each.name.partition, each.broker_id, each.is_in_sync) for each in sizes] == [
        (1, 1, False),
        (2, 1, True),
    ]
    assert {each.size_bytes for each in sizes} == {None}
    assert all("the replica is lost" in each.error for each in sizes)
    assert lost_sizes(image, {TOPIC}, [3]) == lost_sizes(image, {"others"}) == []
