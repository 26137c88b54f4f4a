"""A machine that lacks a mount which others have: it moves what it appends to, and nothing else."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


class Machines:
    """Two machines, of which the second lacks a mount: folders from which processes look at roots.

    A root below ``/proc/self/cwd`` is what each process finds in the folder that it runs in.
    """

    def __init__(self, base):
        self.whole, self.lacking = base / "whole", base / "lacking"
        for machine in (self.whole, self.lacking):
            machine.mkdir()
            for number in (1, 2, 3):
                target = base / f"disk-{number}"
                target.mkdir(exist_ok=True)
                (machine / f"broker-{number}").symlink_to(target)
        (self.lacking / "broker-1").unlink()


MAIN = """
import sys
from kafka_on_spark import Cluster
"""


def _run(machine, metadata_root, code, *arguments):
    """Run code in a process of a machine; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN + code, str(metadata_root), *arguments],
        cwd=machine,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


CREATE = """
roots = {number: f"/proc/self/cwd/broker-{number}" for number in (1, 2, 3)}
configs = {"broker.session.timeout.ms": "1200", "delivery.timeout.ms": "5000",
           "min.insync.replicas": 2}
with Cluster.create(sys.argv[1], roots, configs=configs) as cluster:
    cluster.create_topic("orders", replica_assignment={0: [1, 2, 3], 1: [1, 2, 3]})
    cluster.append("orders", [{"value": b"a", "partition": each} for each in (0, 1)])
"""
APPEND = """
with Cluster.open(sys.argv[1]) as cluster:
    try:
        cluster.append("orders", [{"value": b"b", "partition": 0}])
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("appended")
"""
REPLICATE = """
with Cluster.open(sys.argv[1]) as cluster:
    cluster.replicate(is_sweep=True)
    print(sorted(cluster.describe_topic("orders").partitions[0].isr))
"""
APPEND_ON = """
import time
with Cluster.open(sys.argv[1]) as cluster:
    print("open", flush=True)
    until = time.monotonic() + 7
    while time.monotonic() < until:
        cluster.append("orders", [{"value": b"c", "partition": 1}])
        time.sleep(0.05)
"""
LEADERS = """
with Cluster.open(sys.argv[1]) as cluster:
    print([[each.leader, sorted(each.isr)] for each in cluster.describe_topic("orders").partitions])
"""


def test_a_machine_that_lacks_a_mount_moves_nothing_while_others_reach_the_disk(tmp_path):
    machines, root = Machines(tmp_path), tmp_path / "meta"
    _run(machines.whole, root, CREATE)
    others = threading.Thread(target=_run, args=(machines.whole, root, APPEND_ON))
    others.start()
    time.sleep(1.5)

    said = _run(machines.lacking, root, APPEND)

    others.join()
    assert said.startswith("RequestTimedOutError")
    assert json.loads(_run(machines.whole, root, LEADERS)) == [[1, [1, 2, 3]]] * 2


def test_a_machine_that_lacks_a_mount_does_not_take_out_again_whom_others_put_back(tmp_path):
    machines, root = Machines(tmp_path), tmp_path / "meta"
    _run(machines.whole, root, CREATE)

    assert _run(machines.lacking, root, APPEND) == "appended"
    assert json.loads(_run(machines.whole, root, LEADERS)) == [[2, [2, 3]], [1, [1, 2, 3]]]
    assert _run(machines.whole, root, REPLICATE) == "[1, 2, 3]"
    said = _run(machines.lacking, root, APPEND)

    assert "another process reaches broker 1 and has put its replica back" in said
    assert json.loads(_run(machines.whole, root, LEADERS)) == [[2, [1, 2, 3]], [1, [1, 2, 3]]]
