"""Processes of a cluster that several control at once: each prints what it was told, as JSON lines."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError, NotControllerError, RequestTimedOutError
from tests.cluster.scripts import Started

TERM_S = 1.5
ANSWERS_MIN = 10
"""Commands that each who asks has answered before it ends, however slow the machine."""

WAIT_S_MAX = 600
"""For a process to end: on a machine that has much else to do it may take minutes to start."""


def say(**said):
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def control(cluster, name, until):
    """Control the cluster again and again; a term that ends early says why."""
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    while time.monotonic() < until and not told_to_stop.is_set():
        try:
            report = cluster.run_controller(TERM_S)
        except NotControllerError as error:
            say(stopped=str(error))
        else:
            say(passes=report.passes, fenced=report.fenced, unfenced=report.unfenced)


def stay(cluster, name, until):
    """Control the cluster for one long term: between two terms a caller decides for itself."""
    cluster.run_controller(until - time.monotonic())


def command(cluster, name, until):
    """Make, change and delete topics, some of them of names that another makes as well."""
    number = answers = 0
    while time.monotonic() < until or answers < ANSWERS_MIN:
        number += 1
        own, shared = f"own-{name}-{number}", f"shared-{number}"
        answers += report_outcome("create", own, cluster.create_topic, own, replication_factor=3)
        answers += report_outcome(
            "create", shared, cluster.create_topic, shared, replication_factor=3
        )
        answers += report_outcome(
            "alter", own, cluster.alter_topic_configs, own, {"retention.ms": number}
        )
        if number % 3 == 0:
            answers += report_outcome("delete", own, cluster.delete_topic, own)


def report_outcome(verb, topic, call, *arguments, **named):
    """Say how a command ended; return whether it was done."""
    began = time.monotonic()
    try:
        response = call(*arguments, **named)
    except RequestTimedOutError as error:
        outcome = {"withdrawn": str(error)}
    except KafkaOnSparkError as error:
        outcome = {"refused": type(error).__name__}
    else:
        outcome = {"response": response}
    say(verb=verb, topic=topic, seconds=round(time.monotonic() - began, 3), **outcome)
    return "response" in outcome


ROLES = {"control": control, "stay": stay, "command": command}


def live(root, role, name, seconds):
    with Cluster.open(root) as cluster:
        say(ready=os.getpid())
        ROLES[role](cluster, name, time.monotonic() + seconds)


class Other:
    """One of those processes, as a test holds it."""

    def __init__(self, root, role, name, seconds):
        self._started = Started(live, root, role, name, seconds)
        self.pid = self._started.process.pid

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def stop(self):
        """Have a controller end with its term; one that was killed has ended."""
        self._started.process.terminate()

    def lines(self):
        """Wait for its end; return what it said. One that was killed said what it did."""
        output = self._started.rest(WAIT_S_MAX)
        assert self._started.process.exitcode in (0, -signal.SIGKILL)
        return [json.loads(line) for line in output.splitlines() if line.endswith("}")]

    def end(self):
        self._started.end()
        self._started.stdout.close()


@contextmanager
def others(root, *roles, seconds):
    """Give processes of these roles (see `ROLES`), all ended at the end."""
    started = []
    try:
        for number, role in enumerate(roles):
            started.append(Other(root, role, f"p{number}", seconds))
        yield started
    finally:
        for each in started:
            each.end()
