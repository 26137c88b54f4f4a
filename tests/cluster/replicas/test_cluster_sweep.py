"""A bad leader that nobody appends to is found by rounds alone, in any process."""

from types import SimpleNamespace

import pytest

from kafka_on_spark.controller.fetch_plan import FetchPace
from kafka_on_spark.controller.scheduler import scheduler
from kafka_on_spark.controller.upkeep import Upkeep, UpkeepReport
from tests.cluster.disks import kept_disks, partition_of, restored
from tests.fakes import FakeClock

PARTITIONS = 12
BAD = 5
MINUTE_MS = 60_000
ROUNDS_OF_AN_INTERVAL = 10


def prepare(disks):
    disks.clock = FakeClock()
    cluster = with_clock(disks, disks.cluster)
    cluster.create_topic(
        "orders", replica_assignment={number: [1, 2, 3] for number in range(PARTITIONS)}
    )
    cluster.append("orders", [{"value": b"a", "partition": each} for each in range(PARTITIONS)])
    assert cluster.replicate().slice_count == PARTITIONS


@pytest.fixture(scope="module")
def life():
    with kept_disks(prepare) as base:
        yield base


@pytest.fixture
def disks(life):
    """A topic of twelve partitions with a record each, all inspected by a round of a process before."""
    with restored(life) as disks:
        disks.clock = FakeClock()
        with_clock(disks, disks.cluster)
        yield disks


def with_clock(disks, cluster):
    """Have a process's rounds take their time from the clock of the test."""
    node = cluster._node
    # Rounds alone inspect: no upkeep comes across what is bad.
    node._parts[Upkeep] = SimpleNamespace(run_share=lambda *args, **given: UpkeepReport())
    node.part(scheduler)._clock = node.part(FetchPace)._clock = node.clock = disks.clock
    return cluster


def newest_commit(folder):
    return sorted(folder.glob("_delta_log/*.json"))[-1]


def rounds_of_an_interval(disks, *, is_kept, is_over=lambda cluster: False):
    """Do a round a minute; in one process, or in one each, as a cron job does. Those after which
    something `is_over` are left out."""
    reports = []
    cluster = disks.cluster
    for _ in range(ROUNDS_OF_AN_INTERVAL):
        disks.clock.advance(MINUTE_MS)
        if not is_kept:
            cluster = with_clock(disks, disks.open())
        reports.append(cluster.replicate())
        if is_over(cluster):
            break
    return reports


@pytest.mark.parametrize("is_kept", [True, False], ids=["a process that goes on", "cron jobs"])
def test_a_bad_leader_is_found_within_the_interval_by_rounds_alone(disks, is_kept):
    epoch = partition_of(disks.cluster, "orders", BAD).leader_epoch
    if is_kept:
        rounds_of_an_interval(disks, is_kept=True)
    newest_commit(disks.folder(1, "orders", BAD)).unlink()

    reports = rounds_of_an_interval(
        disks,
        is_kept=is_kept,
        is_over=lambda cluster: partition_of(cluster, "orders", BAD).leader_epoch > epoch,
    )

    cluster = disks.open()
    assert sum(bool(report.failures) for report in reports) >= 1
    assert all(report.slice_count < PARTITIONS for report in reports)
    assert partition_of(cluster, "orders", BAD).leader_epoch > epoch
    cluster.run_controller()
    cluster.append("orders", [{"value": b"b", "partition": BAD}])
    read = cluster.read("orders").to_pylist()
    assert [row["value"] for row in read if row["partition"] == BAD] == [b"a", b"b"]
