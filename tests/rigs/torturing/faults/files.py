"""Single files of a replica that give errors, or hang, for some time; then all is as it was.

A pipe stands for a disk that hangs: a process that opens it as a file waits for ever. What it takes the
place of is kept beside the root, and comes back in one step.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE, S_ISFIFO
from typing import Final

from tests.rigs.torturing.faults.disks import exchange, free_name

Undo = Callable[[], None]

PIPES_MAX: Final = 100
_PR_CAPBSET_DROP: Final = 24
_CAP_DAC_OVERRIDE: Final = 1
_CAP_DAC_READ_SEARCH: Final = 2


def obey_permissions() -> str | None:
    """Have the processes that this thread starts obey a file's permissions, as root's do not;
    return why that can't be, or None."""
    if os.geteuid() != 0:
        return None
    library = ctypes.CDLL(None, use_errno=True)
    for power in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        if library.prctl(_PR_CAPBSET_DROP, power, 0, 0, 0) != 0:
            reason = os.strerror(ctypes.get_errno())
            return f"root on {sys.platform} can't give up reading what is forbidden: {reason}"
    return None


def forbid(file: Path) -> Undo:
    """Take all permissions from a file, by whatever name it is known meanwhile."""
    descriptor = os.open(file, os.O_RDONLY)
    mode = S_IMODE(os.fstat(descriptor).st_mode)
    os.fchmod(descriptor, 0)

    def allow() -> None:
        os.fchmod(descriptor, mode)
        os.close(descriptor)

    return allow


def put_pipe(file: Path, root: Path) -> Undo:
    aside = free_name(root, "aside")
    os.mkfifo(aside)
    try:
        exchange(aside, file)
    except FileNotFoundError:
        aside.unlink()
        raise

    def give_back() -> None:
        # The file may have been written again, or its folder deleted: then that stands.
        if _is_pipe(file):
            exchange(aside, file)
            release(aside)

    return give_back


def put_pipe_ahead(log: Path, root: Path) -> Undo | None:
    """Put a pipe where the next commit of a table would be; None if the table is gone.

    A commit is put where nothing is, so none ever takes the pipe's place: its author finds that
    it is not there, and tries again when the pipe is gone.
    """
    for _ in range(PIPES_MAX):
        versions = [int(each.stem) for each in log.glob("*.json") if each.stem.isdecimal()]
        if not versions:
            return None
        pipe = log / f"{max(versions) + 1:020d}.json"
        with suppress(FileExistsError, FileNotFoundError):  # a commit was first, or all is gone
            os.mkfifo(pipe)
            return lambda: _take_pipe(pipe, free_name(root, "aside"))
    return None


def _take_pipe(pipe: Path, aside: Path) -> None:
    if _is_pipe(pipe):
        pipe.rename(aside)
        release(aside)


def release(pipe: Path) -> None:
    """Let go of all that wait to open a pipe that is out of the way, and delete it."""
    if not _is_pipe(pipe):
        raise OSError(f"{pipe} is no pipe: something else was taken away")
    os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))
    pipe.unlink()


def _is_pipe(path: Path) -> bool:
    try:
        return S_ISFIFO(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def newest(folder: Path, pattern: str) -> Path | None:
    """Return the file that was written last; None if there is none."""
    found = []
    for each in folder.glob(pattern):
        with suppress(FileNotFoundError):
            found.append((each.lstat().st_mtime_ns, each))
    return max(found)[1] if found else None
