"""A cluster on executors that are processes of their own; see local_cluster_cases.

Each run starts Spark and its executors: only with `--long`. `./spark-submit.sh pytest -n 0 --long
tests/integration/executors/local_cluster_cases.py` runs all in this process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WAIT_S_MAX = 1200.0

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="executors are found in /proc"),
]


# fmt: off
RUNS = [
    pytest.param([],                       "6 passed, 1 skipped",     id="what takes seconds"),
    pytest.param(["--long", "-m", "long"], "1 passed, 6 deselected",  id="what takes minutes"),
]
# fmt: on


@pytest.mark.parametrize("options, counts", RUNS)
def test_all_holds_on_executors_of_their_own(tmp_path, options, counts):
    cases = "tests/integration/executors/local_cluster_cases.py"
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--basetemp", str(tmp_path / "run")]
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST_")}

    done = subprocess.run(
        [*command, cases, *options],
        cwd=ROOT,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert counts in done.stdout
