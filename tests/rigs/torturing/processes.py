"""The processes of a torture run: started, watched, killed, frozen, started again."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tests.rigs.rig import CHECKOUT
from tests.rigs.sessions import Found, running
from tests.rigs.torturing.folder import TortureFolder, clean_environment
from tests.rigs.torturing.history import CRASH, HistoryWriter

LAUNCHER: Final = "./spark-submit.sh"
CLIENT: Final = "tests/rigs/torturing/clients/client.py"
SPARK_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "768m",
    "spark.executor.memory": "512m",
    # What is killed within a minute is not worth compiling a second time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # Executors are killed all the time: an application shall not give up on that.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "8",
}


@dataclass(frozen=True, slots=True)
class Role:
    """What a process is."""

    role: str
    name: str
    master: str | None = None
    loops: tuple[str, ...] = ("",)


ROLES: Final = (
    Role("controller", "controller-1"),
    Role("controller", "controller-2"),
    Role("idempotent", "idempotent-1"),
    Role("idempotent", "idempotent-2"),
    Role("appender", "appender-1"),
    Role("reader", "reader-1"),
    Role("spark-appender", "spark-appender", "local-cluster[2,1,1024]"),
    Role("spark-reader", "spark-reader", "local[2]", ("-stream", "-batch")),
)
PLAIN_ROLES: Final = tuple(each for each in ROLES if each.master is None)
"""Those of a run without Spark."""

APPENDING: Final = frozenset({"idempotent", "appender", "spark-appender"})
READING: Final = frozenset({"reader", "spark-reader"})
CONTROLLING: Final = frozenset({"controller"})
"""Roles by what they do."""


def is_executor(process: Found) -> bool:
    return "CoarseGrainedExecutorBackend" in process.command


def is_driver_jvm(process: Found) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in process.command


def is_driver_python(process: Found) -> bool:
    is_spark = f"{CLIENT} spark-" in process.command
    return is_spark and not is_driver_jvm(process) and not is_launcher(process)


def is_launcher(process: Found) -> bool:
    """Return whether it is the script that becomes the driver's JVM."""
    return LAUNCHER in process.command


def is_worker(process: Found) -> bool:
    """Return whether it is a Python worker, or the daemon that makes them."""
    return "pyspark.daemon" in process.command


@dataclass(slots=True)
class Running:
    """One role's newest process, and all sessions that it ever had."""

    role: Role
    process: subprocess.Popen[bytes] | None = None
    incarnation: int = 0
    sessions: set[int] = field(default_factory=set)
    is_stopped: bool = False
    is_held: bool = False
    ok_when_hit: int = 0

    @property
    def is_running(self) -> bool:
        """Whether its newest process has not ended."""
        return self.process is not None and self.process.poll() is None

    def histories(self) -> list[str]:
        """Return the names under which the newest process writes."""
        return [f"{self.role.name}{loop}.{self.incarnation}" for loop in self.role.loops]


class Processes:
    def __init__(
        self,
        folder: TortureFolder,
        seed: int,
        writer: HistoryWriter,
        roles: Sequence[Role] = ROLES,
    ) -> None:
        self.roles = roles
        self._folder = folder
        self._seed = seed
        self._writer = writer
        self._lock = threading.Lock()
        self._all = {role.name: Running(role) for role in roles}
        self.restarts = 0

    def named(self, roles: Collection[str]) -> list[str]:
        return [each.name for each in self.roles if each.role in roles]

    def start(self, *, only_spark: bool = False) -> None:
        """Start what does not run: at the beginning everything, later what has died."""
        with self._lock:
            for each in self._all.values():
                if only_spark and each.role.master is None:
                    continue
                if each.is_stopped or each.is_held or each.is_running:
                    continue
                if each.process is not None:
                    # A session that has ended may get its number again, and be somebody else's.
                    each.sessions &= {found.session for found in running(each.sessions)}
                    self._writer.note(CRASH, of=each.histories(), code=each.process.returncode)
                    self.restarts += 1
                each.incarnation += 1
                each.ok_when_hit = 0
                each.process = self._launch(each)
                each.sessions.add(each.process.pid)

    def _launch(self, each: Running) -> subprocess.Popen[bytes]:
        role = each.role
        arguments = [
            *(CLIENT, role.role, "--dir", str(self._folder.path), "--name", role.name),
            *("--incarnation", str(each.incarnation), "--seed", str(self._seed)),
            *("--voters", str(self._folder.voters)),
        ]
        command = [sys.executable, *arguments]
        if role.master is not None:
            settings = [f"--conf={name}={value}" for name, value in SPARK_SETTINGS.items()]
            command = [LAUNCHER, "--master", role.master, *settings, *arguments]
        environment = {**clean_environment(), "PYTHONPATH": str(CHECKOUT)}
        output = self._folder.logs / f"{role.name}.{each.incarnation}.log"
        with output.open("wb") as file:
            return subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def find(self, names: Iterable[str] | None = None) -> list[Found]:
        """Return what runs of these roles, or of all, with what they have left behind."""
        wanted = set(self._all if names is None else names)
        sessions = {
            session
            for name, each in self._all.items()
            if name in wanted
            for session in each.sessions
        }
        return running(sessions)

    def plain_pids(self) -> dict[str, int]:
        return {
            name: each.process.pid
            for name, each in self._all.items()
            if each.role.master is None and each.process is not None and each.is_running
        }

    def working_sessions(self, ok_min: int, *, since_hit: bool) -> frozenset[int]:
        """Return the sessions of those processes in which so many calls have succeeded: since
        they began, or (`since_hit`) since a fault hit them last."""
        return frozenset(
            each.process.pid
            for each in self._all.values()
            if each.process is not None
            and self._count_ok(each) - (each.ok_when_hit if since_hit else 0) >= ok_min
        )

    def note_hit(self, session: int) -> None:
        """Remember how far the processes of a session were when a fault hit one of them."""
        for each in self._all.values():
            if each.process is not None and each.process.pid == session:
                each.ok_when_hit = self._count_ok(each)

    def _count_ok(self, each: Running) -> int:
        files = [self._folder.history / f"{name}.jsonl" for name in each.histories()]
        return sum(file.read_bytes().count(b'"kind":"ok"') for file in files if file.exists())

    def signal(self, pid: int, number: signal.Signals) -> bool:
        """Send a signal to a process of this run; return False if it has ended."""
        if all(each.pid != pid for each in self.find()):
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def hold_down(self, names: Iterable[str]) -> None:
        """Kill these, and don't start them again."""
        with self._lock:
            for name in names:
                self._all[name].is_held = True
                self._kill(self._all[name])

    def let_up(self, names: Iterable[str]) -> None:
        """Have these started again with whatever has died."""
        with self._lock:
            for name in names:
                self._all[name].is_held = False

    def stop(self, names: list[str], wait_s: float) -> None:
        """Have these end as they should; kill what has not after `wait_s`."""
        chosen = [self._all[name] for name in names]
        with self._lock:
            for each in chosen:
                each.is_stopped = True
        for each in chosen:
            for found in running(each.sessions):
                if CLIENT in found.command and not is_driver_jvm(found):
                    self.signal(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + wait_s
        for each in chosen:
            assert each.process is not None
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(max(deadline - time.monotonic(), 0.1))
            if each.process.poll() is None:
                self._writer.note(CRASH, of=each.histories(), code=None)
            self._kill(each)

    def _kill(self, each: Running) -> None:
        for found in running(each.sessions):
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
        if each.process is not None:
            each.process.wait()

    def end(self) -> None:
        with self._lock:
            for each in self._all.values():
                each.is_stopped = True
                self._kill(each)
