"""A stream goes on while the metadata roots that its cluster has come and go."""

import pytest

from tests.cluster.disks import new_disks, records
from tests.integration.format.frames import Batches, stream

pytestmark = pytest.mark.integration


def test_each_record_is_seen_once_while_one_metadata_root_becomes_three_and_these_become_one(
    spark, tmp_path
):
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
        for voter, value in ((1, b"without the first"), (2, b"one root again")):
            cluster.remove_controller(voter)
            cluster.append("orders", records(value))
            query.processAllAvailable()
        assert [each.voter.key.node_id for each in cluster.describe_quorum().voters] == [3]
        query.stop()
        cluster.append("orders", records(b"while stopped"))

        again = stream(spark, disks, "orders", startingOffsets="earliest")
        batches.run(again, tmp_path / "checkpoint")

    grown, shrunk = [b"m2", b"m3"], [b"without the first", b"one root again"]
    assert batches.seen == [b"one root", *grown, *shrunk, b"while stopped"]
