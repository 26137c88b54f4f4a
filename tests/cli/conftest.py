"""One cluster for a file of tests of the command line; each changes topics of its own only."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kafka_on_spark.cli.application import NAME, app
from tests.cluster.disks import PATIENCE_MS, Disks, patient_passes, records
from tests.cluster.folders import quick_folder

ROOT = Path(__file__).parents[2]
_NUMBERS = count()
_VERBS = get_command(app)


@pytest.fixture(autouse=True)
def _patient_passes():
    with patient_passes():
        yield


@contextmanager
def four_brokers():
    """Four brokers in two racks."""
    with quick_folder() as folder:
        disks = Disks(folder)
        configs = {"delivery.timeout.ms": str(PATIENCE_MS)}  # a process that answers may be slow
        disks.create(4, racks={1: "a", 2: "b", 3: "a", 4: "b"}, configs=configs)
        try:
            yield disks
        finally:
            disks.close()


@pytest.fixture(scope="module")
def disks():
    with four_brokers() as disks:
        yield disks


@pytest.fixture
def cluster(disks):
    return disks.cluster


@pytest.fixture
def new_topic(cluster):
    """Makes topics of names that no other test has, some with values appended, one a batch."""

    def make(*values, **arguments):
        name = f"topic-{next(_NUMBERS)}"
        chosen = {} if "replica_assignment" in arguments else {"replication_factor": 3}
        cluster.create_topic(name, **{**chosen, **arguments})
        for value in values:
            cluster.append(name, records(value))
        return name

    return make


@pytest.fixture
def pipe_without_reader():
    """The end to write to, whose reader has gone before anything could be written."""
    ours, theirs = os.pipe()
    os.close(ours)
    yield theirs
    os.close(theirs)


def without_styles(text):
    """Return what a terminal shows, as plain text."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def read_terminal(descriptor):
    """Return what was written to a terminal until it was closed."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 65536)
        except OSError:  # what Linux says when the other end is closed
            part = b""
        if not part:
            return b"".join(parts).decode().replace("\r\n", "\n")
        parts.append(part)


class Answer(NamedTuple):
    """How a call ended, and what it said."""

    code: int
    out: str
    complaint: str


@dataclass(frozen=True)
class CommandLine:
    """Calls the command line on one cluster, in this process or as one of its own."""

    root: str

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Return what a call says on standard output; it must end with `code`."""
        result = self._run(*arguments)
        assert result.code == code, result
        return result.out

    def json(self, *arguments: object, code: int = 0):
        """Return a call's answer for scripts."""
        return json.loads(self(*arguments, "--output", "json", code=code))

    def refused(self, *arguments: object) -> str:
        """Return why a call was refused: one sentence, and nothing else."""
        result = self._run(*arguments)
        assert (result.code, result.out) == (2, ""), result
        [line] = result.complaint.splitlines()
        assert line.startswith("kafka-on-spark: ")
        return line.removeprefix("kafka-on-spark: ")

    def _run(self, *arguments: object) -> Answer:
        environment = {"KAFKA_ON_SPARK_CLUSTER": self.root}
        # Not its `invoke`, which makes the verbs anew for each call: that takes longer than most do.
        with CliRunner().isolation(env=environment) as (out, complaint, _):
            with pytest.raises(SystemExit) as ending:
                _VERBS.main(list(map(str, arguments)), prog_name=NAME)
            sys.stdout.flush()
            sys.stderr.flush()
            return Answer(ending.value.code, out.getvalue().decode(), complaint.getvalue().decode())

    def start(
        self, *arguments: object, script: str | None = None, **options: object
    ) -> subprocess.Popen:
        """Start a call as a process of its own; `script` changes something before it runs it."""
        environment = os.environ | {
            "KAFKA_ON_SPARK_CLUSTER": self.root,
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "80",
            "TERM": "xterm",
        }
        program = ["-m", "kafka_on_spark.cli"] if script is None else ["-c", script]
        command = [sys.executable, *program, *map(str, arguments)]
        # Tests that a shell has started in the background ignore it, and what they start would.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return subprocess.Popen(command, env=environment, text=True, **options)
        finally:
            signal.signal(signal.SIGINT, before)

    def at_terminal(self, *arguments: object, typed: str = "") -> tuple[str, int]:
        """Make a call at a terminal where `typed` is typed; return what it shows, and its code."""
        ours, theirs = pty.openpty()
        process = self.start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = without_styles(read_terminal(ours))
        os.close(ours)
        return shown, process.wait()


@pytest.fixture
def call(disks):
    return CommandLine(str(disks.metadata_root))


@pytest.fixture
def json_file(tmp_path):
    """Writes a file of Kafka's tools; returns its path."""

    def write(content):
        path = tmp_path / "given.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write
