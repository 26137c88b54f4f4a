"""The page's first trial of `serve`, as a new user would make it, up to ^C."""

import os
import re
import shlex
import signal
import stat
import subprocess
import sys

from tests.cluster.disks import new_disks
from tests.cluster.serving.processes import REPOSITORY, WAIT_S_MAX, wait_for
from tests.cluster.serving.test_serve import QUICK
from tests.pages import page

TRIAL = page("docs/running.md").partition("### A first trial\n")[2].partition("\n## ")[0]
STARTED, ASKED = re.findall(r"^```console\n(.*?)^```$", TRIAL, re.M | re.S)
PORT = "9644"
CURL = "import sys, urllib.request as u; print(u.urlopen(sys.argv[-1]).read().decode(), end=str())"


def calls(block):
    parts = re.split(r"^\$ ", block, flags=re.M)[1:]
    return [(call, said.splitlines()) for call, _, said in (each.partition("\n") for each in parts)]


def is_as(said, on_page):
    """Return whether lines are those of the page, on which … stands for anything."""
    pattern = "\n".join(re.escape(each).replace("…", ".*") for each in on_page)
    return re.fullmatch(pattern, "\n".join(said)) is not None


def test_first_trial_of_the_page_says_what_it_says(tmp_path):
    curl, log = tmp_path / "bin" / "curl", tmp_path / "log"
    curl.parent.mkdir()
    curl.write_text(f'#!/bin/sh\nexec {sys.executable} -c {shlex.quote(CURL)} "$@"\n')
    curl.chmod(curl.stat().st_mode | stat.S_IXUSR)
    environment = {
        **os.environ,
        "KAFKA_ON_SPARK_CLUSTER": "tour/metadata",
        "PATH": f"{curl.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
    }
    [_, (serve, started)] = calls(STARTED)
    with new_disks(configs=QUICK) as disks, log.open("w") as errors:
        disks.cluster.create_topic("flights", replication_factor=3)
        (tmp_path / "tour").symlink_to(disks.base)
        (tmp_path / "tour" / "metadata").symlink_to(disks.metadata_root)
        options = ["0" if each == PORT else each for each in shlex.split(serve)[1:]]
        command = [sys.executable, "-m", "kafka_on_spark.cli", *options]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=errors)
        try:
            port = wait_for(lambda: re.search(r" answers .*:(\d+)$", log.read_text(), re.M))[1]
            expected = [each.replace(PORT, port) for each in started]
            wait_for(lambda: is_as(log.read_text().splitlines()[: len(expected)], expected))

            def answer_of(call):
                said = subprocess.run(
                    ["bash", "-c", call.replace(PORT, port)],
                    cwd=tmp_path, env=environment, capture_output=True, text=True,
                )  # fmt: skip
                return said.stdout.splitlines()

            for call, answer in calls(ASKED):
                wait_for(lambda call=call, answer=answer: is_as(answer_of(call), answer))
            process.send_signal(signal.SIGINT)
            code = process.wait(WAIT_S_MAX)
        finally:
            process.kill()
            process.wait()

    assert code == 0
    assert any(each.endswith("ends: told to by SIGINT") for each in log.read_text().splitlines())
