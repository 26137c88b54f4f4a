"""What brokers lead and hold, counted in one pass."""

from kafka_on_spark.service.descriptions import describe_brokers
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


def test_brokers_are_counted_by_what_they_lead_are_to_lead_and_hold():
    image = image_of(
        partition("1 2 3", isr="2 3", leader=2, lost="1"),
        partition("2 1", isr="1 2", leader=2),
        partition("1", isr="1", leader=None),
        ids="1 2 3 4",
        fenced="4",
    )

    #                        leads, preferred, replicas, in sync, lost
    assert counts(image) == {
        1: (0, 2, 3, 2, 1),
        2: (2, 1, 2, 2, 0),
        3: (0, 0, 1, 1, 0),
        4: (0, 0, 0, 0, 0),
    }


def test_replica_on_a_broker_that_was_unregistered_is_nobodys():
    assert counts(image_of(partition("1 9"), ids="1")) == {1: (1, 1, 1, 1, 0)}
