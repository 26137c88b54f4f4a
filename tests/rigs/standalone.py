"""A Spark cluster on this machine: a master, and workers that start executors as processes.

    ./spark-submit.sh python tests/rigs/standalone.py [--workers N] [--cores N] [--memory 1g]
    ./spark-submit.sh --master spark://127.0.0.1:7077 jobs/quickstart.py

It runs pyspark's own classes, so it has the same version. It listens on this machine only, and runs
until Ctrl-C or SIGTERM; its logs are in a fresh folder.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark

from jobs.command_line import Parser
from tests.rigs.rig import RigError, Say, new_folder, number, run_rig

COMMAND: Final = "./spark-submit.sh python tests/rigs/standalone.py"
HOST: Final = "127.0.0.1"
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0
LOG_SETTINGS: Final = (
    "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = stderr\n"
    "appender.stderr.type = Console\nappender.stderr.name = stderr\n"
    "appender.stderr.target = SYSTEM_ERR\nappender.stderr.layout.type = PatternLayout\n"
    "appender.stderr.layout.pattern = %d %p %c{1}: %m%n\n"
)
"""The log must have the lines that a start waits for."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__.splitlines()[0])
    count = number(1, 2**16 - 1, "or more", int)
    parser.add_argument("--workers", type=count, default=2, help="number of workers (default 2)")
    parser.add_argument("--cores", type=count, default=1, help="cores of a worker (default 1)")
    parser.add_argument(
        "--memory", default="1g", help="memory of a worker, for its executors (default 1g)"
    )
    parser.add_argument("--port", type=count, default=7077, help="of the master (default 7077)")
    return parser.parse_args(arguments)


class Standalone:
    """The processes of one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[subprocess.Popen[bytes]] = []
        (folder / "log4j2.properties").write_text(LOG_SETTINGS, encoding="utf-8")

    def start(self, name: str, kind: str, said: str, arguments: Sequence[str]) -> None:
        """Start a process, and wait until its log has what it says once it is ready."""
        home, log = Path(pyspark.__file__).parent, self.folder / f"{name}.log"
        settings = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), kind, "--host", HOST, *arguments],
                cwd=self.folder,
                env={**os.environ, **settings, "SPARK_CONF_DIR": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is this process's alone
            )
        self._all.append(process)
        deadline = time.monotonic() + START_S_MAX
        while said not in log.read_text(encoding="utf-8", errors="replace"):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RigError(f"the {name} did not start: see {log}")
            time.sleep(0.05)  # a log file tells nobody when it grows

    def end(self) -> None:
        """End all, workers first, since they end their executors."""
        for process in reversed(self._all):
            process.terminate()
        for process in self._all:
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


def main(arguments: list[str]) -> int:
    """Run until it is interrupted; return 0, or 2 if the cluster could not be started."""
    given = parse(arguments)
    url = f"spark://{HOST}:{given.port}"
    web = ["--webui-port", "0"]

    def serve(say: Say) -> int:
        cluster = Standalone(new_folder(None, "standalone-"))
        try:
            port = ["--port", str(given.port)]
            cluster.start("master", MASTER, "I have been elected leader", [*port, *web])
            for each in range(1, given.workers + 1):
                size = ["--cores", str(given.cores), "--memory", given.memory]
                place = ["--work-dir", str(cluster.folder / f"worker-{each}")]
                said = "Successfully registered with master"
                cluster.start(f"worker-{each}", WORKER, said, [*web, *size, *place, url])
            say(f"{url}\n{given.workers} workers, until Ctrl-C; logs are in {cluster.folder}")
            signal.pause()
        finally:
            cluster.end()
        return 0

    return run_rig(COMMAND, serve)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
