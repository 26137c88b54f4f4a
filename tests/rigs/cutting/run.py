"""Cuts the power of a disk again and again while processes write to a cluster on it.

A round: a new disk, a cluster that is created on it, appenders and a clerk; snapshots at random
moments, from before the creation on. When the processes have ended, each snapshot is checked.
"""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.rigs.cutting.checker import Verdict
from tests.rigs.cutting.disk import CutDisk, mount_privately, why_not
from tests.rigs.rig import CHECKOUT, RigError, Say, machine, now

APPENDERS: Final = 4
ROUND_CUTS: Final = 25
"""Cuts of one cluster; the next ones are of a new one, and the disk's space is free again."""

BETWEEN_S: Final = (0.2, 0.8)
CREATION_CUTS: Final = 3
CREATION_S: Final = (0.0, 0.15)
CHECK_S_MAX: Final = 300.0
START_S_MAX: Final = 60.0
UNMOUNT_TRIES: Final = 50


@dataclass(frozen=True, slots=True)
class Cut:
    """One snapshot: its image, and between which times it was taken."""

    image: Path
    cut: int
    began_at: float
    ended_at: float

    def order(self, number: int) -> str:
        times = {"began_at": self.began_at, "ended_at": self.ended_at}
        return json.dumps({"cut": number, **times}) + "\n"


def run(folder: Path, file_system: str, cuts: int, seed: int, say: Say) -> list[Verdict]:
    """Cut the power `cuts` times; return a verdict on each."""
    reason = why_not(file_system)
    if reason is not None:
        raise RigError(f"{file_system} can't be cut off: {reason}")
    mount_privately()
    rng = random.Random(seed)
    verdicts: list[Verdict] = []
    while len(verdicts) < cuts:
        number = len(verdicts)
        place = folder / f"round-{number}"
        place.mkdir()
        disk = CutDisk(place, file_system)
        try:
            disk.make()
            found = _run_round(disk, place, min(ROUND_CUTS, cuts - number), number, rng)
            for verdict in found:
                verdicts.append(verdict)
                _tell(verdict, say)
        finally:
            disk.release()
    return verdicts


def report_of(file_system: str, seed: int, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what a run has found: `promised` records were acknowledged, over all cuts;
    at `cleaned` cuts a table's first commits had been deleted; `seconds` one check took on average;
    `wrong` must not be, by cut."""
    wrong = {each.cut: each.wrong for each in verdicts if each.wrong}
    return {
        "file_system": file_system,
        "seed": seed,
        "ended_at": now(),
        "machine": machine(),
        "cuts": len(verdicts),
        "sound": len(verdicts) - len(wrong),
        "promised": sum(each.promised for each in verdicts),
        "cleaned": sum(each.first_commit > 0 for each in verdicts),
        "seconds": round(sum(each.seconds for each in verdicts) / max(len(verdicts), 1), 2),
        "wrong": wrong,
    }


def _run_round(
    disk: CutDisk, place: Path, count: int, first: int, rng: random.Random
) -> Iterator[Verdict]:
    notes = place / "notes"
    notes.mkdir()
    cuts = _cut(disk, notes, count, rng)
    disk.unmount()
    with _checker(place, str(disk.mount_point), str(notes)) as checker:
        for number, cut in enumerate(cuts, first):
            disk.mount(cut.image)
            yield _ask(checker, cut.order(number))
            _unmount(disk)
            cut.image.unlink()


def _cut(disk: CutDisk, notes: Path, count: int, rng: random.Random) -> list[Cut]:
    cuts: list[Cut] = []

    def cut() -> None:
        began_at = time.time()
        image = disk.snapshot(len(cuts))
        cuts.append(Cut(image, len(cuts), began_at, time.time()))

    root = disk.mount_point
    process = _client(notes, "creator", "creation", root, 0.0)
    while len(cuts) < min(CREATION_CUTS, count) and process.poll() is None:
        if (root / "meta").exists():
            time.sleep(rng.uniform(*CREATION_S))
            cut()
    if process.wait() != 0:
        raise RigError("the cluster could not be created: see what its process printed")
    seconds = (count - len(cuts)) * (sum(BETWEEN_S) / 2 + 0.1) + 2
    clients = [
        _client(notes, "appender", f"a{number}", root, seconds) for number in range(APPENDERS)
    ]
    clients.append(_client(notes, "clerk", "clerk", root, seconds))
    deadline = time.monotonic() + START_S_MAX
    while len(list(notes.glob("*.jsonl"))) <= len(clients) and time.monotonic() < deadline:
        time.sleep(0.1)
    while len(cuts) < count:
        time.sleep(rng.uniform(*BETWEEN_S))
        cut()
    if any(client.wait() != 0 for client in clients):
        raise RigError("a client failed: see what it printed")
    return cuts


def _client(
    notes: Path, role: str, name: str, root: Path, seconds: float
) -> subprocess.Popen[bytes]:
    words = ("-m", "tests.rigs.cutting.clients", role, name, str(root / "meta"), str(notes))
    return subprocess.Popen([sys.executable, *words, str(seconds)], cwd=CHECKOUT)


@contextmanager
def _checker(place: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.cutting.checker", *words],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(place / "checker.log").open("w"),
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _ask(checker: subprocess.Popen[str], order: str) -> Verdict:
    assert checker.stdin is not None
    assert checker.stdout is not None
    watch = threading.Timer(CHECK_S_MAX, checker.kill)
    watch.start()
    try:
        with suppress(BrokenPipeError):  # its end is told below
            checker.stdin.write(order)
            checker.stdin.flush()
        answer = checker.stdout.readline()
    finally:
        watch.cancel()
    if not answer:
        raise RigError(f"the checker ended or hung at {order.strip()}: see checker.log")
    return Verdict(**json.loads(answer))


def _unmount(disk: CutDisk) -> None:
    """Unmount a snapshot once the checker has let go of it."""
    for _ in range(UNMOUNT_TRIES):
        with suppress(RigError):
            disk.unmount()
            return
        time.sleep(0.1)
    disk.unmount()


def _tell(verdict: Verdict, say: Say) -> None:
    say(
        f"cut {verdict.cut}: {verdict.promised} records promised, {verdict.found} found,"
        f" {verdict.seconds:.1f} s; {'; '.join(verdict.wrong) or 'sound'}"
    )
