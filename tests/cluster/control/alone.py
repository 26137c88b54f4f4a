"""Run as a process of its own: appends to a cluster that nobody controls, and says what happened.

``python -m tests.cluster.control.alone METADATA_ROOT TOPIC COUNT [TIMES]``: COUNT processes, forked before
the first use of the cluster, append TIMES records each. One line of JSON a process. ``--uid`` is
who they are; everything is imported before, since another user may not read where it lies.
``--stop-at-failure``: at so many probes that fail a process stops itself, until it gets SIGCONT.
"""

import argparse
import json
import os
import pkgutil
import signal
from importlib import import_module
from itertools import count
from typing import Any

import kafka_on_spark
from kafka_on_spark import Cluster
from kafka_on_spark.errors import KafkaOnSparkError
from kafka_on_spark.spark.run import tasks


def _import_all() -> None:
    for each in pkgutil.walk_packages(kafka_on_spark.__path__, "kafka_on_spark."):
        if not each.name.endswith("__main__") and ".discovery" not in each.name:
            import_module(each.name)


def _say(line: str) -> None:
    """Write a line in one piece: others write to the same pipe."""
    os.write(1, f"{line}\n".encode())


def _stop_at_failure(at: int) -> None:
    """Have this process stop itself as its probe number `at` of those that fail has failed."""
    probe, failures = tasks.probe_root, count(1)

    def probe_and_stop(*arguments: Any) -> None:
        try:
            probe(*arguments)
        except KafkaOnSparkError:
            if next(failures) == at:
                _say("stops")
                os.kill(os.getpid(), signal.SIGSTOP)
            raise

    tasks.probe_root = probe_and_stop


def _live(given: argparse.Namespace, number: int) -> None:
    """Append, and say so."""
    said = {"number": number, "pid": os.getpid(), "appended": 0, "error": None}
    try:
        with Cluster.open(given.root) as cluster:
            _say("open")
            for turn in range(given.times):
                if given.control:
                    cluster.run_controller()
                cluster.append(given.topic, [(b"key", f"{number}-{turn}".encode())], acks="all")
                said["appended"] += 1
    except KafkaOnSparkError as error:
        said["error"] = f"{type(error).__name__}: {error}"
    _say(json.dumps(said))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("topic")
    parser.add_argument("count", type=int)
    parser.add_argument("times", type=int, nargs="?", default=1)
    parser.add_argument("--uid", type=int)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--stop-at-failure", type=int)
    given = parser.parse_args()
    if given.stop_at_failure is not None:
        _stop_at_failure(given.stop_at_failure)
    if given.uid is not None:
        _import_all()
        os.setgid(given.uid)
        os.setuid(given.uid)
    children = []
    for number in range(given.count):
        child = os.fork()
        if child == 0:
            _live(given, number)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
