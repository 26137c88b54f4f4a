"""Runs the quickstart as users do, in processes of its own, and kills it where a test wants."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from glob import glob
from pathlib import Path

from jobs.quickstart_run.run_folder import GivenPlan, Plan, QuickstartError, RunFolder

ROOT = Path(__file__).parents[3]
WAIT_S_MAX = 900.0  # nothing is timed here, and Spark starts slowly on a busy machine
DEATH_S_MAX = 120.0  # until a process that was killed has given up its memory and its locks


class QuickstartProcess:
    """One run: launcher, JVM and Python, which is a process group."""

    def __init__(self, folder: Path, *options: str, spark: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._output = folder.with_name(f"{folder.name}-output-{time.monotonic_ns()}.txt")
        settings = {"spark.ui.enabled": "false", **(spark or {})}
        confs = [word for each in settings.items() for word in ("--conf", "=".join(each))]
        command = ["./spark-submit.sh", *confs, "jobs/quickstart.py"]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")
        }
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, "--dir", str(folder), *options],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")

    def finish(self, wait_s_max: float = WAIT_S_MAX) -> int:
        """Wait for the end; return the exit code."""
        try:
            return self._process.wait(wait_s_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end after {wait_s_max} s:\n{self.output}") from None

    def kill(self) -> None:
        """Kill -9 all of it, and wait until it is gone: then nobody holds the folder."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + DEATH_S_MAX
        while time.monotonic() < deadline:
            try:
                RunFolder.take(str(self.folder), GivenPlan(None, None, None), Plan(0, 0, 0)).close()
            except QuickstartError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError("the folder of a killed run is still taken")

    def kill_in_append(self, sequence: int) -> None:
        """Kill it once the first of the append's partitions stands in its leader's log."""
        try:
            self._wait_for_append(sequence)
        finally:
            self.kill()

    def _wait_for_append(self, sequence: int) -> None:
        mark = f'"sequence":"{sequence}"'.encode()
        commits = f"{self.folder}/broker-*/flights-*/*/_delta_log/*.json"
        read: set[str] = set()
        deadline = time.monotonic() + WAIT_S_MAX
        while time.monotonic() < deadline:
            # Not Path.glob, which raises where a folder is renamed under it; so may reading.
            for file in set(glob(commits)) - read:
                read.add(file)
                with suppress(FileNotFoundError):
                    if mark in Path(file).read_bytes():
                        return
            assert self._process.poll() is None, f"it ended before append {sequence}: {self.output}"
            # Until the first append there is nothing to miss. Looking takes a processor from what is
            # looked at, and an append lasts longer than between two looks.
            time.sleep(0.01 if read else 0.2)
        raise AssertionError(f"append {sequence} was not reached:\n{self.output}")
