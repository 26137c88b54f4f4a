"""Producer ids and groups' offsets that expire, on real roots."""

import pytest

from kafka_on_spark.base.errors import UnknownProducerIdError
from tests.cluster.disks import records, values_of


@pytest.fixture
def topic(cluster):
    """A topic; ids and offsets expire when a controller looks."""
    name = "expiring"
    cluster.create_topic(name, partitions=1)
    yield name
    cluster.alter_cluster_configs(
        {"producer.id.expiration.ms": None, "offsets.retention.minutes": None}
    )
    cluster.delete_topic(name)


def test_a_retry_under_an_id_that_has_expired_is_refused_until_its_caller_vouches_for_it(
    cluster, topic
):
    cluster.append(topic, records(b"a"), producer_id="p", sequence=0)
    taken = cluster.image.producers["p"]
    cluster.run_controller()
    assert "p" in cluster.image.producers

    cluster.alter_cluster_configs({"producer.id.expiration.ms": 1})
    cluster.run_controller()

    assert "p" not in cluster.image.producers
    assert cluster.image.expired_epoch >= taken
    cluster.alter_cluster_configs({"producer.id.expiration.ms": None})
    above = cluster.image.expired_epoch + 1
    for _ in range(2):
        with pytest.raises(UnknownProducerIdError, match=f"give producer_epoch {above} "):
            cluster.append(topic, records(b"a"), producer_id="p", sequence=0)
    again = cluster.append(topic, records(b"a"), producer_id="p", producer_epoch=above, sequence=0)
    assert again.is_duplicate  # its header is there still
    cluster.append(topic, records(b"b"), producer_id="p", producer_epoch=above, sequence=1)
    assert cluster.image.producers["p"] > taken
    assert values_of(cluster, topic) == [b"a", b"b"]


def test_a_producer_goes_on_after_its_id_has_expired(cluster, topic):
    with cluster.producer(linger_ms=0) as producer:
        producer.send(topic, None, b"a").result()
        cluster.alter_cluster_configs({"producer.id.expiration.ms": 1})
        cluster.run_controller()
        cluster.alter_cluster_configs({"producer.id.expiration.ms": None})
        producer.send(topic, None, b"b").result()

    assert values_of(cluster, topic) == [b"a", b"b"]
