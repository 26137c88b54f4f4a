"""A short soak on real processes: it ends, judges each series, and finds nothing wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAIT_S_MAX = 600

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_short_soak_loses_nothing_and_sees_every_series(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "jobs.soak", "--minutes", "1", "--warm-up", "40"]
    run = subprocess.run(
        [*command, "--dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert (folder / "report.json").exists(), run.stdout + run.stderr
    report = json.loads((folder / "report.json").read_text())

    # A minute is too short to say that nothing grows, and the machine is shared.
    assert report["findings"] == [], run.stdout
    assert run.returncode == report["exit_code"]
    assert not any("nothing was seen" in each for each in report["growths"]), run.stdout
