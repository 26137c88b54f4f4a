"""What brokers lead and hold, counted in one pass."""

from operator import itemgetter

from kafka_on_spark.observe.descriptions import describe_brokers
from tests.builders import image_of, partition


def counts(image):
    return {
        row["broker"]: itemgetter("leaders", "preferred", "replicas", "in_sync", "lost")(row)
        for row in describe_brokers(image)
    }


def test_brokers_have_counts_of_leaderships_preferred_leaderships_and_replicas():
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


def test_a_replica_on_an_unregistered_broker_counts_for_no_broker():
    assert counts(image_of(partition("1 9"), ids="1")) == {1: (1, 1, 1, 1, 0)}
