"""A run in order: clients are started, watched and stopped, and what is left is judged."""

import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from kafka_on_spark import Cluster
from kafka_on_spark.base.errors import KafkaOnSparkError
from tests.rigs.notes import read_notes
from tests.rigs.rig import CHECKOUT, Say
from tests.rigs.sessions import running
from tests.rigs.soaking.checking import check, read_records
from tests.rigs.soaking.folder import (
    COPIES,
    EVENTS,
    TOPICS,
    SoakFolder,
)
from tests.rigs.soaking.report import CALL, Seen, SoakReport
from tests.rigs.soaking.watching import look

log = logging.getLogger("kafka_on_spark.soak")

ROLES: Final = {
    "controller": "controller",
    "upkeep": "upkeep",
    "appender-1": "appender",
    "appender-2": "appender",
    "producer-1": "producer",
    "producer-2": "producer",
    "table-1": "table",
    "reader": "reader",
    "visitor": "visitor",
    "mover": "mover",
    "spark": "spark",
}
"""The clients by name, in the order in which they start."""

APPENDING: Final = ("appender-1", "appender-2", "producer-1", "producer-2", "table-1", "mover")
MARK: Final = f"SOAK_OF={os.getpid()}\0".encode()
"""In the environment of each process that a run has started."""

SAMPLES_OF_A_TENTH: Final = 12
SAMPLE_S: Final = (1.0, 10.0)
STOP_S_MAX: Final = 180.0
COPIED_S_MAX: Final = 120.0


class Clients:
    """The processes of a run, each a session of its own."""

    def __init__(self, folder: SoakFolder, pauses: float) -> None:
        self._folder = folder
        self._pauses = pauses
        self._all: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        environment = {
            each: value
            for each, value in os.environ.items()
            # Those of a launcher's own session, which has another driver.
            if not each.startswith(("PYSPARK_GATEWAY", "PYSPARK_DRIVER_CALLBACK"))
        }
        path = os.pathsep.join([str(CHECKOUT), *filter(None, [environment.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "tests.rigs.soaking.clients", ROLES[name]]
        with self._folder.log_of(name).open("wb") as output:
            self._all[name] = subprocess.Popen(
                [*command, str(self._folder.path), name, str(self._pauses)],
                cwd=CHECKOUT,
                env={
                    **environment,
                    "PYTHONPATH": path,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "SOAK_OF": str(os.getpid()),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def sessions(self) -> dict[int, str]:
        return {each.pid: ROLES[name] for name, each in self._all.items() if each.poll() is None}

    def ended(self) -> list[str]:
        """Return the clients that have ended by themselves, which none should."""
        return [name for name, each in self._all.items() if each.poll() is not None]

    def stop(self, names: list[str]) -> list[str]:
        """Have these end as they should; return those that did not."""
        chosen = {name: self._all.pop(name) for name in names if name in self._all}
        for each in chosen.values():
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S_MAX
        late = []
        for name, each in chosen.items():
            try:
                each.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                late.append(name)
            _kill(each)
        return late

    def end(self) -> None:
        for each in self._all.values():
            _kill(each)
        self._all.clear()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a client and what it has started: what runs in its session and has this run's mark.
    Python workers have a group of their own; the number of a session that ended is used again."""
    for each in running({process.pid}):
        with suppress(OSError):  # it has ended
            if MARK in Path(f"/proc/{each.pid}/environ").read_bytes():
                os.kill(each.pid, signal.SIGKILL)
    process.wait()


def run(
    folder: SoakFolder,
    minutes: float,
    warm_up_s: float,
    say: Say,
    *,
    pauses: float = 1.0,
    times_are_judged: bool = True,
) -> SoakReport:
    """Run for `minutes` after a warm-up, with pauses of the clients so many times as long as usual;
    return what was seen and found."""
    folder.make_cluster()
    run_s = 60 * minutes
    findings: list[str] = []
    with _clients(folder, pauses) as clients:
        began_at = time.time() + warm_up_s
        seen = list(_watched(folder, clients, began_at, run_s, say))
        findings += [
            f"{name} ended before its time: {folder.last_words(name)}" for name in clients.ended()
        ]
        findings += _found_by(partial(_finish, folder, clients, say), "the clients' end")
    notes = list(read_notes(folder.notes))
    findings += _found_by(partial(_judge, folder, notes, say), "the check of what is left")
    seen += [
        Seen(line["at"] - began_at, f"{line['kind']}{CALL}", 1000 * line["took"])
        for _, line in notes
        if "took" in line
    ]
    errors = [f"{name}: {line['error']}" for name, line in notes if line["kind"] == "error"]
    return SoakReport.of(minutes, seen, findings, errors, times_are_judged=times_are_judged)


def _found_by(step: Callable[[], list[str]], name: str) -> list[str]:
    """Return what a step finds. If it fails, that is a finding: what was measured is kept."""
    try:
        return step()
    except (KafkaOnSparkError, ValueError, OSError) as error:
        log.warning("%s has failed", name, exc_info=True)
        return [f"{name} has failed: {error}"]


@contextmanager
def _clients(folder: SoakFolder, pauses: float) -> Iterator[Clients]:
    clients = Clients(folder, pauses)
    try:
        for name in ROLES:
            clients.start(name)
        yield clients
    finally:
        clients.end()


def _watched(
    folder: SoakFolder, clients: Clients, began_at: float, run_s: float, say: Say
) -> Iterator[Seen]:
    """Look until the run is over, or a client has ended, which fails the run; yield what was seen
    since it began to be measured."""
    low, high = SAMPLE_S
    pause_s = min(max(run_s / 10 / SAMPLES_OF_A_TENTH, low), high)
    told = -1
    while (at_s := time.time() - began_at) < run_s and not clients.ended():
        values = look(folder, clients.sessions)
        yield from (Seen(at_s, name, value) for name, value in values.items())
        tenth = math.floor(10 * at_s / run_s)
        if tenth > told:
            told = tenth
            words = (f"{name} {value:,.0f}" for name, value in sorted(values.items()))
            say(f"tenth {tenth + 1}: {', '.join(words)}")
        time.sleep(pause_s)  # between two samples


def _finish(folder: SoakFolder, clients: Clients, say: Say) -> list[str]:
    """Stop the clients: first those that append, and the stream when it has copied all."""
    say("the clients end")
    late = clients.stop(list(APPENDING))
    deadline = time.monotonic() + COPIED_S_MAX
    with Cluster.open(folder.metadata_root) as cluster:
        while not _is_copied(cluster) and time.monotonic() < deadline:
            time.sleep(1.0)  # the sink tells nobody when it has copied all
    late += clients.stop(["spark", "reader", "visitor", "upkeep", "controller"])
    return [f"{name} did not end within {STOP_S_MAX:.0f} s" for name in late]


def _is_copied(cluster: Cluster) -> bool:
    """Return whether the sink has copied as many records as there are, if nothing was deleted."""
    ends = [
        (int(each.high_watermark), int(each.log_start_offset))
        for topic in (EVENTS, COPIES)
        for each in cluster.offsets(topic).values()
    ]
    if any(start for _, start in ends):
        newest = {each[1:] for rows in read_records(cluster, EVENTS).values() for each in rows[-1:]}
        copied = {each[1:] for rows in read_records(cluster, COPIES).values() for each in rows}
        return newest <= copied
    half = len(ends) // 2
    return sum(end for end, _ in ends[:half]) == sum(end for end, _ in ends[half:])


def _judge(folder: SoakFolder, notes: list[tuple[str, dict[str, Any]]], say: Say) -> list[str]:
    found = [f"{name}: {line['error']}" for name, line in notes if line["kind"] == "wrong"]
    found += [
        f"{name}: an append failed: {line['error']}"
        for name, line in notes
        if line["kind"] == "failed"
    ]
    with Cluster.open(folder.metadata_root) as cluster:
        cluster.replicate(is_sweep=True)
        say("the records are compared with what was acknowledged")
        found += check(cluster, notes, TOPICS)
        say("fsck")
        found += [f"fsck: {each}" for each in cluster.fsck().findings]
    return found
