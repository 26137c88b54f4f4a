"""Power cuts of a real file system under writing processes: nothing acknowledged is lost."""

import json
import subprocess
import sys

import pytest

from tests.rigs.cutting.clients import COMMITS_KEPT
from tests.rigs.cutting.disk import why_not
from tests.rigs.rig import CHECKOUT

CUTS = 25
WAIT_S_MAX = 900


@pytest.mark.long
@pytest.mark.parametrize("file_system", ["ext4", "xfs"])
def test_power_cuts_leave_a_cluster_that_opens_and_has_all_that_was_acknowledged(
    tmp_path, file_system
):
    reason = why_not(file_system)
    if reason is not None:
        pytest.skip(f"{file_system} can't be cut off here: {reason}")
    # A process of its own, since it takes mounts of its own.
    command = [sys.executable, "-m", "tests.rigs.power_cuts", "--cuts", str(CUTS), "--seed", "5"]
    run = subprocess.run(
        [*command, "--disk", file_system, "--dir", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads((tmp_path / "report.json").read_text())

    assert (report["cuts"], report["sound"]) == (CUTS, CUTS)
    assert report["promised"] > 0
    assert report["cleaned"] > 0, f"no table got {COMMITS_KEPT} commits past its checkpoints"
