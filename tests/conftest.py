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
    """Skip long cases unless --long is given, and put the torture beside the simulation.

    The simulation needs one processor and no Spark. At the end, the torture would run alone; at
    the beginning, it would starve the Spark sessions beside it.
    """
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="only with --long: a minute or more"))
    torture = [item for item in items if "torture" in item.path.parts]
    others = [item for item in items if "torture" not in item.path.parts]
    single = (at for at, item in enumerate(others) if "simulation" in item.path.parts)
    at = next(single, len(others))
    items[:] = [*others[:at], *torture, *others[at:]]
