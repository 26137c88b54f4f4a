"""What holds for every test of the console."""

import pytest

from tests.cluster.disks import new_disks, patient_passes
from tests.console.browsers import browser, needed


@pytest.fixture(autouse=True)
def _patient_passes():
    with patient_passes():
        yield


@pytest.fixture(scope="module")
def chromium():
    with browser() as launched:
        yield launched


@pytest.fixture
def disks():
    """A cluster of one topic and one group, for a page: without a browser it is not made."""
    needed()
    with new_disks(racks={1: "a", 2: "b", 3: "c"}) as disks:
        disks.cluster.create_topic("orders", partitions=1, replication_factor=3)
        disks.cluster.append("orders", [(b"k%d" % n, b'{"n": %d}' % n) for n in range(9)])
        disks.cluster.alter_group_offsets("billing", {("orders", 0): 4})
        yield disks
