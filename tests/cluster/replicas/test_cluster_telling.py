"""Upkeep as people see it, on real disks: what is due, what was decided and done, what fails."""

import pytest

from tests.cluster.disks import new_disks, records
from tests.cluster.replicas.test_cluster_failover import REPLICAS

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.5",
    "delete.retention.ms": "0",
}


@pytest.fixture
def disks():
    with new_disks(configs={"log.cleaner.interval.ms": 1}) as disks:
        yield disks


def compacted(disks):
    """Make a compacted topic of three appends, of which one value stays, and maintain it."""
    cluster = disks.cluster
    cluster.create_topic("prices", replica_assignment=REPLICAS, configs=COMPACTED)
    for value in (b"1", b"2", b"3"):
        cluster.append("prices", records(value))
    return cluster


def figures(cluster):
    found = {}
    for each in cluster.metrics():
        found[each.name, each.labels.get("broker"), each.labels.get("kind")] = each.value
    return found


def test_what_compaction_is_due_for_decides_and_does_is_told(disks):
    cluster = compacted(disks)

    dry_run = cluster.maintain(is_dry_run=True)
    assert [(row.kind, row.what.split(":")[0]) for row in dry_run.rows] == [
        ("compaction", "decision")
    ]

    done = cluster.maintain()

    assert {row.kind for row in done.rows} >= {"compaction", "compact"}
    [logs] = cluster.describe_logs("prices")
    assert logs.compaction.compacted_below == 3
    assert any("compacted below 3" in (each.cause or "") for each in cluster.history("prices"))
    for log in logs.replicas:
        assert (log.compacted.cleaner_offset, log.compacted.dirty_bytes) == (3, 0)
        assert (log.plain_segments, log.merged_segments, log.record_count) == (0, 1, 1)
    found = figures(cluster)
    assert found["NumMergedSegments", 2, None] == 1
    assert found["max-dirty-percent", 1, None] == 0
    assert found["done-count", None, "compact"] == 3
