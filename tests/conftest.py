"""What holds for every test, and for every process that a test starts."""

import os

import pytest

from tests import jvms

VARIABLE = "SPARK_SUBMIT_OPTS"


def pytest_configure() -> None:
    """Have Spark's own launcher, which reads this, start quick drivers; what is set already wins."""
    given = os.environ.get(VARIABLE, "")
    if jvms.QUICK not in given:
        os.environ[VARIABLE] = f"{jvms.QUICK} {given}".strip()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the cases marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip long cases unless --long is given, put the torture beside the simulation, and the other
    engines after the tests whose tables they open.

    The simulation needs one processor and no Spark. At the end, the torture would run alone; at
    the beginning, it would starve the Spark sessions beside it.
    """
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="only with --long: a minute or more"))
    _move(items, "torture", before="simulation")
    _move(items, "test_other_engines.py", before="unit", after="tests/storage/delta/")


def _move(items: list[pytest.Item], moved: str, *, before: str, after: str | None = None) -> None:
    """Put the tests of a folder or file before those of another, or at the end; never before those
    whose path has `after` in it, whatever order was asked for."""
    mine = [item for item in items if moved in item.path.parts]
    others = [item for item in items if moved not in item.path.parts]
    at = next((at for at, each in enumerate(others) if before in each.path.parts), len(others))
    if after is not None:
        numbers = [at for at, each in enumerate(others, 1) if after in each.path.as_posix()]
        at = max([at, *numbers])
    items[:] = [*others[:at], *mine, *others[at:]]
