"""What a cluster's processes hold at most, while many records are appended and read.

Measured by `memory_process` in a process of its own, since the driver's memory is fixed when its
JVM starts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from jobs.benchmarks.bench import Bench, say
from jobs.benchmarks.memory_process import ORDER, WORKER
from jobs.benchmarks.report import Budget, Row, row

HOME = Path(__file__).resolve().parents[2]


def memory(bench: Bench) -> list[Row]:
    """Append and read on executors of their own; return each kind of process's largest peak.

    Raises:
        subprocess.CalledProcessError: It failed; standard error says why.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        # Those of the launcher's own session, which has another driver.
        if not name.startswith(("PYSPARK_GATEWAY", "PYSPARK_SUBMIT", "PYSPARK_DRIVER_CALLBACK"))
    }
    folder = bench.folder / "memory"
    folder.mkdir()
    command = [sys.executable, "-m", "jobs.benchmarks.memory_process", str(folder)]
    done = subprocess.run(
        [*command, str(bench.records)],
        cwd=HOME,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    say(f"  appended in {said['append_s']:.1f} s, read in {said['read_s']:.1f} s")
    return [
        row(
            f"memory at most, {bench.records:,} records appended and read: {kind}",
            [said["peak_gib"][kind]],
            "GiB",
            budget=Budget(bound=1.0, on="value") if kind == WORKER else None,
        )
        for kind in ORDER
    ]
