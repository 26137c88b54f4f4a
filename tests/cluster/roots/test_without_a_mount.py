"""A machine that lacks a mount which others have: it moves what it appends to, and nothing else."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.scripts import printed_by

REPOSITORY = Path(__file__).parents[3]


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


@contextmanager
def _appends_on(machine, metadata_root):
    """Let a process of a machine append, one record after the other, from the first one on."""
    with subprocess.Popen(
        [sys.executable, "-c", MAIN + APPEND_ON, str(metadata_root)],
        cwd=machine,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"appended\n"
        yield
        process.communicate()
    assert process.returncode == 0


def _run(machine, metadata_root, code, *arguments):
    return printed_by(MAIN + code, str(metadata_root), *arguments, folder=machine).strip()


CREATE = """
roots = {number: f"/proc/self/cwd/broker-{number}" for number in (1, 2, 3)}
configs = {"broker.session.timeout.ms": sys.argv[2], "delivery.timeout.ms": "60000",
           "min.insync.replicas": 2}
with Cluster.create(sys.argv[1], roots, configs=configs) as cluster:
    cluster.create_topic("orders", replica_assignment={0: [1, 2, 3], 1: [1, 2, 3]})
    cluster.append("orders", [{"value": b"a", "partition": each} for each in (0, 1)])
"""
APPEND = """
with Cluster.open(sys.argv[1]) as cluster:
    try:
        given = [{"value": b"b", "partition": 0}]
        cluster.append("orders", given, timeout_ms=int(sys.argv[2]))
    except Exception as error:
        print(type(error).__name__, error)
    else:
        print("appended")
"""
APPEND_ON = """
import threading
is_over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
with Cluster.open(sys.argv[1]) as cluster:
    while not is_over.wait(0.5):
        cluster.append("orders", [{"value": b"c", "partition": 1}])
        print("appended", flush=True)
"""
LEADERS = """
with Cluster.open(sys.argv[1]) as cluster:
    print([[each.leader, sorted(each.isr)] for each in cluster.describe_topic("orders").partitions])
"""


def test_a_machine_that_lacks_a_mount_moves_nothing_while_others_reach_the_disk(tmp_path):
    machines, root = Machines(tmp_path), tmp_path / "meta"
    # The others may pause for a session before they count as silent, and this one has longer to judge.
    _run(machines.whole, root, CREATE, "4000")
    with _appends_on(machines.whole, root):
        said = _run(machines.lacking, root, APPEND, "6000")

    assert said.startswith("RequestTimedOutError")
    assert json.loads(_run(machines.whole, root, LEADERS)) == [[1, [1, 2, 3]]] * 2
