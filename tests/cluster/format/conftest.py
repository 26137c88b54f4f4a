"""What tests of the format's readers and writers share."""

import pytest

from tests.cluster.disks import new_disks


@pytest.fixture
def disks():
    """Three brokers, and a topic `t` of one partition with two replicas."""
    with new_disks() as disks:
        disks.cluster.create_topic(
            "t", replica_assignment={0: [1, 2]}, configs={"min.insync.replicas": 1}
        )
        yield disks
