"""The order of all tests."""

from pathlib import Path

import pytest

FIRST = Path(__file__).parent / "torture" / "test_torture_run.py"
"""Takes five minutes, most of them waiting: begun last, one process would run it alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest; all else stays in its order."""
    items.sort(key=lambda item: item.path != FIRST)
