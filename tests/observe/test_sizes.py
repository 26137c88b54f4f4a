"""What kafka-log-dirs says of replicas, from an image and what their tables hold."""

from kafka_on_spark.base.errors import KafkaStorageError
from kafka_on_spark.observe.sizes import replica_sizes
from tests.builders import TOPIC, image_of, log, partition


def sizes_of(image, found=None, topics=None, brokers=None):
    state = log("") if found is None else found
    return replica_sizes(image, topics, brokers, lambda each: [(one, state) for one in each])


def test_created_replicas_come_by_broker_and_partition_and_those_never_made_have_no_row():
    image = image_of(partition("2 1 3", unmade="3"), partition("3 1", isr="3"), ids="1 2 3")

    def of(*asked):
        return [(each["broker"], each["partition"]) for each in sizes_of(image, None, *asked)]

    assert of() == [(1, 0), (1, 1), (2, 0), (3, 1)]
    assert of({TOPIC}, [3]) == [(3, 1)]
    assert of({"others"}) == []


def test_a_size_sums_all_segments_and_the_lag_counts_missing_committed_offsets():
    state = log("0:aab")

    _, follower = sizes_of(image_of(partition("1 2", isr="1", hw=5)), state)

    assert follower["size_bytes"] == sum(batch.size_bytes for batch in state.batches)
    assert (follower["log_end_offset"], follower["offset_lag"]) == (3, 2)
    assert not follower["is_in_sync"]
    assert follower["error"] is None


def test_replica_that_is_ahead_of_the_high_watermark_lacks_nothing():
    assert sizes_of(image_of(partition("1 2", hw=2)), log("0:aab"))[0]["offset_lag"] == 0


def test_a_replica_that_a_reassignment_adds_is_a_future_one():
    image = image_of(partition("3 1 2", isr="1 2", leader=1, adding="3"))

    assert [each["is_future"] for each in sizes_of(image)] == [False, False, True]


def test_replica_that_cannot_be_read_says_why_and_no_size():
    [row] = sizes_of(image_of(partition("1")), KafkaStorageError("the disk is away"))

    assert (row["size_bytes"], row["log_end_offset"], row["offset_lag"]) == (None, None, None)
    assert row["error"] == "the disk is away"


def test_lost_replicas_have_an_error_in_place_of_figures():
    image = image_of(partition("3 1", lost="1", isr="3"), partition("1", lost="1", leader=None))

    first, second, _ = sizes_of(image)

    assert (first["partition"], first["is_in_sync"]) == (0, False)
    assert (second["partition"], second["is_in_sync"]) == (1, True)
    assert {first["size_bytes"], second["size_bytes"]} == {None}
    assert all("the replica is lost" in each["error"] for each in (first, second))
