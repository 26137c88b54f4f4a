"""What holds for every test of the console."""

import pytest

from tests.cluster.disks import patient_passes


@pytest.fixture(autouse=True)
def _patient_passes():
    with patient_passes():
        yield
