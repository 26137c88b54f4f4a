"""Processes that append to a cluster that nobody controls, and say what happened."""

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


def _live(root: str, topic: str, times: int, number: int, *, does_control: bool) -> None:
    """Append, and say so."""
    said = {"number": number, "pid": os.getpid(), "appended": 0, "error": None}
    try:
        with Cluster.open(root) as cluster:
            _say("open")
            for turn in range(times):
                if does_control:
                    cluster.run_controller()
                cluster.append(topic, [(b"key", f"{number}-{turn}".encode())], acks="all")
                said["appended"] += 1
    except KafkaOnSparkError as error:
        said["error"] = f"{type(error).__name__}: {error}"
    _say(json.dumps(said))


def appends(
    root: str,
    topic: str,
    count: int,
    times: int,
    *,
    uid: int | None = None,
    does_control: bool = False,
    stop_at_failure: int | None = None,
) -> None:
    """Have `count` processes, forked before the first use of the cluster, append `times` records each;
    each says one line of JSON.

    `uid` is who they are; everything is imported before, since another user may not read where it
    lies. `stop_at_failure`: at so many probes that fail a process stops itself, until it gets SIGCONT.
    """
    if stop_at_failure is not None:
        _stop_at_failure(stop_at_failure)
    if uid is not None:
        _import_all()
        os.setgid(uid)
        os.setuid(uid)
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            _live(root, topic, times, number, does_control=does_control)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
