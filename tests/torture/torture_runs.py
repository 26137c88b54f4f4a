"""Runs tests/rigs/torture.py as users do, in a process of its own."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAIT_S_MAX = 1500


def torture(folder: Path, *options: str) -> tuple[int, str]:
    """Return the exit code of a run in `folder`, and what it printed."""
    command = ["./spark-submit.sh", "python", "tests/rigs/torture.py", "--dir", str(folder)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")
    }
    started = subprocess.Popen(
        [*command, *options],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = started.communicate(timeout=WAIT_S_MAX)
    except subprocess.TimeoutExpired:
        # Not kill: it ends what it has started, and unmounts its disks.
        started.terminate()
        output, _ = started.communicate()
    return started.returncode, output
