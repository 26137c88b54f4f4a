"""The order of all tests."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TORTURE = HERE / "torture" / "test_torture_run.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the torture of real processes when Spark's tests are done.

    It takes five minutes, in which its own processes need a processor: so beside what keeps one
    busy, as searches and simulations do, and not at the end, where one would have nothing to do.
    """
    torture = [item for item in items if item.path == TORTURE]
    others = [item for item in items if item.path != TORTURE]
    searches = (at for at, item in enumerate(others) if HERE / "search" in item.path.parents)
    place = next(searches, len(others))
    items[:] = [*others[:place], *torture, *others[place:]]
