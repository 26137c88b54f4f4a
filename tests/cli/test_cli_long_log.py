"""A metadata log of more than a thousand records, and a reader that has enough."""

from subprocess import PIPE

import pytest

from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks


@pytest.fixture(scope="module")
def call():
    """Calls the command line on a cluster whose log is longer than what a pipe holds."""
    with new_disks(1) as disks:
        disks.cluster.create_topic("many", partitions=1500)
        yield CommandLine(str(disks.metadata_root))


def test_reader_that_has_enough_ends_it_without_a_word(call):
    process = call.start("metadata", "--log", stdout=PIPE, stderr=PIPE)

    process.stdout.readline()
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()

    assert (process.wait(), complaint) == (141, "")
