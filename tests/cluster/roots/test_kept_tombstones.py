"""How long the tables of a cluster name what they have removed: a busy one must not name it all."""

import pytest
from deltalake import DeltaTable

from tests.cluster.disks import new_disks, records

REPLICAS = {0: [1]}
NAME = "delta.deletedFileRetentionDuration"


@pytest.mark.parametrize(
    "delay_ms, kept",
    [
        pytest.param(10_000, "interval 610 seconds", id="ten-seconds"),
        pytest.param(3_600_000, "interval 7200 seconds", id="an-hour"),
    ],
)
def test_tables_name_removed_files_until_they_may_go_and_a_cleaner_has_come(delay_ms, kept):
    with new_disks(configs={"file.delete.delay.ms": delay_ms}) as disks:
        disks.cluster.create_topic("orders", replica_assignment=REPLICAS)
        disks.cluster.create_topic(
            "slow", replica_assignment=REPLICAS, configs={"file.delete.delay.ms": 1_000_000}
        )
        for topic in ("orders", "slow"):
            disks.cluster.append(topic, records(b"a"))
        [metadata] = disks.metadata_root.glob("__cluster_metadata*")
        tables = [metadata, disks.folder(1, "orders"), disks.folder(1, "slow")]
        found = [DeltaTable(table).metadata().configuration[NAME] for table in tables]

    # The metadata log has a delay of its own.
    assert found == ["interval 180 seconds", kept, "interval 2000 seconds"]
