"""What the system sees is what is recorded: nobody else changes a root."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "kafka_on_spark"
TRACED = (
    "?open,?openat,?openat2,?creat,?write,?writev,?pwrite64,?pwritev,?pwritev2,?copy_file_range"
    ",?sendfile,?fallocate,?truncate,?ftruncate,?rename,?renameat,?renameat2,?link,?linkat,?symlink"
    ",?symlinkat,?unlink,?unlinkat,?mkdir,?mkdirat,?rmdir,?fsync,?fdatasync,?sync_file_range"
)
"""What changes files. A machine may lack some: those are asked for with a question mark."""

LIFE = """
import json, sys
from pathlib import Path
from tests.power.states.life import INTERVALS, Life, begin, go_on
from tests.power.states.recording import recorded
for module, name, value in INTERVALS:
    setattr(module, name, value)
base = Path(sys.argv[1])
with recorded(base) as recording:
    life = Life(recording)
    begin(life)
    go_on(life, base, 1)
print(json.dumps(recording.calls))
"""


KINDS = {
    **dict.fromkeys(("write", "pwrite64", "writev"), "write"),
    **dict.fromkeys(("rename", "renameat", "renameat2", "link", "linkat"), "name"),
    **dict.fromkeys(("unlink", "unlinkat", "rmdir"), "delete"),
    **dict.fromkeys(("mkdir", "mkdirat"), "make"),
    **dict.fromkeys(("fsync", "fdatasync"), "flush"),
}
_CALL = re.compile(r"(\w+)\((.*)\)\s+= (\d+)")
_WORD = re.compile(r'(?:(?:\d+|AT_FDCWD)<([^>]*)>)|"([^"]*)"')


def _lines(trace):
    """Yield calls; one that others interrupted is put together again."""
    begun = {}
    for line in trace.read_text().splitlines():
        pid, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[pid] = text.removesuffix("<unfinished ...>")
        elif text.startswith("<... "):
            yield begun.pop(pid) + text.partition("resumed>")[2]
        else:
            yield text


def _paths(arguments):
    """Return the paths of a call's arguments; a name in an open folder is one with that."""
    found, folder = [], ""
    for opened, text in _WORD.findall(arguments):
        if opened:
            folder = opened
            found.append(opened)
        else:
            if found and found[-1] == folder:
                found.pop()  # the folder of this name
            found.append(os.path.join(folder, text))
    return found


def _calls(trace, base):
    """Return the changes below a folder, as kind and path, and how often each was made."""
    found = Counter()
    for line in _lines(trace):
        call = _CALL.match(line)
        if call is None:
            continue  # it failed
        name, arguments = call[1], call[2]
        if name.startswith(("open", "creat")):
            if not re.search("O_CREAT|O_WRONLY|O_RDWR|O_TRUNC", arguments) and name != "creat":
                continue
            kind, path = "make", _paths(arguments)[0]
        else:
            paths = _paths(arguments)
            kind = KINDS.get(name, name)
            path = paths[-1] if kind in ("name", "delete") else paths[0] if paths else ""
        if path.startswith(f"{base}/") or path == str(base):
            found[kind, os.path.relpath(path, base).removeprefix(".")] += 1
    return found


CHANGING = {
    *("link", "symlink", "rename", "replace", "unlink", "remove", "mkdir", "makedirs", "rmdir"),
    *("removedirs", "truncate", "ftruncate", "fsync", "fdatasync", "write", "pwrite", "chmod"),
}
NOT_ON_ROOTS_FOR_GOOD = {
    "store/local_files.py": "the one place",
    "metadata/commit_lock.py": "nobody reads reports in a queue after a crash",
}


def _changing_calls(file):
    """Return what a module calls that changes files: of `os`, or `open` with a mode to write."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "os":
            yield from {node.attr} & CHANGING
        if isinstance(node, ast.Name) and node.id in ("open", "shutil"):
            yield node.id


def test_one_module_changes_roots():
    found = {
        str(file.relative_to(PRODUCT)): sorted(_changing_calls(file))
        for folder in ("store", "metadata", "log", "groups", "controller")
        for file in (PRODUCT / folder).glob("**/*.py")
    }

    assert {name for name, calls in found.items() if calls} == NOT_ON_ROOTS_FOR_GOOD.keys()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.long
def test_the_system_sees_no_change_that_is_not_recorded(tmp_path):
    base, trace = tmp_path / "disks", tmp_path / "trace"
    base.mkdir()
    words = ["strace", "-f", "-y", "-qq", "-s", "0", "-e", f"trace={TRACED}", "-o", str(trace)]
    words.append("--seccomp-bpf")  # stops at these calls only, where the system can
    run = subprocess.run(
        [*words, sys.executable, "-c", LIFE, str(base)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    recorded = Counter(map(tuple, json.loads(run.stdout.splitlines()[-1])))

    seen = _calls(trace, base)

    assert seen - recorded == Counter(), "the system saw changes that were not recorded"
    assert recorded - seen == Counter(), "changes were recorded that the system did not see"
    assert {kind for kind, _ in seen} == {"make", "write", "name", "delete", "flush"}
