"""Drills of an operator, in a process of their own: what they find is said, and nothing outlives them."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.rigs.cutting.disk import why_not
from tests.rigs.rig import CHECKOUT

WAIT_S_MAX = 600


def drilled(folder, *names, **variables):
    command = [sys.executable, "-m", "tests.rigs.drills", *names, "--dir", str(folder)]
    return subprocess.run(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )


@pytest.mark.long
def test_writers_and_a_group_go_on_while_the_active_serve_is_killed(tmp_path):
    if (reason := why_not("ext4")) is not None:
        pytest.skip(f"drills can't be done here: {reason}")

    run = drilled(tmp_path, "killed")

    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads((tmp_path / "killed" / "report.json").read_text())
    assert set(found["counts"].values()) == {0}
    assert found["acknowledged"] > 0
    assert found["healthy"] > 0
    assert (found["alerts"] is None) == (shutil.which("prometheus") is None)
    assert "| kill -9 the active serve |" in (tmp_path / "report.md").read_text()
    for each in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended
            assert os.fsencode(tmp_path) not in each.read_bytes(), each
