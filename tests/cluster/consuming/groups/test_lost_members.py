"""Members that are killed, frozen, or can't say that they leave: others go on and skip nothing."""

import json
import signal
import subprocess
import sys

import pytest

from kafka_on_spark.base.errors import GroupIdNotFoundError
from tests.cluster.consuming.groups.members import (
    append,
    wait_until,
)

PROGRAM = """
import json, sys
from kafka_on_spark import Cluster

def tell(what, *rest):
    print(json.dumps([what, *rest]), flush=True)

with Cluster.open(sys.argv[1]) as cluster:
    options = json.loads(sys.argv[2])
    consumer = cluster.consumer(
        "orders", group="g", auto_offset_reset="earliest", auto_commit_interval_ms=100,
        on_assigned=lambda names: tell("assigned", [each.partition for each in names]),
        on_lost=lambda names: tell("lost", [each.partition for each in names]),
        **options,
    )
    for record in consumer:
        tell("record", int(record.value))
        if record.value == b"-1":
            break
    consumer.close()
"""


class Member:
    def __init__(self, disks, path, **options):
        self.path = path
        with path.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(disks.metadata_root), json.dumps(options)],
                stdout=out,
            )

    def told(self, kind):
        lines = self.path.read_text().splitlines()
        return [each[1] for line in lines if (each := json.loads(line))[0] == kind]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


@pytest.fixture
def start(disks, tmp_path):
    members = []

    def start(**options):
        members.append(Member(disks, tmp_path / f"told-{len(members)}", **options))
        return members[-1]

    yield start
    for each in members:
        each.end()


def owners(cluster):
    try:
        members = cluster.describe_group_members("g").members
    except GroupIdNotFoundError:
        return []
    return sorted(len(each.partitions) for each in members)


@pytest.mark.long
@pytest.mark.usefixtures("short_session")
def test_members_are_killed_frozen_and_added_and_nothing_is_skipped(disks, start):
    cluster = disks.cluster
    first, second = start(), start()
    wait_until(lambda: owners(cluster) == [2, 2])
    append(cluster, 0, 200)
    # A member that is starved for a session is fenced, and what it had in hand comes twice.
    wait_until(lambda: set(first.told("record") + second.told("record")) >= set(range(200)))

    second.process.kill()
    append(cluster, 200, 200)
    wait_until(lambda: owners(cluster) == [4])
    third = start()
    wait_until(lambda: owners(cluster) == [2, 2])

    first.process.send_signal(signal.SIGSTOP)
    append(cluster, 400, 200)
    wait_until(lambda: owners(cluster) == [4])
    told, losses = len(first.told("record")), len(first.told("lost"))
    wait_until(lambda: set(range(400, 600)) <= set(third.told("record") + first.told("record")))
    first.process.send_signal(signal.SIGCONT)
    wait_until(lambda: len(first.told("lost")) > losses)
    wait_until(lambda: owners(cluster) == [2, 2])
    # The one that it may have been at when it was frozen; then it asked.
    kinds = [json.loads(line)[0] for line in first.path.read_text().splitlines()]
    lost_at = [place for place, kind in enumerate(kinds) if kind == "lost"][losses]
    assert kinds[:lost_at].count("record") <= told + 1
    append(cluster, 600, 200)

    everybody = [first, second, third]
    wait_until(
        lambda: {each for one in everybody for each in one.told("record")} >= set(range(800))
    )
    wait_until(lambda: sum(each.lag for each in cluster.describe_group("g")) == 0)
    twice = [each for one in everybody for each in one.told("record")]
    assert len(twice) - len(set(twice)) < 200, "what was committed is handed out once"
    assert cluster.fsck().findings == ()
