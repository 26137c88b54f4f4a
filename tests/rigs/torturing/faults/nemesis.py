"""What befalls a run, and when: sequences of faults from one seed, of disks, voters and processes.

No more is done at once than a cluster with two of three replicas in sync must stand: one broker's
disk at a time, and one voter's (or most of them, for some seconds). Processes are killed and frozen at
any moment, too.
"""

import random
import signal
import threading
from collections.abc import Callable
from typing import Final

from kafka_on_spark import Cluster
from tests.rigs.sessions import Found
from tests.rigs.torturing.checks.anomalies import Anomaly
from tests.rigs.torturing.checks.wholeness import image_of
from tests.rigs.torturing.faults.disk_faults import DISK_FAULTS, PACE, DiskFaults, Pace, dealt
from tests.rigs.torturing.faults.disks import Disks
from tests.rigs.torturing.faults.voter_faults import VoterFaults
from tests.rigs.torturing.folder import controller_pid
from tests.rigs.torturing.history import NEMESIS, HistoryWriter
from tests.rigs.torturing.processes import (
    Processes,
    is_driver_jvm,
    is_driver_python,
    is_executor,
    is_worker,
)

PROCESS_FAULTS: Final = (
    # A driver takes long to start, and while it does there is little to hit.
    "kill driver JVM",
    "kill driver Python",
    *("kill executor", "kill Python worker", "kill controller", "kill client") * 2,
    "freeze client",
    "freeze executor",
)
ON_PLAIN: Final = frozenset({"kill controller", "kill client", "freeze client"})
ON_EXECUTORS: Final = frozenset({"kill executor", "kill Python worker", "freeze executor"})
FREEZE_S: Final = (2.0, 8.0)
DRIVER_OK_MIN: Final = 5
EXECUTOR_OK_MIN: Final = 2


class Nemesis:
    """Does the faults of one run, and counts them."""

    def __init__(
        self,
        disks: Disks,
        processes: Processes,
        cluster: Cluster,
        seed: int,
        open_writer: Callable[[str], HistoryWriter],
        pace: Pace = PACE,
        *,
        spares_brokers: bool = False,
    ) -> None:
        """`pace`: of the faults of disks; a process that is killed takes its time to begin again."""
        self._disk_kinds = () if spares_brokers else DISK_FAULTS
        self._over = threading.Event()
        self.on_disks = DiskFaults(disks, cluster, processes, self._over, pace)
        self.done = self.on_disks.done
        self.anomalies = self.on_disks.anomalies
        self._disks = disks
        self._processes = processes
        self._cluster = cluster
        self.on_voters = VoterFaults(disks, cluster, self._over, pace, self.done)
        lanes = {"processes": self._torment_processes}
        if not spares_brokers:
            lanes["disks"] = self.on_disks.torment
        if self.on_voters.kinds():
            lanes["voters"] = self.on_voters.torment
        self._threads = [
            threading.Thread(
                target=self._run_lane,
                args=(name, lane, random.Random(f"{seed} {name}"), open_writer(f"nemesis-{name}")),
            )
            for name, lane in lanes.items()
        ]

    @property
    def missing(self) -> set[str]:
        """Kinds of faults that can be done here, and were not yet."""
        kinds = {*self._disk_kinds, *self._process_kinds()} - set(self._disks.why_not)
        kinds |= {*self.on_voters.kinds()}
        return {kind for kind in kinds if not self.done[kind]}

    @property
    def _spares_drivers(self) -> bool:
        """Whether drivers are left alone, since what only a working one can suffer is to come yet:
        while others take the processors from it, a driver takes minutes to work again."""
        return bool(ON_EXECUTORS & self.missing)

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End; what was done is undone when this returns."""
        self._over.set()
        for each in self._threads:
            if each.is_alive():
                each.join()

    def _run_lane(
        self,
        name: str,
        lane: Callable[[random.Random, HistoryWriter], None],
        rng: random.Random,
        writer: HistoryWriter,
    ) -> None:
        try:
            lane(rng, writer)
        except (
            Exception
        ) as error:  # in a thread that nobody asks: a run without faults says nothing
            self.anomalies.append(Anomaly("no-faults", name, f"they ended early: {error!r}"))

    # Processes

    def _torment_processes(self, rng: random.Random, writer: HistoryWriter) -> None:
        waiting: list[str] = []
        kinds = dealt(self._process_kinds(), rng)
        while not self._over.wait(rng.uniform(*PACE.pause_s)):
            # One that found nobody, as while Spark starts, goes before new ones.
            kind = next((each for each in waiting if self._targets(each)), None)
            if kind is not None:
                waiting.remove(kind)
            elif len(waiting) < len(self._process_kinds()):
                kind = next(kinds)
            targets = self._targets(kind) if kind is not None else []
            if kind is not None and targets:
                target = rng.choice(targets)
                writer.note(NEMESIS, fault=kind, pid=target.pid)
                self._processes.note_hit(target.session)
                self.done[kind] += self._hit_process(kind, target.pid, rng.uniform(*FREEZE_S))
            elif kind is not None:
                waiting.append(kind)

    def _process_kinds(self) -> tuple[str, ...]:
        has_spark = any(each.master is not None for each in self._processes.roles)
        return tuple(each for each in PROCESS_FAULTS if has_spark or each in ON_PLAIN)

    def _targets(self, kind: str) -> list[Found]:
        """Return whom a fault may hit now, in the order of their numbers."""
        found = sorted(self._processes.find(), key=lambda each: each.pid)
        if self._spares_drivers:
            # The one that appends controls, too: killed as the controller, it is gone as well.
            found = [
                each for each in found if not is_driver_jvm(each) and not is_driver_python(each)
            ]
        if kind == "kill controller":
            pid = controller_pid(image_of(self._cluster))
            return [each for each in found if each.pid == pid]
        if kind in ("kill client", "freeze client"):
            clients = self._processes.plain_pids().items()
            pids = {pid for name, pid in clients if not name.startswith("controller")}
            return [each for each in found if each.pid in pids]
        if self.done[kind] and self.missing:
            return []  # on a slow machine few sessions come to work: for what was not done yet
        chosen: dict[str, Callable[[Found], bool]] = {
            "kill driver JVM": is_driver_jvm,
            "kill driver Python": is_driver_python,
            "kill executor": is_executor,
            "freeze executor": is_executor,
            "kill Python worker": is_worker,
        }
        # Spark takes half a minute to start: between two kills it shall get something done.
        if kind.startswith("kill driver"):
            sessions = self._processes.working_sessions(DRIVER_OK_MIN, since_hit=False)
        else:
            sessions = self._processes.working_sessions(EXECUTOR_OK_MIN, since_hit=True)
        return [each for each in found if chosen[kind](each) and each.session in sessions]

    def _hit_process(self, kind: str, pid: int, freeze_s: float) -> bool:
        if kind.startswith("kill"):
            return self._processes.signal(pid, signal.SIGKILL)
        if not self._processes.signal(pid, signal.SIGSTOP):
            return False
        self._over.wait(freeze_s)
        return self._processes.signal(pid, signal.SIGCONT)
