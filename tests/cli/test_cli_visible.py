"""What others wrote (keys, ids, racks, paths) is shown, and never obeyed: no raw escape is written."""

import unicodedata

import pytest

from kafka_on_spark.base.text import visible
from tests.cli.conftest import CommandLine
from tests.cluster.disks import new_disks

TITLE = "\x1b]0;owned\x07"
TURNED = "\u202egpj.exe"
EVIL = f"{TITLE}{TURNED}\x7f\x9b2J\u2066"


@pytest.fixture(scope="module")
def disks():
    """A cluster whose keys, racks, roots, groups and producers all have escapes in them."""
    with new_disks(1, racks={1: f"north{EVIL}"}) as disks:
        cluster = disks.cluster
        cluster.create_topic("t", partitions=1, replication_factor=1)
        record = {"key": EVIL, "value": f"a{EVIL}\n", "headers": [(f"h{EVIL}", EVIL.encode())]}
        cluster.append("t", [record], producer_id=f"p{EVIL}", sequence=0)
        cluster.alter_group_offsets(f"g{EVIL}", {("t", 0): 1})
        root = disks.base / f"broker-{TURNED}"  # of others no folder is made
        cluster.register_broker(2, root, rack=EVIL)
        yield disks


CALLS = [
    ("cluster", "--describe"),
    ("brokers", "--describe"),
    ("dump-log", "--topic", "t"),
    ("dump-log", "--topic", "t", "--print-data-log"),
    ("consumer-groups", "--list"),
    ("consumer-groups", "--describe", "--all-groups"),
    ("consumer-groups", "--reset-offsets", "--all-groups", "--all-topics", "--to-latest"),
    ("log-dirs",),
    ("metadata", "--log"),
    ("metadata", "--image"),
    ("fsck",),
]  # fmt: skip
REFUSED = [
    ("topics", "--describe", "--topic", f"x{EVIL}"),
    ("consumer-groups", "--describe", "--group", f"x{EVIL}"),
    ("brokers", "--register", "--broker", "3", "--root", f"s3:/{EVIL}"),
    ("topics", f"--{EVIL}"),
    ("get-offsets", "--time", EVIL),
    ("configs", "--describe", "--add-config", EVIL),
]


def unseen(text: str) -> set[str]:
    """Return the characters of an answer that nobody sees, and a terminal may obey."""
    return {each for each in text if unicodedata.category(each)[0] == "C" and each != "\n"}


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
@pytest.mark.parametrize("how", ["table", "json"])
def test_no_verb_writes_what_a_terminal_would_obey(disks, arguments, how):
    call = CommandLine(str(disks.metadata_root))

    assert unseen(call(*arguments, "--output", how)) == set()


KEY = ("--property", "print.key=true", "--property", "key.separator=|")
CONSUME = ("consume", "--topic", "t", "--exit", "--quiet", *KEY)
AT_TERMINAL = [CALLS[3], CONSUME]


@pytest.mark.parametrize("arguments", AT_TERMINAL, ids=" ".join)
def test_a_terminal_gets_nothing_that_it_would_obey(disks, arguments):
    call = CommandLine(str(disks.metadata_root))

    shown, code = call.at_terminal(*arguments)

    assert code == 0, shown
    assert unseen(shown) == set()
    assert "owned" in "".join(shown.split())


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: arguments[0])
def test_no_refusal_writes_what_a_terminal_would_obey(disks, arguments):
    call = CommandLine(str(disks.metadata_root))

    assert unseen(call.refused(*arguments)) == set()


def test_a_dump_says_in_words_which_characters_there_are(disks):
    call = CommandLine(str(disks.metadata_root))

    shown = call("dump-log", "--topic", "t", "--print-data-log")

    assert f'"{visible(EVIL)}"' in shown
    assert r"\x1b]0;owned\x07\u202egpj.exe" in shown
    [row] = call.json("dump-log", "--topic", "t", "--print-data-log")
    assert (row["key"], row["value"]) == (EVIL, f"a{EVIL}\n")
    assert row["headers"] == [{"key": f"h{EVIL}", "value": EVIL}]


CONTENT = [
    pytest.param(None,             None,                   "null",                                 id="null"),
    pytest.param(b"",              "",                     '""',                                   id="empty"),
    pytest.param(b"-",             "-",                    '"-"',                                  id="a dash"),
    pytest.param(b"null",          "null",                 '"null"',                               id="the word null"),
    pytest.param(b"a  b",          "a  b",                 '"a  b"',                               id="blanks"),
    pytest.param(b'"\\x1b"',       '"\\x1b"',              '"\\"\\\\x1b\\""',                      id="quotes and backslashes"),
    pytest.param("né 日本".encode(), "né 日本",              '"né 日本"',                            id="other letters"),
    pytest.param(b"\xff\x00",      {"base64": "/wA="},     '{"base64": "/wA="}',                   id="no UTF-8"),
    pytest.param(b"base64:/wA=",   "base64:/wA=",          '"base64:/wA="',                        id="text that looks like it"),
]  # fmt: skip


@pytest.mark.parametrize("content, as_json, as_cell", CONTENT)
def test_null_empty_text_and_bytes_are_told_apart(
    call, cluster, new_topic, content, as_json, as_cell
):
    topic = new_topic(partitions=1, replication_factor=1)
    cluster.append(topic, [{"key": content, "value": b"v", "headers": [("h", content)]}])

    [row] = call.json("dump-log", "--topic", topic, "--print-data-log")
    _, line = call("dump-log", "--topic", topic, "--print-data-log").splitlines()

    assert (row["key"], row["headers"]) == (as_json, [{"key": "h", "value": as_json}])
    assert f"  {as_cell}  " in line
    assert '"v"    [{"key": "h", "value": ' in line


def test_a_record_that_goes_into_a_file_is_the_bytes_that_it_is(disks):
    call = CommandLine(str(disks.metadata_root))

    assert f"{EVIL}|a{EVIL}\n" in call(*CONSUME)
