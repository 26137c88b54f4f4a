"""Clusters of their own for tests of members, of whom nobody is fenced by chance."""

import pytest

from tests.cluster.consuming.groups.members import SHORT_SESSION
from tests.cluster.disks import new_disks

SETTINGS = {
    # Nobody is fenced by chance: a machine under load keeps a thread waiting for seconds.
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.heartbeat.interval.ms": "250",
    "delivery.timeout.ms": "120000",
}


@pytest.fixture
def disks():
    with new_disks(1, configs=SETTINGS) as disks:
        disks.cluster.create_topic("orders", partitions=4)
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


@pytest.fixture
def short_session(cluster):
    cluster.alter_cluster_configs(SHORT_SESSION)
