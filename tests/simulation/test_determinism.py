"""The same seed, or its script, does the same: in this process, and in one that hashes otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.plan import plan_of
from tests.simulation.simulation import simulate

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3)
PROGRAM = """
import logging
logging.disable(logging.CRITICAL)
from tests.simulation.plan import plan_of
from tests.simulation.simulation import simulate
print(*(simulate(plan_of(seed)).trace_hash for seed in (1, 2, 3)))
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeds_script_is_a_run_of_it(seed):
    drawn = simulate(plan_of(seed))

    again = simulate(plan_of(seed), drawn.script)

    assert again.trace_hash == drawn.trace_hash
    assert again.calls == drawn.calls


@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_a_seed_does_the_same_whatever_python_hashes_to(hash_seed):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split() == [simulate(plan_of(seed)).trace_hash for seed in SEEDS]


def test_two_seeds_differ():
    assert simulate(plan_of(1)).trace_hash != simulate(plan_of(2)).trace_hash
