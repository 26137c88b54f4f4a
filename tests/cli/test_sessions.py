"""What calls of the command line say, as people see it: the files of `sessions/`, each on a new cluster.

`$` begins a call, with what it says below it, complaints too, and its code in brackets if that is not 0;
`>>>` begins a line of Python on the cluster. `…` stands for anything within a line, and `/tour` for the
folder of four brokers. With WRITE_SESSIONS in the environment what differs is written into the file.
"""

import os
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unicodedata import category

import pytest

from tests.cli.conftest import CommandLine, four_brokers
from tests.cluster.disks import records

FILES = sorted((Path(__file__).parent / "sessions").glob("*.console"))
ID = re.compile(r"\b[0-9a-f]{32}\b")


def blocks_of(text):
    """Return pairs of a call, or of what stands between two, and the lines that it is to say."""
    found = []
    for line in text.splitlines():
        if line.startswith(("$ ", ">>> ", "#")) or not line:
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def said_by(line, call, names, base):
    """Return the lines that a line of a session says."""
    if line.startswith(">>> "):
        said = StringIO()
        with redirect_stdout(said):
            exec(compile(line[4:] + "\n", "<session>", "single"), names)
        text, code = said.getvalue(), 0
    elif line.startswith("$ "):
        given = re.sub(r"\{(\w+)\}", lambda found: str(names[found[1]]), line[2:])
        answer = call._run(*shlex.split(given.replace("/tour", base)))
        text, code = answer.out + answer.complaint, answer.code
    else:
        return []
    assert not {each for each in text if category(each)[0] == "C"} - {"\n", "\t"}, "it is obeyed"
    text = re.sub(" {3,}", "  ", ID.sub("…", text.replace(base, "/tour")))
    lines = [each.rstrip() for each in text.splitlines() if each.strip()]
    return lines + ([f"[{code}]"] if code else [])


def bring_back(disks, *broker_ids):
    """Give roots back, and have their replicas come into the ISRs again."""
    disks.give_back(*broker_ids)
    disks.cluster.run_controller()
    disks.cluster.replicate()


def write(name, content):
    Path(name).write_text(content)


def damage(path):
    """Turn a bit of a file; done again it is whole."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def is_met(expected, said):
    parts = (re.escape(each).replace("…", ".*") for each in expected)
    return len(expected) == len(said) and all(map(re.fullmatch, parts, said))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_session_says_what_its_file_says(disks, tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    call, written = CommandLine(str(disks.metadata_root)), []
    names = {"disks": disks, "cluster": disks.cluster, "call": call}
    names |= {each.__name__: each for each in (bring_back, records, write, damage)}
    for line, expected in blocks_of(file.read_text(encoding="utf-8")):
        said = said_by(line, call, names, str(disks.base))
        if "WRITE_SESSIONS" not in os.environ:
            assert is_met(expected, said), "\n".join([line, *expected, "and it says:", *said])
        elif not is_met(expected, said):
            expected = said
        written += [line, *expected]
    if "WRITE_SESSIONS" in os.environ:
        file.write_text("\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture
def disks():
    with four_brokers() as disks:
        yield disks
