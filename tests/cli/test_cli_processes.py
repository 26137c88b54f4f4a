"""The command line as a process: pipes, terminals, signals."""

import signal
import tomllib
from subprocess import PIPE

import pytest

import kafka_on_spark.cli
from kafka_on_spark.cli.application import main
from tests.cli.conftest import ROOT


def test_full_disk_is_told_in_one_sentence(call):
    with open("/dev/full", "w") as full:
        process = call.start("brokers", "--list", stdout=full, stderr=PIPE)
        _, complaint = process.communicate()

    assert process.returncode == 2
    [line] = complaint.splitlines()
    assert "No space left on device" in line


@pytest.fixture(
    params=[signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"]
)
def interrupts(request):
    """What this process does about SIGINT: a shell has it ignored by what it starts with &."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


def test_controller_does_what_others_ask_for_and_resigns_when_interrupted(
    call, cluster, interrupts, request
):
    topic = f"asked-for-in-{request.node.callspec.id}"
    before = [each["record_type"] for each in call.json("metadata", "--log")]
    process = call.start("controller", "--run", "--seconds", 600, stdout=PIPE, stderr=PIPE)
    epoch = cluster.image.controller.controller_epoch
    while cluster.image.controller.controller_epoch == epoch:
        assert process.poll() is None
        signal.sigtimedwait([], 0.02)

    call("topics", "--create", "--topic", topic)
    log = [each["record_type"] for each in call.json("metadata", "--log")]
    kinds = log[len(before) :]
    assert kinds.count("AdminRequestRecord") == kinds.count("AdminResultRecord") == 1
    assert topic in cluster.image.topic_ids
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()

    assert (process.returncode, said, complaint) == (130, "", "kafka-on-spark: interrupted\n")
    assert cluster.image.controller.controller_id is None


def test_confirmation_at_a_terminal_decides(call, new_topic, cluster):
    topic = new_topic(b"a")
    delete = ("topics", "--delete", "--topic", topic)

    shown, code = call.at_terminal(*delete, typed="n\n")

    assert "and 1 record can't be undone. Go on? [y/N]" in " ".join(shown.split())
    assert (code, topic in cluster.image.topic_ids) == (2, True)
    assert "nothing was done" in shown
    shown, code = call.at_terminal(*delete, typed="y\n")
    assert (code, topic in cluster.image.topic_ids) == (0, False)
    assert f"deleted  {topic}" in shown


def test_script_of_the_name_is_this_command_line():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

    assert scripts == {"kafka-on-spark": f"{main.__module__.rsplit('.', 1)[0]}:{main.__name__}"}
    assert kafka_on_spark.cli.main is main
