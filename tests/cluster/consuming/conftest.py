"""Clusters of their own for tests of consumers, which a busy machine may keep waiting for long."""

import pytest

from tests.cluster.disks import new_disks


@pytest.fixture
def disks():
    """A cluster whose brokers can be broken, and whose appends nobody gives up but by request."""
    with new_disks(configs={"delivery.timeout.ms": "120000"}) as disks:
        yield disks
