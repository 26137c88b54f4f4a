"""What runs in a session of this machine's, by /proc: a rig's processes are told apart by it.

Each client of a rig is a session of its own, so its JVMs, executors and Python workers are found,
and nothing that the run did not start is ever sent a signal. Linux only.
"""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Found:
    pid: int
    parent: int
    session: int
    command: str


def running(sessions: Collection[int]) -> list[Found]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        with suppress(OSError):  # it has ended meanwhile
            stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            state, parent, session = stat[0], int(stat[1]), int(stat[3])
            if session in sessions and state != "Z":
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
                command = b" ".join(words).decode(errors="replace")
                found.append(Found(int(entry), parent, session, command))
    return found
