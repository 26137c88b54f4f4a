"""What brokers lead and hold, counted in one pass."""

from kafka_on_spark.service.describe.descriptions import describe_brokers
from tests.builders import image_of, partition


def counts(image):
    return {
        each.registration.broker_id: (
            each.leader_count,
            each.preferred_count,
            each.replica_count,
            each.in_sync_count,
            each.lost_count,
        )
        for each in describe_brokers(image)
    }


def test_a_replica_on_an_unregistered_broker_counts_for_no_broker():
    assert counts(image_of(partition("1 9"), ids="1")) == {1: (1, 1, 1, 1, 0)}
