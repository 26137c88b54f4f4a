"""Runs scripts, each in a process of its own that is ended if it hangs.

The processes are forks of a server that has imported what scripts use: a new interpreter takes a
second of a processor for that, which is longer than most scripts take. They end as an interpreter
does: they wait for threads, and run what `atexit` calls, which no fork of multiprocessing does.
"""

import atexit
import os
import sys
import threading
from pathlib import Path

from tests.cluster.disks import one_race_a_device
from tests.cluster.folders import quick_folder
from tests.cluster.killing.processes import processes_that_start

SECONDS = 300


def printed_by(script: str, *arguments: str, folder: Path | None = None) -> str:
    """Return what a script prints, which runs in `folder`; it must end, and by itself."""
    with quick_folder() as base:
        given = (script, arguments, folder, base / "printed", base / "errors")
        process = processes_that_start().Process(target=_run, args=given)
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
        assert process.exitcode == 0, (base / "errors").read_text()
        return (base / "printed").read_text()


def _run(
    script: str, arguments: tuple[str, ...], folder: Path | None, printed: Path, errors: Path
) -> None:
    for number, path in ((1, printed), (2, errors)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), number)
    if folder is not None:
        os.chdir(folder)
    sys.argv = ["-c", *arguments]
    with one_race_a_device():
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
        threading._shutdown()
        atexit._run_exitfuncs()
