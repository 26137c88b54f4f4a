"""What is done for the next append while another one is under way: only what is due."""

import pytest

from kafka_on_spark.storage.replica_log import DeltaReplicaLog
from tests.cluster.disks import new_disks


@pytest.fixture
def disks():
    with new_disks() as disks:
        disks.cluster.create_topic("orders", replication_factor=1)
        yield disks


@pytest.fixture
def told(monkeypatch):
    """Return whether each table was told that its process is busy."""
    told = []
    maintain = DeltaReplicaLog.maintain

    def noted(log, *, is_busy=False):
        told.append(is_busy)
        maintain(log, is_busy=is_busy)

    monkeypatch.setattr(DeltaReplicaLog, "maintain", noted)
    return told


def test_after_an_append_its_tables_are_made_ready_for_the_next(disks, told):
    disks.cluster.append("orders", [{"value": b"v"}])
    disks.cluster._services.finish_maintenance()

    assert told == [False]


def test_while_an_append_is_under_way_tables_wait_for_it(disks, told):
    services = disks.cluster._services
    disks.cluster.append("orders", [{"value": b"v"}])
    services.finish_maintenance()
    image = services.metadata.image

    with services.appends._busy():
        services.maintain(image, [key for key, _ in image.partitions()])
        services.finish_maintenance()

    assert told == [False, True]
    assert not services.appends.is_busy
