"""How far the search goes: ``pytest tests/search -n 0 --elections 2 --wipe`` is a long run.

Each option given adds a search beyond those of CI.
"""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--elections", type=int, help="search with so many elections as well")
    parser.addoption("--wipe", action="store_true", help="and with a disk that is wiped")
    parser.addoption("--states", type=int, default=20_000_000, help="and stop at so many states")
