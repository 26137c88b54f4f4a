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
work is closed with it, and comes in bursts; what is never closed stays."""

MIB: Final = 2**20
_PAGE_MIB: Final = os.sysconf("SC_PAGE_SIZE") / MIB

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
            resident, opened = (
                int(statm.split()[1]) * _PAGE_MIB,
                len(os.listdir(f"/proc/{process.pid}/fd")),
            )
            for each in (kind, f"- {role}") if kind == PLAIN else (kind,):
                for name, value in ((rss(each), resident), (descriptors(each), float(opened))):
                    values[name] = values.get(name, 0.0) + value
    return values


def _kind_of(process: Found, role: str) -> str:
    if role != "spark":
        return PLAIN
    return JVM if os.path.basename(process.command.partition(" ")[0]) == "java" else WORKERS
