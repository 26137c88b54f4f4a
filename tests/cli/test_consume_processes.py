"""`consume` as a process: pipes, interrupts, and a first trial as a new user would make it."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from subprocess import PIPE

from tests.cli.conftest import ROOT
from tests.cluster.disks import new_disks, records
from tests.pages import blocks

[TRIAL] = blocks("docs/console-tools.md", "console")


def test_records_are_printed_as_they_come_and_an_interrupt_says_how_many(call, new_topic, cluster):
    topic = new_topic(b"before")
    process = call.start("consume", "--topic", topic, "--offset", "0", stdout=PIPE, stderr=PIPE)

    assert process.stdout.readline() == "before\n"
    cluster.append(topic, records(b"after"))
    assert process.stdout.readline() == "after\n"
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate()

    assert (process.returncode, said) == (130, "")
    assert complaint.splitlines() == [
        "Processed a total of 2 records.",
        "kafka-on-spark: interrupted",
    ]


def test_end_of_its_terminal_has_a_member_commit_what_was_printed_and_leave(
    call, new_topic, cluster
):
    topic = new_topic(b"a")
    group = f"of-{topic}"
    process = call.start(
        "consume", "--topic", topic, "--group", group, "--from-beginning", stdout=PIPE, stderr=PIPE
    )

    assert process.stdout.readline() == "a\n"
    for _ in range(2):  # from its shell, and from the system
        process.send_signal(signal.SIGHUP)
        time.sleep(0.001)
    said, complaint = process.communicate()

    assert (process.returncode, said) == (129, "")
    assert complaint == "Processed a total of 1 record.\n"
    assert cluster.describe_group_members(group).members == ()
    assert [each.offset for each in cluster.describe_group(group)] == [1]


def test_output_that_another_process_has_made_non_blocking_is_whole(call, new_topic):
    values = [each * 100_000 for each in (b"a", b"b", b"c")]  # no pipe takes one of them whole
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    process = call.start("consume", "--topic", new_topic(*values), "-e", stdout=theirs, stderr=PIPE)
    os.close(theirs)

    with open(ours, "rb") as pipe:
        said = pipe.read()
    _, complaint = process.communicate()

    assert (process.returncode, complaint) == (0, "Processed a total of 3 records.\n")
    assert said == b"".join(each + b"\n" for each in values)


def test_first_trial_of_the_page_says_what_it_says(tmp_path):
    script = tmp_path / "bin" / "kafka-on-spark"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafka_on_spark.cli "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    calls = [line[2:] for line in TRIAL.splitlines() if line.startswith("$ ")]
    expected = "".join(f"{each}\n" for each in TRIAL.splitlines() if not each.startswith("$ "))
    with new_disks(3) as disks:
        (tmp_path / "tour").symlink_to(disks.base)
        (tmp_path / "tour" / "metadata").symlink_to(disks.metadata_root)

        result = subprocess.run(
            ["bash", "-ec", "\n".join(calls)],
            cwd=tmp_path,
            env={"PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    said = re.sub(r"\(id \w+\)", "(id …)", result.stdout)
    assert (result.returncode, said) == (0, expected)
