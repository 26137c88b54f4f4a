"""Measures a run from outside: its processes' memory and descriptors, its roots' bytes and files.

A client's processes are those of its session: a JVM and Python workers belong to the client that
started them.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.rigs.sessions import Found, running
from tests.rigs.soaking.folder import SoakFolder

DESCRIPTORS = "descriptors of "
"""How series of open files begin. Of these a tenth counts the lowest: what is open for a piece of
work is closed with it, and comes in bursts, as when delta-rs writes a checkpoint and reads 64
commits at once for it; what is never closed stays."""

MIB: Final = 2**20
_PAGE_MIB: Final = os.sysconf("SC_PAGE_SIZE") / MIB

RUNTIME_FILES: Final = 10
"""What the two runtimes of delta-rs (tokio) have open: queues of events, and sockets."""

_RUNTIME_KINDS: Final = ("anon_inode:[eventpoll]", "anon_inode:[eventfd]", "socket:")

PLAIN, JVM, WORKERS = "plain Python", "the JVM", "Spark's Python"


def rss(kind: str) -> str:
    """Return the name of the series of a kind's memory."""
    return f"memory of {kind} (MiB)"


def descriptors(kind: str) -> str:
    """Return the name of the series of a kind's open files."""
    return f"{DESCRIPTORS}{kind}"


BYTES, FILES = "bytes (MiB)", "files"
DATA_BYTES, DATA_FILES = "bytes of data (MiB)", "files of data"
COMMITS = "commit files of one table, at most"


def look(folder: SoakFolder, sessions: Mapping[int, str]) -> dict[str, float]:
    """Return what is seen now. `sessions`: the clients' sessions and roles. Plain processes count
    together, which is judged, and by role, which says where it grew."""
    sizes = folder.sizes()
    values: dict[str, float] = {
        BYTES: sizes.size_bytes / MIB,
        FILES: sizes.files,
        DATA_BYTES: sizes.data_bytes / MIB,
        DATA_FILES: sizes.data_files,
        COMMITS: sizes.commits_max,
    }
    for process in running(sessions):
        role = sessions[process.session]
        # It may end while it is looked at.
        with suppress(OSError):
            kind = _kind_of(process, role)
            statm = Path(f"/proc/{process.pid}/statm").read_text()
            resident, opened = int(statm.split()[1]) * _PAGE_MIB, _open_files(process.pid)
            for each in (kind, f"- {role}") if kind == PLAIN else (kind,):
                for name, value in ((rss(each), resident), (descriptors(each), float(opened))):
                    values[name] = values.get(name, 0.0) + value
    return values


def _open_files(pid: int) -> int:
    """Return how many files a process has open, without those of delta-rs' runtimes.

    A process starts these at its first checkpoint, which comes late in a short run, and keeps them:
    no growth. What is more of the kind counts.
    """
    opened = []
    for each in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # it has been closed meanwhile
            opened.append(os.readlink(f"/proc/{pid}/fd/{each}"))
    of_runtimes = sum(each.startswith(_RUNTIME_KINDS) for each in opened)
    return len(opened) - min(of_runtimes, RUNTIME_FILES)


def _kind_of(process: Found, role: str) -> str:
    if role != "spark":
        return PLAIN
    return JVM if os.path.basename(process.command.partition(" ")[0]) == "java" else WORKERS
