"""Incarnation, closing and opening clusters: one log of metadata, and snapshots that equal it."""

import pytest

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import (
    DuplicateBrokerRegistrationError,
    InconsistentClusterError,
    InconsistentClusterIdError,
    InvalidRequestError,
    KafkaStorageError,
)
from tests.cluster.disks import files_below, records, values_of


def test_a_cluster_that_was_closed_opens_with_all_that_it_had(disks):
    with disks.open() as cluster:
        cluster.create_topic("orders", replication_factor=3, configs={"min.insync.replicas": 2})
        cluster.append("orders", records(b"a"))
        before = cluster.image

    with disks.open() as again:
        assert again.image == before
        assert values_of(again, "orders") == [b"a"]
        assert again.describe_topic("orders").configs == {"min.insync.replicas": "2"}


CALLS = [
    lambda cluster: cluster.append("orders", records(b"b")),
    lambda cluster: cluster.read("orders"),
    lambda cluster: cluster.create_topic("other"),
    lambda cluster: cluster.replicate(),
    lambda cluster: cluster.run_controller(),
]


def test_a_metadata_root_that_is_away_is_said_to_be_and_is_welcome_back(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    disks.cluster.append("orders", records(b"a"))
    away = disks.metadata_root.rename(disks.base / "meta-away")

    for call in CALLS:
        with pytest.raises(
            KafkaStorageError, match=r"nothing of the cluster is at .*: mount its disk"
        ):
            call(disks.cluster)

    assert not disks.metadata_root.exists()
    away.rename(disks.metadata_root)
    for call in CALLS:
        call(disks.cluster)
    assert values_of(disks.cluster, "orders") == [b"a", b"b"]


def test_a_metadata_log_that_went_back_stops_the_process_aloud(disks):
    disks.cluster.create_topic("orders", replication_factor=3)
    copy = disks.leave_unreadable(disks.metadata_root)
    disks.cluster.append("orders", records(b"a"))
    disks.restore(copy, disks.metadata_root)
    before = files_below(disks.metadata_root)

    for call in CALLS:
        with pytest.raises(InconsistentClusterError, match="stop and restore it"):
            call(disks.cluster)

    assert files_below(disks.metadata_root) == before


TAKEN = [
    ({7: "broker-2"}, DuplicateBrokerRegistrationError, "belongs to broker 2"),
    ({2: "broker-2"}, InconsistentClusterIdError, "belongs to cluster"),
    ({1: "a", 2: "a/../a"}, InvalidRequestError, "two brokers have the same root"),
]


def test_a_cluster_is_not_made_on_a_root_in_use(disks):
    before = files_below(disks.root(1), disks.root(2), disks.root(3), disks.metadata_root)

    for roots, error, sentence in TAKEN:
        brokers = {number: disks.base / name for number, name in roots.items()}
        with pytest.raises(error, match=sentence):
            Cluster.create(disks.base / "other", brokers)

    after = files_below(disks.root(1), disks.root(2), disks.root(3), disks.metadata_root)
    assert after == before
