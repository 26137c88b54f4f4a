"""What others wrote (keys, ids, racks) is never obeyed by a terminal, and goes into a file as the bytes that
it is. What calls say without one is in `sessions/visible.console`."""

from unicodedata import category

import pytest

from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks

EVIL = "\x1b]0;owned\x07\u202egpj.exe\x7f\x9b2J\u2066"
KEY = ("--property", "print.key=true", "--property", "key.separator=|")
CONSUME = ("consume", "--topic", "t", "--exit", "--quiet", *KEY)
DUMP = ("dump-log", "--topic", "t", "--print-data-log")


@pytest.fixture(scope="module")
def disks():
    with new_disks(1) as disks:
        disks.cluster.create_topic("t", partitions=1, replication_factor=1)
        disks.cluster.append("t", [{"key": EVIL, "value": f"a{EVIL}\n"}])
        yield disks


@pytest.mark.parametrize("arguments", [DUMP, CONSUME], ids=" ".join)
def test_a_terminal_gets_nothing_that_it_would_obey(disks, arguments):
    shown, code = CommandLine(str(disks.metadata_root)).at_terminal(*arguments)

    assert code == 0, shown
    assert {each for each in shown if category(each)[0] == "C"} <= {"\n"}
    assert "owned" in "".join(shown.split())


def test_a_record_that_goes_into_a_file_is_the_bytes_that_it_is(disks):
    assert f"{EVIL}|a{EVIL}\n" in CommandLine(str(disks.metadata_root))(*CONSUME)
