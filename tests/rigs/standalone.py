"""A Spark cluster on this machine: a master, and workers that start executors as processes.

    ./spark-submit.sh python tests/rigs/standalone.py start [--workers N] [--cores N] [--memory 1g]
    ./spark-submit.sh --master spark://127.0.0.1:7077 jobs/quickstart.py
    ./spark-submit.sh python tests/rigs/standalone.py stop

It runs pyspark's own classes, so it has the same version. Logs and working files are in a folder
below the system's temporary one, which `stop` removes. It listens on this machine only.
"""

import argparse
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyspark

from jobs.command_line import Parser

COMMAND: Final = "./spark-submit.sh python tests/rigs/standalone.py"
HOST: Final = "127.0.0.1"
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0


class StandaloneError(Exception):
    """The cluster could not be started or stopped; the message says why."""


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(COMMAND, __doc__.splitlines()[0])
    parser.add_argument("verb", choices=["start", "stop"])
    parser.add_argument("--workers", type=_count, default=2, help="number of workers (default 2)")
    parser.add_argument("--cores", type=_count, default=1, help="cores of a worker (default 1)")
    parser.add_argument(
        "--memory", default="1g", help="memory of a worker, for its executors (default 1g)"
    )
    parser.add_argument(
        "--port", type=_count, default=7077, help="port of the master (default 7077)"
    )
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: give 1 or more")
    return int(text)


def folder_of(port: int) -> Path:
    """Return the folder with the logs and process ids of the cluster at a port."""
    return Path(tempfile.gettempdir(), f"kafka_on_spark-standalone-{os.getuid()}-{port}")


def start(folder: Path, choices: argparse.Namespace) -> str:
    """Start the master and its workers; return the master's URL once all workers are registered."""
    if is_ours(folder) and running(folder):
        raise StandaloneError(f"a cluster runs already: `{COMMAND} stop` ends it")
    if _is_taken(choices.port):
        raise StandaloneError(f"port {choices.port} is taken: give another one with --port")
    if is_ours(folder):
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    url = f"spark://{HOST}:{choices.port}"
    try:
        ports = ["--host", HOST, "--port", str(choices.port), "--webui-port", "0"]
        _spawn(folder, "master", MASTER, ports)
        _wait_for(folder, "master", "I have been elected leader")
        for number in range(1, choices.workers + 1):
            name = f"worker-{number}"
            size = ["--cores", str(choices.cores), "--memory", choices.memory]
            place = ["--host", HOST, "--webui-port", "0", "--work-dir", str(folder / name)]
            _spawn(folder, name, WORKER, [*size, *place, url])
        for number in range(1, choices.workers + 1):
            _wait_for(folder, f"worker-{number}", "Successfully registered with master")
    except StandaloneError:
        _end(running(folder))
        raise
    return url


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _spawn(folder: Path, name: str, kind: str, arguments: Sequence[str]) -> None:
    """Start one process in its own session: it outlives this process, and Ctrl-C."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        # Not the settings of sessions; the log must have the lines that `start` waits for.
        "SPARK_CONF_DIR": str(_log_settings(folder)),
    }
    with (folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), kind, *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (folder / f"{name}.pid").write_text(f"{process.pid} {kind}", encoding="utf-8")
    process.returncode = 0  # it goes on running on purpose: Python must not warn of it


def _log_settings(folder: Path) -> Path:
    settings = folder / "conf"
    settings.mkdir(exist_ok=True)
    (settings / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.stderr.type = Console\nappender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\nappender.stderr.layout.type = PatternLayout\n"
        "appender.stderr.layout.pattern = %d %p %c{1}: %m%n\n",
        encoding="utf-8",
    )
    return settings


def _wait_for(folder: Path, name: str, said: str) -> None:
    log = folder / f"{name}.log"
    deadline = time.monotonic() + START_S_MAX
    while said not in log.read_text(encoding="utf-8", errors="replace"):
        if time.monotonic() > deadline or not _is_alive(folder / f"{name}.pid"):
            raise StandaloneError(f"the {name} did not start: see {log}")
        time.sleep(0.05)  # a log file tells nobody when it grows


def is_ours(folder: Path) -> bool:
    """Return whether the folder exists; it must be this user's, and writable by no one else.

    Any user may make a folder in the temporary one. The process ids in it are only trusted if this
    user wrote them.
    """
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    if not is_private or found.st_uid != os.getuid():
        raise StandaloneError(
            f"{folder} is not a folder that only you can write to, so its process ids are not"
            " trusted: remove it, or give another --port"
        )
    return True


def running(folder: Path) -> list[int]:
    """Return the started processes that still run, workers first."""
    files = sorted(folder.glob("*.pid"), reverse=True)
    return [int(file.read_text().split()[0]) for file in files if _is_alive(file)]


def _is_alive(file: Path) -> bool:
    """Return whether a process runs and is the one that was started: ids are reused."""
    pid, _, kind = file.read_text(encoding="utf-8").partition(" ")
    if kind not in (MASTER, WORKER) or not pid.isdecimal() or int(pid) <= 1:
        return False  # a file that this script did not write
    # If this process is its parent, an ended process stays until its status is read.
    with suppress(ChildProcessError):
        os.waitpid(int(pid), os.WNOHANG)
    # Whole lines at any terminal width: the class comes after a long class path.
    asked = ["ps", "-ww", "-o", "args=", "-p", pid]
    shown = subprocess.run(asked, capture_output=True, check=False)
    return kind.encode() in shown.stdout


def stop(folder: Path) -> int:
    """End all processes; return their number."""
    if not is_ours(folder):
        return 0
    ended = running(folder)
    _end(ended)
    shutil.rmtree(folder, ignore_errors=True)
    return len(ended)


def _end(processes: Sequence[int]) -> None:
    """Ask each process to end, workers first, since they end their executors; kill the rest."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    for pid in processes:
        while _exists(pid):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)  # no child of this process: it can't be waited for


def _exists(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def main(arguments: list[str]) -> int:
    """Start or stop; return the exit code."""
    choices = parse(arguments)
    folder = folder_of(choices.port)
    try:
        if choices.verb == "stop":
            print(f"{stop(folder)} processes ended.")
            return 0
        url = start(folder, choices)
    except StandaloneError as error:
        print(f"standalone: {error}", file=sys.stderr)
        return 1
    print(f"{url}\n{choices.workers} workers; logs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
