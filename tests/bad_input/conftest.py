"""A cluster that bad input must leave as it is."""

from functools import partial

import pytest

from tests.bad_input.refusals import refused as _refused
from tests.cluster.disks import new_disks


@pytest.fixture(scope="session")
def disks():
    """Once: what is refused leaves it as it was."""
    with new_disks() as disks:
        disks.cluster.create_topic(
            "orders", partitions=3, replication_factor=3, configs={"max.message.bytes": 1000}
        )
        disks.cluster.append("orders", [(b"key", b"value")])
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


@pytest.fixture
def refused(disks):
    """Checks that nothing was written, and the words of the sentence."""
    return partial(_refused, disks.cluster, disks.base)
