"""A stream goes on while the metadata roots that its cluster has come and go."""

import pytest

from tests.cluster.disks import new_disks, records
from tests.integration.format.frames import Batches, stream

pytestmark = pytest.mark.integration


def test_each_record_is_seen_once_while_the_metadata_roots_are_replaced(spark, tmp_path):
    """The stream was started with the first root, which is a voter no more; so it is started again."""
    with new_disks() as disks:
        cluster, batches = disks.cluster, Batches()
        cluster.create_topic("orders", replica_assignment={0: [1, 2]})
        frame = stream(spark, disks, "orders", startingOffsets="earliest")
        cluster.append("orders", records(b"one root"))
        query = batches.start(frame, tmp_path / "checkpoint")
        query.processAllAvailable()

        for name in ("m2", "m3"):
            cluster.add_controller(disks.base / name)
            cluster.append("orders", records(name.encode()))
            query.processAllAvailable()
        cluster.remove_controller(1)
        cluster.append("orders", records(b"without the first"))
        query.processAllAvailable()
        query.stop()
        cluster.append("orders", records(b"while stopped"))

        again = stream(spark, disks, "orders", startingOffsets="earliest")
        batches.run(again, tmp_path / "checkpoint")

    assert batches.seen == [b"one root", b"m2", b"m3", b"without the first", b"while stopped"]
