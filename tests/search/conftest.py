"""How far the search goes: ``pytest tests/search -n 0 --elections 2 --wipe`` is a long run.

Each option given adds a search beyond those of CI.
"""

from typing import Any

import pytest

_lines: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--elections", type=int, help="search with so many elections as well")
    parser.addoption("--wipe", action="store_true", help="and with a disk that is wiped")
    parser.addoption("--states", type=int, default=20_000_000, help="and stop at so many states")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the figures of each search, wherever it ran."""
    if report.when == "call":
        _lines.extend(str(value) for name, value in report.user_properties if name == "search")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _lines:
        terminalreporter.section("small-scope search")
        for line in sorted(_lines):
            terminalreporter.write_line(line)
