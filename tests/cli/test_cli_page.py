"""The console of the command line's page is true: its calls say what it says they do."""

import os
import re
import shlex

import pytest

from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks
from tests.pages import blocks

[CONSOLE] = blocks("docs/command-line.md", "console")
CALLS = re.findall(r"^\$ kafka-on-spark (.*)\n((?:(?!\$ ).*\n)*)", CONSOLE, re.M)
REASSIGNMENT = '{"partitions": [{"topic": "flights", "partition": 3, "replicas": [3, 1, 2]}]}'


@pytest.fixture
def call(tmp_path, monkeypatch):
    """The command line on four brokers, of which the fourth has lost its disk."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "move.json").write_text(REASSIGNMENT)
    assignment = {0: [1, 2, 3], 1: [2, 3, 4], 2: [3, 4, 1], 3: [4, 1, 2]}
    with new_disks(4) as disks:
        disks.cluster.create_topic(
            "flights", replica_assignment=assignment, configs={"min.insync.replicas": 2}
        )
        for number in range(5):
            flights = [(f"N{number}{each}", b"{}") for each in range(200)]
            disks.cluster.append("flights", flights)
        disks.take_away(4)
        yield CommandLine(str(disks.metadata_root))


def test_calls_of_the_page_say_what_it_says(call):
    assert len(CALLS) == 5
    for arguments, expected in CALLS:
        words, _, source = arguments.partition(" <")
        if source:
            assert source == os.devnull
            said = "kafka-on-spark: " + call.refused(*shlex.split(words)) + "\n"
        else:
            said = call(*shlex.split(words))
        assert [line.rstrip() for line in said.splitlines()] == expected.splitlines()
