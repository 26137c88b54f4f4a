"""A Spark cluster on this machine: a master, and workers that start executors as processes.

    ./spark-submit.sh python jobs/standalone.py start [--workers N] [--cores N] [--memory 1g]
    ./spark-submit.sh --master spark://127.0.0.1:7077 jobs/quickstart.py
    ./spark-submit.sh python jobs/standalone.py stop

Made of what pyspark brings, so it is of the same version; logs and what executors work on are in
a folder of the system's temporary one, which `stop` removes. Nobody else can connect.
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

COMMAND: Final = "./spark-submit.sh python jobs/standalone.py"
HOST: Final = "127.0.0.1"
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 20.0


class StandaloneError(Exception):
    """It could not be started or stopped; the message says why."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the command line's choices."""
    parser = Parser(COMMAND, __doc__.splitlines()[0])
    parser.add_argument("verb", choices=["start", "stop"])
    parser.add_argument("--workers", type=_count, default=2, help="2, unless you say otherwise")
    parser.add_argument("--cores", type=_count, default=1, help="of a worker: 1")
    parser.add_argument("--memory", default="1g", help="of a worker, for its executors: 1g")
    parser.add_argument("--port", type=_count, default=7077, help="of the master: 7077")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: give 1 or more")
    return int(text)


def folder_of(port: int) -> Path:
    """Return where the cluster at a port keeps its logs and process ids."""
    return Path(tempfile.gettempdir(), f"kafka_on_spark-standalone-{os.getuid()}-{port}")


def start(folder: Path, choices: argparse.Namespace) -> str:
    """Start the master and its workers; return the master's URL once all workers are there.

    Raises:
        StandaloneError: One runs already, or something did not start; then nothing is left.
    """
    if is_ours(folder) and running(folder):
        raise StandaloneError(f"it runs already: `{COMMAND} stop` ends it")
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
    """Start one process in a session of its own: it outlives this one, and Ctrl-C."""
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        # The properties of sessions are not theirs; the log must say what is waited for.
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
    process.returncode = 0  # left to itself on purpose: Python need not warn that it still runs


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
        time.sleep(0.05)


def is_ours(folder: Path) -> bool:
    """Return whether there is a folder that this user made and nobody else could write to.

    It is named in a place where everybody may make one: what another user's says is not done.

    Raises:
        StandaloneError: What is there is not ours.
    """
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o022
    if not is_private or found.st_uid != os.getuid():
        raise StandaloneError(
            f"{folder} is not a folder that only you can write to, so what it says of processes is"
            " not believed: remove it, or give another --port"
        )
    return True


def running(folder: Path) -> list[int]:
    """Return the processes that were started and still are, workers first."""
    files = sorted(folder.glob("*.pid"), reverse=True)
    return [int(file.read_text().split()[0]) for file in files if _is_alive(file)]


def _is_alive(file: Path) -> bool:
    """Return whether a process runs, and is what was started: numbers are used again."""
    pid, _, kind = file.read_text(encoding="utf-8").partition(" ")
    if kind not in (MASTER, WORKER) or not pid.isdecimal() or int(pid) <= 1:
        return False  # a file that this script did not write
    # Whoever asks may be its parent, for whom it stays until it is asked for.
    with suppress(ChildProcessError):
        os.waitpid(int(pid), os.WNOHANG)
    # Whole lines, however narrow the terminal: the class comes after a long class path.
    asked = ["ps", "-ww", "-o", "args=", "-p", pid]
    shown = subprocess.run(asked, capture_output=True, check=False)
    return kind.encode() in shown.stdout


def stop(folder: Path) -> int:
    """End all processes; return how many there were.

    Raises:
        StandaloneError: The folder is not ours.
    """
    if not is_ours(folder):
        return 0
    ended = running(folder)
    _end(ended)
    shutil.rmtree(folder, ignore_errors=True)
    return len(ended)


def _end(processes: Sequence[int]) -> None:
    """Ask each to end, workers first: they end their executors. Kill what does not."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    for pid in processes:
        while _exists(pid):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


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
