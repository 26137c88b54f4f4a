"""Clusters of three disks in plain Python: one that tests share, and new ones that they break."""

from itertools import count

import pytest

from tests.cluster.disks import new_disks, one_race_a_device, patient_passes

_NUMBERS = count()
CLIENTS = {"append", "consuming", "producing"}


@pytest.fixture(scope="module", autouse=True)
def _one_race_a_device():
    """Not for the session: tests of other folders, in the same process, see each race."""
    with one_race_a_device():
        yield


@pytest.fixture(autouse=True)
def _patient_passes():
    with patient_passes():
        yield


@pytest.fixture(scope="session")
def shared_disks():
    """A cluster that no test harms: what is sent to it arrives, however long a busy machine takes."""
    with new_disks(configs={"delivery.timeout.ms": "120000"}) as disks:
        yield disks


@pytest.fixture
def cluster(shared_disks):
    return shared_disks.cluster


@pytest.fixture
def new_topic(cluster):
    def make(**arguments):
        name = f"topic-{next(_NUMBERS)}"
        cluster.create_topic(name, **{"replication_factor": 3, **arguments})
        return name

    return make


@pytest.fixture
def topic(new_topic):
    return new_topic()


@pytest.fixture
def disks(request):
    """A cluster of its own, whose brokers can be broken. Nobody gives up an append but by request in
    tests of clients, which a busy machine may keep waiting for long."""
    is_patient = request.path.parent.name in CLIENTS
    with new_disks(configs={"delivery.timeout.ms": "120000"} if is_patient else {}) as disks:
        yield disks
