"""How many states of a disk after a power cut are opened: ``pytest tests/power --power-states 10000``."""

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.power.states.checks import Bench
from tests.power.states.life import INTERVALS
from tests.power.states.quick import quick


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--power-states", type=int, default=600, help="states to open (600)")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Yield a disk in memory, where a flush costs nothing, and have intervals short."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="power-", dir=memory))
    base, copies = folder / "disks", folder / "copies"
    base.mkdir()
    copies.mkdir()
    logging.disable(logging.WARNING)  # each damaged file is one
    try:
        with pytest.MonkeyPatch.context() as patch, quick():
            for module, name, value in INTERVALS:
                patch.setattr(module, name, value)
            yield Bench(base, copies)
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder)
