"""A bad leader that nobody appends to is found by rounds alone, in any process."""

import json
import shutil
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


def change_a_byte(folder):
    commit = newest_commit(folder)
    content = bytearray(commit.read_bytes())
    content[content.index(b'"add"') + 1] ^= 1
    commit.write_bytes(content)


def change_newest(folder, change):
    """Have one value of the newest commit's actions changed, the rest as it was."""
    commit = newest_commit(folder)
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        change(action)
    commit.write_text("\n".join(json.dumps(action) for action in actions) + "\n")


def lead_out_of_the_folder(action):
    if "add" in action:
        action["add"]["path"] = "../../../elsewhere.parquet"


def move_by_one(action):
    if "add" in action:
        action["add"]["partitionValues"]["base_offset"] = "1"


DAMAGE = {
    "removed": shutil.rmtree,
    "emptied": lambda folder: newest_commit(folder).write_bytes(b""),
    "garbage": lambda folder: newest_commit(folder).write_bytes(b"{xx"),
    "rolled back": lambda folder: newest_commit(folder).unlink(),
    "a byte changed": change_a_byte,
    "a path out of the folder": lambda folder: change_newest(folder, lead_out_of_the_folder),
    "another offset": lambda folder: change_newest(folder, move_by_one),
}


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


def by_turns():
    """Return each damage, found by a process that goes on and by cron jobs: by one of them by default."""
    return [
        pytest.param(
            damage,
            is_kept,
            id=f"{damage}-{'a process that goes on' if is_kept else 'cron jobs'}",
            marks=[pytest.mark.long] * (number % 2 == is_kept),
        )
        for number, damage in enumerate(DAMAGE)
        for is_kept in (True, False)
    ]


@pytest.mark.parametrize("damage, is_kept", by_turns())
def test_a_bad_leader_is_found_within_the_interval_by_rounds_alone(disks, damage, is_kept):
    epoch = partition_of(disks.cluster, "orders", BAD).leader_epoch
    if is_kept:
        rounds_of_an_interval(disks, is_kept=True)
    DAMAGE[damage](disks.folder(1, "orders", BAD))

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
