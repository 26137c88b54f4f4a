"""The command line as a process: pipes, terminals, signals."""

import os
import pty
import signal
import tomllib
from subprocess import PIPE

import pytest

import kafka_on_spark.cli
from kafka_on_spark.cli.application import main
from tests.cli.conftest import ROOT, without_styles


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


@pytest.fixture
def on_terminal(call):
    """Makes a call at a terminal where `typed` is typed; returns what it shows, and its code."""

    def run(*arguments, typed=""):
        ours, theirs = pty.openpty()
        process = call.start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = read_terminal(ours)
        os.close(ours)
        return shown, process.wait()

    return run


def test_interrupted_controller_resigns(call, cluster):
    process = call.start("controller", "--run", "--seconds", 600, stdout=PIPE, stderr=PIPE)
    epoch = cluster.image.controller.controller_epoch
    while cluster.image.controller.controller_epoch == epoch:
        assert process.poll() is None
        signal.sigtimedwait([], 0.02)

    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()

    assert (process.returncode, said, complaint) == (130, "", "kafka-on-spark: interrupted\n")
    assert cluster.image.controller.controller_id is None


def test_table_at_a_terminal_has_a_frame_and_keeps_what_is_long(on_terminal, new_topic, disks):
    shown, code = on_terminal("brokers", "--list")

    assert code == 0
    titles, rule, *rows = (line.rstrip() for line in without_styles(shown).splitlines())
    assert titles.split() == ["broker", "state", "rack", "root"]
    assert set(rule) <= {"─", " "}
    assert rows[0].split() == ["1", "active", "a", str(disks.root(1))]


def test_confirmation_at_a_terminal_decides(on_terminal, new_topic, cluster):
    topic = new_topic(b"a")
    delete = ("topics", "--delete", "--topic", topic)

    shown, code = on_terminal(*delete, typed="n\n")

    assert "and 1 record can't be undone. Go on? [y/N]" in " ".join(shown.split())
    assert (code, topic in cluster.image.topic_ids) == (2, True)
    assert "nothing was done" in shown
    shown, code = on_terminal(*delete, typed="y\n")
    assert (code, topic in cluster.image.topic_ids) == (0, False)
    assert f"Deleted 1 topic: {topic}." in shown


def test_script_of_the_name_is_this_command_line():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts == {"kafka-on-spark": f"{main.__module__.rsplit('.', 1)[0]}:{main.__name__}"}
    assert kafka_on_spark.cli.main is main
