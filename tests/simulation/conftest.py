"""How many seeds are run, and from which on.

The long run, on both cores: ``pytest tests/simulation --seeds 20000 -n 2 --dist load``.
"""

import logging
from typing import Any

import pytest

SEEDS = 25
SEEDS_LONG = 200
CHUNK = 25
"""Seeds a test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds", type=int, help=f"seeds of the simulation ({SEEDS}; with --long {SEEDS_LONG})"
    )
    parser.addoption("--first-seed", type=int, default=0, help="the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" not in metafunc.fixturenames:
        return
    first = metafunc.config.getoption("--first-seed", 0)
    asked = metafunc.config.getoption("--seeds", None)
    count = asked or SEEDS_LONG
    chunks = [
        pytest.param(
            range(start, min(start + CHUNK, first + count)),
            id=f"from-seed-{start}",
            marks=[pytest.mark.long] * (not asked and start >= first + SEEDS),
        )
        for start in range(first, first + count, CHUNK)
    ]
    metafunc.parametrize("chunk", chunks)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """What processes log is not worth its time: a failure is told by its decisions."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
