"""A cluster of three disks of its own, in plain Python."""

import pytest

from tests.cluster.disks import new_disks


@pytest.fixture
def disks():
    with new_disks() as disks:
        yield disks
